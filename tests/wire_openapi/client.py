"""A client of the OpenAPI wire for tests: plain HTTP, and a record of every answer."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.http import http_client
from tests.support.operation_consistency import Observed, check_log, seen_json
from tests.support.spelling import assert_spelling
from tests.support.sse_parser import SseParser
from tests.support.waiting import eventually
from tests.wire_openapi.conformance import check_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from tests.support.stack import Stack

TERMINAL = ("completed", "failed", "canceled", "timeout", "rejected")
ENDLESS = {"sleep_ms": 600_000}
OBSERVED = Observed()
"""Every snapshot of an operation that any test of this folder was shown."""


@dataclass(frozen=True)
class Frame:
    """One event of a stream."""

    id: str
    event: str
    data: dict[str, Any]


class Api:
    """One caller. Tasks that it made are cancelled at `close`."""

    def __init__(self, stack: Stack, token: str | None = None) -> None:
        self._stack = stack
        self.token = token or stack.token
        self.http = self._connect()
        self.made: list[str] = []

    def _connect(self) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self.token}"}
        return http_client(base_url=self._stack.http, headers=headers, timeout=60)

    async def renew(self) -> None:
        """Connect again, to the gateway that took the place of another one."""
        await self.http.aclose()
        self.http = self._connect()

    async def close(self) -> None:
        for task_id in self.made:
            await self.http.post(f"/api/v1/tasks/{task_id}/cancel")
        await self.http.aclose()

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request below /api/v1."""
        answer = await self.http.request(method, f"/api/v1{path}", **options)
        assert answer.status_code < 500 or answer.status_code in (503, 504), answer.text
        body = answer.json()
        judge(body)
        check_answer(method, f"/api/v1{path}", answer.status_code, body)
        return answer

    async def ok(self, method: str, path: str, status: int = 200, **options: Any) -> dict[str, Any]:
        """The data of a success."""
        answer = await self.ask(method, path, **options)
        assert answer.status_code == status, answer.text
        body = answer.json()
        assert body["success"] is True
        data: dict[str, Any] = body["data"]
        return data

    async def refused(
        self, method: str, path: str, status: int, code: str, **options: Any
    ) -> dict[str, Any]:
        """The error of a refusal."""
        answer = await self.ask(method, path, **options)
        body = answer.json()
        assert (answer.status_code, body.get("error", {}).get("code")) == (status, code), body
        assert body["success"] is False
        error: dict[str, Any] = body["error"]
        assert error["request_id"] == answer.headers["x-request-id"]
        assert error["type"]
        assert error["message"]
        return error

    async def create(
        self, *steps: dict[str, Any], capability_id: str = "lab.script", **members: Any
    ) -> str:
        """Make a task; its id."""
        body = {"capability_id": capability_id, "arguments": {"steps": list(steps)}, **members}
        made = await self.ok("POST", "/tasks", 202, json=body)
        assert made["status"] == "queued"
        self.made.append(made["task_id"])
        return str(made["task_id"])

    async def get(self, task_id: str) -> dict[str, Any]:
        return await self.ok("GET", f"/tasks/{task_id}")

    async def until(self, task_id: str, *statuses: str, within_s: float = 20) -> dict[str, Any]:
        """Wait until the task has one of these statuses."""

        async def look() -> dict[str, Any] | None:
            task = await self.get(task_id)
            return task if task["status"] in statuses else None

        return await eventually(look, within_s=within_s) or {}

    async def ended(self, task_id: str) -> dict[str, Any]:
        return await self.until(task_id, *TERMINAL)

    async def operation(self, *steps: dict[str, Any], **headers: str) -> dict[str, Any]:
        """Ask the lab's instance for a scripted operation."""
        body = {
            "target": {"scope": "instance", "id": "lab"},
            "method": "lab.script",
            "params": {"steps": list(steps)},
        }
        return await self.ok("POST", "/operations", 202, json=body, headers=headers)

    async def operation_until(self, operation_id: str, *statuses: str) -> dict[str, Any]:
        async def look() -> dict[str, Any] | None:
            found = await self.ok("GET", f"/operations/{operation_id}")
            return found if found["status"] in statuses else None

        return await eventually(look, within_s=20) or {}

    @asynccontextmanager
    async def open_stream(self, path: str, **headers: str) -> AsyncIterator[AsyncIterator[Frame]]:
        """The frames of a stream as they come."""
        async with self.http.stream("GET", f"/api/v1{path}", headers=headers) as answer:
            assert answer.status_code == 200, await answer.aread()
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield _frames(answer)

    async def stream(self, path: str, **headers: str) -> list[Frame]:
        """A stream to its end."""
        async with self.open_stream(path, **headers) as coming:
            frames = [frame async for frame in coming]
        if path.startswith("/operations/") and not headers:
            check_log(log_of(frames), complete=True)
        return frames


def log_of(frames: list[Frame]) -> list[Any]:
    """The frames of an operation as `check_log` takes them."""
    return [(int(one.id), one.event, seen_json(one.data["snapshot"])) for one in frames]


def judge(value: Any) -> None:
    """What must hold of whatever this wire says: its spelling, and operations that agree."""
    assert_spelling(value)
    OBSERVED.take_json(value)


async def _frames(answer: httpx.Response) -> AsyncIterator[Frame]:
    parser = SseParser()
    async for chunk in answer.aiter_bytes():
        for one in parser.feed(chunk):
            frame = Frame(one.last_event_id, one.type, json.loads(one.data))
            judge(frame.data)
            yield frame
