"""What every store promises about grants, access tokens, and what principals hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import pytest

from aiosd.application.access_ports import AccessRecords, Holding, Holdings
from aiosd.application.access_writes import AccessToken, DropGrant, PutGrant, PutToken
from aiosd.application.ports import CommitConflict, Queue, Store
from aiosd.application.trust_writes import PutWebhook
from aiosd.application.writes import PutArtifact
from aiosd.domain.capability import PermissionLevel
from aiosd.domain.permission import Grant, GrantDuration
from aiosd.domain.state import TaskState
from aiosd.domain.webhook import Webhook
from tests.contract.builders import NOW, a_task, an_artifact, put, update


class AccessStore(Store, Queue, AccessRecords, Holdings, Protocol):
    """One object behind these ports."""


def a_grant(number: int = 1) -> Grant:
    return Grant(
        id=f"grant-{number}",
        permission_id="aios.permission.demo",
        level=PermissionLevel.MEDIUM,
        principal="ann",
        duration=GrantDuration.TIMED,
        scope="/home/**",
        tool_id="demo",
        session_id="sess-1",
        issued_by="owner",
        create_time=NOW,
        expire_time=NOW + 1000,
    )


def a_token(number: int = 1) -> AccessToken:
    return AccessToken(f"tok-{number}", f"{number:064x}", "ann", ("task:read", "task:create"), NOW)


class AccessContract:
    """Inherited by the tests of each store."""

    @pytest.mark.req("R122")
    async def test_grants_are_read_back_whole_by_id_until_they_are_dropped(
        self, store: AccessStore
    ) -> None:
        one, two = a_grant(1), a_grant(2)
        await store.commit([PutGrant(two), PutGrant(one)])
        assert list(await store.grants()) == [one, two]
        used = replace(one, use_count=3)
        await store.commit([PutGrant(used), DropGrant(two.id)])
        assert list(await store.grants()) == [used]
        await store.commit([DropGrant(two.id)])
        assert list(await store.grants()) == [used]

    @pytest.mark.req("R122")
    @pytest.mark.parametrize("duration", GrantDuration)
    @pytest.mark.parametrize("level", PermissionLevel)
    async def test_every_sort_of_grant_is_read_back_as_it_was(
        self, store: AccessStore, duration: GrantDuration, level: PermissionLevel
    ) -> None:
        grant = replace(a_grant(), duration=duration, level=level)
        await store.commit([PutGrant(grant)])
        assert list(await store.grants()) == [grant]

    @pytest.mark.req("S-08")
    async def test_tokens_are_read_back_with_their_hash_and_their_end(
        self, store: AccessStore
    ) -> None:
        one, two = a_token(1), a_token(2)
        await store.commit([PutToken(two), PutToken(one)])
        assert list(await store.tokens()) == [one, two]
        revoked = replace(one, revoke_time=NOW + 5, last_use_time=NOW + 4, expire_time=NOW + 9)
        await store.commit([PutToken(revoked)])
        assert list(await store.tokens()) == [revoked, two]

    @pytest.mark.req("S-08", "R122")
    async def test_a_refused_commit_leaves_neither_grant_nor_token(
        self, store: AccessStore
    ) -> None:
        task, kept = a_task(1), a_grant(1)
        await store.commit([put(task), PutGrant(kept)])
        with pytest.raises(CommitConflict):
            await store.commit(
                [DropGrant(kept.id), PutGrant(a_grant(2)), PutToken(a_token()), put(task)]
            )
        assert list(await store.grants()) == [kept]
        assert list(await store.tokens()) == []

    @pytest.mark.req("R122", "S-08")
    async def test_neither_goes_with_a_task(self, store: AccessStore) -> None:
        task = a_task(1, state=TaskState.COMPLETED)
        grant = replace(a_grant(), duration=GrantDuration.TASK, task_id=task.id)
        await store.commit([put(task), PutGrant(grant), PutToken(a_token())])
        await store.forget([task.id], NOW + 1)
        assert list(await store.grants()) == [grant]
        assert list(await store.tokens()) == [a_token()]

    @pytest.mark.req("S-20")
    async def test_what_each_principal_holds_is_counted(self, store: AccessStore) -> None:
        assert dict(await store.holdings(())) == {}
        waits, works = a_task(1), a_task(2, state=TaskState.WORKING)
        ended = a_task(3, state=TaskState.FAILED)
        other = a_task(4, principal="other", state=TaskState.COMPLETED)
        await store.commit([put(one) for one in (waits, works, ended, other)])
        await store.commit(
            [
                PutArtifact(works.id, replace(an_artifact("a"), size_bytes=7)),
                PutArtifact(ended.id, replace(an_artifact("a"), size_bytes=30)),
                PutArtifact(ended.id, an_artifact("empty")),
                *(PutWebhook(a_webhook(works.id, name)) for name in ("w-1", "w-2")),
                PutWebhook(a_webhook(ended.id, "w-1")),
            ]
        )
        mine = Holding(2, 37, {works.id: 2})
        assert dict(await store.holdings(())) == {"owner": mine, "other": Holding()}
        assert dict(await store.holdings({"other"})) == {"owner": mine}
        assert dict(await store.holdings({"owner", "other"})) == {}
        await store.commit([update(works, state=TaskState.COMPLETED)])
        assert (await store.holdings({"other"}))["owner"] == Holding(1, 37)

    @pytest.mark.req("S-20")
    async def test_artifact_bytes_follow_the_newest_version_and_go_with_their_task(
        self, store: AccessStore
    ) -> None:
        one = a_task(1, state=TaskState.COMPLETED)
        two = a_task(2, state=TaskState.COMPLETED, principal="other")
        artifact = replace(an_artifact("a"), size_bytes=100)
        await store.commit([put(one), put(two), PutArtifact(one.id, artifact)])
        await store.commit([PutArtifact(two.id, replace(artifact, size_bytes=5))])
        await store.commit([PutArtifact(one.id, replace(artifact, version=2, size_bytes=10))])
        found = await store.artifact_bytes([one.id, two.id, a_task(9).id])
        assert dict(found) == {"owner": 10, "other": 5}
        assert dict(await store.artifact_bytes([one.id])) == {"owner": 10}
        assert dict(await store.artifact_bytes([])) == {}
        await store.forget([one.id], 0)
        assert dict(await store.holdings(())) == {"other": Holding(0, 5)}


def a_webhook(task_id: str, name: str) -> Webhook:
    return Webhook(name, task_id, "owner", f"https://a/{name}", "https://a:443", "https://a")
