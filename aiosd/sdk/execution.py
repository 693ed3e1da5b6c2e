"""The life of one attempt: screened, accepted, run, and ended with exactly one report."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.api.v1 import capability_pb2, failure_pb2
from aiosd.sdk import json_text, schema, tracing
from aiosd.sdk.context import TaskContext
from aiosd.sdk.errors import ReportRefused, TaskFailed, TaskRejected

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiosd.sdk.attempt import Attempt
    from aiosd.sdk.outbox import Outbox

    Run: TypeAlias = Callable[[TaskContext, Any], Awaitable[Any]]
    Screen: TypeAlias = Callable[["Offer"], Awaitable[None]]

log = logging.getLogger("aiosd.sdk")

MAX_RESULT_BYTES = 1024 * 1024
"""Most bytes of a result's JSON text: a task, its arguments included, must fit one message."""

_TOO_LARGE = "the result is too large; make it an artifact"


@dataclass(frozen=True, slots=True)
class Offer:
    """What a screen may look at before the attempt is accepted."""

    task_id: str
    attempt: int
    arguments: Any
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CapabilityCode:
    """A capability as it is declared, and the code behind it.

    `arguments` is the type that the code takes; None: the JSON object as it is.
    """

    declaration: capability_pb2.Capability
    run: Run
    screen: Screen | None = None
    arguments: Any = None


async def live(attempt: Attempt, code: CapabilityCode, outbox: Outbox, stream: int) -> None:
    """See one offered attempt through to its end."""
    try:
        arguments = await _screen(attempt, code)
    except TaskRejected as rejection:
        outbox.say(reject(attempt.key, busy=False, reason=rejection.reason))
        return
    if attempt.begin.done() or not outbox.accept(attempt.key, stream):
        return
    ending: wire.Report | None
    try:
        # Nothing runs before Go, and nothing at all when its end came together with it.
        if await attempt.begin and not attempt.cancel_reason and not attempt.lost:
            outbox.start(attempt.key)
            ending = await _execute(attempt, code, arguments)
        else:
            ending = wire.Report(canceled=wire.Canceled()) if attempt.cancel_reason else None
        if ending is not None and not attempt.lost:
            await _conclude(attempt, ending)
    finally:
        if not attempt.lost:  # else it is dropped, and may be held again under the same number
            outbox.drop(attempt.key)


def reject(key: tuple[str, int], *, busy: bool, reason: str) -> wire.ProviderMessage:
    """The message that declines an offer."""
    declined = wire.Reject(task_id=key[0], attempt=key[1], busy=busy, reason=reason)
    return wire.ProviderMessage(reject=declined)


async def _screen(attempt: Attempt, code: CapabilityCode) -> Any:
    """The arguments as the code takes them. Raises TaskRejected to decline the offer."""
    task = attempt.offer.task
    arguments: Any = json_text.load(task.arguments) or {}
    try:
        if code.arguments is not None:
            arguments = schema.read(code.arguments, arguments)
    except ValueError as problem:
        raise TaskRejected(str(problem)) from None
    if code.screen is not None:
        metadata = json_text.load(task.metadata) or {}
        try:
            await code.screen(Offer(*attempt.key, arguments, metadata))
        except TaskRejected:
            raise
        except Exception as error:
            # Nothing was executed, and an offer that is declined as busy would come back for ever.
            log.exception("capability.screen_failed task_id=%s attempt=%s", *attempt.key)
            raise TaskRejected(f"the screen raised {type(error).__name__}") from None
    return arguments


async def _execute(attempt: Attempt, code: CapabilityCode, arguments: Any) -> wire.Report:
    """Run the capability to its end; the report that is then due."""
    context = TaskContext(attempt)
    attempt.work = asyncio.create_task(
        _traced(attempt, code, context, arguments), name=f"{attempt.key[0]}/{attempt.key[1]}"
    )
    await asyncio.wait({attempt.work})
    try:
        return _ending(attempt, context, attempt.work)
    except (TypeError, ValueError) as problem:
        # However wrong its words are, the attempt ends, and the daemon must hear of it.
        log.error("capability.end_unusable task_id=%s problem=%s", attempt.key[0], problem)
        text = "the capability ended with what cannot be reported"
        return wire.Report(failed=_failure(text, type(problem).__name__))


def _ending(attempt: Attempt, context: TaskContext, work: asyncio.Task[Any]) -> wire.Report:
    """The terminal report. Raises TypeError and ValueError for what no report can carry."""
    if work.cancelled():
        if attempt.cancel_reason:
            return wire.Report(canceled=wire.Canceled())
        return wire.Report(failed=_failure("the capability canceled itself", "CancelledError"))
    error = work.exception()
    if error is None:
        return _completed(attempt, context, work.result())
    if attempt.cancel_reason and not isinstance(error, TaskFailed | TaskRejected):
        log.warning("capability.failed_in_cancel task_id=%s", attempt.key[0], exc_info=error)
        return wire.Report(canceled=wire.Canceled())
    ending = _failed(attempt, error)
    if ending.ByteSize() > MAX_RESULT_BYTES:
        raise ValueError("too large")
    return ending


async def _traced(
    attempt: Attempt, code: CapabilityCode, context: TaskContext, arguments: Any
) -> Any:
    task = attempt.offer.task
    with tracing.attempt_span(
        task.capability_id, task.task_id, attempt.offer.attempt, task.trace_parent
    ):
        return await code.run(context, arguments)


def _completed(attempt: Attempt, context: TaskContext, result: Any) -> wire.Report:
    if result is None and attempt.cancel_reason and not attempt.ignores_cancel:
        # It caught CancelledError to clean up and returned: stopped, not finished.
        return wire.Report(canceled=wire.Canceled())
    try:
        text = json_text.dump(result, "result")
    except ValueError as problem:
        log.error("capability.result_unusable task_id=%s problem=%s", attempt.key[0], problem)
        return wire.Report(failed=_failure("the result is not a JSON value", "ValueError"))
    if len(text.encode()) > MAX_RESULT_BYTES:
        log.error("capability.result_unusable task_id=%s problem=too large", attempt.key[0])
        return wire.Report(failed=_failure(_TOO_LARGE, "ValueError"))
    return wire.Report(
        completed=wire.Completed(
            result=text,
            direct_message=context.answers_directly,
            by_message=context.completes_by_message,
        )
    )


def _failed(attempt: Attempt, error: BaseException) -> wire.Report:
    match error:
        case TaskRejected(reason=reason):
            return wire.Report(rejected=wire.Rejected(reason=reason))
        case TaskFailed():
            failure = failure_pb2.Failure(
                code=error.code,
                message=error.message,
                data=json_text.dump_object(error.data, "data") if error.data else "",
                reason=error.reason,
                failure_class=failure_pb2.FAILURE_CLASS_TASK_FAILED,
                retryable=error.retryable,
            )
            return wire.Report(failed=failure)
        case ReportRefused(reason=reason):
            text = f"the daemon refused a report: {reason}"
        case _:
            # The text of an exception may hold anything, secrets too: it stays in our own log.
            text = f"the capability raised {type(error).__name__}"
    log.error("capability.failed task_id=%s attempt=%s", *attempt.key, exc_info=error)
    return wire.Report(failed=_failure(text, type(error).__name__))


def _failure(message: str, exception: str) -> failure_pb2.Failure:
    return failure_pb2.Failure(
        code=-32603,
        message=message,
        data=json_text.dump({"exception": exception}, "data"),
        reason="error",
        failure_class=failure_pb2.FAILURE_CLASS_TASK_FAILED,
    )


async def _conclude(attempt: Attempt, ending: wire.Report) -> None:
    """Send the terminal report and wait until the daemon has it."""
    try:
        await attempt.deliver(ending)
    except ReportRefused as refusal:
        # The daemon has ended the attempt its own way: late, fenced, or an unsealed artifact.
        log.warning(
            "report.refused task_id=%s attempt=%s reason=%s: %s",
            *attempt.key,
            refusal.reason,
            refusal.message,
        )
