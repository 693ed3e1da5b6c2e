"""The lab's scripts: a list of steps, carried out one after the other by an attempt."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from aiosd.capabilities import lab_parts
from aiosd.sdk import ReportRefused, TaskFailed, TaskRejected, testing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from aiosd.sdk import TaskContext

Step: TypeAlias = dict[str, Any]

# For steps that only end when the task is cancelled.
LONG_MS = 7 * 24 * 3600 * 1000
FLUSH_S = 2.0
STOP_REASONS = {
    "streaming": "",
    "completed": "end_turn",
    "failed": "error",
    "refused": "refused",
    "cancelled": "user_stop",
}
# What a script says by default at its end says the same and more.
PLAIN_REPLY = ("completed", "end_turn")
# Replies that are not final: the outcome cannot be left to them.
OPEN_REPLIES = frozenset({("streaming", ""), ("completed", "tool_use")})


def steps_of(arguments: dict[str, Any], attempt: int) -> list[Step]:
    """The steps of an attempt, `by_attempt` resolved; none if the script is absent."""
    return list(_resolved(arguments.get("steps") or [], attempt))


def _resolved(steps: Iterable[Step], attempt: int) -> Iterable[Step]:
    for step in steps:
        if "by_attempt" in step:
            choices = step["by_attempt"]
            yield from _resolved(choices[min(attempt, len(choices)) - 1], attempt)
        else:
            yield step


@dataclass(frozen=True, slots=True)
class Ending:
    """The script has an end of its own: the attempt completes with this result."""

    result: Any


class Script:
    """One attempt's run through its steps. `freeze` silences the provider for milliseconds."""

    def __init__(self, task: TaskContext, steps: list[Step], freeze: Callable[[int], None]) -> None:
        self._task = task
        self._steps = steps
        self._silence = freeze
        self._inputs: list[Any] = []
        self._reply = PLAIN_REPLY
        self._streaming_id: str | None = None

    async def run(self) -> Any:
        """Carry out the script and give the result of the attempt.

        With a `late_complete_ms` anywhere in it, a cancel makes the attempt report completion
        that much later instead of stopping.
        """
        delays = [step["late_complete_ms"] for step in self._steps if "late_complete_ms" in step]
        if not delays:
            return await self._play()
        testing.ignore_cancel(self._task)
        playing = asyncio.ensure_future(self._play())
        told = asyncio.ensure_future(testing.cancel_arrived(self._task))
        try:
            await asyncio.wait({playing, told}, return_when=asyncio.FIRST_COMPLETED)
            if playing.done():
                return playing.result()
            await self._stop(playing)
            await asyncio.sleep(delays[0] / 1000)
            return self._default_result()
        finally:
            await self._stop(playing, told)

    async def _stop(self, *running: asyncio.Future[Any]) -> None:
        for future in running:
            future.cancel()
        await asyncio.wait(running)

    async def _play(self) -> Any:
        for step in self._steps:
            await self._task.checkpoint()
            ((kind, content),) = step.items()
            ending = await self._acts[kind](self, content)
            if isinstance(ending, Ending):
                return ending.result
        if self._reply != PLAIN_REPLY and self._reply not in OPEN_REPLIES:
            self._task.complete_by_message()
        return self._default_result()

    def _default_result(self) -> dict[str, Any]:
        return {"inputs": self._inputs, "attempt": self._task.attempt}

    # --- what the task says -------------------------------------------------------------------

    async def _sleep(self, duration_ms: int) -> None:
        await self._task.sleep(duration_ms)

    async def _progress(self, report: dict[str, Any]) -> None:
        await self._task.progress(**report)

    async def _log(self, entry: dict[str, Any]) -> None:
        await self._task.log(entry["message"], level=entry.get("level", "info"))

    async def _artifact(self, artifact: dict[str, Any]) -> None:
        options = {key: artifact[key] for key in artifact if key not in ("name", "parts")}
        parts = [lab_parts.parse(part) for part in artifact["parts"]]
        await self._task.artifact(artifact["name"], *parts, **options)

    async def _chunk(self, chunk: dict[str, Any]) -> None:
        options = {key: chunk[key] for key in chunk if key not in ("append", "last", "parts")}
        try:
            await self._task.chunk(
                append=chunk.get("append", False),
                last=chunk.get("last", False),
                parts=[lab_parts.parse(part) for part in chunk.get("parts", [])],
                **options,
            )
        except ReportRefused as refusal:
            raise TaskFailed(
                f"the chunk was refused: {refusal.message or refusal.reason}",
                reason="protocol_error",
                data={"refused": refusal.reason, "artifact_id": chunk["artifact_id"]},
            ) from None

    async def _message(self, message: dict[str, Any]) -> None:
        status = message.get("status", "completed")
        stop_reason = message.get("stop_reason", STOP_REASONS[status])
        message_id = await self._task.message(
            message["text"],
            status=status,
            stop_reason=stop_reason,
            message_id=message.get("message_id", self._streaming_id),
        )
        # The next message step goes on with a reply that is still being written.
        self._streaming_id = message_id if status == "streaming" else None
        self._reply = (status, stop_reason)

    async def _direct_message(self, message: dict[str, Any]) -> Ending:
        await self._task.direct_message(message["text"])
        return Ending(None)

    # --- what the task asks -------------------------------------------------------------------

    async def _ask(self, question: dict[str, Any]) -> None:
        self._inputs.append(await self._task.ask(**question))

    async def _auth(self, need: dict[str, Any]) -> None:
        # What was granted is dropped at once: a script has no use for a secret.
        await self._task.authorize(**need)

    # --- how the attempt ends -----------------------------------------------------------------

    async def _fail(self, failure: dict[str, Any]) -> None:
        raise TaskFailed(**{"message": "the script says so", **failure})

    async def _reject(self, rejection: dict[str, Any]) -> None:
        raise TaskRejected(rejection["reason"])

    async def _complete(self, completion: dict[str, Any]) -> Ending:
        return Ending(completion.get("result"))

    async def _complete_twice(self, completion: dict[str, Any]) -> Ending:
        await testing.complete_raw(self._task, completion.get("result"))
        return Ending(completion.get("result"))

    async def _late_complete(self, delay_ms: int) -> None:
        await self._task.sleep(LONG_MS)

    # --- effects and faults -------------------------------------------------------------------

    async def _touch(self, path: str) -> None:
        try:
            append_line(path, f"{self._task.task_id} {self._task.attempt}\n")
        except OSError as problem:
            raise TaskFailed(f"touch: {path}: {problem.strerror}", reason="touch_failed") from None

    async def _crash(self, wanted: bool) -> None:
        if wanted:
            await self._flush()
            os.kill(os.getpid(), signal.SIGKILL)

    async def _freeze(self, duration_ms: int) -> None:
        await self._flush()
        self._silence(duration_ms)
        await asyncio.sleep(duration_ms / 1000)

    async def _ignore_cancel(self, wanted: bool) -> None:
        if wanted:
            testing.ignore_cancel(self._task)

    async def _flush(self) -> None:
        """Wait, but not for ever, until the daemon has stored what was said so far."""
        with contextlib.suppress(TimeoutError, ReportRefused):
            async with asyncio.timeout(FLUSH_S):
                await self._task.save(self._task.checkpoint_state)

    _acts: ClassVar[dict[str, Callable[..., Awaitable[Ending | None]]]] = {
        "sleep_ms": _sleep,
        "progress": _progress,
        "log": _log,
        "artifact": _artifact,
        "chunk": _chunk,
        "ask": _ask,
        "auth": _auth,
        "message": _message,
        "direct_message": _direct_message,
        "fail": _fail,
        "reject": _reject,
        "complete": _complete,
        "complete_twice": _complete_twice,
        "late_complete_ms": _late_complete,
        "touch": _touch,
        "crash": _crash,
        "freeze_ms": _freeze,
        "ignore_cancel": _ignore_cancel,
    }


def append_line(path: str, line: str) -> None:
    """Append a line to a file that survives a crash of this process and of the machine."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, line.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
