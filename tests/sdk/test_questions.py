"""Questions and authorizations, as the capability and the daemon see them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.api.v1 import interruption_pb2
from aiosd.sdk import Provider, ReportRefused, TaskContext
from tests.sdk.reference_daemon import name

if TYPE_CHECKING:
    from tests.sdk.conftest import Attach
    from tests.sdk.reference_daemon import ReferenceDaemon


def asker(**question: Any) -> Provider:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> Any:
        return await task.ask("Which?", **question)

    return provider


@pytest.mark.req("I25")
async def test_a_question_waits_for_its_answer(daemon: ReferenceDaemon, attach: Attach) -> None:
    provider = asker(
        options=["a", {"id": "b", "label": "B", "value": 2}],
        schema={"type": "object"},
        timeout_ms=60_000,
    )
    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "request_input")
        daemon.send(input=wire.Input(**name(attempt), action="ask-1", input='{"id":"b"}'))
        ending = await daemon.ended(attempt)
    asked = attempt.last("request_input")
    assert (asked.action, asked.prompt, asked.timeout.ToMilliseconds()) == (
        "ask-1",
        "Which?",
        60_000,
    )
    assert [(one.id, one.label, one.value) for one in asked.options] == [
        ("a", "", ""),
        ("b", "B", "2"),
    ]
    assert json.loads(ending.completed.result) == {"id": "b"}


@pytest.mark.req("I25")
async def test_the_answer_may_come_after_a_restart_and_twice(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    async with attach(asker()):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "request_input")
        await daemon.stop()
        await daemon.start()
        await daemon.until(lambda: len(daemon.hellos) == 2)
        assert daemon.hellos[1].attempts[0].waiting_action == "ask-1"
        for _ in range(2):
            daemon.send(input=wire.Input(**name(attempt), action="ask-1", input='{"x":1}'))
        ending = await daemon.ended(attempt)
    assert json.loads(ending.completed.result) == {"x": 1}


async def test_a_question_that_an_earlier_attempt_got_answered_is_not_asked_again(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    answers = (
        wire.PastAnswer(action="ask-1", prompt="Another?", input='{"no":true}'),
        wire.PastAnswer(action="ask-1", prompt="Which?", input='{"id":"a"}'),
    )
    async with attach(asker()):
        attempt = await daemon.begin("c", number=2, answers=answers)
        ending = await daemon.ended(attempt)
    assert json.loads(ending.completed.result) == {"id": "a"}
    assert attempt.kinds() == ["completed"]


async def test_a_refused_question_is_raised_where_it_was_asked(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")
    daemon.refuse = lambda one: "TASK_STATE_INVALID" if one.HasField("request_input") else ""

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> str:
        with pytest.raises(ReportRefused) as caught:
            await task.ask("Which?")
        return caught.value.reason

    async with attach(provider):
        ending = await daemon.ended(await daemon.begin("c"))
    assert json.loads(ending.completed.result) == "TASK_STATE_INVALID"


async def test_a_pause_during_a_question_is_reported_at_once_and_outlasts_the_answer(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    async with attach(asker()):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "request_input")
        daemon.send(pause=wire.Pause(**name(attempt)))
        await daemon.stored(attempt, "paused")
        daemon.send(input=wire.Input(**name(attempt), action="ask-1", input="{}"))
        beats = daemon.heartbeats
        await daemon.until(lambda: daemon.heartbeats > beats)
        assert not attempt.over
        daemon.send(resume=wire.Resume(**name(attempt)))
        await daemon.ended(attempt)


@pytest.mark.req("S-29")
async def test_a_credential_is_handed_over_and_not_repeated(
    daemon: ReferenceDaemon, attach: Attach, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Provider("p")
    caplog.set_level("DEBUG")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> int:
        grant = await task.authorize("api_key", provider="mail", reason="to send")
        return len(grant.api_key)

    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "request_auth")
        grant = interruption_pb2.AuthResponse(
            type=interruption_pb2.AUTH_TYPE_API_KEY, api_key="sesame-opens"
        )
        daemon.send(
            auth_granted=wire.AuthGranted(**name(attempt), action="auth-1", auth_response=grant)
        )
        ending = await daemon.ended(attempt)
    asked = attempt.last("request_auth").auth_request
    assert (asked.type, asked.provider) == (interruption_pb2.AUTH_TYPE_API_KEY, "mail")
    assert ending.completed.result == "12"
    assert "sesame" not in caplog.text


async def test_cancel_ends_a_question(daemon: ReferenceDaemon, attach: Attach) -> None:
    async with attach(asker()):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "request_input")
        daemon.cancel(attempt)
        assert (await daemon.ended(attempt)).HasField("canceled")
