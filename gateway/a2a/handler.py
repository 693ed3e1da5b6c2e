"""The SDK's RequestHandler over the daemon: every operation of every binding passes here."""

from __future__ import annotations

import functools
import inspect
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.utils.errors import A2AError, InternalError
from a2a.utils.proto_utils import validate_proto_required_fields

from aiosd.api.v1 import task_service_pb2
from gateway.a2a import listing, pushes, sending, snapshot, streaming
from gateway.a2a.call import open_call
from gateway.a2a.errors import BusyError
from gateway.a2a.requests import check_history_length

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from a2a.server.context import ServerCallContext
    from a2a.types import a2a_pb2

    from gateway.a2a.call import Call
    from gateway.a2a.card import Cards
    from gateway.a2a.streaming import Item
    from gateway.admission import Admission
    from gateway.context import GatewayContext

_log = logging.getLogger(__name__)


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let errors of the wire pass; anything else is logged and says nothing (S-17)."""
    if inspect.isasyncgenfunction(method):

        @functools.wraps(method)
        async def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
            try:
                async with aclosing(method(*args, **kwargs)) as items:
                    async for item in items:
                        yield item
            except A2AError:
                raise
            except Exception:
                _log.exception("a2a.failed", extra={"operation": method.__name__})
                raise InternalError from None

        return stream

    @functools.wraps(method)
    async def unary(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(*args, **kwargs)
        except A2AError:
            raise
        except Exception:
            _log.exception("a2a.failed", extra={"operation": method.__name__})
            raise InternalError from None

    return unary


class Handler(RequestHandler):
    """What the SDK's three front ends call."""

    def __init__(self, context: GatewayContext, admission: Admission, cards: Cards) -> None:
        self._context = context
        self._admission = admission
        self._cards = cards
        self._tenants: set[str] = set()

    async def open(self, params: Any, context: ServerCallContext) -> Call:
        """The call of a request, its version, token and tenant checked; raises A2AError."""
        tenant = getattr(params, "tenant", "")
        return await open_call(self._context, self._admission, self._tenants, context, tenant)

    @_guarded
    async def on_message_send(
        self, params: a2a_pb2.SendMessageRequest, context: ServerCallContext
    ) -> a2a_pb2.Task | a2a_pb2.Message:
        """SendMessage."""
        return await sending.send(await self.open(params, context), params)

    @_guarded
    async def on_message_send_stream(
        self, params: a2a_pb2.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Item, None]:
        """SendStreamingMessage."""
        call = await self.open(params, context)
        self._check_stream(call)
        async with aclosing(sending.stream(call, params)) as items:
            async for item in items:
                yield item

    @_guarded
    async def on_subscribe_to_task(
        self, params: a2a_pb2.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Item, None]:
        """SubscribeToTask; behind an event with the extension for resumable streams."""
        call = await self.open(params, context)
        validate_proto_required_fields(params)
        self._check_stream(call)
        after = call.request.after()
        if after is None:
            items = streaming.of_known(call, params.id, ends_at_interruption=False)
        else:
            items = streaming.resumed(call, params.id, after)
        with self._admission.stream(call.request.caller):
            async with aclosing(items):
                async for item in items:
                    yield item

    @_guarded
    async def on_get_task(
        self, params: a2a_pb2.GetTaskRequest, context: ServerCallContext
    ) -> a2a_pb2.Task:
        """GetTask."""
        call = await self.open(params, context)
        validate_proto_required_fields(params)
        length = None
        if params.HasField("history_length"):
            check_history_length(params.history_length)
            length = params.history_length
        native = await snapshot.fetch(call, params.id)
        return (await snapshot.load(call, native, history_length=length)).shown

    @_guarded
    async def on_list_tasks(
        self, params: a2a_pb2.ListTasksRequest, context: ServerCallContext
    ) -> a2a_pb2.ListTasksResponse:
        """ListTasks."""
        return await listing.list_tasks(await self.open(params, context), params)

    @_guarded
    async def on_cancel_task(
        self, params: a2a_pb2.CancelTaskRequest, context: ServerCallContext
    ) -> a2a_pb2.Task:
        """CancelTask."""
        call = await self.open(params, context)
        validate_proto_required_fields(params)
        await snapshot.fetch(call, params.id)
        request = task_service_pb2.CancelTaskRequest(task_id=params.id)
        await call.ask(self._context.daemon.tasks.CancelTask, request)
        native = await snapshot.fetch(call, params.id)
        return (await snapshot.load(call, native)).shown

    @_guarded
    async def on_create_task_push_notification_config(
        self, params: a2a_pb2.TaskPushNotificationConfig, context: ServerCallContext
    ) -> a2a_pb2.TaskPushNotificationConfig:
        """CreateTaskPushNotificationConfig."""
        return await pushes.create(await self.open(params, context), params)

    @_guarded
    async def on_get_task_push_notification_config(
        self,
        params: a2a_pb2.GetTaskPushNotificationConfigRequest,
        context: ServerCallContext,
    ) -> a2a_pb2.TaskPushNotificationConfig:
        """GetTaskPushNotificationConfig."""
        call = await self.open(params, context)
        validate_proto_required_fields(params)
        return await pushes.get(call, params)

    @_guarded
    async def on_list_task_push_notification_configs(
        self,
        params: a2a_pb2.ListTaskPushNotificationConfigsRequest,
        context: ServerCallContext,
    ) -> a2a_pb2.ListTaskPushNotificationConfigsResponse:
        """ListTaskPushNotificationConfigs."""
        call = await self.open(params, context)
        validate_proto_required_fields(params)
        return await pushes.list_all(call, params)

    @_guarded
    async def on_delete_task_push_notification_config(
        self,
        params: a2a_pb2.DeleteTaskPushNotificationConfigRequest,
        context: ServerCallContext,
    ) -> None:
        """DeleteTaskPushNotificationConfig."""
        call = await self.open(params, context)
        validate_proto_required_fields(params)
        await pushes.delete(call, params)

    @_guarded
    async def on_get_extended_agent_card(
        self, params: a2a_pb2.GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> a2a_pb2.AgentCard:
        """GetExtendedAgentCard: the card of the tenant alone, or the whole one with examples."""
        call = await self.open(params, context)
        return await self._cards.extended(call)

    def _check_stream(self, call: Call) -> None:
        if not self._admission.has_stream_left(call.request.caller):
            raise BusyError("too many streams are open; close one first")
