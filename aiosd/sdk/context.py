"""What a capability can say and ask while it runs."""

from __future__ import annotations

import itertools
import uuid
from typing import TYPE_CHECKING, Any, TypeAlias

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.api.v1 import content_pb2, event_pb2, interruption_pb2, task_pb2
from aiosd.sdk import json_text, schema
from aiosd.sdk.artifact_writer import ArtifactWriter
from aiosd.sdk.requests import encode_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from aiosd.sdk.attempt import Attempt
    from aiosd.sdk.parts import PartLike

OptionLike: TypeAlias = "str | dict[str, Any] | interruption_pb2.InputOption"
"""An answer on offer: its id, or {"id": ..., "label": ..., "value": any JSON value}."""

MAX_CHECKPOINT_BYTES = 64 * 1024
"""Most bytes of a stored checkpoint's JSON text."""


class TaskContext:
    """One attempt of a task, for the capability that executes it.

    A cancel arrives as asyncio.CancelledError at whatever the capability awaits. Methods that wait
    for the daemon to store what they say raise ReportRefused if it does not.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        offer = attempt.offer
        self.task: task_pb2.Task = offer.task
        """The task as it was offered, artifacts and history left out."""
        self.task_id = offer.task.task_id
        self.attempt: int = offer.attempt
        """Which attempt this is, from 1."""
        self.arguments: dict[str, Any] = json_text.load(offer.task.arguments) or {}
        self.metadata: dict[str, Any] = json_text.load(offer.task.metadata) or {}
        self.request_message = offer.task.message if offer.task.HasField("message") else None
        """The message that asked for the task; None when arguments say it all."""
        self.trace_parent = offer.task.trace_parent
        self.checkpoint_state: Any = json_text.load(offer.checkpoint)
        """What an earlier attempt stored last; None: nothing."""
        self.completes_by_message = False
        self.answers_directly = False
        self._past_answers = list(offer.answers)
        self._counters: dict[str, itertools.count[int]] = {}

    # --- saying -----------------------------------------------------------------------------

    async def progress(
        self,
        percent: float,
        message: str = "",
        current_step: int | None = None,
        total_steps: int | None = None,
    ) -> None:
        """Say how far it is: 0..100, one line for a person, counted steps if there are any.

        Does not wait for the daemon. Raises ValueError for a percentage out of bounds.
        """
        if not 0 <= percent <= 100:
            raise ValueError("percent: must be 0 to 100")
        report = task_pb2.Progress(
            percent=percent, message=message, current_step=current_step, total_steps=total_steps
        )
        await self._attempt.tell(wire.Report(progress=report))

    async def log(self, message: str, level: str = "info") -> None:
        """A line, at most 16 KiB, at level debug, info, warn, error or fatal; does not wait."""
        value = _enum(event_pb2.LogLevel, "LOG_LEVEL", level, "level")
        await self._attempt.tell(wire.Report(log=event_pb2.Logged(level=value, message=message)))

    async def message(
        self,
        content: PartLike | Sequence[PartLike] = (),
        status: str = "completed",
        stop_reason: str = "end_turn",
        message_id: str | None = None,
        in_reply_to: str = "",
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Write a message envelope, or go on with a streaming one of the same `message_id`.

        `status`: streaming, completed, failed, refused or cancelled. Returns the message id.
        """
        message_id = message_id or f"msg-{self.attempt}-{self._count('msg')}"
        envelope = content_pb2.Message(
            message_id=message_id,
            role=content_pb2.ROLE_AGENT,
            parts=encode_parts(content, "content"),
            status=_enum(content_pb2.MessageStatus, "MESSAGE_STATUS", status, "status"),
            stop_reason="" if status == "streaming" else stop_reason,
            in_reply_to=in_reply_to,
            metadata=json_text.dump_object(metadata, "metadata") if metadata else "",
        )
        await self._attempt.deliver(wire.Report(message=envelope))
        return message_id

    async def direct_message(self, text: str) -> None:
        """Answer with a message instead of a task's result (A2A); then return."""
        await self.message(text)
        self.answers_directly = True

    def complete_by_message(self) -> None:
        """Leave the outcome to the last agent message instead of to what is returned."""
        self.completes_by_message = True

    async def save(self, state: Any) -> None:
        """Store a JSON value, at most 64 KiB, for a later attempt's `checkpoint_state`."""
        text = json_text.dump(state, "state")
        if len(text.encode()) > MAX_CHECKPOINT_BYTES:
            raise ValueError(f"state: at most {MAX_CHECKPOINT_BYTES} bytes")
        await self._attempt.deliver(wire.Report(checkpoint=wire.Checkpoint(state=text)))

    # --- artifacts --------------------------------------------------------------------------

    async def artifact(
        self,
        name: str,
        *parts: PartLike,
        type: str = "",
        mime_type: str = "",
        artifact_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        description: str = "",
    ) -> str:
        """Store a whole artifact, in as many chunks as it takes. Returns its id."""
        writer = self.open_artifact(
            name,
            type=type,
            mime_type=mime_type,
            artifact_id=artifact_id,
            metadata=metadata,
            description=description,
        )
        await writer.write_all(parts)
        return writer.artifact_id

    def open_artifact(
        self,
        name: str,
        *,
        type: str = "",
        mime_type: str = "",
        artifact_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        description: str = "",
    ) -> ArtifactWriter:
        """Write an artifact as it grows: `async with task.open_artifact(...) as artifact: ...`

        `artifact_id` None: made from the task, the name and the order of artifacts, so that a
        later attempt replaces what an earlier one left behind.
        """
        if artifact_id is None:
            made = uuid.uuid5(uuid.NAMESPACE_OID, f"{self.task_id}/{self._count('art')}/{name}")
            artifact_id = f"art-{made.hex}"
        first = wire.ArtifactChunk(
            artifact_id=artifact_id,
            name=name,
            type=type,
            mime_type=mime_type,
            description=description,
            metadata=json_text.dump_object(metadata, "metadata") if metadata else "",
        )
        return ArtifactWriter(self._attempt, first)

    async def chunk(
        self,
        *,
        artifact_id: str,
        append: bool,
        last: bool,
        parts: Iterable[PartLike] = (),
        position: int | None = None,
        name: str = "",
        type: str = "",
        mime_type: str = "",
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Send one chunk of an artifact exactly as given."""
        chunk = wire.ArtifactChunk(
            artifact_id=artifact_id,
            name=name,
            type=type,
            mime_type=mime_type,
            metadata=json_text.dump_object(metadata, "metadata") if metadata else "",
            parts=encode_parts(tuple(parts), "parts"),
            append=append,
            last_chunk=last,
            position=position,
        )
        await self._attempt.deliver(wire.Report(artifact_chunk=chunk))

    # --- asking -----------------------------------------------------------------------------

    async def ask(
        self,
        prompt: str,
        options: Iterable[OptionLike] | None = None,
        schema: dict[str, Any] | Any = None,
        timeout_ms: int | None = None,
        action: str | None = None,
    ) -> dict[str, Any]:
        """Ask whoever controls the task and wait for the answer, a JSON object.

        `schema`: JSON Schema, or a type that has one. `timeout_ms` None: the daemon's setting.
        `action` names the question inside the task; None: `ask-1`, `ask-2`, ... in order. A
        question that an earlier attempt asked with the same action and prompt and that was
        answered is not asked again.
        """
        action = action or f"ask-{self._count('ask')}"
        for past in self._past_answers:
            if past.action == action and past.prompt == prompt:
                self._past_answers.remove(past)
                return _object(past.input)
        request = wire.RequestInput(
            action=action,
            prompt=prompt,
            options=[_option(one) for one in options or ()],
            schema=_schema_text(schema),
        )
        if timeout_ms is not None:
            request.timeout.FromMilliseconds(timeout_ms)
        return _object(await self._interrupt(action, wire.Report(request_input=request)))

    async def authorize(
        self,
        type: str,
        provider: str = "",
        authorization_url: str = "",
        scopes: Iterable[str] = (),
        reason: str = "",
        timeout_ms: int | None = None,
        action: str | None = None,
    ) -> interruption_pb2.AuthResponse:
        """Ask for a credential (oauth2, api_key, password, certificate) and wait for it.

        It is handed over once: keep it in memory, never store or log it. `action` None: `auth-1`,
        `auth-2`, ... in order.
        """
        action = action or f"auth-{self._count('auth')}"
        request = wire.RequestAuth(
            action=action,
            auth_request=interruption_pb2.AuthRequest(
                type=_enum(interruption_pb2.AuthType, "AUTH_TYPE", type, "type"),
                provider=provider,
                authorization_url=authorization_url,
                scopes=list(scopes),
                reason=reason,
            ),
        )
        if timeout_ms is not None:
            request.timeout.FromMilliseconds(timeout_ms)
        grant: interruption_pb2.AuthResponse = await self._interrupt(
            action, wire.Report(request_auth=request)
        )
        return grant

    async def _interrupt(self, action: str, request: wire.Report) -> Any:
        await self.checkpoint()
        with self._attempt.expect(action) as answer:
            await self._attempt.deliver(request)
            value = await answer
        await self.checkpoint()
        return value

    # --- standing still ---------------------------------------------------------------------

    async def checkpoint(self) -> None:
        """A point where the task can stand still: returns at once, or when it is resumed."""
        await self._attempt.checkpoint()

    async def sleep(self, duration_ms: float) -> None:
        """Wait, standing still meanwhile if the task is paused; paused time does not count."""
        await self._attempt.sleep(duration_ms / 1000)

    def on_pause(self, callback: Callable[[], Any]) -> None:
        """For an executor that stops something else: called (and awaited) at a pause.

        Paused is reported when all callbacks have returned, wherever the capability stands.
        """
        self._attempt.pause_callbacks.append(callback)

    def on_resume(self, callback: Callable[[], Any]) -> None:
        """Called (and awaited) when the task goes on, before Resumed is reported."""
        self._attempt.resume_callbacks.append(callback)

    def _count(self, kind: str) -> int:
        return next(self._counters.setdefault(kind, itertools.count(1)))


def _object(text: str) -> dict[str, Any]:
    value = json_text.load(text)
    return value if isinstance(value, dict) else {}


def _option(option: OptionLike) -> interruption_pb2.InputOption:
    match option:
        case str():
            return interruption_pb2.InputOption(id=option)
        case dict():
            value = json_text.dump(option["value"], "options") if "value" in option else ""
            label = option.get("label", "")
            return interruption_pb2.InputOption(id=option["id"], label=label, value=value)
        case _:
            return option


def _schema_text(value: Any) -> str:
    if value is None:
        return ""
    described = value if isinstance(value, dict) else schema.json_schema(value)
    return json_text.dump_object(described, "schema")


def _enum(enum: Any, prefix: str, word: str, field: str) -> Any:
    try:
        return enum.Value(f"{prefix}_{word.upper()}")
    except ValueError:
        raise ValueError(f"{field}: {word!r} is unknown") from None
