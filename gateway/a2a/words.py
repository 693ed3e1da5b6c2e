"""The words of this wire for the daemon's enumerations, and every name that we add to it.

Keys that we put into metadata are camelCase and begin with `aios`; that prefix is ours.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from a2a.types import a2a_pb2

from aiosd.a2a_wire import words as shared
from aiosd.api.v1 import task_pb2
from aiosd.spelling import spelled

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOL_VERSION: Final = "1.0"
BASE_PATH: Final = "/a2a"
CARD_PATH: Final = "/.well-known/agent-card.json"

RESUMABLE_STREAMS: Final = "urn:aios:ext:resumable-streams:1.0"
MESSAGE_DEDUPE: Final = "urn:aios:ext:message-dedupe:1.0"
PAUSE_RESUME: Final = "urn:aios:ext:pause-resume:1.0"
EXTENSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        RESUMABLE_STREAMS: "Stream items carry metadata aiosSequence; SubscribeToTask goes on "
        "after the number in the service parameter AIOS-After.",
        MESSAGE_DEDUPE: "A message sent again with the same messageId is answered with the task "
        "that the first one made.",
        PAUSE_RESUME: "The methods PauseTask and ResumeTask (JSON-RPC), and POST "
        "/tasks/{id}:pause and /tasks/{id}:resume (REST), with params {id, reason?}.",
    }
)
"""The extensions that the card declares; each is off unless a request activates it."""

VERSION_PARAMETER: Final = "a2a-version"
EXTENSIONS_PARAMETER: Final = "a2a-extensions"
AFTER_PARAMETER: Final = "aios-after"
IDEMPOTENCY_PARAMETER: Final = "idempotency-key"

CAPABILITY_KEYS: Final = ("capabilityId", "capability_id")
"""Metadata keys of a message or a request that name the capability, when the tenant does not."""

SEQUENCE: Final = "aiosSequence"

_State = task_pb2.TaskState
_A2aState = a2a_pb2.TaskState

STATE: Final[Mapping[int, a2a_pb2.TaskState]] = MappingProxyType(
    {
        native: cast("a2a_pb2.TaskState", _A2aState.Value(name))
        for native, name in shared.STATE.items()
    }
)
TERMINAL: Final = frozenset(
    {
        _State.TASK_STATE_COMPLETED,
        _State.TASK_STATE_FAILED,
        _State.TASK_STATE_CANCELED,
        _State.TASK_STATE_REJECTED,
    }
)
INTERRUPTED: Final = frozenset({_State.TASK_STATE_INPUT_REQUIRED, _State.TASK_STATE_AUTH_REQUIRED})
ROLE_NAMES: Final = frozenset(value.name for value in a2a_pb2.Role.DESCRIPTOR.values)
_STATE_WORDS: Final = frozenset(
    value.name.removeprefix("TASK_STATE_").lower() for value in _A2aState.DESCRIPTOR.values
)


def state(value: int) -> a2a_pb2.TaskState:
    """The state that this wire shows. Raises KeyError rather than show UNSPECIFIED (R179)."""
    return STATE[value]


def states(value: int) -> list[task_pb2.TaskState.ValueType]:
    """The daemon's states that one state of a filter selects."""
    return [native for native, shown in STATE.items() if shown == value]  # type: ignore[misc]


def state_name(word: str) -> str | None:
    """`TASK_STATE_INPUT_REQUIRED` for any spelling of it (R155, Y09); None for no state at all."""
    plain = word.lower().replace("-", "_").removeprefix("task_state_")
    known = spelled(plain, _STATE_WORDS)
    return None if known is None else f"TASK_STATE_{known.upper()}"
