"""The client: create tasks, follow them, answer them, fetch what they produced."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from grpc import aio

from aiosd.api.v1 import (
    artifact_pb2,
    artifact_service_pb2,
    capability_service_pb2,
    system_service_pb2,
    task_service_pb2,
)
from aiosd.sdk import json_text, requests, rpc_status
from aiosd.sdk.calls import Calls
from aiosd.sdk.connection import Endpoint, resolve
from aiosd.sdk.operation_calls import OperationCalls
from aiosd.sdk.subscription import FamilyLike, Subscription, family

if TYPE_CHECKING:
    import builtins
    from collections.abc import AsyncGenerator, Iterable

    import grpc

    from aiosd.api.v1 import (
        capability_pb2,
        content_pb2,
        interruption_pb2,
        task_pb2,
        webhook_pb2,
    )
    from aiosd.sdk.requests import MessageLike, PriorityLike, StateLike

LONGEST_WAIT_MS = 30_000
"""How long one GetTask call waits; longer waits are made of several."""

_PAGE = 200


def connect(
    address: str | None = None,
    token: str | None = None,
    *,
    credentials: grpc.ChannelCredentials | None = None,
    patience_ms: int = 10_000,
) -> Client:
    """A client for the daemon at `address`: `async with connect() as client: ...`

    The arguments are those of `aiosd.sdk.connection.resolve`. `patience_ms` bounds how long a
    call that is safe to repeat is repeated while a daemon is away that was there, or whose Unix
    socket is; 0: never.
    """
    return Client(resolve(address, token, credentials), patience_ms=patience_ms)


class Client:
    """A connection to a daemon; every method may be called from many coroutines at once.

    Tasks, events and artifacts are the messages of the contract (`aiosd.api.v1`). Methods raise
    AiosdError with the reason of the daemon, and ValueError for an argument without a JSON form.

    Reads, and `create` by its request id, are repeated by themselves when the daemon restarts;
    calls that change a task are not, since the answer to the first one may only have been lost.
    """

    def __init__(self, endpoint: Endpoint, *, patience_ms: int = 10_000) -> None:
        if not isinstance(endpoint, Endpoint):
            raise TypeError("endpoint: must be an Endpoint; connect() takes an address")
        self._calls = Calls(endpoint, patience_ms)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection; open calls and subscriptions end."""
        await self._calls.close()

    @property
    def channel(self) -> aio.Channel:
        """The connection, for services of the contract that this class has no method for."""
        return self._calls.channel

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What a call over `channel` must carry to be this caller's."""
        return self._calls.metadata

    @property
    def operations(self) -> OperationCalls:
        """Runtime operations and the instances that they act on."""
        return OperationCalls(self._calls)

    # --- tasks -----------------------------------------------------------------------------

    async def create(
        self,
        capability_id: str,
        arguments: dict[str, Any] | None = None,
        *,
        wait_ms: int = 0,
        timeout_ms: int | None = None,
        priority: PriorityLike = "normal",
        retry: dict[str, int] | None = None,
        metadata: dict[str, Any] | None = None,
        request_id: str | None = None,
        retry_safe: bool = False,
        deadline_ms: int = 0,
        message: MessageLike | None = None,
        context_id: str = "",
        session_id: str = "",
        reference_task_ids: Iterable[str] = (),
        webhooks: Iterable[webhook_pb2.Webhook] = (),
    ) -> task_pb2.Task:
        """Create a task; it is durable when this returns.

        `wait_ms`: return when the task is terminal or interrupted, or after this long. A task
        that is waited for gets the default timeout of synchronous tasks.
        `timeout_ms`: working time, 1 ms to 30 days. `deadline_ms`: wall clock from creation, at
        most 7 days; 0: none. `retry`: {"max_attempts": 1..100, "delay_ms": 0..24 h}.
        `request_id`: 1..128 characters; the same key and request answer with the first task.
        None: a fresh one, so that the call can be repeated without making a second task.
        """
        request = requests.create_task(
            capability_id=capability_id,
            arguments=arguments,
            wait_ms=wait_ms,
            timeout_ms=timeout_ms,
            priority=priority,
            retry=retry,
            metadata=metadata,
            request_id=requests.idempotency_key(request_id),
            retry_safe=retry_safe,
            deadline_ms=deadline_ms,
            message=message,
            context_id=context_id,
            session_id=session_id,
            reference_task_ids=reference_task_ids,
            webhooks=webhooks,
        )
        answer = await self._calls.repeat(self._calls.tasks.CreateTask, request, wait_ms)
        return answer.task

    async def get(self, task_id: str, include_history: bool = False) -> task_pb2.Task:
        """Read a task, with its state history if asked for."""
        request = task_service_pb2.GetTaskRequest(task_id=task_id, include_history=include_history)
        return (await self._calls.repeat(self._calls.tasks.GetTask, request)).task

    async def wait(
        self, task_id: str, timeout_ms: int | None = None, *, terminal: bool = False
    ) -> task_pb2.Task:
        """The task once it is terminal or interrupted, or as it is after `timeout_ms`.

        `timeout_ms` None: for ever. `terminal`: interruptions do not count.
        """
        end = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        revision = 0
        while True:
            left = LONGEST_WAIT_MS
            if end is not None:
                left = min(left, max(0, round((end - time.monotonic()) * 1000)))
            request = task_service_pb2.GetTaskRequest(task_id=task_id, above_revision=revision)
            request.wait.FromMilliseconds(left)
            task = (await self._calls.repeat(self._calls.tasks.GetTask, request, left)).task
            if requests.is_terminal(task) or (not terminal and requests.is_interrupted(task)):
                return task
            if left == 0 or (end is not None and time.monotonic() >= end):
                return task
            # Only a later state is news now: without this an interrupted task answers at once.
            revision = task.revision if terminal else 0

    async def list(
        self,
        *,
        states: Iterable[StateLike] = (),
        capability_id: str = "",
        context_id: str = "",
        limit: int = 50,
        page_token: str = "",
        **filters: Any,
    ) -> task_service_pb2.ListTasksResponse:
        """One page of the caller's tasks, newest first.

        `states`: words such as "input_required" or values of the enum; empty: all. `limit`:
        1..200. `filters`: further fields of ListTasksRequest by their names.
        """
        request = task_service_pb2.ListTasksRequest(
            states=[requests.state(value) for value in states],
            capability_id=capability_id,
            context_id=context_id,
            page_size=limit,
            page_token=page_token,
            **filters,
        )
        return await self._calls.repeat(self._calls.tasks.ListTasks, request)

    async def resolve(
        self, task_id: str, outcome: str, evidence: str
    ) -> task_service_pb2.ResolveTaskResponse:
        """Close an uncertain failure with evidence; it stays failed and becomes certain.

        `outcome` is completed, failed or retry; a retry makes a new task, `retried_as` of the
        answer. Raises Refused (NOT_RESOLVABLE).
        """
        request = task_service_pb2.ResolveTaskRequest(
            task_id=task_id, outcome=outcome, evidence=evidence
        )
        return await self._calls.once(self._calls.tasks.ResolveTask, request)

    async def accept(self, task_id: str, accepted: bool = True, reason: str = "") -> task_pb2.Task:
        """Say whether a completed result satisfies; the task stays as it is."""
        request = task_service_pb2.AcceptTaskRequest(
            task_id=task_id, accepted=accepted, reason=reason
        )
        return (await self._calls.once(self._calls.tasks.AcceptTask, request)).task

    async def cancel(self, task_id: str, reason: str = "") -> task_pb2.Task:
        """End a task. Raises Refused (TASK_STATE_INVALID) if it is terminal."""
        request = task_service_pb2.CancelTaskRequest(task_id=task_id, reason=reason)
        return (await self._calls.once(self._calls.tasks.CancelTask, request)).task

    async def pause(self, task_id: str, reason: str = "") -> task_pb2.Task:
        """Stop a working task at its next checkpoint; returns when it stands still.

        Raises Refused (TASK_STATE_INVALID, NOT_PAUSABLE) and TimedOut (PAUSE_UNANSWERED).
        """
        request = task_service_pb2.PauseTaskRequest(task_id=task_id, reason=reason)
        return (await self._calls.once(self._calls.tasks.PauseTask, request)).task

    async def resume(self, task_id: str, reason: str = "") -> task_pb2.Task:
        """Let a paused task go on. Raises Refused (TASK_STATE_INVALID)."""
        request = task_service_pb2.ResumeTaskRequest(task_id=task_id, reason=reason)
        return (await self._calls.once(self._calls.tasks.ResumeTask, request)).task

    async def submit_input(
        self,
        task_id: str,
        answer: dict[str, Any],
        *,
        interruption_id: str = "",
        message: MessageLike | None = None,
    ) -> task_pb2.Task:
        """Answer a task that waits for input. Raises Refused (INPUT_REJECTED, ...)."""
        request = task_service_pb2.SubmitInputRequest(
            task_id=task_id,
            input=json_text.dump_object(answer, "answer"),
            interruption_id=interruption_id,
            message=None if message is None else requests.user_message(message),
        )
        return (await self._calls.once(self._calls.tasks.SubmitInput, request)).task

    async def authenticate(
        self,
        task_id: str,
        auth_response: interruption_pb2.AuthResponse,
        *,
        interruption_id: str = "",
    ) -> task_service_pb2.AuthenticateTaskResponse:
        """Give a task the credential or the decision that it waits for.

        The answer has the task and, for a critical approval, how many confirmations it has and
        the confirmation_id that the second one must carry. Raises NotPermitted (AUTH_REJECTED).
        """
        request = task_service_pb2.AuthenticateTaskRequest(
            task_id=task_id, auth_response=auth_response, interruption_id=interruption_id
        )
        return await self._calls.once(self._calls.tasks.AuthenticateTask, request)

    def subscribe(
        self,
        task_id: str = "",
        after: int | None = 0,
        families: Iterable[FamilyLike] | None = None,
        include_parts: bool = False,
        *,
        subscription_id: str = "",
        include_task: bool = False,
    ) -> Subscription:
        """Follow a task: `async for event in client.subscribe(task_id): ...`

        `after`: replay begins with the event after this one; 0: with the first; None: after the
        head, or where a remembered `subscription_id` starts. `families`: such as "status"; None:
        all. `include_parts`: fill the content of artifact chunks.
        """
        request = task_service_pb2.SubscribeToTaskRequest(
            families=[family(value) for value in families or ()],
            include_parts=include_parts,
            include_task=include_task,
        )
        if subscription_id:
            request.subscription_id = subscription_id
        else:
            request.task_id = task_id
        if after is not None:
            request.after_sequence = after
        return Subscription(self._calls, request)

    # --- what tasks produced, what can be asked for -------------------------------------------

    async def messages(self, task_id: str) -> builtins.list[content_pb2.Message]:
        """The message envelopes of a task, oldest first."""
        found: builtins.list[content_pb2.Message] = []
        request = task_service_pb2.ListMessagesRequest(task_id=task_id, page_size=_PAGE)
        while True:
            page = await self._calls.repeat(self._calls.tasks.ListMessages, request)
            found += page.messages
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def artifact(self, artifact_id: str, task_id: str | None = None) -> artifact_pb2.Artifact:
        """An artifact with all its parts, however large it is.

        Raises NotFound (ARTIFACT_NOT_FOUND). `task_id` narrows an id that several tasks use.
        """
        whole: artifact_pb2.Artifact | None = None
        async for chunk in self.read_artifact(artifact_id, task_id):
            if whole is None:
                whole = chunk.artifact
            whole.parts.extend(chunk.parts)
        return whole if whole is not None else artifact_pb2.Artifact()

    async def artifacts(self, task_id: str) -> builtins.list[artifact_pb2.Artifact]:
        """The artifacts of a task without their parts, in order of creation."""
        found: builtins.list[artifact_pb2.Artifact] = []
        request = artifact_service_pb2.ListArtifactsRequest(task_id=task_id, page_size=_PAGE)
        while True:
            page = await self._calls.repeat(self._calls.artifacts.ListArtifacts, request)
            found += page.artifacts
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def read_artifact(
        self, artifact_id: str, task_id: str | None = None, from_position: int = 0
    ) -> AsyncGenerator[artifact_service_pb2.ReadArtifactResponse, None]:
        """The chunks of an artifact in order; the first one also carries its summary."""
        request = artifact_service_pb2.ReadArtifactRequest(
            artifact_id=artifact_id, task_id=task_id or "", from_position=from_position
        )
        call = self._calls.artifacts.ReadArtifact(request, metadata=self._calls.metadata)
        try:
            async for chunk in call:
                self._calls.reached = True
                yield chunk
        except aio.AioRpcError as error:
            raise rpc_status.from_rpc(error) from None
        finally:
            call.cancel()

    async def capabilities(
        self, namespace: str = "", tag: str = ""
    ) -> builtins.list[capability_pb2.Capability]:
        """What can be asked for, those without an attached provider included."""
        found: builtins.list[capability_pb2.Capability] = []
        request = capability_service_pb2.ListCapabilitiesRequest(
            namespace=namespace, tag=tag, page_size=_PAGE
        )
        while True:
            page = await self._calls.repeat(self._calls.capabilities.ListCapabilities, request)
            found += page.capabilities
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def capability(self, capability_id: str) -> capability_pb2.Capability:
        """One capability. Raises NotFound (CAPABILITY_NOT_FOUND)."""
        request = capability_service_pb2.GetCapabilityRequest(capability_id=capability_id)
        return (
            await self._calls.repeat(self._calls.capabilities.GetCapability, request)
        ).capability

    async def system_info(self) -> system_service_pb2.GetSystemInfoResponse:
        """Version, limits, load, and who the daemon takes the caller for."""
        request = system_service_pb2.GetSystemInfoRequest()
        return await self._calls.repeat(self._calls.system.GetSystemInfo, request)
