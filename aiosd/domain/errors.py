"""What the domain refuses. A refusal changes nothing.

    Refusal
    ├── TaskStateInvalid      the table has no such edge from here
    ├── NotPausable           the capability cannot stop at a checkpoint
    ├── InputRejected         an answer does not fit the question
    ├── AuthRejected          a credential does not fit the request
    ├── CredentialRefused     a credential came where only data may come
    ├── InterruptionMismatch  the answer names another interruption
    ├── ReportRefused         a provider's report breaks the rules
    ├── ArgumentInvalid       a value is out of bounds; names its field
    ├── NotResolvable         only uncertain failures can be resolved
    └── (application/errors.py adds those that need the store)

Each has a stable upper-case `reason`; adapters map the type, never the text.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from aiosd.domain.state import allowed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiosd.domain.state import TaskState

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Refusal(Exception):
    """A request that is refused with no effect.

    `metadata` is machine-readable and safe to show; `str(refusal)` is one sentence.
    """

    reason: ClassVar[str] = "REFUSED"

    def __init__(self, message: str, metadata: Mapping[str, str] = _NOTHING) -> None:
        super().__init__(message)
        self.metadata = metadata


class TaskStateInvalid(Refusal):
    """The task's state does not allow this (R035, R048)."""

    reason = "TASK_STATE_INVALID"

    def __init__(self, state: TaskState, attempted: str, because: str = "") -> None:
        super().__init__(
            f"cannot {attempted} a task that is {state.word}" + (f": {because}" if because else ""),
            {
                "state": state.word,
                "attempted": attempted,
                "allowed": ",".join(following.word for following in allowed(state)),
            },
        )
        self.state = state
        self.attempted = attempted


class NotPausable(Refusal):
    """The capability does not declare itself pausable (X09)."""

    reason = "NOT_PAUSABLE"


class InputRejected(Refusal):
    """The input fails the offered options or the schema (R031)."""

    reason = "INPUT_REJECTED"


class AuthRejected(Refusal):
    """The credential is of another type, incomplete, or its state does not match (R110)."""

    reason = "AUTH_REJECTED"


class CredentialRefused(Refusal):
    """A credential was sent as input or message (R182); it is not kept."""

    reason = "CREDENTIAL_REFUSED"


class InterruptionMismatch(Refusal):
    """The answer names an interruption that is not the open one."""

    reason = "INTERRUPTION_MISMATCH"


class ArgumentInvalid(Refusal):
    """A value is out of bounds. `metadata["field"]` names it."""

    reason = "ARGUMENT_INVALID"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}", {"field": field, "problem": problem})
        self.field = field
        self.problem = problem


class NotResolvable(Refusal):
    """Only a failed task whose outcome is uncertain can be resolved, and only once."""

    reason = "NOT_RESOLVABLE"


class ReportRefused(Refusal):
    """A provider's report breaks the rules; `code` is one of provider.v1 Refused.reason."""

    reason = "REPORT_REFUSED"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message, {"code": code})
        self.code = code
