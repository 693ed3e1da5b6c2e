"""Sessions and negotiation: initialize, initialized, ping, shutdown, session.* (wire.md 1.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from aiosd import __version__
from aiosd.aios_wire import errors
from aiosd.aios_wire.errors import AiosError, timestamp
from aiosd.aios_wire.timestamps import duration, duration_ms, to_text
from aiosd.api.v1 import session_service_pb2, system_service_pb2
from gateway import strict_json
from gateway.aios.method import now_ms
from gateway.aios.params import Id, JsonObject, Params, invalid

if TYPE_CHECKING:
    from gateway.aios.method import Call

Json = dict[str, Any]

PROTOCOL_VERSIONS: Final = ("0.3.0", "0.2.0")
"""Newest first."""
_ALIASES: Final = {"2.0.0": "0.3.0"}
EXTENSIONS: Final[tuple[str, ...]] = ()
PART_TYPES: Final = ("text", "data", "file", "image", "audio", "video")

_SWITCHES: Final = {
    "streaming": True,
    "batch": True,
    "notifications": True,
    "task_management": True,
    "resource_subscription": False,
}
Version = Annotated[str, Field(min_length=1, max_length=32)]
Lifetime = Annotated[int, Field(ge=1000, le=30 * 86_400_000)]


class ClientInfo(Params):
    """The program that calls."""

    name: Id
    version: Id
    platform: str | None = None
    arch: str | None = None


class ClientExtensions(Params):
    """Extensions that the client knows, and those that it cannot do without."""

    supported: Annotated[list[str], Field(max_length=100)] = Field(default_factory=list)
    required: Annotated[list[str], Field(max_length=100)] = Field(default_factory=list)


class SessionRecovery(Params):
    """The session to go on with."""

    previous_session_id: Id | None = None
    last_message_id: str | None = None


class InitializeParams(Params):
    """aios/initialize."""

    protocol_version: Version
    supported_versions: Annotated[list[Version], Field(max_length=20)] = Field(default_factory=list)
    client_info: ClientInfo
    capabilities: JsonObject = Field(default_factory=dict)
    extensions: ClientExtensions = ClientExtensions()
    session_recovery: SessionRecovery = SessionRecovery()


async def initialize(params: InitializeParams, call: Call) -> Json:
    """Agree on a version, on capabilities and limits, and open a session."""
    version = _negotiated(params)
    for extension in params.extensions.required:
        if extension not in EXTENSIONS:
            raise AiosError(
                errors.EXTENSION_REQUIRED,
                "an extension that the client requires is not supported",
                data={
                    "required_extension": extension,
                    "supported_extensions": list(EXTENSIONS),
                },
            )
    system = await call.read(
        call.daemon.system.GetSystemInfo, system_service_pb2.GetSystemInfoRequest()
    )
    return {
        "protocol_version": version,
        "server_info": {"name": "aiosd", "version": __version__},
        "capabilities": _capabilities(params.capabilities, system.limits),
        "extensions": {
            "enabled": [name for name in params.extensions.supported if name in EXTENSIONS]
        },
        "session": await _opened(params, call),
    }


def _negotiated(params: InitializeParams) -> str:
    offered = [params.protocol_version, *params.supported_versions]
    known = {_ALIASES.get(version, version) for version in offered}
    for version in PROTOCOL_VERSIONS:
        if version in known:
            return version
    raise version_mismatch(params.protocol_version)


def version_mismatch(requested: str) -> AiosError:
    """-32009 for a version that this server does not speak."""
    return AiosError(
        errors.VERSION_MISMATCH,
        "no protocol version is known to both sides",
        data={
            "requested_version": requested,
            "supported_versions": list(PROTOCOL_VERSIONS),
            "latest_version": PROTOCOL_VERSIONS[0],
        },
    )


def speaks(version: str) -> bool:
    """Whether this server speaks a protocol version."""
    return _ALIASES.get(version, version) in PROTOCOL_VERSIONS


def _capabilities(wanted: JsonObject, limits: system_service_pb2.Limits) -> Json:
    """What both sides can do. A client that says nothing of a capability does not forbid it."""
    agreed: Json = {
        name: offered and wanted.get(name, True) is not False for name, offered in _SWITCHES.items()
    }
    agreed["multimodal"] = {"supported_types": list(PART_TYPES)}
    theirs = wanted.get("limits")
    asked: Json = theirs if isinstance(theirs, dict) else {}
    agreed["limits"] = {
        "max_concurrent_tasks": limits.max_concurrent_tasks,
        "max_tasks_per_tool": limits.max_tasks_per_tool,
        "max_queue_size": limits.max_queue_size,
        "max_message_size": _smaller(limits.max_message_bytes, asked.get("max_message_size")),
        "max_batch_size": _smaller(limits.max_batch_size, asked.get("max_batch_size")),
    }
    return agreed


def _smaller(ours: int, theirs: object) -> int:
    is_limit = isinstance(theirs, int) and not isinstance(theirs, bool) and theirs > 0
    return min(ours, theirs) if is_limit and isinstance(theirs, int) else ours


async def _opened(params: InitializeParams, call: Call) -> Json:
    previous = params.session_recovery.previous_session_id
    if previous is not None:
        try:
            session = await _read(previous, call, renew=True)
        except AiosError as error:
            if error.entry not in (errors.SESSION_NOT_FOUND, errors.SESSION_EXPIRED):
                raise
            lost = {"recovered": False, "reason": "the previous session has ended"}
        else:
            return _rendered(session) | {"recovered": True, "missed_messages": []}
    else:
        lost = {}
    attributes: Json = {"client_info": params.client_info.model_dump(exclude_none=True)}
    return _rendered(await _create(call, attributes, None)) | lost


class InitializedParams(Params):
    """aios/initialized."""


async def initialized(params: InitializedParams, call: Call) -> Json:
    """Say that the client is ready; nothing depends on it over HTTP."""
    return {}


class PingParams(Params):
    """aios/ping."""

    timestamp: int | float | str | None = None


async def ping(params: PingParams, call: Call) -> Json:
    """Answer with both clocks."""
    answer: Json = {"server_time": timestamp(now_ms())}
    if params.timestamp is not None:
        answer["timestamp"] = params.timestamp
    return answer


class ShutdownParams(Params):
    """aios/shutdown."""

    reason: Annotated[str, Field(max_length=1024)] = ""
    timeout_ms: Annotated[int, Field(ge=0, le=600_000)] = 0
    force: bool = False


async def shutdown(params: ShutdownParams, call: Call) -> Json:
    """End the session of the header; asynchronous tasks live on (X41)."""
    if not call.session_id:
        return {"success": True, "pending_tasks_cancelled": 0, "session_duration_ms": 0}
    grace_ms = 0 if params.force else params.timeout_ms
    closed = await _close(call.session_id, call, params.reason, grace_ms)
    return {
        "success": True,
        "pending_tasks_cancelled": closed.canceled_tasks,
        "session_duration_ms": duration_ms(closed.lifetime),
    }


class CreateParams(Params):
    """aios/session.create."""

    user_id: str | None = None
    metadata: JsonObject = Field(default_factory=dict)
    timeout_ms: Lifetime | None = None


async def create(params: CreateParams, call: Call) -> Json:
    """Open a session."""
    return _rendered(await _create(call, {"metadata": params.metadata}, params.timeout_ms))


class SessionParams(Params):
    """A session; that of the AIOS-Session-Id header when it is left out."""

    session_id: Id | None = None


async def info(params: SessionParams, call: Call) -> Json:
    """Read a session."""
    return _rendered(await _read(_named(params, call), call, renew=False))


async def close(params: SessionParams, call: Call) -> Json:
    """End a session; its unfinished synchronous tasks are canceled."""
    session_id = _named(params, call)
    closed = await _close(session_id, call, "client_exit", 0)
    return {
        "session_id": session_id,
        "success": True,
        "pending_tasks_cancelled": closed.canceled_tasks,
    }


def _named(params: SessionParams, call: Call) -> str:
    session_id = params.session_id or call.session_id
    if not session_id:
        raise invalid("session_id", "or the header AIOS-Session-Id is required")
    return session_id


async def renew(session_id: str, call: Call) -> None:
    """Keep a session alive by using it. Raises AiosError if there is none."""
    await _read(session_id, call, renew=True)


async def _create(
    call: Call, attributes: Json, lifetime_ms: int | None
) -> session_service_pb2.Session:
    request = session_service_pb2.CreateSessionRequest(attributes=strict_json.dumps(attributes))
    if lifetime_ms is not None:
        request.lifetime.CopyFrom(duration(lifetime_ms))
    answer = await call.ask(call.daemon.sessions.CreateSession, request)
    return answer.session


async def _read(session_id: str, call: Call, *, renew: bool) -> session_service_pb2.Session:
    answer = await call.read(
        call.daemon.sessions.GetSession,
        session_service_pb2.GetSessionRequest(session_id=session_id, renew=renew),
    )
    return answer.session


async def _close(
    session_id: str, call: Call, reason: str, grace_ms: int
) -> session_service_pb2.CloseSessionResponse:
    request = session_service_pb2.CloseSessionRequest(session_id=session_id, reason=reason)
    if grace_ms:
        request.grace.CopyFrom(duration(grace_ms))
    return await call.ask(call.daemon.sessions.CloseSession, request, wait_ms=grace_ms)


def _rendered(session: session_service_pb2.Session) -> Json:
    return {
        "session_id": session.session_id,
        "created_at": to_text(session.create_time),
        "expires_at": to_text(session.expire_time),
    }
