"""Artifacts: aios/artifact.get and list (R081-R087)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from aiosd.aios_wire import fragments
from aiosd.api.v1 import artifact_pb2, artifact_service_pb2
from gateway.aios import render
from gateway.aios.daemon_errors import from_daemon
from gateway.aios.params import Id, Params
from gateway.daemon_channel import DaemonError

if TYPE_CHECKING:
    from gateway.aios.method import Call

Json = dict[str, Any]
_PAGE_SIZE = 200


class GetParams(Params):
    """aios/artifact.get. `task_id` narrows an id that several tasks use."""

    artifact_id: Id
    task_id: Id | None = None


async def get(params: GetParams, call: Call) -> Json:
    """Read an artifact with all of its parts."""
    request = artifact_service_pb2.GetArtifactRequest(
        artifact_id=params.artifact_id, task_id=params.task_id or ""
    )
    try:
        answer = await call.daemon.call(
            call.daemon.artifacts.GetArtifact, request, call.caller, repeatable=True
        )
        found = answer.artifact
    except DaemonError as refused:
        call.is_unauthenticated = call.is_unauthenticated or refused.is_unauthenticated
        if refused.code is not grpc.StatusCode.OUT_OF_RANGE:
            raise from_daemon(refused) from None
        found = await _read(params, call)
    return {"artifact": render.artifact(found)}


async def _read(params: GetParams, call: Call) -> artifact_pb2.Artifact:
    """Put an artifact together that is too large for one answer of the daemon."""
    request = artifact_service_pb2.ReadArtifactRequest(
        artifact_id=params.artifact_id, task_id=params.task_id or ""
    )
    found = artifact_pb2.Artifact()
    try:
        async for chunk in call.daemon.stream(
            call.daemon.artifacts.ReadArtifact, request, call.caller
        ):
            if chunk.HasField("artifact"):
                found.CopyFrom(chunk.artifact)
            found.parts.extend(chunk.parts)
    except DaemonError as refused:
        raise from_daemon(refused) from None
    return found


class ListParams(Params):
    """aios/artifact.list."""

    task_id: Id


async def list_(params: ListParams, call: Call) -> Json:
    """List the artifacts of a task without their parts."""
    found: list[artifact_pb2.Artifact] = []
    request = artifact_service_pb2.ListArtifactsRequest(
        task_id=params.task_id, page_size=_PAGE_SIZE
    )
    while True:
        page = await call.read(call.daemon.artifacts.ListArtifacts, request)
        found.extend(page.artifacts)
        if not page.next_page_token:
            return {"artifacts": fragments.artifact_summaries(found), "total": len(found)}
        request.page_token = page.next_page_token
