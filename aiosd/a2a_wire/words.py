"""The words of A2A 1.0 for the enumerations of the contract."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from aiosd.api.v1 import content_pb2, failure_pb2, interruption_pb2, task_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.descriptor import EnumDescriptor

MEDIA_TYPE: Final = "application/a2a+json"
RESULT_ARTIFACT: Final = "aios-result"
"""Id of the artifact that carries a result which no artifact of the provider carries (Z3)."""

_State = task_pb2.TaskState

STATE: Final[Mapping[int, str]] = MappingProxyType(
    {one.number: one.name for one in _State.DESCRIPTOR.values if one.number}
    # Not an interrupted state: those ask the caller to act and end a blocking call (X43).
    | {_State.TASK_STATE_PAUSED: "TASK_STATE_WORKING"}
)
"""The state that is shown for each; UNSPECIFIED is never (R179)."""

WITH_COMPANION: Final = frozenset(
    {
        _State.TASK_STATE_COMPLETED,
        _State.TASK_STATE_FAILED,
        _State.TASK_STATE_REJECTED,
        _State.TASK_STATE_INPUT_REQUIRED,
        _State.TASK_STATE_AUTH_REQUIRED,
    }
)
"""States whose event is followed at once by another that says what goes with it."""


def _table(enum: EnumDescriptor, prefix: str) -> Mapping[int, str]:
    return MappingProxyType(
        {one.number: one.name.removeprefix(prefix).lower() for one in enum.values if one.number}
    )


OUTCOMES: Final = _table(task_pb2.Outcome.DESCRIPTOR, "OUTCOME_")
ADVICE: Final = _table(task_pb2.RetryAdvice.DESCRIPTOR, "RETRY_ADVICE_")
NEEDS: Final = _table(interruption_pb2.NeedKind.DESCRIPTOR, "NEED_KIND_")
AUTH_TYPES: Final = _table(interruption_pb2.AuthType.DESCRIPTOR, "AUTH_TYPE_")
MESSAGE_STATUSES: Final = _table(content_pb2.MessageStatus.DESCRIPTOR, "MESSAGE_STATUS_")
FAILURE_CLASSES: Final = _table(failure_pb2.FailureClass.DESCRIPTOR, "FAILURE_CLASS_")
