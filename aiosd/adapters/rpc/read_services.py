"""ArtifactService, CapabilityService, SubscriptionService and SystemService."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from aiosd import __version__
from aiosd.adapters.rpc.calls import caller
from aiosd.adapters.rpc.codec import tasks as codec
from aiosd.adapters.rpc.codec.capabilities import to_capability
from aiosd.adapters.rpc.codec.content import to_artifact, to_part
from aiosd.adapters.rpc.codec.events import from_families, to_event, to_families
from aiosd.adapters.rpc.codec.scalars import duration, timestamp
from aiosd.adapters.rpc.identity import is_owner
from aiosd.api.v1 import (
    artifact_service_pb2,
    capability_service_pb2,
    subscription_pb2,
    subscription_service_pb2,
    system_service_pb2,
)
from aiosd.api.v1.artifact_service_pb2_grpc import ArtifactServiceServicer
from aiosd.api.v1.capability_service_pb2_grpc import CapabilityServiceServicer
from aiosd.api.v1.subscription_service_pb2_grpc import SubscriptionServiceServicer
from aiosd.api.v1.system_service_pb2_grpc import SystemServiceServicer
from aiosd.domain.errors import ArgumentInvalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    import grpc

    from aiosd.application.core import Core
    from aiosd.application.writes import Subscription

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class ArtifactService(ArtifactServiceServicer):
    """What clients do with artifacts."""

    def __init__(self, core: Core) -> None:
        self._reading = core.reading

    async def GetArtifact(
        self, request: artifact_service_pb2.GetArtifactRequest, context: Context
    ) -> artifact_service_pb2.GetArtifactResponse:
        owned = await self._reading.find_artifact(
            caller.get(), request.artifact_id, request.task_id
        )
        parts = await self._reading.content(owned)
        return artifact_service_pb2.GetArtifactResponse(
            artifact=to_artifact(owned.artifact, owned.task.id, parts)
        )

    async def ListArtifacts(
        self, request: artifact_service_pb2.ListArtifactsRequest, context: Context
    ) -> artifact_service_pb2.ListArtifactsResponse:
        size, skip = codec.page_size(request.page_size), codec.from_offset_token(request.page_token)
        found = await self._reading.artifacts(caller.get(), request.task_id)
        return artifact_service_pb2.ListArtifactsResponse(
            artifacts=[to_artifact(one, request.task_id) for one in found[skip : skip + size]],
            next_page_token=str(skip + size) if len(found) > skip + size else "",
            total_size=len(found),
        )

    async def ReadArtifact(
        self, request: artifact_service_pb2.ReadArtifactRequest, context: Context
    ) -> AsyncIterator[artifact_service_pb2.ReadArtifactResponse]:
        if request.from_position < 0:
            raise ArgumentInvalid("from_position", "must not be negative")
        owned = await self._reading.find_artifact(
            caller.get(), request.artifact_id, request.task_id
        )
        summary = to_artifact(owned.artifact, owned.task.id)
        yield artifact_service_pb2.ReadArtifactResponse(
            artifact=summary, position=request.from_position
        )
        async for chunk in self._reading.chunks(owned, request.from_position):
            yield artifact_service_pb2.ReadArtifactResponse(
                position=chunk.position, parts=[to_part(one) for one in chunk.parts]
            )


class CapabilityService(CapabilityServiceServicer):
    """What clients may ask about capabilities."""

    def __init__(self, core: Core) -> None:
        self._capabilities = core.capabilities

    async def ListCapabilities(
        self, request: capability_service_pb2.ListCapabilitiesRequest, context: Context
    ) -> capability_service_pb2.ListCapabilitiesResponse:
        caller.get().require("task:read")
        size, skip = codec.page_size(request.page_size), codec.from_offset_token(request.page_token)
        space, tag = request.namespace, request.tag
        found = [
            one
            for one in self._capabilities.all()
            if (not space or one.id == space or one.id.startswith(f"{space}."))
            and (not tag or tag in one.tags)
        ]
        return capability_service_pb2.ListCapabilitiesResponse(
            capabilities=[
                to_capability(one, self._capabilities.providers(one.id))
                for one in found[skip : skip + size]
            ],
            next_page_token=str(skip + size) if len(found) > skip + size else "",
        )

    async def GetCapability(
        self, request: capability_service_pb2.GetCapabilityRequest, context: Context
    ) -> capability_service_pb2.GetCapabilityResponse:
        caller.get().require("task:read")
        found = self._capabilities.get(request.capability_id)
        return capability_service_pb2.GetCapabilityResponse(
            capability=to_capability(found, self._capabilities.providers(found.id))
        )


class SubscriptionService(SubscriptionServiceServicer):
    """Remembered subscriptions."""

    def __init__(self, core: Core) -> None:
        self._subscriptions = core.subscriptions

    async def CreateSubscription(
        self, request: subscription_service_pb2.CreateSubscriptionRequest, context: Context
    ) -> subscription_service_pb2.CreateSubscriptionResponse:
        made, missed = await self._subscriptions.create(
            caller.get(),
            request.task_id,
            from_families(request.families),
            request.after_sequence if request.HasField("after_sequence") else None,
            missed=request.include_missed,
        )
        return subscription_service_pb2.CreateSubscriptionResponse(
            subscription=_to_subscription(made),
            missed_events=[to_event(one) for one in missed.events],
            truncated=missed.truncated,
            oldest_sequence=missed.oldest,
        )

    async def GetSubscription(
        self, request: subscription_service_pb2.GetSubscriptionRequest, context: Context
    ) -> subscription_service_pb2.GetSubscriptionResponse:
        found = await self._subscriptions.get(caller.get(), request.subscription_id)
        return subscription_service_pb2.GetSubscriptionResponse(
            subscription=_to_subscription(found)
        )

    async def DeleteSubscription(
        self, request: subscription_service_pb2.DeleteSubscriptionRequest, context: Context
    ) -> subscription_service_pb2.DeleteSubscriptionResponse:
        await self._subscriptions.delete(caller.get(), request.subscription_id)
        return subscription_service_pb2.DeleteSubscriptionResponse()


class SystemService(SystemServiceServicer):
    """What the daemon is and how it fares."""

    def __init__(
        self,
        core: Core,
        degraded: Callable[[], Sequence[str]],
        default_capability: str,
        store: str,
        state_dir: str,
    ) -> None:
        self._core = core
        self._degraded = degraded
        self._default_capability = default_capability
        self._store = store
        self._state_dir = state_dir
        self._started = core.clock.now()

    async def GetSystemInfo(
        self, request: system_service_pb2.GetSystemInfoRequest, context: Context
    ) -> system_service_pb2.GetSystemInfoResponse:
        who, limits = caller.get(), self._core.limits
        return system_service_pb2.GetSystemInfoResponse(
            version=__version__,
            limits=system_service_pb2.Limits(
                max_concurrent_tasks=limits.max_concurrent_tasks,
                max_tasks_per_tool=limits.max_tasks_per_tool,
                max_queue_size=limits.max_queue_size,
                max_message_bytes=limits.max_message_bytes,
                max_batch_size=limits.max_batch_size,
            ),
            principal=who.principal,
            scopes=sorted(who.scopes),
            start_time=timestamp(self._started),
            queued_tasks=self._core.creation.queued,
            working_tasks=self._core.slots.working,
            degraded=self._degraded(),
            sync_wait=duration(limits.sync_wait_ms),
            default_capability=self._default_capability,
            store=self._store,
            state_dir=self._state_dir if is_owner(who) else "",
        )

    async def ListProviders(
        self, request: system_service_pb2.ListProvidersRequest, context: Context
    ) -> system_service_pb2.ListProvidersResponse:
        caller.get().require("task:read")
        return system_service_pb2.ListProvidersResponse(
            providers=[
                system_service_pb2.Provider(
                    session_id=one.id[:8],  # enough to tell them apart, not enough to attach as one
                    name=one.name,
                    capability_ids=sorted(one.capability_ids),
                    credits=one.credits,
                    attempts=len(one.held),
                    attach_time=timestamp(one.attach_time),
                    connected=one.connected,
                )
                for one in self._core.sessions.all()
                if one.name or one.connected
            ]
        )


def _to_subscription(made: Subscription) -> subscription_pb2.Subscription:
    return subscription_pb2.Subscription(
        subscription_id=made.id,
        task_id=made.task_id,
        families=to_families(made.families),
        after_sequence=made.after,
        principal=made.principal,
        create_time=timestamp(made.create_time),
    )
