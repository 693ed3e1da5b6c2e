from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tests.gateway.aios.reference_daemon import Refused

if TYPE_CHECKING:
    from tests.gateway.aios.conftest import Gateway
    from tests.gateway.aios.reference_daemon import ReferenceDaemon

FAILED = grpc.StatusCode.FAILED_PRECONDITION
MISSING = grpc.StatusCode.NOT_FOUND


def state(name: str, attempted: str) -> dict[str, str]:
    return {"state": name, "attempted": attempted, "allowed": "working,canceled"}


@pytest.mark.req("R102", "R103", "R104", "R105")
@pytest.mark.parametrize(
    ("code", "reason", "metadata", "wanted"),
    [
        (MISSING, "TASK_NOT_FOUND", {}, (-32106, "Task not found", "AIOS-TASK-NOT-FOUND")),
        (
            FAILED,
            "TASK_STATE_INVALID",
            state("completed", "resume"),
            (-32107, "Task already completed", "AIOS-TASK-ALREADY-COMPLETED"),
        ),
        (
            FAILED,
            "TASK_STATE_INVALID",
            state("canceled", "resume"),
            (-32107, "Task already canceled", "AIOS-TASK-ALREADY-CANCELED"),
        ),
        (
            FAILED,
            "TASK_STATE_INVALID",
            state("failed", "resume"),
            (-32108, "Invalid task state", "AIOS-TASK-INVALID-STATE"),
        ),
        (
            FAILED,
            "TASK_STATE_INVALID",
            state("rejected", "resume"),
            (-32108, "Invalid task state", "AIOS-TASK-INVALID-STATE"),
        ),
        (
            FAILED,
            "TASK_STATE_INVALID",
            state("input_required", "resume"),
            (-32002, "Input required", "AIOS-TASK-INPUT-REQUIRED"),
        ),
        (
            FAILED,
            "NOT_PAUSABLE",
            {},
            (-32108, "Invalid task state", "AIOS-TASK-INVALID-STATE"),
        ),
        (FAILED, "INPUT_REJECTED", {}, (-32108, "Invalid input", "AIOS-TASK-INVALID-INPUT")),
        (FAILED, "ARGUMENTS_REJECTED", {}, (-32108, "Validation failed", "AIOS-VALIDATION-FAILED")),
        (
            MISSING,
            "CAPABILITY_NOT_FOUND",
            {},
            (-32003, "Capability not found", "AIOS-CAP-NOT-FOUND"),
        ),
        (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "QUEUE_FULL",
            {"limit": "100"},
            (-32006, "Task queue full", "AIOS-TASK-QUEUE-FULL"),
        ),
        (
            grpc.StatusCode.ALREADY_EXISTS,
            "REQUEST_ID_CONFLICT",
            {},
            (-32112, "Idempotency conflict", "AIOS-IDEMPOTENCY-CONFLICT"),
        ),
        (
            grpc.StatusCode.PERMISSION_DENIED,
            "AUTH_REJECTED",
            {},
            (-32001, "Permission denied", "AIOS-AUTH-FAILED"),
        ),
        (
            grpc.StatusCode.UNAVAILABLE,
            "OUTCOME_UNKNOWN",
            {},
            (-32603, "Internal error", "JSONRPC-INTERNAL"),
        ),
        (
            grpc.StatusCode.INTERNAL,
            "INTERNAL",
            {"incident": "i-1", "text": "/home/secret"},
            (-32603, "Internal error", "JSONRPC-INTERNAL"),
        ),
        (
            grpc.StatusCode.UNIMPLEMENTED,
            "NOT_IMPLEMENTED",
            {},
            (-32601, "Method not found", "JSONRPC-METHOD-NOT-FOUND"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_reason_of_the_daemon_has_one_error(
    gateway: Gateway,
    daemon: ReferenceDaemon,
    code: grpc.StatusCode,
    reason: str,
    metadata: dict[str, str],
    wanted: tuple[int, str, str],
) -> None:
    daemon.put()
    daemon.refusals["ResumeTask"] = Refused(code, reason, metadata)
    answer = await gateway.post("aios/task.resume", {"task_id": "task-1"})
    assert answer.status_code == 200
    error = answer.json()["error"]
    assert (error["code"], error["message"], error["data"]["error_id"]) == wanted
    assert {"timestamp", "trace_id"} <= error["data"].keys()
    assert "secret" not in answer.text
    if reason == "TASK_STATE_INVALID":
        assert {"current_status", "attempted", "allowed"} <= error["data"].keys()


async def test_an_argument_that_the_daemon_refuses_has_the_name_of_this_wire(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    daemon.refusals["CreateTask"] = Refused(
        grpc.StatusCode.INVALID_ARGUMENT,
        "ARGUMENT_INVALID",
        violations={"options.timeout": "must be at most 30 days"},
    )
    error = await gateway.error("aios/task.create", {"capability_id": "lab.script"})
    assert (error["code"], error["data"]["field"]) == (-32602, "options.timeout_ms")


async def test_a_rate_limit_is_an_http_429(gateway: Gateway, daemon: ReferenceDaemon) -> None:
    daemon.refusals["CreateTask"] = Refused(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED", {"limit": "50"}, retry_after_s=2
    )
    answer = await gateway.post("aios/task.create", {"capability_id": "lab.script"})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    error: Any = answer.json()["error"]
    assert (error["code"], error["message"]) == (-32006, "Rate limited")
    assert error["data"]["retry_after_ms"] == 2000
