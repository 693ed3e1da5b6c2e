"""The life of a task: which state may follow which. Everything that needs to know reads this table.

Rule 1: no other module lists edges, terminal states or interrupted states. The wires, the tests
and the diagram in docs/task-lifecycle.md are derived from here.
"""

from __future__ import annotations

from enum import IntEnum


class TaskState(IntEnum):
    """Numbers are those of A2A 1.0, PAUSED added (design.md 3)."""

    SUBMITTED = 1
    WORKING = 2
    COMPLETED = 3
    FAILED = 4
    CANCELED = 5
    INPUT_REQUIRED = 6
    REJECTED = 7
    AUTH_REQUIRED = 8
    PAUSED = 9

    @property
    def word(self) -> str:
        """The lower-case name, as it stands in error metadata and logs."""
        return self.name.lower()


_S = TaskState

#: From -> to -> trigger: the 15 edges of the AIOS document (X01, X03) and the two into REJECTED,
#: which the AIOS wire shows as failed (X43).
TRANSITIONS: dict[TaskState, dict[TaskState, str]] = {
    _S.SUBMITTED: {
        _S.WORKING: "scheduler starts it",
        _S.FAILED: "cannot be dispatched",
        _S.CANCELED: "cancel before start",
        _S.REJECTED: "provider or policy declines it",
    },
    _S.WORKING: {
        _S.COMPLETED: "success",
        _S.FAILED: "execution error",
        _S.PAUSED: "user pauses",
        _S.INPUT_REQUIRED: "task needs input",
        _S.AUTH_REQUIRED: "task needs authorization",
        _S.CANCELED: "user cancels",
        _S.REJECTED: "provider declines after the start",
    },
    _S.PAUSED: {_S.WORKING: "user resumes", _S.CANCELED: "user cancels"},
    _S.INPUT_REQUIRED: {_S.WORKING: "input given", _S.CANCELED: "user cancels"},
    _S.AUTH_REQUIRED: {_S.WORKING: "authorization given", _S.CANCELED: "user cancels"},
    _S.COMPLETED: {},
    _S.FAILED: {},
    _S.CANCELED: {},
    _S.REJECTED: {},
}

#: No way out (R042).
TERMINAL = frozenset(state for state, targets in TRANSITIONS.items() if not targets)

#: Waits for somebody outside; PAUSED is not among them, nobody is asked (wire.md 2.2).
INTERRUPTED = frozenset({_S.INPUT_REQUIRED, _S.AUTH_REQUIRED})


def allowed(state: TaskState) -> tuple[TaskState, ...]:
    """The states that may follow `state`, in table order."""
    return tuple(TRANSITIONS[state])


def diagram() -> str:
    """The life cycle as Mermaid text, printed from the table."""
    lines = ["stateDiagram-v2", f"    [*] --> {TaskState.SUBMITTED.word}"]
    for state, targets in TRANSITIONS.items():
        lines += [f"    {state.word} --> {to.word}: {why}" for to, why in targets.items()]
        if state in TERMINAL:
            lines.append(f"    {state.word} --> [*]")
    return "\n".join(lines) + "\n"
