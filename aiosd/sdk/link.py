"""The Attach stream: opened, kept alive and opened again, on threads of its own.

The lease of a provider is renewed by heartbeats. If they came from the event loop that runs the
capabilities, one busy capability would have all its neighbours declared dead; so the link uses
gRPC's blocking interface and only hands over what the daemon said. (A second event loop would not
do: all loops of a process share grpc.aio's one completion queue, and one that ends spoils it.)

Two threads work on a stream: gRPC's own, which pulls what is to be sent out of `_outgoing`, and
the link's, which reads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import grpc

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.sdk import rpc_status
from aiosd.sdk.connection import Endpoint, jittered

if TYPE_CHECKING:
    from aiosd.sdk.errors import AiosdError
    from aiosd.sdk.outbox import Outbox

log = logging.getLogger("aiosd.sdk")

WELCOME_TIMEOUT_S = 10.0
"""How long the daemon may take to answer Hello."""

DETACH_TIMEOUT_S = 2.0
"""How long the daemon may take to close the stream after Detach."""

_ATTACH = f"/{wire.DESCRIPTOR.services_by_name['ProviderService'].full_name}/Attach"

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


class _Stream:
    """One Attach call."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.call: grpc.Call | None = None
        self.welcome = wire.Welcome()
        self.welcomed = threading.Event()
        self.unanswered_since: float | None = None
        self.silent = False
        """True once it was given up because the daemon did not answer."""

    def give_up(self) -> None:
        self.silent = True
        self.cancel()

    def cancel(self) -> None:
        if self.call is not None:
            self.call.cancel()


class Link:
    """Keeps a provider attached until `stop`; `introduce` and `deliver` run on its thread."""

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
        self._stop = threading.Event()
        self._stop_reason = ""
        self._stream: _Stream | None = None
        self._frozen_until = 0.0
        self._thread = threading.Thread(target=self._main, name="aiosd-link", daemon=True)

    def start(self) -> None:
        """Begin to attach."""
        self._thread.start()

    def stop(self, reason: str) -> None:
        """Send what is waiting, then Detach, and end; LinkEnded is delivered when it is done."""
        self._stop_reason = reason
        self._stop.set()
        self._outbox.wake()
        stream = self._stream
        if stream is not None and not stream.welcomed.is_set():
            stream.cancel()  # nobody to take leave of

    def freeze(self, duration_ms: int) -> None:
        """Testing seam: send nothing, heartbeats included, for this long."""
        self._frozen_until = time.monotonic() + duration_ms / 1000

    def _main(self) -> None:
        error: BaseException | None = None
        try:
            self._keep_attached()
        except BaseException as problem:  # handed over to the loop that waits for it
            error = problem
        self._hand_over(LinkEnded(error))

    def _hand_over(self, incoming: Incoming) -> None:
        try:
            self._deliver(incoming)
        except RuntimeError:  # the user's loop is closed: there is nobody left to work for
            self._stop.set()

    def _keep_attached(self) -> None:
        failures = 0
        while not self._stop.is_set():
            self._thaw()
            stream: _Stream | None = None
            try:
                with self._endpoint.open_blocking() as channel:
                    hello = self._introduce()
                    self._stream = stream = _Stream(self._outbox.begin_stream(hello))
                    self._attach(channel, stream, hello)
                problem = "the daemon ended the stream"
            except grpc.RpcError as error:
                problem = self._judge(rpc_status.from_rpc(error))
            finally:
                self._stream = None
                self._outbox.end_stream()
            if self._stop.is_set():
                return
            failures = 0 if stream is not None and stream.welcomed.is_set() else failures + 1
            if failures < 2:
                silent = stream is not None and stream.silent
                problem = "the daemon does not answer" if silent else problem
                log.warning("provider.detached problem=%s", problem)
            self._stop.wait(jittered(failures))

    def _judge(self, error: AiosdError) -> str:
        """Why to attach again, as text. Raises the error if there is no point in it."""
        if error.reason == "SESSION_LOST":
            self._outbox.renew_session()
            self._hand_over(SessionLost())
        elif error.code in _FATAL:
            raise error
        return str(error)

    def _attach(self, channel: grpc.Channel, stream: _Stream, hello: wire.Hello) -> None:
        """Read one stream from Welcome to its end. Raises RpcError unless it ended with OK."""
        attach = channel.stream_stream(
            _ATTACH,
            request_serializer=wire.AttachRequest.SerializeToString,
            response_deserializer=wire.AttachResponse.FromString,
        )
        responses = attach(self._outgoing(stream, hello), metadata=self._endpoint.metadata())
        stream.call = responses
        try:
            for response in responses:
                stream.unanswered_since = None
                if not stream.welcomed.is_set():
                    if not response.messages[0].HasField("welcome"):
                        return
                    stream.welcome = response.messages[0].welcome
                    self._outbox.settle(stream.welcome)
                    log.info(
                        "provider.attached name=%s daemon=%s", hello.name, stream.welcome.version
                    )
                    # Before the news of it: whoever stops us then is to be taken leave of.
                    stream.welcomed.set()
                news = [message for message in response.messages if self._is_news(message)]
                if news:
                    self._hand_over(Heard(stream.number, news))
        finally:
            stream.cancel()

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

    def _outgoing(self, stream: _Stream, hello: wire.Hello) -> Iterator[wire.AttachRequest]:
        """What goes out: Hello, then what is waiting and, in time, heartbeats, until Detach."""
        yield _request([wire.ProviderMessage(hello=hello)])
        if not stream.welcomed.wait(WELCOME_TIMEOUT_S):
            stream.give_up()
            return
        lease = stream.welcome.lease.ToMilliseconds() / 1000 or 15.0
        # So early that a heartbeat which is late by a quarter still comes in time.
        interval = (stream.welcome.heartbeat_interval.ToMilliseconds() / 1000 or 5.0) * 0.75
        beat_at, beats = time.monotonic() + interval, 0
        while True:
            messages = self._outbox.take(stream.number, beat_at, self._stop)
            if messages is None:  # the stream is over
                return
            if not messages and self._stop.is_set():
                yield _request([wire.ProviderMessage(detach=wire.Detach(reason=self._stop_reason))])
                self._close_in_time(stream)
                return
            now = time.monotonic()
            if now >= beat_at:
                beats += 1
                beat_at = now + interval
                messages.insert(0, wire.ProviderMessage(heartbeat=wire.Heartbeat(number=beats)))
                if stream.unanswered_since is None:
                    stream.unanswered_since = now
                elif now - stream.unanswered_since > lease:
                    stream.give_up()
                    return
            if messages:
                self._thaw()
                yield _request(messages)

    def _close_in_time(self, stream: _Stream) -> None:
        timer = threading.Timer(DETACH_TIMEOUT_S, stream.cancel)
        timer.daemon = True
        timer.start()

    def _thaw(self) -> None:
        left = self._frozen_until - time.monotonic()
        if left > 0:
            time.sleep(left)


def _request(messages: list[wire.ProviderMessage]) -> wire.AttachRequest:
    return wire.AttachRequest(messages=messages)
