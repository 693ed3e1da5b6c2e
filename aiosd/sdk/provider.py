"""The provider: declare capabilities and operations, then run."""

from __future__ import annotations

import asyncio
import inspect
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from aiosd import __version__
from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.api.v1 import capability_pb2
from aiosd.sdk import json_text, schema
from aiosd.sdk.connection import resolve
from aiosd.sdk.execution import CapabilityCode
from aiosd.sdk.link import Link
from aiosd.sdk.operations import Instance
from aiosd.sdk.outbox import Outbox
from aiosd.sdk.session import Session

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    import grpc

    from aiosd.sdk.context import TaskContext
    from aiosd.sdk.execution import Screen
    from aiosd.sdk.link import Incoming
    from aiosd.sdk.operations import Operate

    Run = TypeVar("Run", bound=Callable[[TaskContext, Any], Awaitable[Any]])
    OperationRun = TypeVar("OperationRun", bound=Callable[..., Awaitable[Any]])

SDK = f"aiosd-python/{__version__}"

STOP_GRACE_S = 2.0
"""How long what still runs may take when `run` is cancelled."""


class Provider:
    """A program that executes tasks.

    `name` is a label for operators, at most 100 characters. `credits` is how many attempts it may
    hold at once, 1..10000; paused and waiting ones do not count.
    """

    def __init__(self, name: str, *, credits: int = 10) -> None:
        if not 1 <= credits <= 10_000:
            raise ValueError("credits: must be 1 to 10000")
        self.name = name
        self.credits = credits
        self._capabilities: dict[str, CapabilityCode] = {}
        self._operations: dict[str, Operate] = {}
        self._instance: Instance | None = None
        self._running: tuple[Session, Link] | None = None
        self._attached = asyncio.Event()

    def capability(
        self,
        capability_id: str,
        *,
        name: str = "",
        description: str = "",
        level: str = "low",
        tool_id: str | None = None,
        pausable: bool = False,
        retry_safe: bool = False,
        default_timeout_ms: int | None = None,
        estimated_duration_ms: int | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        permissions: Iterable[str] = (),
        tags: Iterable[str] = (),
        examples: Iterable[str] = (),
        input_modes: Iterable[str] = (),
        output_modes: Iterable[str] = (),
        version: str = "1",
        screen: Screen | None = None,
    ) -> Callable[[Run], Run]:
        """Declare `async def run(task: TaskContext, args) -> JSON value` as a capability.

        `level` is the trust it asks for: public, low, medium, high or critical. `pausable`: it
        reaches checkpoints. `retry_safe`: a lost attempt may be repeated. When `args` is annotated
        with a dataclass, a TypedDict or a pydantic model, that type gives the input schema and the
        arguments arrive as an instance of it; the return annotation likewise gives the output
        schema. `description` "": the first line of the function's docstring. `screen` is called
        with an Offer before the attempt is accepted and may raise TaskRejected.
        """
        caller = sys._getframe(1).f_locals  # types may be local to where the function is declared

        def declare(run: Run) -> Run:
            _must_be_async(run, capability_id)
            if capability_id in self._capabilities:
                raise ValueError(f"capability_id: {capability_id} is declared twice")
            arguments, result = _annotations(run, caller)
            declaration = capability_pb2.Capability(
                capability_id=capability_id,
                name=name,
                description=description or (inspect.getdoc(run) or "").partition("\n")[0],
                version=version,
                tool_id=tool_id or "",
                input_schema=_schema_text(input_schema, arguments),
                output_schema=_schema_text(output_schema, result),
                permission_level=_level(level),
                permissions=list(permissions),
                pausable=pausable,
                retry_safe=retry_safe,
                tags=list(tags),
                examples=list(examples),
                input_modes=list(input_modes),
                output_modes=list(output_modes),
            )
            if default_timeout_ms is not None:
                declaration.default_timeout.FromMilliseconds(default_timeout_ms)
            if estimated_duration_ms is not None:
                declaration.estimated_duration.FromMilliseconds(estimated_duration_ms)
            self._capabilities[capability_id] = CapabilityCode(declaration, run, screen, arguments)
            return run

        return declare

    def operation(self, method: str) -> Callable[[OperationRun], OperationRun]:
        """Declare `async def operate(op: OperationContext, params: dict)` as a method.

        It reports its effect with `op.commit`; if it returns without, what it returned is the
        result and the state is unchanged. It raises OperationFailed if nothing happened.
        """

        def declare(operate: OperationRun) -> OperationRun:
            _must_be_async(operate, method)
            if method in self._operations:
                raise ValueError(f"method: {method} is declared twice")
            self._operations[method] = operate
            return operate

        return declare

    def instance(
        self,
        instance_id: str,
        name: str,
        state: dict[str, Any],
        state_schema: dict[str, Any] | None = None,
    ) -> None:
        """Declare the runtime that this provider is; needed for operations.

        `instance_id` is stable over restarts, `state` a JSON object.
        """
        self._instance = Instance(instance_id, name, state, state_schema)

    async def attached(self) -> None:
        """Return when the daemon has answered for the first time."""
        await self._attached.wait()

    async def run(
        self,
        address: str | None = None,
        token: str | None = None,
        *,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """Attach and execute tasks until cancelled, or until a `drain` is over.

        Waits for a daemon that is not there, and attaches again whenever the connection breaks.
        When cancelled, the capabilities that still run are cancelled, and the daemon, which hears
        of no outcome, counts their attempts as lost. Raises AiosdError when the daemon refuses for
        good (HELLO_INVALID, no permission), ValueError for a wrong address.
        """
        endpoint = resolve(address, token, credentials)
        if not self._capabilities and self._instance is None:
            raise ValueError("the provider has neither capabilities nor an instance")
        loop = asyncio.get_running_loop()
        outbox = Outbox()
        session = Session(outbox, self._capabilities, self._operations, self._instance)
        session.attached = self._attached
        self._attached.clear()

        def deliver(incoming: Incoming) -> None:
            loop.call_soon_threadsafe(session.hear, incoming)

        link = Link(endpoint, outbox, self._hello, deliver)
        self._running = (session, link)
        link.start()
        reason = "drained"
        try:
            await asyncio.shield(session.ended)
        except asyncio.CancelledError:
            reason = "stopped"
            raise
        finally:
            self._running = None
            await session.close(STOP_GRACE_S)
            link.stop(reason)
            await asyncio.wait({session.ended}, timeout=2 * STOP_GRACE_S)

    async def drain(self, grace_ms: int | None = None) -> None:
        """Take no more offers, wait for what runs, and let `run` return.

        `grace_ms`: how long to wait; what runs then still is stopped. None: as long as it takes,
        which for a task that waits for a person may be days.
        """
        if self._running is None:
            return
        session, link = self._running
        session.drain()
        try:
            async with asyncio.timeout(None if grace_ms is None else grace_ms / 1000):
                await session.idle()
        except TimeoutError:
            await session.close(STOP_GRACE_S)
        link.stop("drained")

    def _hello(self) -> wire.Hello:
        """Who we are; called on the link's thread, before each stream."""
        hello = wire.Hello(
            name=self.name,
            capabilities=[code.declaration for code in self._capabilities.values()],
            credits=self.credits,
            sdk=SDK,
        )
        if self._instance is not None:
            one = self._instance
            hello.instance.instance_id = one.instance_id
            hello.instance.name = one.name
            hello.instance.state = json_text.dump_object(one.state, "state")
            hello.instance.state_schema = _schema_text(one.state_schema, None)
            hello.instance.methods.extend(self._operations)
        return hello


def _must_be_async(code: object, name: str) -> None:
    if not inspect.iscoroutinefunction(code):
        raise TypeError(f"{name}: must be an `async def`")


def _annotations(run: Callable[..., Any], names: dict[str, Any]) -> tuple[Any, Any]:
    """The types of arguments and result, where they describe an object; else None."""
    parameters = list(inspect.signature(run).parameters)
    if len(parameters) < 2:
        raise TypeError(f"{run.__qualname__}: a capability takes the task and its arguments")
    # Only these two are looked up: the task's own annotation may be imported for checkers alone.
    module = sys.modules[run.__module__].__dict__
    described = []
    for name in (parameters[1], "return"):
        hint = run.__annotations__.get(name)
        if isinstance(hint, str):
            try:
                hint = eval(hint, module, dict(names))  # noqa: S307 (the author's own annotation)
            except NameError as problem:
                raise TypeError(f"{run.__qualname__}: annotation of {name}: {problem}") from None
        described.append(hint if schema.describes_object(hint) else None)
    return described[0], described[1]


def _schema_text(given: dict[str, Any] | None, hint: Any) -> str:
    if given is not None:
        return json_text.dump_object(given, "schema")
    return "" if hint is None else json_text.dump_object(schema.json_schema(hint), "schema")


def _level(word: str) -> capability_pb2.PermissionLevel.ValueType:
    try:
        return capability_pb2.PermissionLevel.Value(f"PERMISSION_LEVEL_{word.upper()}")
    except ValueError:
        raise ValueError(f"level: {word!r} is unknown") from None
