"""What takes a service of its own: full queues, cut logs, ends of streams, and kills under them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from aiosd.api.v1 import (
    access_service_pb2,
    access_service_pb2_grpc,
    audit_service_pb2,
    audit_service_pb2_grpc,
)
from aiosd.sdk import http_invoke
from tests.support.operation_consistency import check_log
from tests.support.waiting import eventually
from tests.wire_openapi.client import ENDLESS, Api, Frame, log_of
from tests.wire_openapi.test_every_wire import check_row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

    from tests.support.stack import Stack

ASK = {"ask": {"prompt": "go on?"}}
SCRIPT: dict[str, Any] = {"capability_id": "lab.script", "arguments": {"steps": [ENDLESS]}}


async def take(frames: AsyncIterator[Frame], last_type: str) -> list[Frame]:
    """The frames up to the first of a type."""
    taken: list[Frame] = []
    async for frame in frames:
        taken.append(frame)
        if last_type in (frame.event, frame.data.get("type")):
            return taken
    raise AssertionError(f"the stream ended without {last_type}: {taken}")


def ids(frames: list[Frame]) -> list[str]:
    return [frame.id for frame in frames if frame.id]


def limited(answer: httpx.Response, reason: str) -> dict[str, Any]:
    """The error of an answer that says when to come back."""
    assert answer.status_code == 429, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    error: dict[str, Any] = answer.json()["error"]
    assert (error["code"], error["type"]) == ("rate_limited", "rate_limit_error")
    assert error["metadata"]["reason"] == reason
    return error


@pytest.mark.req("R140", "R148", "R150", "R152", "R153", "X43")
async def test_a_task_that_waits_is_pending_submitted_or_queued(narrow: Api) -> None:
    await narrow.until(await narrow.create(ENDLESS), "running")
    await check_row(narrow, await narrow.create(ENDLESS), "SUBMITTED", 0)


# --- too much at once -----------------------------------------------------------------------------


async def test_a_full_queue_says_when_to_come_back(narrow: Api) -> None:
    await narrow.until(await narrow.create(ENDLESS), "running")
    waiting = [await narrow.create(ENDLESS) for _ in range(3)]
    for path in ("/tasks", "/invoke"):
        error = limited(await narrow.ask("POST", path, json=SCRIPT), "queue_full")
        assert error["metadata"]["limit"] == 3
    await narrow.ok("POST", f"/tasks/{waiting[0]}/cancel")
    await narrow.create(ENDLESS)


@pytest.mark.req("R158")
async def test_the_helper_comes_back_to_a_full_queue(narrow: Api, narrow_stack: Stack) -> None:
    running = await narrow.create(ENDLESS)
    await narrow.until(running, "running")
    waiting = [await narrow.create(ENDLESS) for _ in range(3)]
    before = await refusals(narrow_stack)
    asked = asyncio.create_task(
        http_invoke.invoke(narrow_stack.http, "lab.script", {}, token=narrow_stack.token)
    )

    async def refused_again() -> bool:
        return await refusals(narrow_stack) > before

    await eventually(refused_again)
    assert not asked.done()
    for task_id in (running, *waiting):
        await narrow.ok("POST", f"/tasks/{task_id}/cancel")
    async with asyncio.timeout(30):
        assert (await asked)["status"] == "completed"


async def refusals(stack: Stack) -> int:
    """How many calls the daemon has refused."""
    async with grpc.aio.insecure_channel(f"unix:{stack.socket}") as channel:
        audit = audit_service_pb2_grpc.AuditServiceStub(channel)
        request = audit_service_pb2.ListAuditRecordsRequest(event="call.refused", page_size=200)
        return len((await audit.ListAuditRecords(request)).records)


async def test_a_full_queue_of_operations_says_when_to_come_back(narrow: Api) -> None:
    made = [await narrow.operation(ENDLESS)]
    await narrow.operation_until(made[0]["id"], "running")
    made += [await narrow.operation(ENDLESS) for _ in range(3)]
    body = {"target": {"scope": "instance", "id": "lab"}, "method": "agent.restart"}
    limited(await narrow.ask("POST", "/operations", json=body), "queue_full")
    for one in reversed(made):
        await narrow.ok("POST", f"/operations/{one['id']}/cancel", 202)
    await narrow.operation_until(made[0]["id"], "cancelled")


async def test_who_guesses_tokens_is_held_up_and_who_has_one_is_not(narrow: Api) -> None:
    wrong = {"authorization": "Bearer guessed"}
    for path in ("/tasks", "/tasks/none", "/operations"):
        await narrow.refused("GET", path, 401, "unauthorized", headers=wrong)
    limited(await narrow.ask("POST", "/tasks", json={}, headers=wrong), "too_many_failures")
    await narrow.ok("GET", "/tasks")


async def test_one_stream_too_many_is_refused_before_it_begins(narrow: Api) -> None:
    task_id = await narrow.create(ASK)
    async with AsyncExitStack() as open_streams:
        for _ in range(64):
            frames = await open_streams.enter_async_context(
                narrow.open_stream(f"/tasks/{task_id}/events")
            )
        await take(frames, "input_request")
        limited(await narrow.ask("GET", f"/tasks/{task_id}/events"), "too_many_streams")


# --- ends of streams ------------------------------------------------------------------------------


async def test_a_reader_that_comes_too_late_is_told_what_was_cut(narrow: Api) -> None:
    lines = [{"log": {"level": "info", "message": str(n)}} for n in range(60)]
    task_id = await narrow.create(*lines, {"progress": {"percent": 99}}, ASK)
    await narrow.until(task_id, "input_required")
    async with narrow.open_stream(f"/tasks/{task_id}/events?since=2") as coming:
        cut, *kept = await take(coming, "input_request")
    assert (cut.event, cut.id) == ("backfill_truncated", "")
    assert cut.data["since"] == 2
    assert cut.data["hint"]
    assert kept[0].data["offset"] >= cut.data["oldest_offset"] > 3
    offsets = [frame.data["offset"] for frame in kept]
    assert offsets == sorted(set(offsets))
    assert [frame.event for frame in kept] == ["message"] * len(kept)
    # Who goes on from what is kept is told of no gap.
    path = f"/tasks/{task_id}/events"
    async with narrow.open_stream(path, **{"last-event-id": kept[0].id}) as coming:
        assert await take(coming, "input_request") == kept[1:]


async def test_a_gateway_that_stops_ends_its_streams_with_a_word(
    narrow: Api, narrow_stack: Stack
) -> None:
    task_id = await narrow.create(ASK, {"complete": {"result": 1}})
    path = f"/tasks/{task_id}/events"
    async with narrow.open_stream(path) as coming:
        before = await take(coming, "input_request")
        os.kill(narrow_stack.pids["gateway"], signal.SIGTERM)
        rest = [frame async for frame in coming]
    assert [(frame.event, frame.data) for frame in rest] == [("end", {"reason": "stream_closed"})]
    await asyncio.to_thread(narrow_stack.wait_restarted, "gateway")
    await narrow.renew()
    await narrow.ok("POST", f"/tasks/{task_id}/continue", json={"input": {}})
    after = await narrow.stream(path, **{"last-event-id": before[-1].id})
    assert after[-1].data == {"reason": "task_terminal"}
    assert ids(before) + ids(after) == ids(await narrow.stream(path))


async def test_a_reader_who_is_not_let_in_again_is_told_that_the_channel_is_closed(
    narrow: Api, narrow_stack: Stack
) -> None:
    scopes = ("task:create", "task:read", "task:control")
    own = Api(narrow_stack, narrow_stack.make_token("visitor", *scopes))
    task_id = await own.create(ASK)
    async with own.open_stream(f"/tasks/{task_id}/events") as coming:
        await take(coming, "input_request")
        await revoke_all(narrow_stack, "visitor")
        await asyncio.to_thread(narrow_stack.kill, "daemon")
        rest = [frame async for frame in coming]
    assert [(frame.event, frame.data) for frame in rest] == [("end", {"reason": "channel_closed"})]
    await own.http.aclose()


async def revoke_all(stack: Stack, principal: str) -> None:
    async with grpc.aio.insecure_channel(f"unix:{stack.socket}") as channel:
        access = access_service_pb2_grpc.AccessServiceStub(channel)
        found = await access.ListTokens(access_service_pb2.ListTokensRequest())
        for token in found.tokens:
            if token.principal == principal:
                await access.RevokeToken(
                    access_service_pb2.RevokeTokenRequest(token_id=token.token_id)
                )


# --- kill -9 under open streams -------------------------------------------------------------------


async def test_a_killed_daemon_leaves_no_gap_and_no_repetition_in_a_tasks_stream(
    narrow: Api, narrow_stack: Stack
) -> None:
    task_id = await narrow.create(
        {"progress": {"percent": 10}}, ASK, {"progress": {"percent": 90}}, {"complete": {}}
    )
    path = f"/tasks/{task_id}/events"
    async with narrow.open_stream(path) as coming, narrow.open_stream(path) as left:
        before = await take(coming, "input_request")
        seen = await take(left, "task_progress")
        await asyncio.to_thread(narrow_stack.kill, "daemon")
        await narrow.ok("POST", f"/tasks/{task_id}/continue", json={"input": {}})
        rest = [frame async for frame in coming]
    # The one reader stayed, the other went away and comes back after what it saw.
    again = await narrow.stream(path, **{"last-event-id": seen[-1].id})
    whole = await narrow.stream(path)
    assert [frame.data.get("type") for frame in whole].count("input_request") == 1
    assert whole[-1].data == {"reason": "task_terminal"}
    assert before + rest == seen + again == whole


@pytest.mark.req("R163", "R169")
async def test_a_killed_daemon_leaves_no_gap_and_no_repetition_in_an_operations_stream(
    narrow: Api, narrow_stack: Stack
) -> None:
    steps = {"progress": {"phase": "half", "current": 1, "total": 2}}, {"sleep_ms": 1500}
    made = await narrow.operation(*steps, {"commit": {"model": "after-the-kill"}})
    path = f"/operations/{made['id']}/events"
    async with narrow.open_stream(path) as coming, narrow.open_stream(path) as left:
        before = await take(coming, "runtime_operation_progress")
        seen = await take(left, "runtime_operation_started")
        await asyncio.to_thread(narrow_stack.kill, "daemon")
        rest = [frame async for frame in coming]
    again = await narrow.stream(path, **{"last-event-id": seen[-1].id})
    assert before + rest == seen + again
    check_log(log_of(before + rest), complete=True)
    assert rest[-1].data["outcome"] == "succeeded"
    assert [frame.event for frame in before + rest].count("runtime_effect_committed") == 1


@pytest.mark.req("R167", "R168", "I16", "Y12", "Y13")
async def test_a_killed_instance_leaves_an_operation_in_doubt_and_it_is_not_run_again(
    narrow: Api, narrow_stack: Stack, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    instance = await start_instance(narrow_stack, marks)
    made = await operate(narrow, {"after_ms": 600_000})
    waiting = await operate(narrow, {})
    await marked(marks, f"effect {made['id']}")
    instance.kill()
    await instance.wait()
    instance = await start_instance(narrow_stack, marks)
    lost = await narrow.operation_until(made["id"], "outcome_unknown")
    assert (lost["error"]["code"], lost["error"]["retryMode"]) == ("OUTCOME_UNKNOWN", "none")
    assert lost["product"] == {
        "status": "failed",
        "reason": "outcome_unknown",
        "outcome_certainty": "uncertain",
        "retry_policy": "manual_review",
    }
    await narrow.refused(
        "POST", f"/operations/{made['id']}/cancel", 409, "OPERATION_NOT_CANCELLABLE"
    )
    frames = await narrow.stream(f"/operations/{made['id']}/events")
    assert frames[-1].data["outcome"] == "outcome_unknown"
    # The next one was carried out by the instance that came after, and only the next one.
    await narrow.operation_until(waiting["id"], "succeeded")
    instance.kill()
    await instance.wait()
    assert marks.read_text().splitlines() == [
        f"{word} {one['id']}" for one in (made, waiting) for word in ("begun", "effect")
    ]


async def start_instance(stack: Stack, marks: Path) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.marking_instance", str(marks)),
        env=os.environ | {"AIOSD_SOCKET": str(stack.socket)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(30):
        assert await process.stdout.readline()
    return process


async def operate(api: Api, params: dict[str, Any]) -> dict[str, Any]:
    body = {
        "target": {"scope": "instance", "id": "marking"},
        "method": "mark",
        "params": params,
    }
    return await api.ok("POST", "/operations", 202, json=body)


async def marked(marks: Path, line: str) -> None:
    async def look() -> bool:
        return marks.exists() and line in marks.read_text().splitlines()

    await eventually(look, within_s=30)
