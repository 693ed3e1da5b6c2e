"""The gRPC server: limits, services, health and reflection (S-21)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from aiosd.adapters.rpc.access_service import AccessService
from aiosd.adapters.rpc.audit_service import AuditService
from aiosd.adapters.rpc.guard import Guard
from aiosd.adapters.rpc.operation_service import OperationService
from aiosd.adapters.rpc.permission_service import PermissionService
from aiosd.adapters.rpc.provider_service import ProviderService
from aiosd.adapters.rpc.read_services import (
    ArtifactService,
    CapabilityService,
    SubscriptionService,
    SystemService,
)
from aiosd.adapters.rpc.session_service import SessionService
from aiosd.adapters.rpc.task_service import TaskService
from aiosd.adapters.rpc.webhook_service import WebhookService
from aiosd.api.provider.v1 import provider_service_pb2, provider_service_pb2_grpc
from aiosd.api.v1 import (
    access_service_pb2,
    access_service_pb2_grpc,
    artifact_service_pb2,
    artifact_service_pb2_grpc,
    audit_service_pb2,
    audit_service_pb2_grpc,
    capability_service_pb2,
    capability_service_pb2_grpc,
    operation_service_pb2,
    operation_service_pb2_grpc,
    permission_service_pb2,
    permission_service_pb2_grpc,
    session_service_pb2,
    session_service_pb2_grpc,
    subscription_service_pb2,
    subscription_service_pb2_grpc,
    system_service_pb2,
    system_service_pb2_grpc,
    task_service_pb2,
    task_service_pb2_grpc,
    webhook_service_pb2,
    webhook_service_pb2_grpc,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.descriptor import FileDescriptor

    from aiosd.adapters.rpc.identity import Identity
    from aiosd.adapters.rpc.tracing import Tracing
    from aiosd.application.core import Core

LARGEST_MESSAGE = 4 * 1024 * 1024
OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.max_send_message_length", LARGEST_MESSAGE),
    ("grpc.max_metadata_size", 8 * 1024),
    # Two daemons would share a TCP port and split its connections (E08).
    ("grpc.so_reuseport", 0),
    # A frozen peer is found in seconds; without ping_timeout it takes a minute (E11).
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
)


class RpcServer:
    """All services of one daemon."""

    def __init__(
        self, core: Core, identity: Identity, tracing: Tracing, system: SystemService
    ) -> None:
        self._server = grpc.aio.server(options=OPTIONS)
        self._guard = Guard(identity, tracing, core.audit, core.quotas)
        self._health = health.aio.HealthServicer()
        self._providers = ProviderService(core)
        self._add(core, system)

    def bind(self, address: str) -> int:
        """Add an address; returns the port of a TCP one. Raises RuntimeError when it cannot."""
        return self._server.add_insecure_port(address)

    def bind_tls(self, address: str, key: bytes, certificate: bytes, clients: bytes) -> int:
        """Add a TCP address with TLS; returns its port. Raises RuntimeError when it cannot.

        Callers show a certificate that `clients`, certificates of authorities in PEM, vouch for;
        where that is empty they need a token (S-09).
        """
        credentials = grpc.ssl_server_credentials(
            [(key, certificate)],
            root_certificates=clients or None,
            require_client_auth=bool(clients),
        )
        return self._server.add_secure_port(address, credentials)

    async def start(self) -> None:
        """Answer: health with NOT_SERVING, everything else with UNAVAILABLE."""
        await self._health.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
        await self._server.start()

    async def open(self) -> None:
        """Recovery is done: serve."""
        self._guard.open = True
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)

    async def drain(self) -> None:
        """Health says NOT_SERVING and provider streams end, so that they attach again later."""
        await self._health.enter_graceful_shutdown()
        self._providers.stop()

    async def stop(self, grace_seconds: float) -> None:
        """Let calls under way finish, at most for the grace."""
        await self._server.stop(grace_seconds)

    def _add(self, core: Core, system: SystemService) -> None:
        server = self._server
        services: tuple[tuple[FileDescriptor, object, Callable[[Any, grpc.aio.Server], None]], ...]
        services = (
            (
                task_service_pb2.DESCRIPTOR,
                TaskService(core),
                task_service_pb2_grpc.add_TaskServiceServicer_to_server,
            ),
            (
                artifact_service_pb2.DESCRIPTOR,
                ArtifactService(core),
                artifact_service_pb2_grpc.add_ArtifactServiceServicer_to_server,
            ),
            (
                capability_service_pb2.DESCRIPTOR,
                CapabilityService(core),
                capability_service_pb2_grpc.add_CapabilityServiceServicer_to_server,
            ),
            (
                subscription_service_pb2.DESCRIPTOR,
                SubscriptionService(core),
                subscription_service_pb2_grpc.add_SubscriptionServiceServicer_to_server,
            ),
            (
                session_service_pb2.DESCRIPTOR,
                SessionService(core),
                session_service_pb2_grpc.add_SessionServiceServicer_to_server,
            ),
            (
                operation_service_pb2.DESCRIPTOR,
                OperationService(core),
                operation_service_pb2_grpc.add_OperationServiceServicer_to_server,
            ),
            (
                webhook_service_pb2.DESCRIPTOR,
                WebhookService(core),
                webhook_service_pb2_grpc.add_WebhookServiceServicer_to_server,
            ),
            (
                audit_service_pb2.DESCRIPTOR,
                AuditService(core),
                audit_service_pb2_grpc.add_AuditServiceServicer_to_server,
            ),
            (
                permission_service_pb2.DESCRIPTOR,
                PermissionService(core),
                permission_service_pb2_grpc.add_PermissionServiceServicer_to_server,
            ),
            (
                access_service_pb2.DESCRIPTOR,
                AccessService(core),
                access_service_pb2_grpc.add_AccessServiceServicer_to_server,
            ),
            (
                system_service_pb2.DESCRIPTOR,
                system,
                system_service_pb2_grpc.add_SystemServiceServicer_to_server,
            ),
            (
                provider_service_pb2.DESCRIPTOR,
                self._providers,
                provider_service_pb2_grpc.add_ProviderServiceServicer_to_server,
            ),
        )
        names = [reflection.SERVICE_NAME, health.SERVICE_NAME]
        for descriptor, servicer, add in services:
            for service in descriptor.services_by_name.values():
                self._guard.around(servicer, service)
                names.append(service.full_name)
            # After the guard: gRPC takes the methods of a servicer as they are at this moment.
            add(servicer, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection(names, server)
