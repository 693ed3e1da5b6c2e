"""Parts, messages, artifacts and what is said of a status, as A2A 1.0 writes them in JSON.

Members that are empty are left out, as ProtoJSON does. What A2A has no field for goes into metadata
under keys that begin with `aios`.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from aiosd.a2a_wire import words
from aiosd.api.v1 import content_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiosd.api.v1 import artifact_pb2, failure_pb2, interruption_pb2, task_pb2

Json = dict[str, Any]

LARGEST_NUMBER: Final = 2**53
"""A2A keeps numbers as doubles; larger whole numbers are written as strings of digits."""


def value(text: str) -> Any:
    """The value of JSON text of the contract; None when it is empty."""
    return json.loads(text, parse_int=_whole) if text else None


def members(text: str) -> Json:
    """The members of JSON object text; none when it is empty."""
    found = value(text)
    return found if isinstance(found, dict) else {}


# --- content --------------------------------------------------------------------------------------


def part(given: content_pb2.Part) -> Json:
    """One part: the two sides mean the same by it."""
    shown: Json = {}
    match given.WhichOneof("content"):
        case "raw":
            shown["raw"] = base64.b64encode(given.raw).decode()
        case "url":
            shown["url"] = given.url
        case "data":
            shown["data"] = value(given.data)
        case _:
            shown["text"] = given.text
    return shown | _present(
        metadata=members(given.metadata), filename=given.filename, mediaType=given.media_type
    )


def parts(given: Iterable[content_pb2.Part]) -> list[Json]:
    """Parts in order."""
    return [part(one) for one in given]


def message(given: content_pb2.Message, task_id: str, context_id: str) -> Json:
    """A message envelope of a task."""
    is_agent = given.role == content_pb2.ROLE_AGENT
    metadata = members(given.metadata)
    if is_agent:
        status = words.MESSAGE_STATUSES.get(given.status, "completed")
        stop_reason = given.stop_reason
        metadata |= _present(
            aiosMessageStatus="" if status == "completed" else status,
            aiosStopReason="" if stop_reason == "end_turn" else stop_reason,
            aiosInReplyTo=given.in_reply_to,
        )
    return {
        "messageId": given.message_id,
        "contextId": context_id,
        "taskId": task_id,
        "role": "ROLE_AGENT" if is_agent else "ROLE_USER",
        "parts": parts(given.parts),
    } | _present(
        metadata=metadata,
        extensions=list(given.extensions),
        referenceTaskIds=list(given.reference_task_ids),
    )


def spoken(task_id: str, context_id: str, sequence: int, text: str) -> Json:
    """A message that the task itself speaks, named after the event that it belongs to."""
    return {
        "messageId": f"{task_id}-{sequence}",
        "contextId": context_id,
        "taskId": task_id,
        "role": "ROLE_AGENT",
        "parts": [{"text": text}],
    }


def artifact(given: artifact_pb2.Artifact, chunk: Iterable[content_pb2.Part] | None = None) -> Json:
    """An artifact with its own parts, or with those of one chunk."""
    metadata = members(given.metadata) | _present(
        aiosType=given.type,
        aiosMimeType=given.mime_type,
        aiosVersion=given.version if given.version > 1 else 0,
        aiosSha256=given.sha256,
        aiosIncomplete=chunk is None and not given.sealed,
    )
    return {
        "artifactId": given.artifact_id,
        "parts": parts(given.parts if chunk is None else chunk),
    } | _present(name=given.name, description=given.description, metadata=metadata)


def result_artifact(
    result: str, reply: content_pb2.Message | None, *, has_artifacts: bool
) -> Json | None:
    """The artifact that carries the final result of a completed task (R174, Z3).

    A result that is null says nothing; then the final reply is the result, unless the provider's
    own artifacts are. Text is written as text, anything else as data.
    """
    found = value(result)
    shown: list[Json] = []
    if found is not None:
        shown = [{"text": found} if isinstance(found, str) else {"data": found}]
    elif reply is not None and not has_artifacts:
        shown = parts(reply.parts)
    if not shown:
        return None
    return {"artifactId": words.RESULT_ARTIFACT, "name": "result", "parts": shown}


# --- what is said of a status ---------------------------------------------------------------------


def prompt(
    task_id: str, context_id: str, sequence: int, wait: interruption_pb2.Interruption
) -> Json:
    """What an interrupted task asks for, as the message of its status (R183).

    The first part is for a person; a second one, of data, says what an answer may be.
    """
    request = wait.auth_request if wait.HasField("auth_request") else None
    shown = spoken(task_id, context_id, sequence, wait.prompt or _asked_for(request))
    details = _present(
        options=[_option(one) for one in wait.options],
        schema=members(wait.schema),
        authRequest=_auth_request(request) if request else None,
    )
    if details:
        shown["parts"].append({"data": details})
    point = wait.idempotency_point
    record = {
        "interruptionId": wait.interruption_id,
        "kind": words.NEEDS.get(wait.kind, ""),
        "action": wait.action,
        "satisfiableBy": list(wait.satisfiable_by),
        "scope": wait.scope,
        "idempotencyPoint": {"attempt": point.attempt, "reportNumber": point.report_number},
        "followUp": ["SubscribeToTask", "GetTask", "pushNotification"],
    }
    if wait.HasField("expire_time"):
        record["expiresAt"] = wait.expire_time.ToJsonString()
    shown["metadata"] = {"aiosInterruption": record}
    return shown


def failure(given: failure_pb2.Failure) -> Json:
    """The metadata of a failure: what it says beyond its message."""
    return {
        "aiosFailureClass": words.FAILURE_CLASSES.get(given.failure_class, ""),
        "aiosReason": given.reason,
        "aiosErrorCode": given.code,
    } | _present(aiosErrorData=members(given.data))


def end(outcome: int, advice: int) -> Json:
    """The metadata of an end: what is known of its effects, and what its caller may do."""
    return _present(
        aiosOutcomeCertainty=words.OUTCOMES.get(outcome), aiosRetryPolicy=words.ADVICE.get(advice)
    )


def progress(given: task_pb2.Progress) -> Json:
    """The metadata of progress."""
    shown: Json = {"percent": given.percent} | _present(message=given.message)
    if given.HasField("current_step"):
        shown["currentStep"] = given.current_step
    if given.HasField("total_steps"):
        shown["totalSteps"] = given.total_steps
    return {"aiosProgress": shown}


def _option(option: interruption_pb2.InputOption) -> Json:
    chosen = {"value": value(option.value)} if option.value else {}
    return {"id": option.id, "label": option.label or option.id, **chosen}


def _asked_for(request: interruption_pb2.AuthRequest | None) -> str:
    """What to tell a person when the provider gave no words of its own."""
    if request is None:
        return "Input is required."
    if request.reason:
        return request.reason
    kind = words.AUTH_TYPES.get(request.type, "credential")
    if kind == "approval":
        wanted = f": {', '.join(request.permissions)}" if request.permissions else ""
        return f"Approval is required{wanted}."
    issuer = f" for {request.provider}" if request.provider else ""
    return f"Authorization is required: {kind.replace('_', ' ')}{issuer}."


def _auth_request(request: interruption_pb2.AuthRequest) -> Json:
    return {"type": words.AUTH_TYPES.get(request.type, "")} | _present(
        provider=request.provider,
        authorizationUrl=request.authorization_url,
        scopes=list(request.scopes),
        reason=request.reason,
        permissionLevel=request.permission_level,
        permissions=list(request.permissions),
        permissionScope=request.permission_scope,
        confirmationsRequired=request.confirmations_required,
        confirmations=request.confirmations,
    )


def _present(**given: Any) -> Json:
    return {name: one for name, one in given.items() if one}


def _whole(digits: str) -> int | str:
    number = int(digits)
    return number if abs(number) <= LARGEST_NUMBER else digits
