"""Invoking a capability over HTTP without ever running it twice (Y16, R157, R158).

For programs that reach only the gateway's `/api/v1`. A 504 from a blocking call is a statement
about the request and not about the task, so the task is asked for and waited for; a request whose
answer was lost is sent again under the same idempotency key, which finds the first task.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any

from aiosd.sdk import json_text
from aiosd.sdk.connection import jittered

TERMINAL = frozenset({"completed", "failed", "canceled", "timeout", "rejected"})
INTERRUPTED = frozenset({"input_required", "auth_required"})

REQUEST_TIMEOUT_S = 130.0
"""How long one HTTP request may take; the gateway answers 504 long before."""

MOST_BYTES = 16 * 1024 * 1024
"""Largest answer that is read."""

_COME_BACK = frozenset({429, 502, 503, 504})


class HttpRefused(Exception):
    """The gateway refused. `status` is HTTP's, `code` the stable word of the error envelope."""

    def __init__(self, status: int, code: str, message: str, metadata: dict[str, Any]) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.metadata = metadata
        super().__init__(f"{code or status}: {message}")


async def invoke(
    url: str,
    capability_id: str,
    arguments: dict[str, Any] | None = None,
    *,
    token: str,
    timeout_ms: int | None = None,
    idempotency_key: str | None = None,
    patience_ms: int | None = None,
) -> dict[str, Any]:
    """Run a capability and return its task, as `GET /api/v1/tasks/{id}` shows it.

    `url` is the gateway, such as `http://127.0.0.1:9527`. Returns when the task is terminal or
    waits for a person, or, as it then is, after `patience_ms` (None: as long as it takes).
    `timeout_ms`: how long the gateway waits before a 504, 1..115000 (None: its own
    setting); it bounds no task. `idempotency_key` None: a fresh one.

    Raises HttpRefused when the gateway refuses, and OSError when it cannot be reached and
    `patience_ms` is over before it is known whether there is a task.
    """
    gateway = _Gateway(url, token)
    key = idempotency_key or uuid.uuid4().hex
    body: dict[str, Any] = {"capability_id": capability_id, "arguments": arguments or {}}
    if timeout_ms is not None:
        body["timeout_ms"] = timeout_ms
    text = json_text.dump_object(body, "arguments")
    end = None if patience_ms is None else time.monotonic() + patience_ms / 1000
    failures = 0
    task_id = ""
    while True:
        try:
            if not task_id:
                task = await gateway.call("POST", "/api/v1/invoke", text, key)
            else:
                task = await gateway.call("GET", f"/api/v1/tasks/{urllib.parse.quote(task_id)}")
            task_id = task["task_id"]
            if task["status"] in TERMINAL | INTERRUPTED or _over(end):
                return task
        except HttpRefused as refusal:
            if task_id and refusal.status == 404:
                task_id = ""  # it never was: with the same key it is safe to ask once more
            elif refusal.status == 504 and "task_id" in refusal.metadata:
                task_id = str(refusal.metadata["task_id"])
                failures = 0
            elif refusal.status not in _COME_BACK or _over(end):
                raise
        except OSError:
            if _over(end):
                raise
        await asyncio.sleep(jittered(failures, first_ms=200))
        failures += 1


def _over(end: float | None) -> bool:
    return end is not None and time.monotonic() >= end


class _Gateway:
    """Requests to one gateway; proxies of the environment are none of our business."""

    def __init__(self, url: str, token: str) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"url: expected http:// or https://, got {url!r}")
        self._url = url.rstrip("/")
        self._token = token
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    async def call(self, method: str, path: str, body: str = "", key: str = "") -> dict[str, Any]:
        """The `data` of a successful answer. Raises HttpRefused and OSError."""
        return await asyncio.to_thread(self._call, method, path, body, key)

    def _call(self, method: str, path: str, body: str, key: str) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310 (the scheme was checked)
            self._url + path, data=body.encode() if body else None, method=method
        )
        request.add_header("Authorization", f"Bearer {self._token}")
        request.add_header("Accept", "application/json")
        if body:
            request.add_header("Content-Type", "application/json")
        if key:
            request.add_header("Idempotency-Key", key)
        try:
            with self._opener.open(request, timeout=REQUEST_TIMEOUT_S) as answer:
                data = _object(answer.read(MOST_BYTES)).get("data")
        except urllib.error.HTTPError as error:
            with error:
                refused = _object(error.read(MOST_BYTES)).get("error")
            refused = refused if isinstance(refused, dict) else {}
            metadata = refused.get("metadata")
            raise HttpRefused(
                error.code,
                str(refused.get("code", "")),
                str(refused.get("message", error.reason)),
                metadata if isinstance(metadata, dict) else {},
            ) from None
        if not isinstance(data, dict) or not {"task_id", "status"} <= data.keys():
            raise HttpRefused(502, "", "the answer is not a task", {})
        return data


def _object(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
