"""Runtime operations and instances (R162-R170 as HTTP shows them)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiosd.aios_wire.timestamps import duration
from aiosd.api.v1 import operation_pb2
from aiosd.api.v1 import operation_service_pb2 as wire
from gateway import strict_json
from gateway.openapi import render
from gateway.openapi.call import seal, unseal
from gateway.openapi.errors import ApiError

if TYPE_CHECKING:
    from gateway.openapi import models
    from gateway.openapi.call import Call

Json = dict[str, Any]


async def create(call: Call, body: models.CreateOperation) -> Json:
    """Ask for an operation; 202 says that it is accepted, never that it succeeded."""
    key = call.idempotency_key(body.idempotency_key)
    request = wire.CreateOperationRequest(
        target=operation_pb2.OperationTarget(scope=body.target.scope, id=body.target.id),
        method=body.method,
        params=strict_json.dumps(body.params),
        request_id=key or "",
    )
    if body.deadline_ms:
        request.deadline.CopyFrom(duration(body.deadline_ms))
    try:
        made = await call.ask(
            call.daemon.operations.CreateOperation, request, repeatable=key is not None
        )
    except ApiError as refused:
        if refused.code == "conflict":
            refused.code = "IDEMPOTENCY_CONFLICT"
        elif refused.code == "agent_not_found":
            refused.param = "target.id"
        raise
    return render.operation(made.operation)


async def get(call: Call) -> Json:
    """Read an operation."""
    request = wire.GetOperationRequest(operation_id=call.path_id("operation_id"))
    found = await call.read(call.daemon.operations.GetOperation, request)
    return render.operation(found.operation)


async def list_(call: Call) -> Json:
    """List the caller's operations, newest first; `status=active` those that are not terminal."""
    request = wire.ListOperationsRequest(
        active=call.one_of("status", ("active",)) is not None,
        instance_id=call.query("instance_id") or "",
        page_size=call.limit(),
        page_token=unseal("operation", call.query("cursor")),
    )
    page = await call.read(call.daemon.operations.ListOperations, request)
    return {
        "operations": [render.operation(one) for one in page.operations],
        "next_cursor": seal("operation", page.next_page_token),
    }


async def cancel(call: Call, body: models.Cancel) -> Json:
    """Ask for an operation to stop; 409 once the effect is committed (R170)."""
    request = wire.CancelOperationRequest(
        operation_id=call.path_id("operation_id"), reason=body.reason
    )
    asked = await call.ask(call.daemon.operations.CancelOperation, request)
    return {"status": "cancel_requested", "operation": render.operation(asked.operation)}


async def get_instance(call: Call) -> Json:
    """Read an instance."""
    request = wire.GetInstanceRequest(instance_id=call.path_id("instance_id"))
    return render.instance((await call.read(call.daemon.operations.GetInstance, request)).instance)


async def list_instances(call: Call) -> Json:
    """List the attached runtimes, by id."""
    request = wire.ListInstancesRequest(
        page_size=call.limit(), page_token=unseal("instance", call.query("cursor"))
    )
    page = await call.read(call.daemon.operations.ListInstances, request)
    return {
        "instances": [render.instance(one) for one in page.instances],
        "next_cursor": seal("instance", page.next_page_token),
    }
