"""Every step of the lab, over the real provider protocol."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.api.v1 import content_pb2, event_pb2, interruption_pb2
from aiosd.capabilities.lab import make_provider
from aiosd.capabilities.lab_steps import steps_of
from tests.capabilities.conftest import eventually
from tests.sdk.reference_daemon import ReferenceDaemon, running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sdk.conftest import Attach
    from tests.sdk.reference_daemon import Attempt

Step = dict[str, Any]


async def begin(daemon: ReferenceDaemon, *steps: Step, **options: Any) -> Attempt:
    return await daemon.begin("lab.script", json.dumps({"steps": list(steps)}), **options)


async def play(daemon: ReferenceDaemon, attach: Attach, *steps: Step) -> Attempt:
    """A script from begin to end."""
    async with attach(make_provider()):
        attempt = await begin(daemon, *steps)
        await daemon.ended(attempt)
        return attempt


def result_of(attempt: Attempt) -> Any:
    return json.loads(attempt.stored[-1].completed.result)


async def test_no_steps_complete_with_no_inputs(daemon: ReferenceDaemon, attach: Attach) -> None:
    async with attach(make_provider()):
        absent = await daemon.begin("lab.script", "{}")
        await daemon.ended(absent)
        empty = await begin(daemon)
        await daemon.ended(empty)
    assert result_of(absent) == result_of(empty) == {"inputs": [], "attempt": 1}


async def test_the_lab_offers_what_it_says_it_offers(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    async with attach(make_provider()):
        hello = daemon.hellos[0]
    offered = {one.capability_id: one for one in hello.capabilities}
    levels = {name: one.permission_level for name, one in offered.items()}
    assert levels == {
        "lab.script": 1,
        "lab.script.low": 2,
        "lab.script.medium": 3,
        "lab.script.high": 4,
        "lab.script.critical": 5,
        "lab.script.retry_safe": 1,
        "lab.script.unpausable": 1,
        "lab.other.script": 1,
        "lab.script.brief": 1,
    }
    assert [name for name, one in offered.items() if one.retry_safe] == ["lab.script.retry_safe"]
    assert [name for name, one in offered.items() if not one.pausable] == ["lab.script.unpausable"]
    assert {name: one.tool_id for name, one in offered.items() if one.tool_id != "lab"} == {
        "lab.other.script": "lab.other"
    }
    assert offered["lab.script.brief"].default_timeout.ToMilliseconds() == 500
    assert hello.instance.instance_id == "lab"
    assert hello.credits >= 1000


async def test_progress_and_log_are_reported(daemon: ReferenceDaemon, attach: Attach) -> None:
    report = {"percent": 40, "message": "on it", "current_step": 2, "total_steps": 5}
    attempt = await play(
        daemon, attach, {"progress": report}, {"log": {"level": "error", "message": "oh"}}
    )
    progress, log = attempt.last("progress"), attempt.last("log")
    assert (progress.percent, progress.message) == (40, "on it")
    assert (progress.current_step, progress.total_steps) == (2, 5)
    assert (log.level, log.message) == (event_pb2.LOG_LEVEL_ERROR, "oh")


@pytest.mark.req("R084")
async def test_an_artifact_is_sent_whole(daemon: ReferenceDaemon, attach: Attach) -> None:
    parts = [{"type": "text", "text": "hi"}, {"type": "data", "data": {"n": 1}}]
    attempt = await play(
        daemon,
        attach,
        {"artifact": {"name": "r", "type": "report", "mime_type": "text/plain", "parts": parts}},
    )
    chunk = attempt.last("artifact_chunk")
    assert (chunk.name, chunk.type, chunk.mime_type) == ("r", "report", "text/plain")
    assert (chunk.append, chunk.last_chunk) == (False, True)
    assert [part.WhichOneof("content") for part in chunk.parts] == ["text", "data"]


@pytest.mark.req("R193")
async def test_chunks_are_sent_as_they_are_and_a_refused_one_fails_the_attempt(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    daemon.refuse = lambda report: "CHUNK_GAP" if report.artifact_chunk.position == 7 else ""
    chunk = {"artifact_id": "a", "append": False, "last": False, "position": 0, "parts": []}
    wrong = {**chunk, "append": True, "position": 7}
    attempt = await play(daemon, attach, {"chunk": chunk}, {"chunk": wrong})
    assert attempt.stored[0].artifact_chunk.position == 0
    failure = attempt.last("failed")
    assert failure.reason == "protocol_error"
    assert json.loads(failure.data) == {"refused": "CHUNK_GAP", "artifact_id": "a"}


async def test_answers_are_kept_as_inputs(daemon: ReferenceDaemon, attach: Attach) -> None:
    question = {
        "prompt": "Which?",
        "options": [{"id": "a", "label": "A", "value": 1}, "b"],
        "schema": {"type": "object"},
        "timeout_ms": 60_000,
    }
    async with attach(make_provider()):
        attempt = await begin(daemon, {"ask": question}, {"ask": {"prompt": "And?"}})
        for number, answer in enumerate(({"choice": "a"}, {"more": True}), 1):
            action = f"ask-{number}"
            await daemon.until(
                lambda action=action: (  # type: ignore[misc]
                    attempt.stored and attempt.stored[-1].request_input.action == action
                )
            )
            daemon.send(
                input=wire.Input(
                    task_id="task-1", attempt=1, action=action, input=json.dumps(answer)
                )
            )
        await daemon.ended(attempt)
    first = attempt.stored[0].request_input
    assert (first.prompt, first.timeout.ToMilliseconds()) == ("Which?", 60_000)
    assert [(one.id, one.value) for one in first.options] == [("a", "1"), ("b", "")]
    assert result_of(attempt)["inputs"] == [{"choice": "a"}, {"more": True}]


@pytest.mark.req("R107", "R113")
async def test_a_granted_secret_is_never_repeated(daemon: ReferenceDaemon, attach: Attach) -> None:
    need = {"type": "api_key", "provider": "maps", "scopes": ["read"], "reason": "to look"}
    async with attach(make_provider()):
        attempt = await begin(daemon, {"auth": need})
        await daemon.stored(attempt, "request_auth")
        grant = interruption_pb2.AuthResponse(type=2, api_key="top-secret")
        daemon.send(
            auth_granted=wire.AuthGranted(
                task_id="task-1", attempt=1, action="auth-1", auth_response=grant
            )
        )
        await daemon.ended(attempt)
    asked = attempt.last("request_auth").auth_request
    assert (asked.type, asked.provider, list(asked.scopes)) == (2, "maps", ["read"])
    assert all("top-secret" not in str(report) for report in attempt.received)


@pytest.mark.req("R161")
@pytest.mark.parametrize(
    ("message", "stop_reason", "by_message"),
    [
        ({}, "end_turn", False),
        ({"stop_reason": "max_tokens"}, "max_tokens", True),
        ({"stop_reason": "tool_use"}, "tool_use", False),
        ({"status": "failed"}, "error", True),
        ({"status": "refused", "stop_reason": "content_filter"}, "content_filter", True),
        ({"status": "cancelled"}, "user_stop", True),
        ({"status": "streaming"}, "", False),
    ],
)
async def test_the_last_reply_decides_unless_it_says_what_completion_says(
    daemon: ReferenceDaemon,
    attach: Attach,
    message: Step,
    stop_reason: str,
    by_message: bool,
) -> None:
    attempt = await play(daemon, attach, {"message": {"text": "so", **message}})
    assert attempt.last("message").stop_reason == stop_reason
    assert attempt.last("completed").by_message is by_message


@pytest.mark.req("R159")
async def test_a_streaming_reply_is_gone_on_with(daemon: ReferenceDaemon, attach: Attach) -> None:
    attempt = await play(
        daemon,
        attach,
        {"message": {"text": "so", "status": "streaming"}},
        {"message": {"text": "so far", "status": "completed"}},
        {"message": {"text": "another"}},
        {"complete": {"result": 1}},
    )
    sent = [report.message for report in attempt.stored if report.HasField("message")]
    assert [one.status for one in sent] == [
        content_pb2.MESSAGE_STATUS_STREAMING,
        content_pb2.MESSAGE_STATUS_COMPLETED,
        content_pb2.MESSAGE_STATUS_COMPLETED,
    ]
    assert sent[0].message_id == sent[1].message_id != sent[2].message_id


async def test_a_direct_message_ends_the_attempt(daemon: ReferenceDaemon, attach: Attach) -> None:
    attempt = await play(
        daemon, attach, {"direct_message": {"text": "hi"}}, {"log": {"message": "never"}}
    )
    assert attempt.kinds() == ["message", "completed"]
    assert attempt.last("completed").direct_message


async def test_scripts_end_as_they_say(daemon: ReferenceDaemon, attach: Attach) -> None:
    async with attach(make_provider()):
        completed = await begin(daemon, {"complete": {"result": [1]}}, {"log": {"message": "-"}})
        assert json.loads((await daemon.ended(completed)).completed.result) == [1]
        assert completed.kinds() == ["completed"]
        failed = await begin(daemon, {"fail": {"code": -32000, "retryable": True}})
        failure = (await daemon.ended(failed)).failed
        assert (failure.code, failure.retryable) == (-32000, True)
        rejected = await begin(daemon, {"log": {"message": "-"}}, {"reject": {"reason": "no"}})
        assert (await daemon.ended(rejected)).rejected.reason == "no"


async def test_a_reject_at_the_beginning_answers_the_offer(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    nested = {"by_attempt": [[{"reject": {"reason": "never"}}]]}
    async with attach(make_provider()):
        attempt = await daemon.offer("lab.script", json.dumps({"steps": [nested]}))
    assert attempt.rejected is not None
    assert (attempt.rejected.busy, attempt.rejected.reason) == (False, "never")


async def test_a_duplicate_completion_is_sent(daemon: ReferenceDaemon, attach: Attach) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, {"complete_twice": {"result": 5}})
        await daemon.until(lambda: attempt.refused)
    assert result_of(attempt) == 5
    assert attempt.refused[0].completed.result == "5"


@pytest.mark.req("R049")
@pytest.mark.parametrize("before", [True, False])
async def test_completion_comes_late_after_a_cancel_wherever_the_step_stands(
    daemon: ReferenceDaemon, attach: Attach, before: bool
) -> None:
    late, sleep = {"late_complete_ms": 20}, {"sleep_ms": 60_000}
    async with attach(make_provider()):
        rest = (late, sleep) if before else (sleep, late)
        attempt = await begin(daemon, {"log": {"message": "up"}}, *rest)
        await daemon.stored(attempt, "log")
        daemon.cancel(attempt)
        assert (await daemon.ended(attempt)).HasField("completed")


async def test_cancel_stops_a_script(daemon: ReferenceDaemon, attach: Attach) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, {"log": {"message": "up"}}, {"sleep_ms": 60_000})
        await daemon.stored(attempt, "log")
        daemon.cancel(attempt)
        assert (await daemon.ended(attempt)).HasField("canceled")


async def test_a_script_can_ignore_a_cancel(
    daemon: ReferenceDaemon, attach: Attach, tmp_path: Path
) -> None:
    effect = tmp_path / "effect"
    async with attach(make_provider()):
        attempt = await begin(
            daemon,
            {"ignore_cancel": True},
            {"log": {"message": "up"}},
            {"sleep_ms": 100},
            {"touch": str(effect)},
        )
        await daemon.stored(attempt, "log")
        daemon.cancel(attempt)
        await daemon.ended(attempt)
    assert effect.read_text() == "task-1 1\n"


async def test_a_pause_stops_the_clock_of_a_script(daemon: ReferenceDaemon, attach: Attach) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, {"log": {"message": "up"}}, {"sleep_ms": 200})
        await daemon.stored(attempt, "log")
        daemon.send(pause=wire.Pause(task_id="task-1", attempt=1))
        await daemon.stored(attempt, "paused")
        beats = daemon.heartbeats
        await daemon.until(lambda: daemon.heartbeats >= beats + 2)  # at least 0.25 s
        assert not attempt.over
        daemon.send(resume=wire.Resume(task_id="task-1", attempt=1))
        assert (await daemon.ended(attempt)).HasField("completed")


async def test_touch_counts_real_effects(
    daemon: ReferenceDaemon, attach: Attach, tmp_path: Path
) -> None:
    effect = tmp_path / "effect"
    async with attach(make_provider()):
        for number in (1, 2):
            attempt = await begin(daemon, {"touch": str(effect)}, task_id="task-x", number=number)
            await daemon.ended(attempt)
        wrong = await begin(daemon, {"touch": str(tmp_path / "no" / "dir")})
        assert (await daemon.ended(wrong)).failed.reason == "touch_failed"
    assert effect.read_text() == "task-x 1\ntask-x 2\n"


def test_each_attempt_has_its_own_steps_and_the_last_repeat() -> None:
    first, second, shared = {"sleep_ms": 1}, {"sleep_ms": 2}, {"sleep_ms": 3}
    arguments = {"steps": [{"by_attempt": [[first], [{"by_attempt": [[second]]}]]}, shared]}
    assert steps_of(arguments, 1) == [first, shared]
    assert steps_of(arguments, 2) == [second, shared]
    assert steps_of(arguments, 9) == [second, shared]


async def test_a_frozen_lab_sends_no_heartbeat(socket: Path) -> None:
    async with running(ReferenceDaemon(socket, heartbeat_ms=40)) as daemon:
        provider = make_provider()
        run = asyncio.create_task(provider.run(daemon.address))
        await daemon.until(lambda: daemon.hellos)
        attempt = await begin(
            daemon, {"log": {"message": "up"}}, {"freeze_ms": 600}, {"log": {"message": "on"}}
        )
        await daemon.stored(attempt, "checkpoint")
        frozen_at = daemon.heartbeats
        loop = asyncio.get_running_loop()
        began = loop.time()
        await daemon.ended(attempt)
        assert loop.time() - began > 0.4
        # One may have been on its way, and one goes out together with the end.
        assert daemon.heartbeats - frozen_at <= 3
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run


async def test_a_crash_kills_the_lab_after_what_it_said_is_stored(daemon: ReferenceDaemon) -> None:
    code = (
        "import asyncio; from aiosd.capabilities.provide import provide; "
        f"asyncio.run(provide(lab=True, address={daemon.address!r}))"
    )
    lab = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    assert lab.stdout is not None
    assert json.loads(await lab.stdout.readline()) == {"ready": True, "name": "lab"}
    attempt = await begin(daemon, {"log": {"message": "last words"}}, {"crash": True})
    assert await lab.wait() == -9
    assert attempt.kinds() == ["log", "checkpoint"]
    await eventually(lambda: daemon._out is None)
