"""Grants and the policy, as rules."""

from __future__ import annotations

import pytest

from aiosd.domain.capability import Capability, PermissionLevel
from aiosd.domain.permission import (
    Grant,
    GrantDuration,
    Lifetime,
    Need,
    Policy,
    Verdict,
    decide,
    lifetime_of,
    scope_covers,
)

ID = "aios.permission.test.thing"
ASKING = (PermissionLevel.LOW, PermissionLevel.MEDIUM)
ALWAYS = (PermissionLevel.HIGH, PermissionLevel.CRITICAL)


def need(level: PermissionLevel, scope: str = "", **members: str) -> Need:
    return Need("ann", (ID,), level, scope, "tool", **members)


def grant(level: PermissionLevel = PermissionLevel.LOW, **members: object) -> Grant:
    given = {"principal": "ann", "duration": GrantDuration.SESSION, **members}
    return Grant("grant-1", ID, level, **given)


@pytest.mark.req("R114")
def test_there_are_five_levels_in_order_and_every_capability_has_a_permission() -> None:
    assert [one.name for one in PermissionLevel] == ["PUBLIC", "LOW", "MEDIUM", "HIGH", "CRITICAL"]
    assert Capability("a.b", PermissionLevel.LOW).permission_ids == ("aios.permission.a.b",)


@pytest.mark.req("R115", "X35")
def test_public_runs_and_everything_else_asks_twice_if_critical() -> None:
    found = {level: decide(Policy(), need(level), (), 0) for level in PermissionLevel}
    assert found[PermissionLevel.PUBLIC].verdict is Verdict.RUN
    others = [found[level] for level in (*ASKING, *ALWAYS)]
    assert [one.verdict for one in others] == [Verdict.ASK] * 4
    assert [one.confirmations for one in others] == [1, 1, 1, 2]


@pytest.mark.req("R116", "R122")
@pytest.mark.parametrize(
    ("members", "asked"),
    [
        ({}, need(PermissionLevel.LOW, session_id="s")),
        ({"session_id": "s"}, need(PermissionLevel.LOW)),
        ({"principal": "bob"}, need(PermissionLevel.LOW)),
        ({"tool_id": "other"}, need(PermissionLevel.LOW)),
        ({"expire_time": 5}, need(PermissionLevel.LOW)),
        ({"duration": GrantDuration.ONCE, "use_count": 1}, need(PermissionLevel.LOW)),
        ({"duration": GrantDuration.TASK, "task_id": "t1"}, need(PermissionLevel.LOW, task_id="t")),
        ({"scope": "/home/*"}, need(PermissionLevel.LOW)),
        ({"scope": "/home/*"}, need(PermissionLevel.LOW, "/etc/passwd")),
        ({}, need(PermissionLevel.MEDIUM)),
    ],
)
def test_a_grant_holds_for_nothing_that_it_does_not_say(
    members: dict[str, object], asked: Need
) -> None:
    assert decide(Policy(), asked, (grant(**members),), 5).verdict is Verdict.ASK
    assert decide(Policy(), need(PermissionLevel.LOW), (grant(),), 5).verdict is Verdict.RUN


@pytest.mark.req("R117", "R118", "R119", "X36")
@pytest.mark.parametrize("level", ALWAYS)
def test_no_policy_grants_high_or_critical(level: PermissionLevel) -> None:
    policy = Policy(auto_grant=("*",), require_confirmation=PermissionLevel.CRITICAL)
    assert decide(policy, need(level), (), 0).verdict is Verdict.ASK
    assert policy.ignored(ID, level)
    wished = Lifetime(GrantDuration.PERSISTENT)
    assert lifetime_of(level, wished, policy).duration is GrantDuration.ONCE


@pytest.mark.req("R119", "X36")
@pytest.mark.parametrize("level", ASKING)
def test_the_policy_may_grant_low_and_medium(level: PermissionLevel) -> None:
    assert decide(Policy(auto_grant=("aios.*",)), need(level), (), 0).verdict is Verdict.RUN
    assert decide(Policy(auto_grant=("other.*",)), need(level), (), 0).verdict is Verdict.ASK


@pytest.mark.req("R120", "R121")
def test_what_is_denied_or_above_the_ceiling_is_refused_whatever_is_granted() -> None:
    held = (grant(PermissionLevel.HIGH),)
    never = Policy(auto_grant=("*",), always_deny=("*.thing",))
    assert decide(never, need(PermissionLevel.LOW), held, 0).verdict is Verdict.DENY
    ceiling = Policy(max_level=PermissionLevel.MEDIUM)
    assert decide(ceiling, need(PermissionLevel.HIGH), held, 0).verdict is Verdict.DENY


@pytest.mark.req("R122")
@pytest.mark.parametrize(
    ("granted", "asked", "covered"),
    [
        ("", "", True),
        ("", "/etc/passwd", True),
        ("/home/ann/*", "", False),
        ("/home/ann/*", "/home/ann/a.txt", True),
        ("/home/ann/*", "/home/ann/deep/a.txt", False),
        ("/home/ann/**", "/home/ann/deep/a.txt", True),
        ("/home/ann/**", "/home/ann/../bob/a.txt", False),
        ("/home/ann/**", "/home/ann/%2e%2e/bob", False),
        ("https://a.example/*", "https://a.example.evil/x", False),
        ("org.app.*", "org.app.mail", True),
        ("org.app.*", "orgXapp.mail", False),
        ("/home/*", "/home/**", False),
        ("/home/a*", "/home/a*", True),
    ],
)
def test_a_scope_covers_what_lies_below_it(granted: str, asked: str, covered: bool) -> None:
    assert scope_covers(granted, asked) is covered


@pytest.mark.req("R122")
def test_a_glob_of_many_stars_takes_no_time() -> None:
    assert not scope_covers("*a" * 40 + "b", "a" * 200)


@pytest.mark.req("R122")
def test_lifetimes_are_read_as_they_are_written() -> None:
    assert Lifetime.parse("timed:90") == Lifetime(GrantDuration.TIMED, 90_000)
    assert Lifetime.parse("once") == Lifetime(GrantDuration.ONCE)
    with pytest.raises(ValueError, match="lifetime"):
        Lifetime.parse("ever")
