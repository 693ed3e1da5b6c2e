"""Permissions: aios/permission.request, list and revoke (wire.md 1.9, design.md 16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from aiosd.aios_wire import words
from aiosd.aios_wire.timestamps import duration, text_of
from aiosd.api.v1 import permission_pb2, permission_service_pb2
from gateway.aios.params import Id, Params, invalid

if TYPE_CHECKING:
    from gateway.aios.method import Call

Json = dict[str, Any]

_PAGE_SIZE: Final = 200
Lifetime = Annotated[str, Field(pattern=r"^(once|task|session|persistent|timed:[1-9][0-9]{0,8})$")]


class WishParams(Params):
    """One permission asked for. `duration` is once, task, session, persistent or timed:SECONDS."""

    level: Literal["public", "low", "medium", "high", "critical"]
    permission_id: Id | None = None
    scope: Annotated[str, Field(max_length=1024)] = ""
    duration: Lifetime | None = None
    reason: Annotated[str, Field(max_length=1024)] = ""


class RequestParams(Params):
    """aios/permission.request."""

    capability_id: Id
    permissions: Annotated[list[WishParams], Field(min_length=1, max_length=20)]


async def request(params: RequestParams, call: Call) -> Json:
    """Ask for permissions ahead of use, and wait for the decision."""
    answer = await call.ask(
        call.daemon.permissions.RequestPermission,
        permission_service_pb2.RequestPermissionRequest(
            capability_id=params.capability_id,
            permissions=[_wish(wish) for wish in params.permissions],
            session_id=call.session_id,
        ),
        wait_ms=call.limits.approval_timeout_ms,
    )
    if not answer.granted:
        return {"granted": False, "reason": answer.reason}
    return {"granted": True, "tokens": [_token(grant) for grant in answer.grants]}


def _wish(params: WishParams) -> permission_pb2.PermissionWish:
    wish = permission_pb2.PermissionWish(
        level=words.LEVELS[params.level],
        permission_id=params.permission_id or "",
        scope=params.scope,
        reason=params.reason,
    )
    if params.duration is not None:
        word, _, seconds = params.duration.partition(":")
        wish.duration = words.DURATIONS[word]
        if seconds:
            wish.lifetime.CopyFrom(duration(int(seconds) * 1000))
    return wish


class ListParams(Params):
    """aios/permission.list."""

    session_id: Id | None = None
    capability_id: Id | None = None


async def list_(params: ListParams, call: Call) -> Json:
    """List the permissions that the caller holds."""
    found: list[permission_pb2.Grant] = []
    asked = permission_service_pb2.ListGrantsRequest(
        session_id=params.session_id or "",
        capability_id=params.capability_id or "",
        page_size=_PAGE_SIZE,
    )
    while True:
        page = await call.read(call.daemon.permissions.ListGrants, asked)
        found.extend(page.grants)
        if not page.next_page_token:
            return {"permissions": [_token(grant) for grant in found]}
        asked.page_token = page.next_page_token


class RevokeParams(Params):
    """aios/permission.revoke: one token, or all of a capability."""

    token_id: Id | None = None
    capability_id: Id | None = None


async def revoke(params: RevokeParams, call: Call) -> Json:
    """Take permissions back."""
    if (params.token_id is None) == (params.capability_id is None):
        raise invalid("token_id", "or capability_id is required, and not both")
    answer = await call.ask(
        call.daemon.permissions.RevokeGrants,
        permission_service_pb2.RevokeGrantsRequest(
            grant_id=params.token_id or "", capability_id=params.capability_id or ""
        ),
    )
    return {"success": True, "revoked_count": answer.revoked_count}


def _token(grant: permission_pb2.Grant) -> Json:
    rendered: Json = {
        "token_id": grant.grant_id,
        "permission_id": grant.permission_id,
        "level": words.level(grant.level),
        "scope": grant.scope,
        "duration": words.grant_duration(grant.duration),
        "tool_id": grant.tool_id,
        "issued_at": text_of(grant, "create_time"),
        "issued_by": grant.issued_by,
        "expires_at": text_of(grant, "expire_time"),
    }
    revoked = text_of(grant, "revoke_time")
    if revoked is not None:
        rendered["revoked_at"] = revoked
    return rendered
