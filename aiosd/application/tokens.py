"""Access tokens: made, listed, revoked, recognised (S-07, S-08, R123)."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from aiosd.application import json_text
from aiosd.application.access import ADMIN, Caller, check_scope
from aiosd.application.access_writes import AccessToken, PutToken
from aiosd.application.errors import PermissionDenied, TokenNotFound
from aiosd.application.ports import CommitUnknown, StoreFull
from aiosd.domain.errors import ArgumentInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.access_ports import AccessRecords
    from aiosd.application.audit import Audit
    from aiosd.application.ports import Clock, Ids, Store

MANAGE = "token:manage"
APPROVE = "permission:approve"
#: A program may not make itself a person: only who holds one of these may give them away (R123).
PERSONAL = frozenset({APPROVE, ADMIN})
LONGEST_PRINCIPAL = 128
PREFIX = "aios_"
#: The last use is stored at most this often; in memory it is exact.
USE_STORED_EVERY_MS = 60_000


class Tokens:
    """All tokens, in memory beside the store: every call asks."""

    def __init__(
        self, store: Store, records: AccessRecords, audit: Audit, ids: Ids, clock: Clock
    ) -> None:
        self._store = store
        self._records = records
        self._audit = audit
        self._ids = ids
        self._clock = clock
        self._known: dict[str, AccessToken] = {}
        self._by_digest: dict[str, str] = {}
        self._stored_use: dict[str, int] = {}

    async def load(self) -> None:
        """Read what earlier processes made."""
        for one in await self._records.tokens():
            self._remember(one)
            self._stored_use[one.id] = one.last_use_time

    async def create(
        self, caller: Caller, principal: str, scopes: Sequence[str], lifetime_ms: int
    ) -> tuple[AccessToken, str]:
        """A token and its text, which is never told again. Lifetime 0: no end.

        Raises ArgumentInvalid, PermissionDenied.
        """
        caller.require(MANAGE)
        json_text.check_text(principal, "principal")
        if not principal.strip() or len(principal) > LONGEST_PRINCIPAL:
            raise ArgumentInvalid("principal", f"must have 1..{LONGEST_PRINCIPAL} characters")
        if not scopes:
            raise ArgumentInvalid("scopes", "at least one is required")
        for at, scope in enumerate(scopes):
            check_scope(scope, f"scopes[{at}]")
        if PERSONAL & set(scopes) and not any(caller.may(one) for one in PERSONAL):
            raise PermissionDenied(
                "only an approver or an administrator can give permission:approve and admin:*",
                {"scope": APPROVE},
            )
        now = self._clock.now()
        text = PREFIX + self._ids.secret()
        token = AccessToken(
            id=self._ids.new("tok"),
            digest=digest(text),
            principal=principal,
            scopes=tuple(sorted(set(scopes))),
            create_time=now,
            expire_time=now + lifetime_ms if lifetime_ms else 0,
        )
        record = self._audit.of(
            "token.created",
            details={
                "id": token.id,
                "for": principal,
                "scopes": list(token.scopes),
                "expires": token.expire_time,
            },
        )
        await self._store.commit([PutToken(token), record])
        self._remember(token)
        return token, text

    def list(self, caller: Caller) -> Sequence[AccessToken]:
        """Every token, oldest first; without their texts, which nobody has."""
        caller.require(MANAGE)
        return [self._known[one] for one in sorted(self._known)]

    async def revoke(self, caller: Caller, token_id: str) -> None:
        """End a token at once. Raises TokenNotFound; one that is ended already stays so."""
        caller.require(MANAGE)
        token = self._known.get(token_id)
        if token is None:
            raise TokenNotFound
        if token.revoke_time:
            return
        ended = replace(token, revoke_time=self._clock.now())
        self._remember(ended)  # before it is durable: better refused too early than too late
        record = self._audit.of("token.revoked", details={"id": token.id, "for": token.principal})
        await self._store.commit([PutToken(ended), record])

    async def caller(self, text: str) -> Caller | None:
        """Whose text this is; None for one that is unknown, revoked or past its time."""
        token = self._known.get(self._by_digest.get(digest(text), ""))
        now = self._clock.now()
        if token is None or not token.alive(now):
            return None
        token = replace(token, last_use_time=now)
        self._remember(token)
        if now - self._stored_use.get(token.id, 0) >= USE_STORED_EVERY_MS:
            self._stored_use[token.id] = now
            try:
                await self._store.commit([PutToken(token)])
            except (CommitUnknown, StoreFull):
                self._stored_use[token.id] = 0
            current = self._known[token.id]
            if not current.alive(now):
                await self._store.commit([PutToken(current)])  # revoked while this was stored
                return None
        return Caller(token.principal, frozenset(token.scopes), token.id)

    def _remember(self, token: AccessToken) -> None:
        self._known[token.id] = token
        self._by_digest[token.digest] = token.id


def digest(text: str) -> str:
    """SHA-256 of a token's text, in hex. The text has 256 random bits: no salt is needed."""
    return hashlib.sha256(text.encode()).hexdigest()
