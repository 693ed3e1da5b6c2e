"""Calls, their errors, and subscriptions that survive everything."""

from __future__ import annotations

import asyncio
from socket import AF_UNIX
from socket import socket as Socket
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from aiosd.sdk import (
    AiosdError,
    Client,
    Exhausted,
    Internal,
    InvalidArgument,
    NotFound,
    Refused,
    Unavailable,
    connect,
)
from tests.sdk.reference_daemon import rich_status
from tests.sdk.reference_tasks import ReferenceTasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.fixture
async def tasks(socket: Path) -> AsyncIterator[ReferenceTasks]:
    tasks = ReferenceTasks(socket)
    await tasks.start()
    yield tasks
    await tasks.stop()


@pytest.fixture
async def client(tasks: ReferenceTasks) -> AsyncIterator[Client]:
    async with connect(tasks.address) as client:
        yield client


# --- subscriptions ----------------------------------------------------------------------------


@pytest.mark.req("I28", "I30")
async def test_every_event_arrives_once_and_in_order_through_many_breaks(
    tasks: ReferenceTasks, client: Client
) -> None:
    await tasks.grow(60)
    for code in (
        UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.ABORTED,
        UNAVAILABLE,
    ):
        tasks.breaks.append((9, code, ""))
    tasks.breaks.append((0, UNAVAILABLE, "SHUTTING_DOWN"))
    seen = []
    async for event in client.subscribe("t"):
        seen.append(event.sequence)
        if event.sequence == 60:
            await tasks.grow(5, terminal=True)
    assert seen == list(range(1, 66))
    assert len(tasks.asked_after) == 7
    assert tasks.asked_after == sorted(tasks.asked_after, key=lambda after: after or 0)


@pytest.mark.req("I28")
async def test_a_restarted_daemon_continues_the_same_iteration(
    tasks: ReferenceTasks, client: Client
) -> None:
    await tasks.grow(3)
    subscription = client.subscribe("t")
    seen = [(await anext(subscription)).sequence for _ in range(3)]
    await tasks.stop()
    await tasks.start()
    await tasks.grow(2, terminal=True)
    seen += [event.sequence async for event in subscription]
    assert seen == [1, 2, 3, 4, 5]


async def test_without_a_start_only_new_events_are_told_and_none_is_missed_in_a_break(
    tasks: ReferenceTasks, client: Client
) -> None:
    await tasks.grow(10)
    tasks.breaks.append((1, UNAVAILABLE, ""))
    subscription = client.subscribe("t", after=None, include_task=True)
    first = asyncio.create_task(anext(subscription))
    await tasks.until_streams(1)
    await tasks.grow(4, terminal=True)
    seen = [(await first).sequence] + [event.sequence async for event in subscription]
    assert seen == [11, 12, 13, 14]
    assert tasks.asked_after == [None, 11]
    assert subscription.task is not None
    assert subscription.cursor == 14


async def test_filtered_events_move_the_cursor_too(tasks: ReferenceTasks, client: Client) -> None:
    await tasks.grow(9, terminal=True)
    tasks.breaks.append((5, UNAVAILABLE, ""))
    subscription = client.subscribe("t", families=["progress"])
    assert [event.sequence async for event in subscription] == [2, 4, 6, 8]
    assert tasks.asked_after == [0, 5]


@pytest.mark.req("I29")
async def test_a_cut_history_is_said(
    tasks: ReferenceTasks, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await tasks.grow(10, terminal=True)
    tasks.floor = 5
    subscription = client.subscribe("t", after=1)
    assert [event.sequence async for event in subscription] == [5, 6, 7, 8, 9, 10]
    assert (subscription.truncated, subscription.oldest_sequence) == (True, 5)
    assert "subscription.truncated" in caplog.text


async def test_a_refusal_is_raised_and_not_tried_again(
    tasks: ReferenceTasks, client: Client
) -> None:
    with pytest.raises(NotFound) as caught:
        await anext(client.subscribe("other"))
    assert caught.value.reason == "TASK_NOT_FOUND"
    tasks.breaks.append((0, grpc.StatusCode.INVALID_ARGUMENT, "CURSOR_INVALID"))
    await tasks.grow(1)
    with pytest.raises(InvalidArgument):
        await anext(client.subscribe("t"))
    assert len(tasks.asked_after) == 1


async def test_a_fault_that_always_comes_back_is_raised_in_the_end(
    tasks: ReferenceTasks, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosd.sdk.subscription.jittered", lambda attempt: 0.0)
    await tasks.grow(1)
    tasks.breaks.extend([(0, grpc.StatusCode.INTERNAL, "INTERNAL")] * 50)
    with pytest.raises(Internal):
        await anext(client.subscribe("t"))
    assert 5 < len(tasks.asked_after) < 15


@pytest.mark.req("I47")
async def test_leaving_a_subscription_ends_the_call_at_the_daemon(
    tasks: ReferenceTasks, client: Client
) -> None:
    await tasks.grow(1)
    async with client.subscribe("t") as subscription:
        await anext(subscription)
        assert tasks.open_streams == 1
    await tasks.until_streams(0)


async def test_a_daemon_that_never_was_there_is_said_at_once(socket: Path) -> None:
    async with connect(f"unix:{socket}") as client:
        with pytest.raises(Unavailable):
            await anext(client.subscribe("t"))
        with pytest.raises(Unavailable):
            await client.get("t")


async def test_a_daemon_whose_socket_lies_there_is_waited_for(socket: Path) -> None:
    left_behind(socket)
    async with connect(f"unix:{socket}") as reader, connect(f"unix:{socket}") as follower:
        read = asyncio.create_task(reader.get("t"))
        first = asyncio.create_task(anext(follower.subscribe("t")))
        for client in (reader, follower):
            await refused_once(client)
        tasks = ReferenceTasks(socket)
        await tasks.start()
        try:
            await tasks.grow(1)
            assert (await read).task_id == "t"
            assert (await first).sequence == 1
        finally:
            await tasks.stop()


async def test_the_wait_for_a_daemon_that_was_killed_for_good_ends(socket: Path) -> None:
    left_behind(socket)
    async with connect(f"unix:{socket}", patience_ms=300) as client:
        with pytest.raises(Unavailable):
            await client.get("t")
        with pytest.raises(Unavailable):
            await anext(client.subscribe("t"))


def left_behind(path: Path) -> None:
    """The socket of a daemon that was killed."""
    with Socket(AF_UNIX) as listener:
        listener.bind(str(path))


async def refused_once(client: Client) -> None:
    """Wait until nobody answered a client's connection."""
    async with asyncio.timeout(10):
        state = client.channel.get_state()
        while state is not grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            await client.channel.wait_for_state_change(state)
            state = client.channel.get_state()


def test_a_client_is_made_from_an_endpoint_and_not_from_an_address() -> None:
    with pytest.raises(TypeError, match="connect"):
        Client("unix:/run/aiosd.sock")


def test_an_unknown_family_is_named(tasks: ReferenceTasks) -> None:
    with pytest.raises(ValueError, match="families: 'gossip'"):
        connect(tasks.address).subscribe("t", families=["gossip"])


# --- calls ------------------------------------------------------------------------------------


@pytest.mark.req("I03")
async def test_a_create_with_an_unknown_outcome_is_repeated_with_the_same_key(
    tasks: ReferenceTasks, client: Client
) -> None:
    await client.system_info()
    tasks.failures.extend([rich_status(UNAVAILABLE, "OUTCOME_UNKNOWN")] * 2)
    task = await client.create("c", {"big": 2**60}, priority="high", retry={"max_attempts": 3})
    assert tasks.creates == 3
    assert len(tasks.created) == 1
    assert task.arguments == '{"big":1152921504606846976}'
    assert task.options.retry.max_attempts == 3


async def test_an_empty_idempotency_key_is_no_key(tasks: ReferenceTasks, client: Client) -> None:
    with pytest.raises(ValueError, match="request_id"):
        await client.create("c", request_id="")
    assert tasks.creates == 0


async def test_a_read_waits_for_a_restarting_daemon_and_a_cancel_does_not(
    tasks: ReferenceTasks, client: Client
) -> None:
    await client.system_info()
    tasks.failures.append(rich_status(UNAVAILABLE, "SHUTTING_DOWN"))
    assert (await client.get("t")).task_id == "t"
    tasks.failures.append(rich_status(UNAVAILABLE, "SHUTTING_DOWN"))
    with pytest.raises(Unavailable):
        await client.cancel("t")


async def test_patience_ends(tasks: ReferenceTasks) -> None:
    async with connect(tasks.address, patience_ms=0) as client:
        await client.system_info()
        tasks.failures.append(rich_status(UNAVAILABLE, ""))
        with pytest.raises(Unavailable):
            await client.get("t")


async def test_a_refusal_carries_reason_and_metadata(tasks: ReferenceTasks, client: Client) -> None:
    tasks.failures.append(
        rich_status(
            grpc.StatusCode.FAILED_PRECONDITION,
            "TASK_STATE_INVALID",
            "cannot cancel",
            state="completed",
            allowed="",
        )
    )
    with pytest.raises(Refused) as caught:
        await client.cancel("t")
    assert caught.value.reason == "TASK_STATE_INVALID"
    assert caught.value.message == "cannot cancel"
    assert caught.value.metadata == {"state": "completed", "allowed": ""}


async def test_violations_and_retry_delays_are_read_without_the_google_packages(
    tasks: ReferenceTasks, client: Client
) -> None:
    status = status_pb2.Status(code=code_pb2.RESOURCE_EXHAUSTED, message="slow down")
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(1500)
    bad = error_details_pb2.BadRequest(
        field_violations=[
            error_details_pb2.BadRequest.FieldViolation(field="options.retry", description="no")
        ]
    )
    for detail in (error_details_pb2.ErrorInfo(reason="RATE_LIMITED"), retry, bad):
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    tasks.failures.append(rpc_status.to_status(status))
    with pytest.raises(Exhausted) as caught:
        await client.get("t")
    assert caught.value.reason == "RATE_LIMITED"
    assert caught.value.retry_after_ms == 1500
    assert caught.value.violations == (("options.retry", "no"),)


async def test_details_that_make_no_sense_are_passed_over(
    tasks: ReferenceTasks, client: Client
) -> None:
    class Odd:
        code = grpc.StatusCode.NOT_FOUND
        details = "gone"
        trailing_metadata = (("grpc-status-details-bin", b"\x1a\xff\xff\x01rubbish"),)

    tasks.failures.append(Odd())
    with pytest.raises(AiosdError) as caught:
        await client.get("t")
    assert (caught.value.reason, caught.value.message) == ("", "gone")


async def test_a_long_artifact_is_put_together(client: Client) -> None:
    artifact = await client.artifact("a")
    assert (artifact.artifact_id, artifact.name) == ("a", "n")
    assert [part.text for part in artifact.parts] == ["0", "1", "2"]
    rest = [one.position async for one in client.read_artifact("a", from_position=1)]
    assert rest == [1, 2]


async def test_the_token_travels_with_each_call(tasks: ReferenceTasks) -> None:
    async with connect(tasks.address, "aios_secret") as client:
        await client.system_info()
    assert tasks.tokens == ["Bearer aios_secret"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"arguments": {"x": float("nan")}}, "arguments"),
        ({"metadata": {"x": object()}}, "metadata"),
        ({"priority": "soon"}, "priority"),
        ({"retry": {"times": 3}}, "retry"),
    ],
)
async def test_an_argument_that_cannot_be_sent_is_named(
    client: Client, arguments: dict[str, object], problem: str
) -> None:
    with pytest.raises(ValueError, match=f"^{problem}: "):
        await client.create("c", **arguments)
