"""The table of methods: name, parameters, handler (R001). `rpc.discover` prints it."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from aiosd.aios_wire.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, AiosError
from gateway.aios import (
    artifacts,
    capabilities,
    control,
    discover,
    permissions,
    sessions,
    tasks,
    watching,
)
from gateway.aios.method import Method
from gateway.aios.params import NoParams, read
from gateway.measures import CALL_SECONDS, CALLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.aios.jsonrpc import Notification, Request
    from gateway.aios.method import Call


async def _discover(params: NoParams, call: Call) -> dict[str, Any]:
    """Describe every method (OpenRPC)."""
    return discover.document(METHODS.values())


_TABLE: Final[tuple[Method[Any], ...]] = (
    Method("aios/task.create", tasks.CreateParams, tasks.create),
    Method("aios/task.get", tasks.GetParams, tasks.get),
    Method("aios/task.list", tasks.ListParams, tasks.list_),
    Method("aios/task.cancel", control.CancelParams, control.cancel),
    Method("aios/task.pause", control.PauseParams, control.pause),
    Method("aios/task.resume", control.ResumeParams, control.resume),
    Method("aios/task.input", control.InputParams, control.input_),
    Method("aios/task.authenticate", control.AuthenticateParams, control.authenticate),
    Method("aios/task.subscribe", watching.SubscribeParams, watching.subscribe),
    Method("aios/task.unsubscribe", watching.UnsubscribeParams, watching.unsubscribe),
    Method("aios/task.resubscribe", watching.ResubscribeParams, watching.resubscribe),
    Method(
        "aios/task.subscribe_webhook", watching.SubscribeWebhookParams, watching.subscribe_webhook
    ),
    Method(
        "aios/task.unsubscribe_webhook",
        watching.UnsubscribeWebhookParams,
        watching.unsubscribe_webhook,
    ),
    Method("aios/task.history", tasks.HistoryParams, tasks.history),
    Method("aios/artifact.get", artifacts.GetParams, artifacts.get),
    Method("aios/artifact.list", artifacts.ListParams, artifacts.list_),
    Method("aios/capability.list", capabilities.ListParams, capabilities.list_),
    Method("aios/capability.info", capabilities.InfoParams, capabilities.info),
    Method("aios/capability.invoke", capabilities.InvokeParams, capabilities.invoke),
    Method("aios/capability.status", capabilities.TaskParams, capabilities.status),
    Method("aios/capability.cancel", capabilities.TaskParams, capabilities.cancel),
    Method("aios/permission.request", permissions.RequestParams, permissions.request),
    Method("aios/permission.list", permissions.ListParams, permissions.list_),
    Method("aios/permission.revoke", permissions.RevokeParams, permissions.revoke),
    Method("aios/initialize", sessions.InitializeParams, sessions.initialize),
    Method("aios/initialized", sessions.InitializedParams, sessions.initialized),
    Method("aios/ping", sessions.PingParams, sessions.ping),
    Method("aios/shutdown", sessions.ShutdownParams, sessions.shutdown),
    Method("aios/session.create", sessions.CreateParams, sessions.create),
    Method("aios/session.info", sessions.SessionParams, sessions.info),
    Method("aios/session.close", sessions.SessionParams, sessions.close),
    Method("rpc.discover", NoParams, _discover),
)
METHODS: Final[Mapping[str, Method[Any]]] = MappingProxyType(
    {method.name: method for method in _TABLE}
)
STREAMING: Final = frozenset({"aios/task.subscribe", "aios/task.resubscribe"})
"""Methods whose answer goes on as a stream where the client accepts one."""

_NAME_IN_ERROR_CHARS: Final = 100


async def call_method(item: Request | Notification, call: Call) -> Any:
    """Carry out one call, and measure it. Raises AiosError."""
    method = METHODS.get(item.method)
    if method is None:
        CALLS.labels("unknown", str(METHOD_NOT_FOUND.code)).inc()
        name = item.method[:_NAME_IN_ERROR_CHARS]
        raise AiosError(METHOD_NOT_FOUND, f"there is no method {name}", data={"method": name})
    code = INTERNAL_ERROR.code
    started = time.perf_counter()
    try:
        result = await method.handler(read(method.params, item.params), call)
        code = 0
        return result
    except AiosError as error:
        code = error.entry.code
        raise
    finally:
        CALLS.labels(method.name, str(code)).inc()
        CALL_SECONDS.labels(method.name).observe(time.perf_counter() - started)
