"""The provider stream: messages in, messages out."""

from __future__ import annotations

import hashlib

from aiosd.adapters.rpc.codec.capabilities import from_capability
from aiosd.adapters.rpc.codec.content import (
    from_failure,
    from_log,
    from_message,
    from_parts,
    from_progress,
)
from aiosd.adapters.rpc.codec.interruptions import (
    from_auth_request,
    from_options,
    to_auth_response,
)
from aiosd.adapters.rpc.codec.operations import from_declaration, to_run_operation
from aiosd.adapters.rpc.codec.scalars import duration, span
from aiosd.adapters.rpc.codec.tasks import to_task
from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.application import json_text
from aiosd.application import messages as said
from aiosd.application import operation_messages as operations
from aiosd.domain.artifact import Chunk
from aiosd.domain.content import Role
from aiosd.domain.errors import ArgumentInvalid

MOST_CAPABILITIES = 500
MOST_CREDITS = 10_000
LARGEST_RESULT = 1024 * 1024


def from_hello(message: wire.Hello) -> said.Hello:
    """Who attaches; raises ArgumentInvalid that names the field."""
    if not 16 <= len(message.session_id) <= 64 or not message.session_id.isascii():
        raise ArgumentInvalid("hello.session_id", "must have 16..64 ASCII characters")
    if len(message.name) > 100:
        raise ArgumentInvalid("hello.name", "must not exceed 100 characters")
    if not 1 <= len(message.capabilities) <= MOST_CAPABILITIES and not message.HasField("instance"):
        raise ArgumentInvalid("hello.capabilities", f"must be 1..{MOST_CAPABILITIES}")
    if not 1 <= message.credits <= MOST_CREDITS:
        raise ArgumentInvalid("hello.credits", f"must be between 1 and {MOST_CREDITS}")
    capabilities = tuple(
        from_capability(one, f"hello.capabilities[{index}]")
        for index, one in enumerate(message.capabilities)
    )
    attempts = tuple(
        said.HeldAttempt(one.task_id, one.attempt, one.started, one.paused, one.waiting_action)
        for one in message.attempts
    )
    return said.Hello(
        message.session_id,
        message.name,
        capabilities,
        message.credits,
        attempts,
        tuple(one.operation_id for one in message.operations),
        from_declaration(message.instance) if message.HasField("instance") else None,
    )


def from_report(message: wire.Report, now: int) -> said.Report:
    """A report; content that breaks the rules of its form becomes Malformed."""
    content: said.Said
    try:
        content = _said(message, now)
    except ArgumentInvalid as refusal:
        content = said.Malformed(str(refusal))
    return said.Report(message.task_id, message.attempt, message.number, content)


def _said(message: wire.Report, now: int) -> said.Said:
    match message.WhichOneof("report"):
        case "progress":
            return from_progress(message.progress)
        case "log":
            return from_log(message.log)
        case "artifact_chunk":
            return from_chunk(message.artifact_chunk)
        case "message":
            return from_message(message.message, "message", now, Role.AGENT)
        case "request_input":
            asked = message.request_input
            json_text.check_text(asked.prompt, "request_input.prompt")
            return said.RequestInput(
                asked.action,
                asked.prompt,
                from_options(asked.options, "request_input.options"),
                asked.schema,
                span(asked.timeout, "request_input.timeout") if asked.HasField("timeout") else None,
            )
        case "request_auth":
            need = message.request_auth
            return said.RequestAuth(
                need.action,
                from_auth_request(need.auth_request, "request_auth.auth_request"),
                span(need.timeout, "request_auth.timeout") if need.HasField("timeout") else None,
            )
        case "paused":
            return said.Paused()
        case "resumed":
            return said.Resumed()
        case "canceled":
            return said.Canceled()
        case "completed":
            done = message.completed
            result = done.result or "null"
            if len(result.encode()) > LARGEST_RESULT:
                raise ArgumentInvalid("completed.result", f"must not exceed {LARGEST_RESULT} bytes")
            json_text.parse(result, "completed.result")
            return said.Completed(result, done.direct_message, done.by_message)
        case "failed":
            return from_failure(message.failed)
        case "rejected":
            return said.Rejected(message.rejected.reason[:1024])
        case "checkpoint":
            json_text.parse(message.checkpoint.state, "checkpoint.state")
            return said.Checkpoint(message.checkpoint.state)
        case _:
            raise ArgumentInvalid("report", "is not known to this daemon")


def from_chunk(message: wire.ArtifactChunk) -> Chunk:
    """A chunk, with the digest of its content (Z33)."""
    if not 1 <= len(message.artifact_id) <= 128:
        raise ArgumentInvalid("artifact_chunk.artifact_id", "must have 1..128 characters")
    json_text.check_text(message.artifact_id, "artifact_chunk.artifact_id")
    _check_name(message.name)
    for text in (message.type, message.mime_type, message.description):
        json_text.check_text(text, "artifact_chunk")
    if message.metadata:
        json_text.parse_object(message.metadata, "artifact_chunk.metadata")
    if not message.parts and not message.last_chunk:
        raise ArgumentInvalid("artifact_chunk.parts", "must not be empty unless the chunk seals")
    digest = hashlib.sha256()
    for part in message.parts:
        digest.update(part.SerializeToString(deterministic=True))
        digest.update(b"\x00")
    return Chunk(
        artifact_id=message.artifact_id,
        parts=from_parts(message.parts, "artifact_chunk.parts"),
        append=message.append,
        last=message.last_chunk,
        position=message.position if message.HasField("position") else None,
        name=message.name,
        type=message.type,
        mime_type=message.mime_type,
        description=message.description,
        metadata=message.metadata,
        digest=digest.hexdigest()[:32],
    )


def _check_name(name: str) -> None:
    """S-34: a name is for presentation and never a path."""
    json_text.check_text(name, "artifact_chunk.name")
    if len(name.encode()) > 255:
        raise ArgumentInvalid("artifact_chunk.name", "must not exceed 255 bytes")
    if any(
        ord(one) < 32 or one in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
        for one in name
    ):
        raise ArgumentInvalid("artifact_chunk.name", "must not contain control characters")


def to_daemon_message(message: said.ToProvider, now: int, version: str) -> wire.DaemonMessage:
    """One message to the provider."""
    match message:
        case said.Welcome():
            welcome = wire.Welcome(
                heartbeat_interval=duration(message.heartbeat_interval_ms),
                lease=duration(message.lease_ms),
                continued=[
                    wire.ContinuedAttempt(
                        task_id=one.task_id, attempt=one.attempt, acknowledged=one.acknowledged
                    )
                    for one in message.continued
                ],
                version=version,
                continued_operations=message.continued_operations,
            )
            return wire.DaemonMessage(welcome=welcome)
        case said.HeartbeatAck():
            return wire.DaemonMessage(heartbeat_ack=wire.HeartbeatAck(number=message.number))
        case said.Offer():
            offer = wire.Offer(
                task=to_task(message.task, now),
                attempt=message.attempt,
                checkpoint=message.checkpoint,
                answers=[
                    wire.PastAnswer(action=one.action, prompt=one.prompt, input=one.input)
                    for one in message.answers
                ],
            )
            return wire.DaemonMessage(offer=offer)
        case said.OfferWithdrawn():
            void = wire.OfferWithdrawn(task_id=message.task_id, attempt=message.attempt)
            return wire.DaemonMessage(offer_withdrawn=void)
        case said.Go():
            return wire.DaemonMessage(go=wire.Go(task_id=message.task_id, attempt=message.attempt))
        case said.Ack():
            ack = wire.Ack(task_id=message.task_id, attempt=message.attempt, up_to=message.up_to)
            return wire.DaemonMessage(ack=ack)
        case said.Refused():
            refused = wire.Refused(
                task_id=message.task_id,
                attempt=message.attempt,
                number=message.number,
                reason=message.reason,
                message=message.message,
            )
            return wire.DaemonMessage(refused=refused)
        case said.Pause():
            pause = wire.Pause(task_id=message.task_id, attempt=message.attempt)
            return wire.DaemonMessage(pause=pause)
        case said.Resume():
            resume = wire.Resume(task_id=message.task_id, attempt=message.attempt)
            return wire.DaemonMessage(resume=resume)
        case said.Cancel():
            cancel = wire.Cancel(
                task_id=message.task_id,
                attempt=message.attempt,
                reason=message.reason,
                grace=duration(message.grace_ms),
            )
            return wire.DaemonMessage(cancel=cancel)
        case said.Input():
            answer = wire.Input(
                task_id=message.task_id,
                attempt=message.attempt,
                action=message.action,
                input=message.input,
            )
            return wire.DaemonMessage(input=answer)
        case said.AuthGranted():
            granted = wire.AuthGranted(
                task_id=message.task_id,
                attempt=message.attempt,
                action=message.action,
                auth_response=to_auth_response(message.response),
            )
            return wire.DaemonMessage(auth_granted=granted)
        case said.Drain():
            return wire.DaemonMessage(drain=wire.Drain())
        case operations.RunOperation():
            return wire.DaemonMessage(run_operation=to_run_operation(message, now))
        case operations.CancelOperation():
            stop = wire.CancelOperation(operation_id=message.operation_id)
            return wire.DaemonMessage(cancel_operation=stop)
        case operations.OperationAck():
            stored = wire.OperationAck(
                operation_id=message.operation_id,
                up_to=message.up_to,
                projection_problem=message.problem,
            )
            return wire.DaemonMessage(operation_ack=stored)
