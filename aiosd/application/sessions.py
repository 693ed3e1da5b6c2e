"""Attached providers: sessions, leases and what each session holds.

Ownership is the random session id, never the name (H10). Liveness is the lease, renewed by
heartbeats in the stream, never the length of the work (I18).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiosd.application.alarm import Alarm
from aiosd.application.errors import SessionLost
from aiosd.application.messages import ProviderLink, ToProvider

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from aiosd.application.messages import Hello, Welcome
    from aiosd.application.ports import Clock

REMEMBERED_LOST = 4096
LATE_MS = 1000


@dataclass(slots=True)
class Held:
    """An attempt that a session owns.

    `go` tells whether the go-ahead may have been written; `running` whether it counts against the
    credits (paused and waiting ones do not); `pause` is the reason of a pause that was asked for
    and not yet answered, None without one.
    """

    task_id: str
    attempt: int
    go: bool = False
    running: bool = True
    pause: str | None = None


@dataclass(slots=True)
class Session:
    """One start of one provider."""

    id: str
    name: str
    principal: str
    capability_ids: frozenset[str]
    credits: int
    lease_end: int
    attach_time: int
    link: ProviderLink | None = None
    #: What was said before Welcome, which comes first on a stream; None afterwards.
    before_welcome: list[ToProvider] | None = None
    draining: bool = False
    #: It let an offer pass or said busy: nothing is offered for a moment.
    resting: bool = False
    #: Its stream is held back because the store is slow: silence is not its fault (I18).
    held_back: bool = False
    held: dict[str, Held] = field(default_factory=dict)
    offers: set[str] = field(default_factory=set)
    #: Tasks whose offer was withdrawn unanswered: an answer may still be on its way, and would be
    #: taken for that to a newer offer.
    owed: set[str] = field(default_factory=set)
    #: Attempts that were told to stop and have not said that they did.
    stopping: set[tuple[str, int]] = field(default_factory=set)

    @property
    def connected(self) -> bool:
        """Its stream is open."""
        return self.link is not None

    @property
    def ready(self) -> bool:
        """It may be offered something now."""
        welcome = self.connected and self.before_welcome is None
        return welcome and not self.draining and not self.resting and self.free > 0

    @property
    def free(self) -> int:
        """Attempts that it may be offered now."""
        running = sum(1 for one in self.held.values() if one.running)
        return self.credits - running - len(self.offers) - len(self.stopping)

    def send(self, message: ToProvider) -> None:
        """Send if the stream is open; what matters is said again at re-attach."""
        if self.before_welcome is not None:
            self.before_welcome.append(message)
        elif self.link is not None:
            self.link.send(message)

    def welcome(self, link: ProviderLink, welcome: Welcome) -> bool:
        """Answer Hello; False if another stream took over meanwhile."""
        if self.link is not link or self.before_welcome is None:
            return False
        waiting, self.before_welcome = self.before_welcome, None
        for message in (welcome, *waiting):
            link.send(message)
        return True


class Sessions:
    """All sessions, and the loop that ends those whose lease ran out."""

    def __init__(self, clock: Clock, lease_ms: int) -> None:
        self._clock = clock
        self._lease_ms = lease_ms
        self._sessions: dict[str, Session] = {}
        self._lost: OrderedDict[str, None] = OrderedDict()
        self._alarm = Alarm(clock)

    def all(self) -> Iterable[Session]:
        """Every session, those inside the re-attach window included."""
        return self._sessions.values()

    def get(self, session_id: str) -> Session | None:
        """A session by id."""
        return self._sessions.get(session_id)

    def available(
        self, capability_id: str, task_id: str, avoid: frozenset[str] = frozenset()
    ) -> Session | None:
        """The session with most room that may be offered the task; one to avoid only if alone."""
        fit = [
            one
            for one in self._sessions.values()
            if one.ready and capability_id in one.capability_ids and task_id not in one.owed
        ]
        return max(fit, key=lambda one: (one.id not in avoid, one.free), default=None)

    def offered(self) -> set[str]:
        """Capabilities that a connected session with room offers."""
        return {
            capability_id
            for one in self._sessions.values()
            if one.ready
            for capability_id in one.capability_ids
        }

    def expect(self, session_id: str, until: int) -> Session:
        """After a restart: wait for a session that held attempts (I19)."""
        session = self._sessions.get(session_id)
        if session is None:
            session = Session(session_id, "", "", frozenset(), 0, until, 0)
            self._sessions[session_id] = session
            self._alarm.ring()
        return session

    def attach(self, hello: Hello, principal: str, link: ProviderLink) -> Session:
        """Open or re-open a session. Raises SessionLost for one whose lease ended."""
        if hello.session_id in self._lost:
            raise SessionLost
        now = self._clock.now()
        session = self._sessions.get(hello.session_id)
        if session is not None and session.principal not in ("", principal):
            raise SessionLost  # another's session id is as good as none
        if session is None:
            session = Session(hello.session_id, "", "", frozenset(), 0, 0, now)
            self._sessions[hello.session_id] = session
        elif session.link is not None:
            session.link.close(session_lost=False)
        session.name = hello.name
        session.principal = principal
        session.capability_ids = frozenset(one.id for one in hello.capabilities)
        session.credits = hello.credits
        session.attach_time = session.attach_time or now
        session.link = link
        session.before_welcome = []
        session.owed.clear()  # answers came on the stream before, if at all
        session.draining = False
        self._renew(session)
        return session

    def heartbeat(self, session: Session) -> bool:
        """Renew the lease; False if the session is over."""
        if self._sessions.get(session.id) is not session:
            return False
        self._renew(session)
        return True

    def disconnect(self, session: Session, link: ProviderLink) -> None:
        """The stream ended without Detach: the lease goes on running (re-attach)."""
        if session.link is link:
            session.link = None
            session.before_welcome = None

    def forget(self, session: Session) -> None:
        """The provider detached in order."""
        self._sessions.pop(session.id, None)

    async def run(self, lose: Callable[[Session], Awaitable[None]]) -> None:
        """End sessions whose lease ran out; `lose` decides about what they held."""
        planned = 0
        while True:
            now = self._clock.now()
            if planned and now > planned + LATE_MS:
                self._forgive(now)
            over = [
                one for one in self._sessions.values() if one.lease_end <= now and not one.held_back
            ]
            for session in over:
                if session.lease_end > self._clock.now() or self.get(session.id) is not session:
                    continue  # heard of again, or detached, while another one was being lost
                self._sessions.pop(session.id, None)
                self._remember_lost(session.id)
                if session.link is not None:
                    session.link.close(session_lost=True)
                    session.link = None
                await lose(session)
            ends = [one.lease_end for one in self._sessions.values() if not one.held_back]
            planned = min(ends, default=0)
            await self._alarm.sleep(planned)

    def _forgive(self, now: int) -> None:
        """This process itself stood still: heartbeats may lie unread in the sockets."""
        for session in self._sessions.values():
            if session.connected:
                session.lease_end = max(session.lease_end, now + LATE_MS)

    def _renew(self, session: Session) -> None:
        earlier = session.lease_end
        session.lease_end = self._clock.now() + self._lease_ms
        if not earlier or earlier > session.lease_end:
            self._alarm.ring()

    def _remember_lost(self, session_id: str) -> None:
        self._lost[session_id] = None
        if len(self._lost) > REMEMBERED_LOST:
            self._lost.popitem(last=False)
