"""Runtime operations and instances, on the client's wire and on the provider stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from aiosd.adapters.rpc.codec.scalars import duration, span, timestamp
from aiosd.api.provider.v1 import provider_service_pb2 as provider
from aiosd.api.v1 import operation_pb2
from aiosd.application import json_text
from aiosd.application.instances import SEPARATOR
from aiosd.application.operation_messages import (
    EffectCommitted,
    OperationCanceled,
    OperationFailed,
    OperationProgressed,
    OperationReport,
    OperationSaid,
    RunOperation,
)
from aiosd.application.operations import NewOperation
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.instance import Declaration

if TYPE_CHECKING:
    from aiosd.api.v1 import operation_service_pb2
    from aiosd.domain.instance import Instance
    from aiosd.domain.operation import Operation, OperationEvent

LONGEST_DEADLINE_MS = 7 * 86_400_000
MOST_METHODS = 500
LONGEST_TEXT = 4096


# --- clients --------------------------------------------------------------------------------------


def from_create(
    request: operation_service_pb2.CreateOperationRequest, trace_parent: str
) -> NewOperation:
    """What a caller asks for; raises ArgumentInvalid that names the field."""
    deadline = 0
    if request.HasField("deadline"):
        deadline = span(request.deadline, "deadline", most=LONGEST_DEADLINE_MS)
    return NewOperation(
        scope=request.target.scope,
        target_id=request.target.id,
        method=request.method,
        params=request.params or "{}",
        deadline_ms=deadline,
        request_id=request.request_id,
        trace_parent=trace_parent,
    )


def to_operation(operation: Operation) -> operation_pb2.Operation:
    """An operation as it is."""
    request = operation.request
    message = operation_pb2.Operation(
        operation_id=operation.id,
        instance_id=request.instance_id,
        target=operation_pb2.OperationTarget(scope=request.scope, id=request.target_id),
        method=request.method,
        params=request.params,
        status=cast("operation_pb2.OperationStatus.ValueType", int(operation.status)),
        effect_state=cast("operation_pb2.EffectState.ValueType", int(operation.effect)),
        terminal=operation.terminal,
        projection_revision=operation.projection_revision,
        projection_state=cast("operation_pb2.ProjectionState.ValueType", int(operation.projection)),
        result=operation.result or "",
        sequence=operation.sequence,
        principal=request.principal,
        create_time=timestamp(request.create_time),
        update_time=timestamp(operation.update_time),
        expire_time=timestamp(request.expire_time),
        trace_parent=request.trace_parent,
    )
    if (progress := operation.progress) is not None:
        message.progress.sequence = progress.sequence
        message.progress.phase = progress.phase
        message.progress.current = progress.current
        message.progress.total = progress.total
    if (asked := operation.cancel_request) is not None:
        message.cancel_request.requested_by = asked.requested_by
        message.cancel_request.reason = asked.reason
        if (time := timestamp(asked.time)) is not None:
            message.cancel_request.time.CopyFrom(time)
    if (error := operation.error) is not None:
        message.error.code = error.code
        message.error.message = error.message
        message.error.retry_mode = error.retry_mode.value
        message.error.context = error.context
    return message


def to_operation_event(event: OperationEvent) -> operation_pb2.OperationEvent:
    """One fact of an operation's log."""
    return operation_pb2.OperationEvent(
        operation_id=event.operation_id,
        sequence=event.sequence,
        time=timestamp(event.time),
        type=event.type.value,
        snapshot=to_operation(event.snapshot),
    )


def to_instance(instance: Instance, attached: bool) -> operation_pb2.Instance:
    """An instance with its projected state."""
    return operation_pb2.Instance(
        instance_id=instance.id,
        name=instance.name,
        state=instance.state,
        state_schema=instance.state_schema,
        methods=instance.methods,
        revision=instance.revision,
        attached=attached,
        update_time=timestamp(instance.update_time),
    )


# --- providers ------------------------------------------------------------------------------------


def from_declaration(message: provider.InstanceDeclaration) -> Declaration:
    """The runtime that a provider is; raises ArgumentInvalid that names the field."""
    field = "hello.instance"
    for name, text, least, most in (
        ("instance_id", message.instance_id, 1, 128),
        ("name", message.name, 0, 100),
    ):
        json_text.check_text(text, f"{field}.{name}")
        if not least <= len(text) <= most:
            raise ArgumentInvalid(f"{field}.{name}", f"must have {least}..{most} characters")
    if SEPARATOR in message.instance_id:
        raise ArgumentInvalid(f"{field}.instance_id", f"must not contain {SEPARATOR!r}")
    state = message.state or "{}"
    json_text.parse_object(state, f"{field}.state")
    if message.state_schema:
        json_text.parse_object(message.state_schema, f"{field}.state_schema")
    if len(message.methods) > MOST_METHODS:
        raise ArgumentInvalid(f"{field}.methods", f"must not be more than {MOST_METHODS}")
    for index, method in enumerate(message.methods):
        json_text.check_text(method, f"{field}.methods[{index}]")
        if not 1 <= len(method) <= 128:
            raise ArgumentInvalid(f"{field}.methods[{index}]", "must have 1..128 characters")
    methods = tuple(dict.fromkeys(message.methods))
    return Declaration(message.instance_id, message.name, state, message.state_schema, methods)


def from_operation_report(message: provider.OperationReport) -> OperationReport:
    """A report; raises ArgumentInvalid for one that this daemon does not know."""
    return OperationReport(message.operation_id, message.number, _said(message))


def _said(message: provider.OperationReport) -> OperationSaid:
    match message.WhichOneof("report"):
        case "progressed":
            said = message.progressed
            return OperationProgressed(_text(said.phase), max(0, said.current), max(0, said.total))
        case "committed":
            # A state that cannot be used blocks the projection; the effect happened all the same.
            return EffectCommitted(message.committed.state, _result(message.committed.result))
        case "failed":
            return OperationFailed(_text(message.failed.code), _text(message.failed.message))
        case "canceled":
            return OperationCanceled()
        case _:
            raise ArgumentInvalid("operation_report", "is not known to this daemon")


def to_run_operation(message: RunOperation, now: int) -> provider.RunOperation:
    """An operation to run, with the time that is left."""
    left = duration(max(1, message.expire_time - now)) if message.expire_time else None
    return provider.RunOperation(
        operation_id=message.operation_id,
        method=message.method,
        params=message.params,
        target_scope=message.scope,
        target_id=message.target_id,
        remaining=left,
    )


def _text(text: str) -> str:
    """What a reader may see of a provider's text; never a reason to doubt its report."""
    return text.replace("\x00", "")[:LONGEST_TEXT]


def _result(text: str) -> str | None:
    """The result as JSON text; what is no JSON is kept as a string."""
    if not text:
        return None
    try:
        json_text.parse(text, "result")
    except ArgumentInvalid:
        return json.dumps(text.replace("\x00", ""), ensure_ascii=False)
    return text
