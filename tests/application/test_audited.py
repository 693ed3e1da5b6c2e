"""What is recorded besides changes of state: questions, answers, and calls that make things."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.application.errors import PermissionDenied, RateLimited, Unauthenticated
from aiosd.application.flood import MOST, WINDOW_MS
from aiosd.application.messages import Paused, RequestInput
from aiosd.application.permission_requests import Wish
from aiosd.domain.capability import PermissionLevel
from aiosd.domain.interruption import AuthResponse, AuthType
from aiosd.domain.permission import GrantDuration, Lifetime
from aiosd.domain.state import TaskState
from tests.application.stage import ANN, BOB, Hand, Stage, on_stage
from tests.support.builders import a_capability

if TYPE_CHECKING:
    from aiosd.domain.task import Task

LOW = a_capability("demo.low", level=PermissionLevel.LOW, permissions=("demo.low",))
YES = AuthResponse(AuthType.APPROVAL, approve=True)
NO = AuthResponse(AuthType.APPROVAL, approve=False)


async def recorded(stage: Stage, event: str = "", task: Task | None = None) -> list[Any]:
    """(event, decision, details) of records, oldest first."""
    found = await stage.store.audit_records("" if task is None else task.id, event, 0, 1000)
    return [
        (one.record.event, one.record.decision, json.loads(one.record.details)) for one in found
    ]


async def permissions(stage: Stage) -> list[tuple[str, str]]:
    """Events about permissions, and their decisions."""
    return [
        (event.removeprefix("permission."), decision)
        for event, decision, _ in await recorded(stage)
        if event.startswith("permission.")
    ]


async def asked(stage: Stage) -> Task:
    """A task of ann's that waits for an approval."""
    await Hand(stage, "s").attach(LOW)
    task = await stage.create(LOW.id)
    assert (await stage.now(task)).state is TaskState.AUTH_REQUIRED
    return task


@pytest.mark.req("R137")
@on_stage()
async def test_a_question_and_its_answer_are_recorded(stage: Stage) -> None:
    task = await asked(stage)
    await stage.core.control.authenticate(BOB, task.id, NO, "")
    assert await permissions(stage) == [("requested", "asked"), ("denied", "denied")]
    ((_, _, question),) = await recorded(stage, "permission.requested")
    ((_, _, answer),) = await recorded(stage, "permission.denied")
    assert (question["permissions"], question["for"]) == (["demo.low"], "ann")
    assert (answer["answer"], answer["by"]) == ("deny", "bob")
    assert question["request_id"] == answer["request_id"]


@pytest.mark.req("R137")
@on_stage(approval_timeout_ms=5_000)
async def test_a_question_that_nobody_answers_is_recorded_as_such(stage: Stage) -> None:
    await asked(stage)
    await stage.pass_time(6_000)
    assert await permissions(stage) == [("requested", "asked"), ("expired", "denied")]
    ((_, _, end),) = await recorded(stage, "permission.expired")
    assert (end["answer"], end["reason"], end["for"]) == ("none", "wait_expired", "ann")


@pytest.mark.req("R137")
@on_stage()
async def test_a_question_whose_task_is_canceled_is_withdrawn(stage: Stage) -> None:
    task = await asked(stage)
    await stage.core.control.cancel(ANN, task.id, "not any more")
    assert await permissions(stage) == [("requested", "asked"), ("withdrawn", "denied")]
    ((_, _, end),) = await recorded(stage, "permission.withdrawn")
    assert end["reason"] == "not any more"


@pytest.mark.req("R137")
@on_stage()
async def test_an_approval_is_not_told_twice(stage: Stage) -> None:
    task = await asked(stage)
    await stage.core.control.authenticate(BOB, task.id, YES, "")
    await stage.core.control.cancel(ANN, task.id, "")
    assert await permissions(stage) == [("requested", "asked"), ("granted", "allowed")]


@pytest.mark.req("R137", "R122")
@on_stage()
async def test_a_request_ahead_is_recorded_whether_or_not_somebody_is_asked(stage: Stage) -> None:
    await Hand(stage, "s").attach(LOW)
    lasting = Wish("demo.low", lifetime=Lifetime(GrantDuration.PERSISTENT))
    requests = stage.core.permission_requests
    waiting = stage.spawn(requests.request(ANN, LOW.id, [lasting], ""))
    await stage.settle()
    ((_, _, question),) = await recorded(stage, "permission.requested")
    (task,) = await stage.store.open_tasks()
    await stage.core.control.authenticate(BOB, task.id, YES, "")
    (grant,) = (await waiting).grants
    again = await requests.request(ANN, LOW.id, [lasting], "")
    assert again.granted
    assert await permissions(stage) == [
        ("requested", "asked"),
        ("granted", "allowed"),
        ("requested", "allowed"),
    ]
    *_, (_, _, second) = await recorded(stage, "permission.requested")
    assert question["permissions"] == second["permissions"] == ["demo.low"]
    assert (second["answer"], second["grants"]) == ("held", [grant.id])


@pytest.mark.req("I43", "X08")
@on_stage(max_concurrent_tasks=1)
async def test_an_answer_that_waits_for_a_slot_is_recorded_when_it_is_given(stage: Stage) -> None:
    hand = await Hand(stage, "s").attach()
    task = await stage.create()
    await hand.say(task, RequestInput("pick", "which?"))
    other = await stage.create()
    assert (await stage.now(other)).state is TaskState.WORKING
    await stage.core.control.submit_input(ANN, task.id, '{"a":1}', "")
    assert (await stage.now(task)).resume_pending
    *_, last = await recorded(stage, task=task)
    assert last == (
        "task.may_go_on",
        "allowed",
        {"state": "input_required", "reason": "input received"},
    )


@pytest.mark.req("I43", "X08")
@on_stage(max_concurrent_tasks=1)
async def test_a_resume_that_waits_for_a_slot_is_recorded_when_it_is_asked_for(
    stage: Stage,
) -> None:
    hand = await Hand(stage, "s").attach()
    task = await stage.create()
    pausing = stage.spawn(stage.core.control.pause(ANN, task.id, "lunch"))
    await stage.settle()
    await hand.say(task, Paused())
    await pausing
    await stage.create()
    await stage.core.control.resume(ANN, task.id, "back")
    *_, (event, _, details) = await recorded(stage, task=task)
    assert (event, details) == ("task.may_go_on", {"state": "paused", "reason": "back"})


@pytest.mark.req("I43")
@on_stage()
async def test_sessions_and_subscriptions_are_recorded(stage: Stage) -> None:
    core = stage.core
    session = await core.client_sessions.create(ANN, "{}", 0)
    await core.client_sessions.close(ANN, session.id, "done", 0)
    task = await stage.create()
    subscription, _ = await core.subscriptions.create(ANN, task.id, (), None, missed=False)
    await core.subscriptions.delete(ANN, subscription.id)
    told = [(event, details) for event, _, details in await recorded(stage)]
    assert ("session.created", {"session_id": session.id, "lifetime_ms": 3_600_000}) in told
    closed = {"session_id": session.id, "reason": "done", "canceled": 0}
    assert ("session.closed", closed) in told
    of_task = [event for event, _, _ in await recorded(stage, task=task)]
    assert of_task == ["task.created", "subscription.created", "subscription.removed"]


@pytest.mark.req("I43", "S-20", "S-10")
@pytest.mark.parametrize("refusal", [RateLimited("wait"), Unauthenticated()])
@on_stage()
async def test_a_flood_of_refusals_fills_no_disk_and_is_counted(
    stage: Stage, refusal: RateLimited | Unauthenticated
) -> None:
    for _ in range(MOST + 7):
        await stage.core.audit.refused(refusal)
    assert len(await recorded(stage, "call.refused")) == MOST
    await stage.core.audit.refused(PermissionDenied("no"))  # of a sort that costs a credential
    await stage.pass_time(WINDOW_MS)
    await stage.core.audit.refused(refusal)
    await stage.core.audit.refused(refusal)
    *_, denied, first, second = await recorded(stage, "call.refused")
    assert denied[2]["reason"] == "PERMISSION_DENIED"
    assert first[2]["omitted"] == 7
    assert "omitted" not in second[2]
