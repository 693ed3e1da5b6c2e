"""The Attach stream: opened, kept alive and opened again, on a thread of its own.

The lease of a provider is renewed by heartbeats. If they came from the event loop that runs the
capabilities, one busy capability would have all its neighbours declared dead; so the whole link
lives on its own loop, and only what the daemon said is handed to the user's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import grpc
from grpc import aio

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.api.provider.v1.provider_service_pb2_grpc import ProviderServiceStub
from aiosd.sdk import rpc_status
from aiosd.sdk.connection import Endpoint, jittered

if TYPE_CHECKING:
    from aiosd.sdk.errors import AiosdError
    from aiosd.sdk.outbox import Outbox

log = logging.getLogger("aiosd.sdk")

AttachCall: TypeAlias = aio.StreamStreamCall[wire.AttachRequest, wire.AttachResponse]

WELCOME_TIMEOUT_S = 10.0
"""How long the daemon may take to answer Hello."""

DETACH_TIMEOUT_S = 2.0
"""How long an end in order may take."""

_FATAL = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.NOT_FOUND,
    }
)


@dataclass(frozen=True, slots=True)
class Heard:
    """What the daemon said on stream number `stream`, in order."""

    stream: int
    messages: Sequence[wire.DaemonMessage]


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The daemon does not know the session any more: nothing that was held is ours."""


@dataclass(frozen=True, slots=True)
class LinkEnded:
    """The link will not come back. `error` is None after an end that was asked for."""

    error: BaseException | None = None


Incoming: TypeAlias = Heard | SessionLost | LinkEnded
Deliver: TypeAlias = Callable[[Incoming], None]


class Link:
    """Keeps a provider attached until `stop`. `deliver` is called on the link's own thread."""

    def __init__(
        self,
        endpoint: Endpoint,
        outbox: Outbox,
        introduce: Callable[[], wire.Hello],
        deliver: Deliver,
    ) -> None:
        self._endpoint = endpoint
        self._outbox = outbox
        self._introduce = introduce
        self._deliver = deliver
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._wakeup = asyncio.Event()
        self._stop = asyncio.Event()
        self._detach_reason: str | None = None
        self._conversing = False
        self._attached = False
        self._unanswered_since: float | None = None
        self._frozen_until = 0.0
        self._thread = threading.Thread(target=self._main, name="aiosd-link", daemon=True)

    def start(self) -> None:
        """Begin to attach."""
        self._outbox.wake = lambda: self._call_soon(self._wakeup.set)
        self._thread.start()

    def stop(self, reason: str) -> None:
        """Send what is waiting, then Detach, and end; LinkEnded is delivered when it is done."""
        self._detach_reason = reason
        self._call_soon(self._begin_stop)

    def freeze(self, duration_ms: int) -> None:
        """Testing seam: send nothing, heartbeats included, for this long."""
        self._frozen_until = time.monotonic() + duration_ms / 1000

    def _call_soon(self, callback: Callable[[], object]) -> None:
        # The loop may have ended in between; then there is nobody left to call.
        with contextlib.suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(callback)

    def _begin_stop(self) -> None:
        self._stop.set()
        self._wakeup.set()
        if self._task is not None:
            limit = 2 * DETACH_TIMEOUT_S if self._conversing else 0
            asyncio.get_running_loop().call_later(limit, self._task.cancel)

    def _main(self) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._keep_attached())
        except asyncio.CancelledError:
            pass  # an end that took too long
        except BaseException as problem:  # handed over to the loop that waits for it
            error = problem
        with contextlib.suppress(RuntimeError):  # the user's loop may be gone
            self._deliver(LinkEnded(error))

    async def _keep_attached(self) -> None:
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        if self._detach_reason is not None:  # before there was a loop to tell
            return
        failures = 0
        while not self._stop.is_set():
            await self._thaw()
            self._attached = False
            try:
                await self._attach()
                problem = "the daemon ended the stream"
            except aio.AioRpcError as error:
                problem = self._judge(rpc_status.from_rpc(error))
            except TimeoutError:
                problem = "the daemon does not answer"
            finally:
                self._outbox.end_stream()
            if self._stop.is_set():
                return
            failures = 0 if self._attached else failures + 1
            if failures < 2:
                log.warning("provider.detached problem=%s", problem)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), jittered(failures))

    def _judge(self, error: AiosdError) -> str:
        """Why to attach again, as text. Raises the error if there is no point in it."""
        if error.reason == "SESSION_LOST":
            self._outbox.renew_session()
            self._deliver(SessionLost())
        elif error.code in _FATAL:
            raise error
        return str(error)

    async def _attach(self) -> None:
        """One stream, from Hello to its end."""
        async with self._endpoint.open() as channel:
            hello = self._introduce()
            stream = self._outbox.begin_stream(hello)
            call = ProviderServiceStub(channel).Attach(metadata=self._endpoint.metadata())
            try:
                responses = aiter(call)
                async with asyncio.timeout(WELCOME_TIMEOUT_S):
                    await call.write(_request([wire.ProviderMessage(hello=hello)]))
                    first = await anext(responses, None)
                if first is None or not first.messages[0].HasField("welcome"):
                    return
                welcome = first.messages[0].welcome
                self._outbox.settle(welcome)
                self._attached = self._conversing = True
                self._unanswered_since = None
                self._deliver(Heard(stream, first.messages))
                log.info("provider.attached name=%s daemon=%s", hello.name, welcome.version)
                await self._converse(call, responses, stream, welcome)
            finally:
                self._conversing = False
                call.cancel()

    async def _converse(
        self,
        call: AttachCall,
        responses: AsyncIterator[wire.AttachResponse],
        stream: int,
        welcome: wire.Welcome,
    ) -> None:
        """Read and write at the same time until either is over."""
        reader = asyncio.ensure_future(self._read(responses, stream))
        writer = asyncio.ensure_future(self._write(call, welcome))
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            if writer.done() and not isinstance(writer.exception(), TimeoutError):
                # Detach was written, or the stream broke: its status comes to the reader.
                await asyncio.wait({reader}, timeout=DETACH_TIMEOUT_S)
        finally:
            reader.cancel()
            writer.cancel()
            results = await asyncio.gather(reader, writer, return_exceptions=True)
        for result in results:
            if isinstance(result, aio.AioRpcError | TimeoutError):
                raise result

    async def _read(self, responses: AsyncIterator[wire.AttachResponse], stream: int) -> None:
        async for response in responses:
            self._unanswered_since = None
            news = [message for message in response.messages if self._is_news(message)]
            if news:
                self._deliver(Heard(stream, news))

    def _is_news(self, message: wire.DaemonMessage) -> bool:
        """Settle what is the link's own business; False if it is nobody else's."""
        match message.WhichOneof("message"):
            case "ack":
                self._outbox.acknowledge(message.ack)
            case "operation_ack":
                self._outbox.acknowledge_operation(message.operation_ack)
            case "heartbeat_ack":
                return False
            case _:
                pass
        return True

    async def _write(self, call: AttachCall, welcome: wire.Welcome) -> None:
        """Write what is waiting and, in time, a heartbeat; returns when Detach was written.

        Raises TimeoutError when heartbeats went unanswered for a lease.
        """
        lease = welcome.lease.ToMilliseconds() / 1000 or 15.0
        # So early that a heartbeat which is late by a quarter still comes in time.
        interval = (welcome.heartbeat_interval.ToMilliseconds() / 1000 or 5.0) * 0.75
        beat_at, beats = time.monotonic() + interval, 0
        while True:
            messages = self._outbox.take()
            if not messages and self._detach_reason is not None:
                detach = wire.Detach(reason=self._detach_reason)
                await call.write(_request([wire.ProviderMessage(detach=detach)]))
                await call.done_writing()
                return
            now = time.monotonic()
            if now >= beat_at:
                beats += 1
                beat_at = now + interval
                messages.insert(0, wire.ProviderMessage(heartbeat=wire.Heartbeat(number=beats)))
                if self._unanswered_since is None:
                    self._unanswered_since = now
                elif now - self._unanswered_since > lease:
                    raise TimeoutError
            if messages:
                await self._thaw()
                async with asyncio.timeout(lease):
                    await call.write(_request(messages))
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wakeup.wait(), beat_at - now)
            self._wakeup.clear()

    async def _thaw(self) -> None:
        left = self._frozen_until - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)


def _request(messages: list[wire.ProviderMessage]) -> wire.AttachRequest:
    return wire.AttachRequest(messages=messages)
