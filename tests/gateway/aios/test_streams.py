from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.api.v1 import artifact_pb2, event_pb2, interruption_pb2, task_pb2
from tests.gateway.aios.reference_daemon import moment
from tests.support.sse_parser import ServerSentEvent, SseParser
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from tests.gateway.aios.conftest import Gateway
    from tests.gateway.aios.reference_daemon import ReferenceDaemon

SSE = {"accept": "text/event-stream"}


def status(state: task_pb2.TaskState.ValueType) -> dict[str, Any]:
    return {"status_changed": event_pb2.StatusChanged(state=state)}


def log(message: str) -> dict[str, Any]:
    return {"logged": event_pb2.Logged(level=event_pb2.LOG_LEVEL_INFO, message=message)}


async def finish(daemon: ReferenceDaemon, task_id: str = "task-1") -> None:
    daemon.tasks[task_id].end_time.CopyFrom(moment(9))
    await daemon.happen(
        task_id,
        status(task_pb2.TASK_STATE_COMPLETED),
        {"result_stored": event_pb2.ResultStored(result='{"n":1}')},
    )


async def events_of(answer: httpx.Response, parser: SseParser) -> AsyncIterator[ServerSentEvent]:
    async for chunk in answer.aiter_bytes():
        for event in parser.feed(chunk):
            yield event


async def subscribed(gateway: Gateway, **params: Any) -> str:
    result = await gateway.result("aios/task.subscribe", {"task_id": "task-1", **params})
    stream_url: str = result["stream_url"]
    return stream_url


@pytest.mark.req("R060")
async def test_a_subscription_says_where_its_stream_is(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    daemon.put()
    assert await gateway.result("aios/task.subscribe", {"task_id": "task-1"}) == {
        "subscription_id": "sub-1",
        "task_id": "task-1",
        "stream_url": "/aios/events?subscription_id=sub-1",
    }


@pytest.mark.req("R064", "R065", "R068", "R070", "R071")
async def test_a_stream_tells_everything_in_order_and_ends(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    daemon.put()
    url = await subscribed(gateway)
    await daemon.happen("task-1", status(task_pb2.TASK_STATE_WORKING), log("a\n\ndata: x"))
    async with gateway.client.stream("GET", url, headers=SSE) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        await finish(daemon)
        events = [event async for event in events_of(answer, SseParser())]
    assert [(event.last_event_id, event.type) for event in events] == [
        ("evt-001", "task.status"),
        ("evt-002", "task.log"),
        ("evt-003", "task.status"),
        ("evt-004", "task.result"),
    ]
    assert json.loads(events[0].data) == {
        "task_id": "task-1",
        "status": "working",
        "timestamp": "2026-01-05T10:00:00.000Z",
    }
    assert json.loads(events[1].data)["message"] == "a\n\ndata: x"
    assert json.loads(events[3].data) == {"task_id": "task-1", "result": {"n": 1}, "artifacts": []}


@pytest.mark.req("R060", "X19")
async def test_a_subscription_may_be_answered_as_the_stream_itself(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    daemon.put()
    await daemon.happen("task-1", log("before"))
    body = {
        "jsonrpc": "2.0",
        "id": "s-1",
        "method": "aios/task.subscribe",
        "params": {"task_id": "task-1"},
    }
    async with gateway.client.stream("POST", "/aios/rpc", json=body, headers=SSE) as answer:
        events = events_of(answer, SseParser())
        first = await anext(events)
        assert (first.type, first.last_event_id) == ("message", "")
        response = json.loads(first.data)
        assert (response["id"], response["result"]["task_id"]) == ("s-1", "task-1")
        await finish(daemon)
        assert [event.type async for event in events] == ["task.status", "task.result"]


async def test_an_error_of_a_streamed_call_is_its_only_frame(gateway: Gateway) -> None:
    answer = await gateway.post("aios/task.subscribe", {"task_id": "none"}, **SSE)
    assert answer.headers["content-type"].startswith("text/event-stream")
    (event,) = SseParser().feed(answer.content)
    assert json.loads(event.data)["error"]["code"] == -32106


@pytest.mark.req("R073", "R074", "R078")
async def test_missed_events_are_the_frames_themselves(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    daemon.put()
    await daemon.happen("task-1", log("one"), log("two"), log("three"))
    url = await subscribed(gateway, last_event_id="evt-000")
    result = await gateway.result(
        "aios/task.resubscribe", {"task_id": "task-1", "last_event_id": "evt-1"}
    )
    assert result["subscription_id"] == "sub-2"
    await finish(daemon)
    streamed = SseParser().feed((await gateway.client.get(url, headers=SSE)).content)
    assert result["missed_events"] == [
        {"id": event.last_event_id, "event": event.type, "data": json.loads(event.data)}
        for event in streamed[1:3]
    ]
    for bad in ("evt-99", "99", "evt-x", ""):
        error = await gateway.error(
            "aios/task.resubscribe", {"task_id": "task-1", "last_event_id": bad}
        )
        assert (error["code"], error["data"]["field"]) == (-32602, "last_event_id")


@pytest.mark.req("R079")
async def test_last_event_id_resumes_after_an_event(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    daemon.put()
    url = await subscribed(gateway)
    await daemon.happen("task-1", log("one"), log("two"))
    await finish(daemon)
    answer = await gateway.client.get(url, headers=SSE | {"last-event-id": "evt-002"})
    assert [e.last_event_id for e in SseParser().feed(answer.content)] == ["evt-003", "evt-004"]
    for bad in ("evt-9", "two", "3"):
        refused = await gateway.client.get(url, headers=SSE | {"last-event-id": bad})
        assert refused.status_code == 400


async def test_an_unknown_subscription_has_no_stream(gateway: Gateway) -> None:
    answer = await gateway.client.get("/aios/events?subscription_id=sub-9", headers=SSE)
    assert answer.status_code == 404
    assert (await gateway.client.get("/aios/events", headers=SSE)).status_code == 400
    json_only = {"accept": "application/json"}
    refused = await gateway.client.get("/aios/events?subscription_id=s", headers=json_only)
    assert refused.status_code == 406


@pytest.mark.req("R075", "R076")
async def test_a_reader_does_not_notice_that_the_daemon_was_restarted(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    daemon.put()
    url = await subscribed(gateway)
    async with gateway.client.stream("GET", url, headers=SSE) as answer:
        events = events_of(answer, SseParser())
        await daemon.happen("task-1", log("before"))
        assert (await anext(events)).last_event_id == "evt-001"
        await daemon.stop()
        await daemon.happen("task-1", log("during"))
        await daemon.start()
        await finish(daemon)
        assert [e.last_event_id async for e in events] == ["evt-002", "evt-003", "evt-004"]


async def test_streams_end_with_a_word_when_the_gateway_stops(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    daemon.put()
    url = await subscribed(gateway)
    parser = SseParser()
    async with gateway.client.stream("GET", url, headers=SSE) as answer:
        await daemon.until(lambda: daemon.open_streams == 1)
        gateway.context.stopping.set()
        assert [e async for e in events_of(answer, parser)] == []
    assert parser.comments[-1].strip() == "the server is stopping, connect again"
    assert (await gateway.post("aios/ping")).status_code == 503


async def test_a_reader_who_leaves_ends_the_stream_of_the_daemon(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    daemon.put()
    url = await subscribed(gateway)
    async with gateway.client.stream("GET", url, headers=SSE) as answer:
        await daemon.happen("task-1", log("here"))
        await anext(events_of(answer, SseParser()))
        assert daemon.open_streams == 1

    async def is_over() -> bool:
        return daemon.open_streams == 0

    await eventually(is_over)


@pytest.mark.req("R066", "R067", "R069", "R107")
async def test_every_event_of_the_document_has_its_members(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    daemon.put()
    artifact = artifact_pb2.Artifact(
        artifact_id="art-1", task_id="task-1", name="Report", type="report", sealed=True, version=1
    )
    question = interruption_pb2.Interruption(interruption_id="int-1", prompt="Which?")
    question.options.add(id="a", label="A", value='{"x":1}')
    wish = interruption_pb2.Interruption(interruption_id="int-2")
    wish.auth_request.type = interruption_pb2.AUTH_TYPE_OAUTH2
    wish.auth_request.provider = "google"
    wish.auth_request.authorization_url = "https://example.org/auth"
    wish.auth_request.scopes.append("drive")
    wish.auth_request.reason = "needs the drive"
    wish.timeout.seconds = 300
    failed = event_pb2.Failed(outcome=task_pb2.OUTCOME_CERTAIN)
    failed.failure.code, failed.failure.message, failed.failure.data = -32050, "no", '{"k":1}'
    failed.failure.reason = "error"
    await daemon.happen(
        "task-1",
        {"progressed": task_pb2.Progress(percent=45, message="m", current_step=2, total_steps=4)},
        {"artifact_changed": event_pb2.ArtifactChanged(artifact=artifact)},
        {"artifact_changed": event_pb2.ArtifactChanged(artifact=artifact, last_chunk=True)},
        {"input_required": question},
        {"auth_required": wish},
        {"attempt_changed": event_pb2.AttemptChanged(attempt=2, change="lost", reason="silence")},
        status(task_pb2.TASK_STATE_FAILED),
        {"failed": failed},
    )
    result = await gateway.result("aios/task.resubscribe", {"task_id": "task-1"})
    told = {event["id"]: (event["event"], event["data"]) for event in result["missed_events"]}
    assert "evt-002" not in told
    assert told["evt-001"] == (
        "task.progress",
        {
            "task_id": "task-1",
            "progress": {"percent": 45, "message": "m", "current_step": 2, "total_steps": 4},
        },
    )
    name, data = told["evt-003"]
    assert name == "task.artifact"
    assert {"id": "art-1", "name": "Report", "type": "report"}.items() <= data["artifact"].items()
    assert "parts" not in data["artifact"]
    name, data = told["evt-004"]
    assert (name, data["prompt"]) == ("task.input_required", "Which?")
    assert data["options"] == [{"id": "a", "label": "A", "value": {"x": 1}}]
    name, data = told["evt-005"]
    assert (name, data["status"]) == ("task.auth_required", "auth_required")
    assert {
        "type": "oauth2",
        "provider": "google",
        "authorization_url": "https://example.org/auth",
        "scopes": ["drive"],
        "reason": "needs the drive",
        "timeout_ms": 300000,
    }.items() <= data["auth_request"].items()
    name, data = told["evt-006"]
    assert (name, data["level"]) == ("task.log", "WARN")
    name, data = told["evt-008"]
    assert (name, data["failed_at"]) == ("task.error", "2026-01-05T10:00:07.000Z")
    assert (data["error"]["code"], data["error"]["message"]) == (-32050, "no")
    assert data["error"]["data"]["k"] == 1


@pytest.mark.req("R062", "R063", "X14")
@pytest.mark.parametrize(
    ("names", "families"),
    [
        ([], [1, 2, 3, 4]),
        (["status"], [1]),
        (["task.log", "progress"], [2, 4]),
        (["result", "task.error", "input_required"], [1]),
        (["artifact"], [3]),
    ],
    ids=str,
)
async def test_names_of_events_select_families(
    gateway: Gateway, daemon: ReferenceDaemon, names: list[str], families: list[int]
) -> None:
    daemon.put()
    await subscribed(gateway, events=names)
    assert list(daemon.asked[-1].families) == families
