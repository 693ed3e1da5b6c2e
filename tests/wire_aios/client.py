"""A client of the AIOS wire for tests: plain HTTP, nothing of ours but the event-stream parser."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import httpx

from tests.support.http import http_client
from tests.support.spelling import assert_task_spelling
from tests.support.sse_parser import SseParser
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

TERMINAL = ("completed", "failed", "canceled")
ENDLESS = {"sleep_ms": 600_000}


class WireError(Exception):
    """A JSON-RPC error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(json.dumps(error, ensure_ascii=False))
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: dict[str, Any] = error["data"]

    @property
    def brief(self) -> tuple[int, str]:
        """Code and message."""
        return self.code, self.message


@dataclass(frozen=True)
class StreamEvent:
    """One frame of a task's stream."""

    id: str
    event: str
    data: dict[str, Any]

    @property
    def status(self) -> str | None:
        """The status that a task.status tells."""
        return self.data["status"] if self.event == "task.status" else None


class AiosClient:
    """One caller. `close` also cancels the tasks that it made, so that tests share a service."""

    def __init__(self, base_url: str, token: str) -> None:
        self.http = http_client(
            base_url=base_url, headers={"authorization": f"Bearer {token}"}, timeout=60
        )
        self._ids = count(1)
        self._made: list[str] = []

    async def close(self) -> None:
        for task_id in self._made:
            try:
                await self.call("aios/task.cancel", task_id=task_id)
            except (WireError, httpx.TransportError):
                continue
        await self.http.aclose()

    async def response(self, method: str, params: Any = None, **headers: str) -> dict[str, Any]:
        """The JSON-RPC response of one call."""
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method}
        if params is not None:
            body["params"] = params
        answer = await self.http.post("/aios/rpc", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        response: dict[str, Any] = answer.json()
        assert response["id"] == body["id"]
        # What a method answers, and not what a task was given or gave.
        assert_task_spelling([response.get("result"), response.get("error")])
        return response

    async def call(self, method: str, **params: Any) -> Any:
        """The result of one call. Raises WireError."""
        response = await self.response(method, params)
        if "error" in response:
            raise WireError(response["error"])
        return response["result"]

    async def refused(self, method: str, **params: Any) -> WireError:
        """The error of one call that must fail."""
        try:
            result = await self.call(method, **params)
        except WireError as error:
            return error
        raise AssertionError(f"{method} succeeded: {result}")

    async def create(
        self,
        *steps: dict[str, Any],
        capability_id: str = "lab.script",
        metadata: dict[str, Any] | None = None,
        arguments: dict[str, Any] | None = None,
        **options: Any,
    ) -> str:
        """Make an asynchronous task with these steps; its id."""
        params: dict[str, Any] = {
            "capability_id": capability_id,
            "arguments": {"steps": list(steps)} if arguments is None else arguments,
            "options": {"async": True, **options},
        }
        if metadata is not None:
            params["metadata"] = metadata
        task_id: str = (await self.call("aios/task.create", **params))["task_id"]
        self._made.append(task_id)
        return task_id

    async def get(self, task_id: str, **params: Any) -> dict[str, Any]:
        """The task."""
        task: dict[str, Any] = await self.call("aios/task.get", task_id=task_id, **params)
        return task

    async def status(self, task_id: str) -> str:
        """The task's status."""
        status: str = (await self.get(task_id))["status"]
        return status

    async def until(self, task_id: str, *statuses: str, within_s: float = 20.0) -> dict[str, Any]:
        """Wait until the task has one of these statuses."""

        async def look() -> dict[str, Any] | None:
            task = await self.get(task_id)
            last.append(task["status"])
            return task if task["status"] in statuses else None

        last: list[str] = []
        try:
            return await eventually(look, within_s=within_s) or {}
        except AssertionError:
            raise AssertionError(f"{task_id} is {last[-1]}, not {statuses}") from None

    async def ended(self, task_id: str, within_s: float = 20.0) -> dict[str, Any]:
        """Wait until the task has ended."""
        return await self.until(task_id, *TERMINAL, within_s=within_s)

    async def history(self, task_id: str) -> list[dict[str, Any]]:
        """The state history."""
        history: list[dict[str, Any]] = (await self.get(task_id, include_history=True))[
            "state_history"
        ]
        return history

    async def events(self, task_id: str) -> list[StreamEvent]:
        """Every event so far."""
        result = await self.call("aios/task.resubscribe", task_id=task_id)
        return [StreamEvent(**event) for event in result["missed_events"]]

    @asynccontextmanager
    async def stream(
        self, url: str, *, last_event_id: str | None = None
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """An open stream of a subscription."""
        headers = {"accept": "text/event-stream"}
        if last_event_id is not None:
            headers["last-event-id"] = last_event_id
        async with self.http.stream("GET", url, headers=headers) as answer:
            if answer.status_code == 503:  # what a client answers by asking again
                raise httpx.ConnectError("the service is away")
            assert answer.status_code == 200, await answer.aread()
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield _events(answer)

    async def read_stream(self, url: str, **options: Any) -> list[StreamEvent]:
        """A stream to its end."""
        async with self.stream(url, **options) as events:
            return [event async for event in events]

    async def follow(self, task_id: str, events: Sequence[str] | None = None) -> str:
        """Subscribe from the first event; the URL of the stream."""
        params: dict[str, Any] = {"task_id": task_id, "last_event_id": "evt-000"}
        if events is not None:
            params["events"] = list(events)
        url: str = (await self.call("aios/task.subscribe", **params))["stream_url"]
        return url


async def _events(answer: httpx.Response) -> AsyncIterator[StreamEvent]:
    parser = SseParser()
    async for chunk in answer.aiter_bytes():
        for frame in parser.feed(chunk):
            event = StreamEvent(frame.last_event_id, frame.type, json.loads(frame.data))
            assert_task_spelling(event.data)
            yield event
