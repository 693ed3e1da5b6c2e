from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from aiosd.api.v1 import artifact_pb2, task_pb2
from tests.gateway.aios.reference_daemon import moment

if TYPE_CHECKING:
    from tests.gateway.aios.conftest import Gateway
    from tests.gateway.aios.reference_daemon import ReferenceDaemon


@pytest.mark.req("R006", "R011")
async def test_a_created_task_is_pending_and_has_an_id(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    params = {
        "capability_id": "lab.script",
        "arguments": {"n": 9007199254740991},
        "metadata": {"tags": ["a"], "user_request": "比较"},
        "options": {
            "async": True,
            "priority": "high",
            "timeout_ms": 120000,
            "retry": {"max_attempts": 3, "delay_ms": 1000},
        },
    }
    result = await gateway.result("aios/task.create", params, **{"idempotency-key": "k-1"})
    assert result == {
        "task_id": "task-1",
        "status": "pending",
        "created_at": "2026-01-05T10:00:00.000Z",
    }
    asked = daemon.asked[-1]
    assert json.loads(asked.arguments) == params["arguments"]
    assert json.loads(asked.metadata) == params["metadata"]
    assert (asked.request_id, asked.options.priority) == ("k-1", task_pb2.PRIORITY_HIGH)
    assert (asked.options.timeout.seconds, asked.options.retry.max_attempts) == (120, 3)
    assert (asked.options.retry.delay.seconds, asked.options.synchronous) == (1, False)
    assert not asked.HasField("wait")


@pytest.mark.req("R005", "R007")
async def test_a_synchronous_creation_answers_with_the_whole_task(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    result = await gateway.result("aios/task.create", {"capability_id": "lab.script"})
    assert (result["status"], result["result"]) == ("completed", {"done": True})
    assert (daemon.asked[-1].wait.seconds, daemon.asked[-1].options.synchronous) == (60, True)


@pytest.mark.req("R016", "R017", "R020", "R051")
async def test_a_task_has_the_members_of_the_document(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    task = daemon.put(progress=task_pb2.Progress(percent=45, current_step=2, total_steps=4))
    result = await gateway.result("aios/task.get", {"task_id": "task-1"})
    assert result["progress"] == {"percent": 45, "current_step": 2, "total_steps": 4}
    assert result["started_at"] == "2026-01-05T10:00:01.000Z"
    assert result["artifacts"] == []
    assert result["attempt"] == 1
    assert "state_history" not in result
    task.ClearField("start_time")
    task.state = task_pb2.TASK_STATE_SUBMITTED
    result = await gateway.result("aios/task.get", {"task_id": "task-1"})
    assert result["status"] == "pending"
    assert "started_at" not in result


@pytest.mark.req("R039", "R106", "X43")
async def test_a_rejected_task_is_a_failed_one(gateway: Gateway, daemon: ReferenceDaemon) -> None:
    task = daemon.put(
        state=task_pb2.TASK_STATE_REJECTED,
        end_time=moment(3),
        outcome=task_pb2.OUTCOME_NOT_STARTED,
        retry_advice=task_pb2.RETRY_ADVICE_RESUBMIT,
    )
    task.failure.message, task.failure.reason = "not today", "rejected"
    result = await gateway.result("aios/task.get", {"task_id": "task-1"})
    assert (result["status"], result["failed_at"]) == ("failed", "2026-01-05T10:00:03.000Z")
    assert (result["error"]["code"], result["error"]["message"]) == (-32113, "not today")
    assert result["error"]["data"]["reason"] == "rejected"
    assert result["error"]["data"]["error_id"] == "AIOS-TASK-REJECTED"
    assert (result["outcome_certainty"], result["retry_policy"]) == ("not_started", "resubmit")


@pytest.mark.req("R095")
async def test_a_timeout_has_the_members_of_the_document(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    task = daemon.put(state=task_pb2.TASK_STATE_FAILED, end_time=moment(30))
    task.failure.code, task.failure.message, task.failure.reason = -32005, "Timeout", "timeout"
    task.failure.data = '{"capability_id":"lab.script","timeout_ms":30000,"elapsed_ms":30500}'
    error = (await gateway.result("aios/task.get", {"task_id": "task-1"}))["error"]
    assert (error["code"], error["message"]) == (-32005, "Timeout")
    assert {"capability_id": "lab.script", "timeout_ms": 30000, "elapsed_ms": 30500}.items() <= (
        error["data"].items()
    )
    assert error["data"]["error_id"] == "AIOS-TIMEOUT"


@pytest.mark.req("R021", "R023", "R024")
async def test_a_page_of_a_list_says_whether_there_is_more(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    for number in range(3):
        daemon.put(f"task-{number}")
    result = await gateway.result(
        "aios/task.list",
        {"filter": {"status": ["working"]}, "pagination": {"limit": 2, "offset": 1}},
    )
    assert [row["task_id"] for row in result["tasks"]] == ["task-1", "task-2"]
    assert (result["total"], result["has_more"]) == (3, False)
    result = await gateway.result("aios/task.list", {"pagination": {"limit": 2}})
    assert (len(result["tasks"]), result["has_more"]) == (2, True)
    assert result["tasks"][0]["progress"] == {"percent": 0}


@pytest.mark.req("R032")
async def test_history_asks_for_tasks_that_have_ended(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    daemon.put(state=task_pb2.TASK_STATE_CANCELED, end_time=moment(5))
    daemon.put("task-2")
    result = await gateway.result(
        "aios/task.history", {"filter": {"start_time": "2026-01-05T11:00:00+01:00"}}
    )
    (row,) = result["tasks"]
    assert (row["canceled_at"], row["duration_ms"]) == ("2026-01-05T10:00:05.000Z", 4000)
    assert daemon.asked[-1].created_since == moment(0)
    assert set(daemon.asked[-1].states) == {3, 4, 5, 7}


@pytest.mark.req("R026", "R027", "X13")
async def test_changes_answer_with_the_status_and_the_moment(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    daemon.put()
    moment_ = "2026-01-05T10:00:01.000Z"
    paused = await gateway.result("aios/task.pause", {"task_id": "task-1"})
    assert paused == {"task_id": "task-1", "status": "paused", "paused_at": moment_}
    canceled = await gateway.result("aios/task.cancel", {"task_id": "task-1", "reason": "enough"})
    assert canceled == {"task_id": "task-1", "status": "canceled", "canceled_at": moment_}
    assert daemon.asked[-1].reason == "enough"


@pytest.mark.req("R081", "R082", "R085", "R086")
async def test_an_artifact_has_its_parts_only_when_it_is_asked_for(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    daemon.put()
    artifact = artifact_pb2.Artifact(
        artifact_id="art-1",
        task_id="task-1",
        name="Report",
        type="report",
        mime_type="application/json",
        version=1,
        sealed=True,
        create_time=moment(2),
    )
    artifact.parts.add(text="## 结果")
    artifact.parts.add(data='{"jd":{"price":299}}')
    daemon.artifacts["art-1"] = artifact
    listed = await gateway.result("aios/artifact.list", {"task_id": "task-1"})
    assert listed["total"] == 1
    assert "parts" not in listed["artifacts"][0]
    got = (await gateway.result("aios/artifact.get", {"artifact_id": "art-1"}))["artifact"]
    assert got["parts"] == [
        {"type": "text", "text": "## 结果"},
        {"type": "data", "data": {"jd": {"price": 299}}},
    ]
    assert got["metadata"] == {"source_task": "task-1", "version": 1}
    assert (await gateway.error("aios/artifact.get", {"artifact_id": "x"}))["code"] == -32110
    assert (await gateway.error("aios/artifact.list", {"task_id": "x"}))["code"] == -32106


@pytest.mark.req("R108", "X34")
@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"type": "oauth2", "authorization_code": "c"}, "auth_response.state"),
        ({"type": "api_key"}, "auth_response.api_key"),
        ({"type": "password", "username": "u"}, "auth_response.password"),
        ({"type": "certificate", "certificate": "no"}, "auth_response.certificate"),
        ({"type": "approval"}, "auth_response.decision"),
        ({"type": "approval", "decision": "maybe"}, "auth_response.decision"),
    ],
    ids=str,
)
async def test_an_incomplete_credential_is_named(
    gateway: Gateway, daemon: ReferenceDaemon, given: dict[str, str], field: str
) -> None:
    daemon.put()
    error = await gateway.error(
        "aios/task.authenticate", {"task_id": "task-1", "auth_response": given}
    )
    assert (error["code"], error["data"]["field"]) == (-32602, field)


@pytest.mark.req("R094")
@pytest.mark.parametrize("version", ["0.3.0", "2.0.0", "0.2.0"])
async def test_a_version_that_both_speak_is_agreed_on(gateway: Gateway, version: str) -> None:
    params = {"protocol_version": "7", "client_info": {"name": "c", "version": "1"}}
    error = await gateway.error("aios/initialize", params)
    assert (error["code"], error["message"]) == (-32009, "Version mismatch")
    assert error["data"]["requested_version"] == "7"
    result = await gateway.result("aios/initialize", params | {"supported_versions": [version]})
    assert result["protocol_version"] == {"2.0.0": "0.3.0"}.get(version, version)
    limits = result["capabilities"]["limits"]
    assert (limits["max_concurrent_tasks"], limits["max_message_size"]) == (10, 1_048_576)
