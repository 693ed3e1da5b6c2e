"""What a provider holds and has yet to be heard on, shared by the link's thread and the loop.

Every attempt keeps its numbered reports until the daemon has stored them, so that a new stream can
begin where the old one broke. Capabilities add from the user's event loop, the link takes from its
own threads: one lock guards it all, and nothing waits but `take`.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.sdk.connection import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

AttemptKey: TypeAlias = tuple[str, int]
"""Task id and attempt number: what every message of the protocol names."""

MAX_REPORT_BYTES = MAX_MESSAGE_BYTES - 64 * 1024
"""Largest report; a larger one would break the stream, and its successor, and so on."""

_BATCH_BYTES = 1024 * 1024
_BATCH_MESSAGES = 500


class NotHeld(Exception):
    """The attempt or operation is not, or no longer, this provider's."""


@dataclass(slots=True)
class _HeldAttempt:
    started: bool = False
    paused: bool = False
    waiting_action: str = ""
    newest: int = 0
    unacknowledged: deque[wire.Report] = field(default_factory=deque)

    def acknowledge(self, up_to: int) -> None:
        while self.unacknowledged and self.unacknowledged[0].number <= up_to:
            self.unacknowledged.popleft()


@dataclass(slots=True)
class _HeldOperation:
    newest: int = 0
    unacknowledged: deque[wire.OperationReport] = field(default_factory=deque)

    def acknowledge(self, up_to: int) -> None:
        while self.unacknowledged and self.unacknowledged[0].number <= up_to:
            self.unacknowledged.popleft()


class Outbox:
    """Held attempts and operations, their reports, and the queue of the current stream."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._attempts: dict[AttemptKey, _HeldAttempt] = {}
        self._operations: dict[str, _HeldOperation] = {}
        self._queue: deque[wire.ProviderMessage] = deque()
        self._stream = 0
        self._open = False
        self._session_id = _new_session_id()

    # --- from the user's event loop -------------------------------------------------------------

    def accept(self, key: AttemptKey, stream: int) -> bool:
        """Hold an offered attempt and say so; False if the stream that offered it is gone."""
        with self._lock:
            if not self._is_on(stream):
                return False
            self._attempts[key] = _HeldAttempt()
            self._queue.append(
                wire.ProviderMessage(accept=wire.Accept(task_id=key[0], attempt=key[1]))
            )
            self._lock.notify_all()
        return True

    def say(self, message: wire.ProviderMessage) -> None:
        """Send a message that only the current stream is interested in; dropped without one."""
        with self._lock:
            if self._open:
                self._queue.append(message)
                self._lock.notify_all()

    def start(self, key: AttemptKey) -> None:
        """Note that Go arrived."""
        with self._lock:
            if key in self._attempts:
                self._attempts[key].started = True

    def set_paused(self, key: AttemptKey, paused: bool) -> None:
        """Note whether the attempt stands at a checkpoint."""
        with self._lock:
            if key in self._attempts:
                self._attempts[key].paused = paused

    def set_waiting(self, key: AttemptKey, action: str) -> None:
        """Note the action that the attempt waits on; empty: none."""
        with self._lock:
            if key in self._attempts:
                self._attempts[key].waiting_action = action

    def report(self, key: AttemptKey, report: wire.Report) -> int:
        """Number a report, keep it until it is acknowledged, send it as soon as there is a stream.

        Raises NotHeld, and ValueError for a report that no message can carry.
        """
        report.task_id, report.attempt = key
        if report.ByteSize() > MAX_REPORT_BYTES:
            raise ValueError(f"report: larger than {MAX_REPORT_BYTES} bytes; send it in pieces")
        with self._lock:
            held = self._attempts.get(key)
            if held is None:
                raise NotHeld
            held.newest += 1
            report.number = held.newest
            held.unacknowledged.append(report)
            if self._open:
                self._queue.append(wire.ProviderMessage(report=report))
                self._lock.notify_all()
        return report.number

    def drop(self, key: AttemptKey) -> None:
        """Forget an attempt; what it still had to say goes unsaid."""
        with self._lock:
            self._attempts.pop(key, None)

    def hold_operation(self, operation_id: str) -> None:
        """Hold an operation."""
        with self._lock:
            self._operations.setdefault(operation_id, _HeldOperation())

    def report_operation(self, operation_id: str, report: wire.OperationReport) -> int:
        """As `report`, for an operation."""
        report.operation_id = operation_id
        if report.ByteSize() > MAX_REPORT_BYTES:
            raise ValueError(f"report: larger than {MAX_REPORT_BYTES} bytes")
        with self._lock:
            held = self._operations.get(operation_id)
            if held is None:
                raise NotHeld
            held.newest += 1
            report.number = held.newest
            held.unacknowledged.append(report)
            if self._open:
                self._queue.append(wire.ProviderMessage(operation_report=report))
                self._lock.notify_all()
        return report.number

    def drop_operation(self, operation_id: str) -> None:
        """Forget an operation."""
        with self._lock:
            self._operations.pop(operation_id, None)

    # --- from the link's thread -----------------------------------------------------------------

    def begin_stream(self, hello: wire.Hello) -> int:
        """Fill in who attaches and what it holds; returns the number of the new stream.

        Nothing but Hello goes out until `settle` knows what the daemon still counts as ours.
        """
        with self._lock:
            self._stream += 1
            self._open = False
            self._queue.clear()
            hello.session_id = self._session_id
            for (task_id, attempt), held in self._attempts.items():
                hello.attempts.add(
                    task_id=task_id,
                    attempt=attempt,
                    started=held.started,
                    paused=held.paused,
                    waiting_action=held.waiting_action,
                )
            for operation_id in self._operations:
                hello.operations.add(operation_id=operation_id)
            return self._stream

    def settle(self, welcome: wire.Welcome) -> None:
        """Drop what does not go on, and queue again what the daemon has not stored."""
        with self._lock:
            continued = {(one.task_id, one.attempt): one for one in welcome.continued}
            self._attempts = {k: h for k, h in self._attempts.items() if k in continued}
            operations = frozenset(welcome.continued_operations)
            self._operations = {k: h for k, h in self._operations.items() if k in operations}
            for key, held in self._attempts.items():
                held.acknowledge(continued[key].acknowledged)
                self._requeue(wire.ProviderMessage(report=one) for one in held.unacknowledged)
            for operation in self._operations.values():
                self._requeue(
                    wire.ProviderMessage(operation_report=one) for one in operation.unacknowledged
                )
            self._open = True
            self._lock.notify_all()

    def end_stream(self) -> None:
        """Queue nothing more for a stream that is gone."""
        with self._lock:
            self._open = False
            self._queue.clear()
            self._lock.notify_all()

    def wake(self) -> None:
        """Have `take` look again."""
        with self._lock:
            self._lock.notify_all()

    def renew_session(self) -> None:
        """Begin again as somebody new, who holds nothing."""
        with self._lock:
            self._session_id = _new_session_id()
            self._attempts.clear()
            self._operations.clear()
            self._queue.clear()

    def take(
        self, stream: int, until: float, stop: threading.Event
    ) -> list[wire.ProviderMessage] | None:
        """What is waiting, in order, as much as one message should carry.

        Waits for something until the monotonic time `until`, or until `stop` is set; empty: there
        was nothing. None: the stream is over.
        """
        batch: list[wire.ProviderMessage] = []
        size = 0
        with self._lock:
            while self._is_on(stream) and not self._queue and not stop.is_set():
                left = until - time.monotonic()
                if left <= 0 or not self._lock.wait(left):
                    break
            if not self._is_on(stream):
                return None
            while self._queue and len(batch) < _BATCH_MESSAGES:
                size += self._queue[0].ByteSize()
                if batch and size > _BATCH_BYTES:
                    break
                batch.append(self._queue.popleft())
        return batch

    def _is_on(self, stream: int) -> bool:
        return self._open and stream == self._stream

    def acknowledge(self, ack: wire.Ack) -> None:
        """Forget reports that are stored. A refused one stays until a later one is stored: the
        daemon may have to be told of it again to see that the numbers have no gap."""
        with self._lock:
            held = self._attempts.get((ack.task_id, ack.attempt))
            if held is not None:
                held.acknowledge(ack.up_to)

    def acknowledge_operation(self, ack: wire.OperationAck) -> None:
        """Forget reports of an operation that are stored."""
        with self._lock:
            held = self._operations.get(ack.operation_id)
            if held is not None:
                held.acknowledge(ack.up_to)

    def _requeue(self, messages: Iterable[wire.ProviderMessage]) -> None:
        self._queue.extend(messages)


def _new_session_id() -> str:
    return f"sess-{secrets.token_hex(16)}"
