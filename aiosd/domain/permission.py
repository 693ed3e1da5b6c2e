"""Permissions: grants, the operator's policy, and what both say about a need (wire.md 1.9, X35).

Pure: who is asked, how often, and what a grant covers. The application decides when.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from aiosd.domain.capability import PermissionLevel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Approval only, never granted by the policy and never for longer than one use (R117-R119).
ALWAYS_ASKED = frozenset({PermissionLevel.HIGH, PermissionLevel.CRITICAL})
#: How long a session grant holds for a caller that opened no session.
IMPLICIT_SESSION_MS = 86_400_000


class GrantDuration(IntEnum):
    """How long a grant lives."""

    ONCE = 1
    TASK = 2
    SESSION = 3
    TIMED = 4
    PERSISTENT = 5


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A duration; `ms` counts for TIMED only."""

    duration: GrantDuration = GrantDuration.SESSION
    ms: int = 0

    @classmethod
    def parse(cls, text: str) -> Lifetime:
        """`once`, `task`, `session`, `persistent` or `timed:SECONDS`; raises ValueError."""
        word, _, seconds = text.partition(":")
        try:
            duration = GrantDuration[word.upper()]
        except KeyError:
            raise ValueError(f"{text!r} is not a lifetime") from None
        return cls(duration, int(seconds) * 1000 if seconds else 0)


@dataclass(frozen=True, slots=True)
class Policy:
    """The operator's table `[permissions]` (design.md 16). `always_deny` wins."""

    auto_grant: tuple[str, ...] = ()
    always_deny: tuple[str, ...] = ()
    require_confirmation: PermissionLevel = PermissionLevel.LOW
    default_duration: Lifetime = Lifetime()
    max_level: PermissionLevel = PermissionLevel.CRITICAL

    def denies(self, permission_id: str, level: PermissionLevel) -> bool:
        """Refused without asking."""
        return level > self.max_level or any(covers(one, permission_id) for one in self.always_deny)

    def grants(self, permission_id: str, level: PermissionLevel) -> bool:
        """Granted without asking; never high or critical, whatever the table says (R119)."""
        if level in ALWAYS_ASKED:
            return False
        if level < self.require_confirmation:
            return True
        return any(covers(one, permission_id) for one in self.auto_grant)

    def ignored(self, permission_id: str, level: PermissionLevel) -> bool:
        """`auto_grant` names it in vain: worth a warning (X36)."""
        return level in ALWAYS_ASKED and any(covers(one, permission_id) for one in self.auto_grant)


@dataclass(frozen=True, slots=True)
class Need:
    """What must be granted before something runs. Empty `scope` means everything."""

    principal: str
    permission_ids: tuple[str, ...]
    level: PermissionLevel
    scope: str = ""
    tool_id: str = ""
    task_id: str = ""
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """A permission that a principal holds (R122).

    `scope` is a glob, empty for everything; `tool_id`, `task_id` and `session_id` bind it where
    they are set. It ends at `expire_time` (0: not by time), and after one use if it is for ONCE.
    """

    id: str
    permission_id: str
    level: PermissionLevel
    principal: str
    duration: GrantDuration
    scope: str = ""
    tool_id: str = ""
    task_id: str = ""
    session_id: str = ""
    issued_by: str = ""
    create_time: int = 0
    expire_time: int = 0
    use_count: int = 0

    def alive(self, now: int) -> bool:
        """Neither past its time nor used up."""
        used = self.duration is GrantDuration.ONCE and self.use_count > 0
        return not used and (not self.expire_time or now < self.expire_time)

    def serves(self, need: Need, permission_id: str, now: int) -> bool:
        """Whether it lets this need through; everything that it does not say is no (R120)."""
        return (
            self.alive(now)
            and self.permission_id == permission_id
            and self.principal == need.principal
            and bool(need.principal)
            and self.level >= need.level
            and self.tool_id in ("", need.tool_id)
            and (self.duration is not GrantDuration.TASK or self.task_id == need.task_id)
            and (self.duration is not GrantDuration.SESSION or self.session_id == need.session_id)
            and scope_covers(self.scope, need.scope)
        )


class Verdict(Enum):
    """What is to happen at dispatch."""

    RUN = "run"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, the permissions it is about, and the grants that are used by running."""

    verdict: Verdict
    permission_ids: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    confirmations: int = 0


def decide(policy: Policy, need: Need, grants: Iterable[Grant], now: int) -> Decision:
    """Whether it runs, must be asked for, or is refused (X35)."""
    denied = tuple(one for one in need.permission_ids if policy.denies(one, need.level))
    if denied:
        return Decision(Verdict.DENY, denied)
    if need.level is PermissionLevel.PUBLIC:
        return Decision(Verdict.RUN)
    held = tuple(grants)
    used: list[Grant] = []
    missing: list[str] = []
    for permission_id in need.permission_ids:
        if policy.grants(permission_id, need.level):
            continue
        grant = best(one for one in held if one.serves(need, permission_id, now))
        if grant is None:
            missing.append(permission_id)
        else:
            used.append(grant)
    if missing:
        return Decision(Verdict.ASK, tuple(missing), tuple(used), confirmations_of(need.level))
    return Decision(Verdict.RUN, need.permission_ids, tuple(used))


def confirmations_of(level: PermissionLevel) -> int:
    """How many answers an approval needs (R118)."""
    return 2 if level is PermissionLevel.CRITICAL else 1


def best(grants: Iterable[Grant]) -> Grant | None:
    """The grant to use: one that lasts before one that is used up by it."""
    found: Sequence[Grant] = sorted(grants, key=lambda one: (-one.duration, one.id))
    return found[0] if found else None


def lifetime_of(level: PermissionLevel, wished: Lifetime | None, policy: Policy) -> Lifetime:
    """How long a grant of that level may live: high and critical are for one use (R117)."""
    if level in ALWAYS_ASKED:
        return Lifetime(GrantDuration.ONCE)
    return wished or policy.default_duration


def expiry(lifetime: Lifetime, session_id: str, now: int) -> int:
    """When a grant made now ends by time; 0 if it does not."""
    if lifetime.duration is GrantDuration.TIMED:
        return now + lifetime.ms
    if lifetime.duration is GrantDuration.SESSION and not session_id:
        return now + IMPLICIT_SESSION_MS
    return 0


def covers(pattern: str, text: str) -> bool:
    """Glob: `*` stands for any text, everything else for itself."""
    return _matches(pattern.replace("*", "**"), text)


def scope_covers(granted: str, asked: str) -> bool:
    """Whether a granted scope glob covers what is asked for; empty stands for everything.

    `*` stops at a slash and `**` does not. A path that climbs with `..` is covered by nothing
    short of everything, because it is not below what it seems to be.
    """
    if granted in ("", "**"):
        return True
    if not asked or any(part in ("..", ".") for part in re.split(r"[/\\]", asked)):
        return False
    if "%2e" in asked.lower() or "\0" in asked:
        return False
    if "*" in asked:
        return granted == asked
    return _matches(granted, asked)


def _matches(pattern: str, text: str) -> bool:
    """Every place that may be reached, piece by piece: no pattern takes more than n times m."""
    first, *pieces = re.split(r"(\*+)", pattern)
    if not text.startswith(first):
        return False
    reached = {len(first)}
    for stars, literal in zip(pieces[::2], pieces[1::2], strict=True):
        ends = _beyond(reached, text, stops=len(stars) == 1)
        reached = {one + len(literal) for one in ends if text.startswith(literal, one)}
        if not reached:
            return False
    return len(text) in reached


def _beyond(starts: set[int], text: str, *, stops: bool) -> set[int]:
    """Where a star that begins at one of these may end."""
    if not stops:
        return set(range(min(starts), len(text) + 1))
    ends: set[int] = set()
    for start in sorted(starts):
        at = start
        while at not in ends:
            ends.add(at)
            if at == len(text) or text[at] == "/":
                break
            at += 1
    return ends
