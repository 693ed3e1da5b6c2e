"""The table of this wire's calls: what is served, and what `/openapi.json` says (design.md 12)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway import projection
from gateway.aios.params import Params
from gateway.openapi import models, operations, streams, tasks

_CREATION_ERRORS: Final = (400, 403, 404, 409, 413, 429)
_PRODUCT_WORDS: Final = (*projection.PRODUCT_STATUSES, *projection.LEGACY)


@dataclass(frozen=True, slots=True)
class Route:
    """One call. `answer` None: an event stream. `errors` are the statuses that it adds to all."""

    method: str
    path: str
    name: str
    handler: Callable[..., Awaitable[Any]]
    answer: type[models.Answer] | None
    status: int = 200
    body: type[Params] | None = None
    query: tuple[Mapping[str, Any], ...] = ()
    headers: tuple[str, ...] = ()
    errors: tuple[int, ...] = (400, 404)

    @property
    def summary(self) -> str:
        """The first line of the handler's docstring."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]


def _query(name: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema}


def _statuses(words: tuple[str, ...]) -> dict[str, Any]:
    items = {"type": "string", "enum": list(words)}
    return _query("status", type="array", items=items) | {"style": "form", "explode": True}


_PAGE: Final = (
    _query("limit", type="integer", minimum=1, maximum=200, default=50),
    _query("cursor", type="string", maxLength=1024),
)
_FILTERS: Final = (
    _query("capability_id", type="string", maxLength=256),
    _query("context_id", type="string", maxLength=128),
)
_SINCE: Final = _query("since", type="integer", minimum=0, maximum=999_999_999_999_999)
_KEY: Final = "Idempotency-Key"
_CURSOR: Final = "Last-Event-ID"
_V1: Final = "/api/v1"
_TASK: Final = f"{_V1}/tasks/{{task_id}}"
_OPERATION: Final = f"{_V1}/operations/{{operation_id}}"
_CHANGE: Final = (400, 403, 404, 409)

ROUTES: Final = (
    Route(
        *("POST", f"{_V1}/tasks", "createTask", tasks.create, models.TaskAccepted, 202),
        body=models.CreateTask,
        headers=(_KEY,),
        errors=_CREATION_ERRORS,
    ),
    Route(
        *("GET", f"{_V1}/tasks", "listTasks", tasks.list_, models.Tasks),
        query=(_statuses(projection.OPENAPI_STATUSES), *_FILTERS, *_PAGE),
        errors=(400,),
    ),
    Route("GET", _TASK, "getTask", tasks.get, models.Task),
    Route(
        *("POST", f"{_TASK}/cancel", "cancelTask", tasks.cancel, models.Task),
        body=models.Cancel,
        errors=_CHANGE,
    ),
    Route(
        *("POST", f"{_TASK}/continue", "continueTask", tasks.continue_, models.Task),
        body=models.Continue,
        errors=_CHANGE,
    ),
    Route(
        *("POST", f"{_TASK}/resolve", "resolveTask", tasks.resolve, models.Task),
        body=models.Resolve,
        errors=_CHANGE,
    ),
    Route("GET", f"{_TASK}/messages", "listMessages", tasks.messages, models.Messages),
    Route(
        *("GET", f"{_TASK}/events", "followTask", streams.task_events, None),
        query=(_SINCE,),
        headers=(_CURSOR,),
    ),
    Route(
        *("GET", f"{_V1}/product/tasks", "listProductTasks", tasks.list_product),
        models.ProductTasks,
        query=(_statuses(_PRODUCT_WORDS), *_FILTERS, *_PAGE),
        errors=(400,),
    ),
    Route(
        *("GET", f"{_V1}/product/tasks/{{task_id}}", "getProductTask", tasks.get_product),
        models.ProductTask,
    ),
    Route(
        *("POST", f"{_V1}/invoke", "invoke", tasks.invoke, models.Task),
        body=models.Invoke,
        headers=(_KEY,),
        errors=_CREATION_ERRORS,
    ),
    Route(
        *("GET", f"{_V1}/instances", "listInstances", operations.list_instances),
        models.Instances,
        query=_PAGE,
        errors=(400,),
    ),
    Route(
        *("GET", f"{_V1}/instances/{{instance_id}}", "getInstance", operations.get_instance),
        models.Instance,
    ),
    Route(
        *("POST", f"{_V1}/operations", "createOperation", operations.create, models.Operation, 202),
        body=models.CreateOperation,
        headers=(_KEY,),
        errors=_CREATION_ERRORS,
    ),
    Route(
        *("GET", f"{_V1}/operations", "listOperations", operations.list_, models.Operations),
        query=(
            _query("status", type="string", enum=["active"]),
            _query("instance_id", type="string", maxLength=128),
            *_PAGE,
        ),
        errors=(400,),
    ),
    Route("GET", _OPERATION, "getOperation", operations.get, models.Operation),
    Route(
        *("POST", f"{_OPERATION}/cancel", "cancelOperation", operations.cancel),
        *(models.CancelRequested, 202),
        body=models.Cancel,
        errors=_CHANGE,
    ),
    Route(
        *("GET", f"{_OPERATION}/events", "followOperation", streams.operation_events, None),
        headers=(_CURSOR,),
        errors=(400, 404, 409),
    ),
)
