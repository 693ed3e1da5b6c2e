"""Keeping the head of the audit chain outside the store, so that a cut tail is found (S-33)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from aiosd.application.alarm import Alarm
from aiosd.application.ports import ReadFailed
from aiosd.application.trust_ports import AnchorBroken
from aiosd.domain.audit import Head

if TYPE_CHECKING:
    from aiosd.application.ports import Clock
    from aiosd.application.trust_ports import Anchor, AuditTrail

#: A head is anchored at the latest so long after it was committed; S-33 asks for 60 s.
EVERY_MS = 2_000


class Anchoring:
    """A slow loop; `problem` says what did not fit when the daemon started.

    A chain that does not fit its anchor is never anchored again: the old anchor is the evidence.
    """

    def __init__(self, trail: AuditTrail, anchor: Anchor, clock: Clock) -> None:
        self._trail = trail
        self._anchor = anchor
        self._clock = clock
        self._alarm = Alarm(clock)
        self._last = Head()
        self.problem = ""

    async def start(self) -> None:
        """Compare the store with the anchor before the first new record is made."""
        try:
            anchor = await self._anchor.read()
        except AnchorBroken as error:
            self.problem = str(error)
            return
        head = await self._trail.audit_head()
        if anchor is None:
            self.problem = "the anchored head is missing" if head.sequence else ""
        elif anchor.sequence > head.sequence:
            self.problem = f"{anchor.sequence} records were anchored, {head.sequence} are left"
        elif anchor.sequence:
            at = await self._trail.audit_records("", "", anchor.sequence - 1, 1)
            if not at or at[0].sequence != anchor.sequence or at[0].hash != anchor.hash:
                self.problem = f"record {anchor.sequence} is not the one that was anchored"
        if not self.problem:
            self._last = anchor or head
            await self._anchor.write(head)

    async def run(self) -> None:
        """Anchor whatever is new, again and again."""
        while True:
            until = self._clock.now() + EVERY_MS
            while self._clock.now() < until:
                await self._alarm.sleep(until)
            with suppress(ReadFailed):
                await self.anchor()

    async def anchor(self) -> None:
        """Anchor the head as it is now."""
        if self.problem:
            return
        head = await self._trail.audit_head()
        if head.sequence > self._last.sequence:
            await self._anchor.write(head)
            self._last = head
