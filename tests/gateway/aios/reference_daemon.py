"""A small daemon with the published contract, for the gateway alone: canned state, real gRPC.

It keeps tasks and dense event logs in memory and can be told to refuse any call, to stop and to
come back. What it does not serve answers UNIMPLEMENTED.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from aiosd.api.v1 import (
    artifact_pb2,
    artifact_service_pb2,
    artifact_service_pb2_grpc,
    event_pb2,
    session_service_pb2,
    session_service_pb2_grpc,
    subscription_pb2,
    subscription_service_pb2,
    subscription_service_pb2_grpc,
    system_service_pb2,
    system_service_pb2_grpc,
    task_pb2,
    task_service_pb2,
    task_service_pb2_grpc,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

TOKEN = "reference-token"
SECOND = 1_000_000_000


def moment(seconds: int) -> Timestamp:
    """A fixed moment, some seconds after the first."""
    return Timestamp(seconds=1_767_607_200 + seconds)


class Refused(Exception):
    """What an interceptor of the real daemon would write as a rich status."""

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: str,
        metadata: dict[str, str] | None = None,
        *,
        violations: dict[str, str] | None = None,
        retry_after_s: int = 0,
    ) -> None:
        super().__init__(reason)
        self.code = code
        status = status_pb2.Status(code=code.value[0], message=f"refused: {reason}")
        info = error_details_pb2.ErrorInfo(reason=reason, domain="aiosd", metadata=metadata or {})
        status.details.add().Pack(info)
        if violations:
            bad = error_details_pb2.BadRequest()
            for name, text in violations.items():
                bad.field_violations.add(field=name, description=text)
            status.details.add().Pack(bad)
        if retry_after_s:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.seconds = retry_after_s
            status.details.add().Pack(retry)
        self.status = status


class ReferenceDaemon(
    task_service_pb2_grpc.TaskServiceServicer,
    subscription_service_pb2_grpc.SubscriptionServiceServicer,
    system_service_pb2_grpc.SystemServiceServicer,
    artifact_service_pb2_grpc.ArtifactServiceServicer,
    session_service_pb2_grpc.SessionServiceServicer,
):
    """All served services in one object, with what they were asked."""

    def __init__(self, socket: Path) -> None:
        self.address = f"unix:{socket}"
        self.tasks: dict[str, task_pb2.Task] = {}
        self.events: dict[str, list[event_pb2.Event]] = {}
        self.subscriptions: dict[str, subscription_pb2.Subscription] = {}
        self.artifacts: dict[str, artifact_pb2.Artifact] = {}
        self.sessions: dict[str, session_service_pb2.Session] = {}
        self.refusals: dict[str, Refused] = {}
        self.asked: list[Any] = []
        self.metadata: dict[str, str] = {}
        self.open_streams = 0
        self._changed = asyncio.Condition()
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Serve on the socket."""
        self._server = grpc.aio.server(interceptors=[_Errors(self)])
        task_service_pb2_grpc.add_TaskServiceServicer_to_server(self, self._server)
        subscription_service_pb2_grpc.add_SubscriptionServiceServicer_to_server(self, self._server)
        system_service_pb2_grpc.add_SystemServiceServicer_to_server(self, self._server)
        artifact_service_pb2_grpc.add_ArtifactServiceServicer_to_server(self, self._server)
        session_service_pb2_grpc.add_SessionServiceServicer_to_server(self, self._server)
        servicer = health.aio.HealthServicer()
        await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, self._server)
        self._server.add_insecure_port(self.address)
        await self._server.start()

    async def stop(self) -> None:
        """Stop at once; what is kept stays for the next start."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    def put(self, task_id: str = "task-1", **fields: Any) -> task_pb2.Task:
        """Keep a task, working unless said otherwise, with its first event."""
        task = task_pb2.Task(
            task_id=task_id,
            context_id="ctx-1",
            capability_id="lab.script",
            metadata="{}",
            state=task_pb2.TASK_STATE_WORKING,
            attempt=1,
            create_time=moment(0),
            start_time=moment(1),
            update_time=moment(1),
            state_time=moment(1),
        )
        task.options.priority = task_pb2.PRIORITY_NORMAL
        for name, value in fields.items():
            if isinstance(value, int | str | bool):
                setattr(task, name, value)
            else:
                getattr(task, name).CopyFrom(value)
        self.tasks[task_id] = task
        self.events.setdefault(task_id, [])
        return task

    async def happen(self, task_id: str, *payloads: dict[str, Any]) -> None:
        """Append events, in one step."""
        log = self.events[task_id]
        for payload in payloads:
            log.append(
                event_pb2.Event(
                    task_id=task_id, sequence=len(log) + 1, time=moment(len(log)), **payload
                )
            )
        async with self._changed:
            self._changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that calls change has come true."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(condition)

    def _task(self, task_id: str) -> task_pb2.Task:
        if task_id not in self.tasks:
            raise Refused(grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND")
        return self.tasks[task_id]

    async def GetSystemInfo(self, request: Any, context: Any) -> Any:
        limits = system_service_pb2.Limits(
            max_concurrent_tasks=10,
            max_tasks_per_tool=3,
            max_queue_size=100,
            max_message_bytes=1_048_576,
            max_batch_size=100,
        )
        return system_service_pb2.GetSystemInfoResponse(version="1", limits=limits)

    async def CreateTask(self, request: Any, context: Any) -> Any:
        task = self.put(f"task-{len(self.tasks) + 1}", state=task_pb2.TASK_STATE_SUBMITTED)
        task.capability_id = request.capability_id
        task.arguments, task.metadata = request.arguments, request.metadata
        task.ClearField("start_time")
        if request.HasField("wait"):
            task.state, task.result = task_pb2.TASK_STATE_COMPLETED, json.dumps({"done": True})
            task.end_time.CopyFrom(moment(2))
        return task_service_pb2.CreateTaskResponse(task=task, created=True)

    async def GetTask(self, request: Any, context: Any) -> Any:
        return task_service_pb2.GetTaskResponse(task=self._task(request.task_id))

    async def ListTasks(self, request: Any, context: Any) -> Any:
        found = [
            task for task in self.tasks.values() if task.state in (request.states or [task.state])
        ]
        page = found[request.skip :][: request.page_size or 50]
        return task_service_pb2.ListTasksResponse(tasks=page, total_size=len(found))

    async def CancelTask(self, request: Any, context: Any) -> Any:
        task = self._task(request.task_id)
        task.state = task_pb2.TASK_STATE_CANCELED
        return task_service_pb2.CancelTaskResponse(task=task)

    async def PauseTask(self, request: Any, context: Any) -> Any:
        task = self._task(request.task_id)
        task.state = task_pb2.TASK_STATE_PAUSED
        return task_service_pb2.PauseTaskResponse(task=task)

    async def ResumeTask(self, request: Any, context: Any) -> Any:
        return task_service_pb2.ResumeTaskResponse(task=self._task(request.task_id))

    async def SubmitInput(self, request: Any, context: Any) -> Any:
        return task_service_pb2.SubmitInputResponse(task=self._task(request.task_id))

    async def AuthenticateTask(self, request: Any, context: Any) -> Any:
        return task_service_pb2.AuthenticateTaskResponse(task=self._task(request.task_id))

    async def CreateSubscription(self, request: Any, context: Any) -> Any:
        self._task(request.task_id)
        log = self.events[request.task_id]
        after = request.after_sequence if request.HasField("after_sequence") else len(log)
        if after > len(log):
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "CURSOR_INVALID")
        missed = log[after:] if request.include_missed else []
        subscription = subscription_pb2.Subscription(
            subscription_id=f"sub-{len(self.subscriptions) + 1}",
            task_id=request.task_id,
            families=request.families,
            after_sequence=after + len(missed),
        )
        self.subscriptions[subscription.subscription_id] = subscription
        return subscription_service_pb2.CreateSubscriptionResponse(
            subscription=subscription, missed_events=missed
        )

    async def DeleteSubscription(self, request: Any, context: Any) -> Any:
        if self.subscriptions.pop(request.subscription_id, None) is None:
            raise Refused(grpc.StatusCode.NOT_FOUND, "SUBSCRIPTION_NOT_FOUND")
        return subscription_service_pb2.DeleteSubscriptionResponse()

    async def SubscribeToTask(self, request: Any, context: Any) -> AsyncIterator[Any]:
        subscription = self.subscriptions.get(request.subscription_id)
        if subscription is None:
            raise Refused(grpc.StatusCode.NOT_FOUND, "SUBSCRIPTION_NOT_FOUND")
        task, log = self.tasks[subscription.task_id], self.events[subscription.task_id]
        has_cursor = request.HasField("after_sequence")
        cursor = request.after_sequence if has_cursor else subscription.after_sequence
        if cursor > len(log):
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "CURSOR_INVALID")
        self.open_streams += 1
        try:
            yield task_service_pb2.SubscribeToTaskResponse(task=task, cursor=cursor)
            while True:
                events, cursor = log[cursor:], len(log)
                if events:
                    yield task_service_pb2.SubscribeToTaskResponse(events=events, cursor=cursor)
                if task.HasField("end_time") and cursor == len(log):
                    return
                async with self._changed:
                    await self._changed.wait_for(lambda: len(log) > cursor)  # noqa: B023
        finally:
            self.open_streams -= 1

    async def CreateSession(self, request: Any, context: Any) -> Any:
        session = session_service_pb2.Session(
            session_id=f"sess-{len(self.sessions) + 1}", attributes=request.attributes
        )
        session.create_time.CopyFrom(moment(0))
        session.expire_time.CopyFrom(moment(3600))
        self.sessions[session.session_id] = session
        return session_service_pb2.CreateSessionResponse(session=session)

    async def GetSession(self, request: Any, context: Any) -> Any:
        if request.session_id not in self.sessions:
            raise Refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
        return session_service_pb2.GetSessionResponse(session=self.sessions[request.session_id])

    async def CloseSession(self, request: Any, context: Any) -> Any:
        if self.sessions.pop(request.session_id, None) is None:
            raise Refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
        return session_service_pb2.CloseSessionResponse(canceled_tasks=2)

    async def GetArtifact(self, request: Any, context: Any) -> Any:
        if request.artifact_id not in self.artifacts:
            raise Refused(grpc.StatusCode.NOT_FOUND, "ARTIFACT_NOT_FOUND")
        artifact = self.artifacts[request.artifact_id]
        return artifact_service_pb2.GetArtifactResponse(artifact=artifact)

    async def ListArtifacts(self, request: Any, context: Any) -> Any:
        self._task(request.task_id)
        found = [a for a in self.artifacts.values() if a.task_id == request.task_id]
        return artifact_service_pb2.ListArtifactsResponse(artifacts=found, total_size=len(found))

    async def ReadArtifact(self, request: Any, context: Any) -> AsyncIterator[Any]:
        artifact = self.artifacts[request.artifact_id]
        for position, part in enumerate(artifact.parts):
            yield artifact_service_pb2.ReadArtifactResponse(
                artifact=artifact if position == 0 else None, position=position, parts=[part]
            )


class _Errors(grpc.aio.ServerInterceptor):
    """Checks the token, notes the request, and writes refusals as rich status."""

    def __init__(self, daemon: ReferenceDaemon) -> None:
        self._daemon = daemon

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if handler is None or details.method.startswith("/grpc.health"):
            return handler
        name = details.method.rpartition("/")[2]
        metadata = dict(details.invocation_metadata)

        def check(request: Any) -> None:
            self._daemon.metadata = metadata
            if metadata.get("authorization") != f"Bearer {TOKEN}":
                raise Refused(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
            if name != "GetSystemInfo":
                self._daemon.asked.append(request)
            if name in self._daemon.refusals:
                raise self._daemon.refusals[name]

        async def unary(request: Any, context: Any) -> Any:
            try:
                check(request)
                return await handler.unary_unary(request, context)
            except Refused as refused:
                await _abort(context, refused)

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                check(request)
                async with contextlib.aclosing(handler.unary_stream(request, context)) as answers:
                    async for answer in answers:
                        yield answer
            except Refused as refused:
                await _abort(context, refused)

        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                stream, handler.request_deserializer, handler.response_serializer
            )
        return grpc.unary_unary_rpc_method_handler(
            unary, handler.request_deserializer, handler.response_serializer
        )


async def _abort(context: Any, refused: Refused) -> None:
    details = (("grpc-status-details-bin", refused.status.SerializeToString()),)
    await context.abort(refused.code, refused.status.message, details)
