"""What must hold of every snapshot and event of a runtime operation that anybody ever sees.

Written from the rules (R162, R165, R169, Y10, Y11) and not from the code, on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiosd.api.v1 import operation_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiosd.domain.operation import Operation, OperationEvent

#: status -> effectState, terminal (None: either), projections that fit.
CONSISTENT: dict[str, tuple[str, bool | None, set[str]]] = {
    "queued": ("queued", False, {"not_applicable"}),
    "running": ("running", False, {"not_applicable"}),
    "runtime_committed": ("committed", False, {"pending", "not_applicable"}),
    "projection_pending": ("committed", False, {"pending"}),
    "projection_blocked": ("committed", None, {"blocked"}),
    "succeeded": ("committed", True, {"synced", "not_applicable"}),
    "failed": ("failed", True, {"not_applicable"}),
    "cancelled": ("cancelled", True, {"not_applicable"}),
    "expired": ("expired", True, {"not_applicable"}),
    "outcome_unknown": ("outcome_unknown", True, {"not_applicable"}),
}
FOLLOWS: dict[str, set[str]] = {
    "queued": {"running", "cancelled", "expired", "failed"},
    "running": {"runtime_committed", "failed", "cancelled", "expired", "outcome_unknown"},
    "runtime_committed": {"projection_pending", "succeeded"},
    "projection_pending": {"succeeded", "projection_blocked"},
    "projection_blocked": {"projection_pending"},
}
TOLD_BY: dict[str, set[str]] = {
    "runtime_operation_started": {"running"},
    "runtime_operation_progress": {
        *("running", "runtime_committed", "projection_pending", "projection_blocked"),
    },
    "runtime_effect_committed": {"runtime_committed"},
    "runtime_projection_pending": {"projection_pending"},
    "runtime_projection_synced": {"succeeded"},
    "runtime_projection_blocked": {"projection_blocked"},
    "runtime_operation_cancel_requested": {"queued", "running"},
    "runtime_rpc_response": {
        *("succeeded", "failed", "cancelled", "expired", "outcome_unknown", "projection_blocked"),
    },
}
ERRORS: dict[str, tuple[str | None, str]] = {
    "failed": (None, "none resubmit"),
    "cancelled": ("OPERATION_CANCELLED", "none"),
    "expired": ("COMMAND_EXPIRED", "resubmit"),
    "outcome_unknown": ("OUTCOME_UNKNOWN", "none"),
    "projection_blocked": ("PROJECTION_BLOCKED", "none resume"),
}


@dataclass(frozen=True)
class Seen:
    """One snapshot, in the words of the wires."""

    status: str
    effect: str
    terminal: bool
    projection: str
    revision: int
    sequence: int
    error: tuple[str, str] | None


def check_snapshot(seen: Seen) -> None:
    """Status, effect, terminal, projection and error agree."""
    effect, terminal, projections = CONSISTENT[seen.status]
    assert seen.effect == effect, seen
    assert terminal is None or seen.terminal is terminal, seen
    assert seen.projection in projections, seen
    assert (seen.revision > 0) == (seen.projection == "synced"), seen
    if seen.status in ERRORS:
        code, modes = ERRORS[seen.status]
        assert seen.error is not None, seen
        assert code is None or seen.error[0] == code, seen
        assert seen.error[1] in modes.split(), seen
    else:
        assert seen.error is None, seen


class Observed:
    """Every snapshot that a reader ever saw, in any order: each fits, and none un-says another."""

    def __init__(self) -> None:
        self._statuses: dict[str, dict[int, str]] = {}

    def take(self, operation_id: str, snapshot: Seen) -> None:
        """One more snapshot of an operation; AssertionError if it contradicts an earlier one."""
        check_snapshot(snapshot)
        known = self._statuses.setdefault(operation_id, {})
        for sequence, status in known.items():
            if sequence == snapshot.sequence:
                assert status == snapshot.status, (operation_id, sequence, status, snapshot)
            elif sequence < snapshot.sequence:
                assert snapshot.status in _LATER[status], (operation_id, status, snapshot)
            else:
                assert status in _LATER[snapshot.status], (operation_id, status, snapshot)
        known[snapshot.sequence] = snapshot.status

    def take_json(self, value: Any) -> None:
        """Every snapshot inside an answer of the OpenAPI wire."""
        if isinstance(value, list):
            for item in value:
                self.take_json(item)
        elif isinstance(value, dict):
            if {"effectState", "terminal", "projection"} <= value.keys():
                self.take(value["id"], seen_json(value))
            for item in value.values():
                self.take_json(item)


def _later() -> dict[str, set[str]]:
    """What each status may have become, itself included."""
    found = {status: {status} for status in CONSISTENT}
    for _ in CONSISTENT:
        for later in found.values():
            later |= {new for one in list(later) for new in FOLLOWS.get(one, set())}
    return found


_LATER = _later()


def check_log(events: Iterable[tuple[int, str, Seen]], *, complete: bool = False) -> None:
    """A whole log: dense from 1, every step an edge, no committed effect un-said, one end."""
    status, sequence, ended = "queued", 0, False
    for number, kind, seen in events:
        assert not ended, f"event {number} after the last one"
        assert number == sequence + 1 == seen.sequence
        check_snapshot(seen)
        assert seen.status in TOLD_BY[kind], (kind, seen)
        # One fact may be told by two events: synced and the response, cancel and its response.
        if seen.status != status:
            between = FOLLOWS.get(status, set())
            assert seen.status in between, f"{status} -> {seen.status}"
        if kind == "runtime_rpc_response":
            ended = seen.terminal
        status, sequence = seen.status, number
    assert not complete or ended, "the log has no end"


def seen(snapshot: Operation | operation_pb2.Operation) -> Seen:
    """A snapshot of the domain or of the contract."""
    if isinstance(snapshot, operation_pb2.Operation):
        error = snapshot.error
        return Seen(
            _word(operation_pb2.OperationStatus, "OPERATION_STATUS_", snapshot.status),
            _word(operation_pb2.EffectState, "EFFECT_STATE_", snapshot.effect_state),
            snapshot.terminal,
            _word(operation_pb2.ProjectionState, "PROJECTION_STATE_", snapshot.projection_state),
            snapshot.projection_revision,
            snapshot.sequence,
            (error.code, error.retry_mode) if snapshot.HasField("error") else None,
        )
    failure = snapshot.error
    return Seen(
        snapshot.status.word,
        snapshot.effect.name.lower(),
        snapshot.terminal,
        snapshot.projection.name.lower(),
        snapshot.projection_revision,
        snapshot.sequence,
        (failure.code, failure.retry_mode.value) if failure is not None else None,
    )


def seen_json(snapshot: dict[str, Any]) -> Seen:
    """A snapshot of the OpenAPI wire."""
    error = snapshot.get("error")
    assert error is None or error["effectState"] == snapshot["effectState"], snapshot
    return Seen(
        snapshot["status"],
        snapshot["effectState"],
        snapshot["terminal"],
        snapshot["projection"]["state"],
        snapshot["projection"]["revision"],
        int(snapshot["sequence"]),
        None if error is None else (error["code"], error["retryMode"]),
    )


def seen_plain(snapshot: dict[str, Any]) -> Seen:
    """A snapshot as `aiosctl -o json` prints it, which leaves out what is empty."""
    error = snapshot.get("error")
    return Seen(
        snapshot["status"],
        snapshot["effect_state"],
        snapshot.get("terminal", False),
        snapshot["projection_state"],
        int(snapshot.get("projection_revision", 0)),
        int(snapshot.get("sequence", 0)),
        None if error is None else (error["code"], error["retry_mode"]),
    )


def log_of(
    events: Iterable[OperationEvent] | Iterable[operation_pb2.OperationEvent],
) -> list[tuple[int, str, Seen]]:
    """Events as `check_log` takes them."""
    return [(one.sequence, str(one.type), seen(one.snapshot)) for one in events]


def _word(kind: Any, prefix: str, number: int) -> str:
    return str(kind.Name(number)).removeprefix(prefix).lower()
