from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosd.aios_wire import errors
from aiosd.aios_wire.errors import AiosError
from gateway.aios import jsonrpc
from gateway.aios.jsonrpc import ErrorStamp, Invalid, Notification, Request

STAMP = ErrorStamp(now_ms=lambda: 1_767_225_600_007, trace_id="4bf92f3577b34da6a3ce929d0e0e4736")


def parse(body: bytes | str, max_batch_size: int = 100) -> jsonrpc.Message:
    raw = body if isinstance(body, bytes) else body.encode()
    return jsonrpc.parse(raw, max_batch_size=max_batch_size)


def only(body: bytes | str) -> jsonrpc.Item:
    message = parse(body)
    assert not message.is_batch
    (item,) = message.items
    return item


async def echo(call: Request | Notification) -> object:
    if call.method == "missing":
        raise AiosError(errors.METHOD_NOT_FOUND)
    return call.params


async def answered(body: bytes | str, max_batch_size: int = 100) -> Any:
    text = await jsonrpc.answer(parse(body, max_batch_size), echo, STAMP)
    return None if text is None else json.loads(text)


@pytest.mark.req("R002")
@pytest.mark.parametrize(
    "call_id", ['"req-1"', '""', '"\u2028é"', "0", "-7", "9007199254740992", "1.0", "-2.0", "1e3"]
)
async def test_the_id_comes_back_unchanged(call_id: str) -> None:
    answer = await answered(f'{{"jsonrpc":"2.0","id":{call_id},"method":"m","params":{{"a":1}}}}')
    assert answer == {"jsonrpc": "2.0", "id": json.loads(call_id), "result": {"a": 1}}
    assert type(answer["id"]) is type(json.loads(call_id))


@pytest.mark.req("R002")
@pytest.mark.parametrize("call_id", ["null", "true", "false", "1.5", "-0.1", "{}", "[]", '["a"]'])
async def test_an_id_that_is_no_string_and_no_integral_number_is_refused(call_id: str) -> None:
    answer = await answered(f'{{"jsonrpc":"2.0","id":{call_id},"method":"m"}}')
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert answer["error"]["data"]["field"] == "id"


@pytest.mark.req("R002", "S-16")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"jsonrpc":"2.0","id":1,"method":"m"',
        b'{"jsonrpc":"2.0","id":1,"method":"m"}}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1e400,"method":"m"}',
        b'{"jsonrpc":"2.0","id":9007199254740993,"method":"m"}',
        b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}',
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"m"}',
        b'{"jsonrpc":"2.0","id":"\xff","method":"m"}',
        b'{"jsonrpc":"2.0","id":"\\u0000","method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + b"[" * 1000 + b"]" * 1000 + b"}",
        b"[" * 100_000,
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"m"}',
        b'[{"jsonrpc":"2.0","id":1,"method":"m"},',
    ],
    ids=lambda b: repr(b)[:40],
)
async def test_bad_json_is_one_parse_error_with_id_null(body: bytes) -> None:
    answer = await answered(body)
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert answer["error"]["message"] == "Parse error"
    assert answer["error"]["data"]["error_id"] == "JSONRPC-PARSE"


@pytest.mark.req("R002")
@pytest.mark.parametrize(
    "version", ['"1.0"', "2.0", "2", "null", '"2"', '"2.0 "', '["2.0"]', None], ids=str
)
async def test_any_other_version_is_an_invalid_request_under_its_id(version: str | None) -> None:
    member = "" if version is None else f'"jsonrpc":{version},'
    answer = await answered(f'{{{member}"id":"a","method":"m"}}')
    assert (answer["id"], answer["error"]["code"]) == ("a", -32600)
    assert answer["error"]["data"]["field"] == "jsonrpc"


@pytest.mark.req("R002")
@pytest.mark.parametrize("method", ["1", "null", "true", "{}", "[]", '["m"]', None], ids=str)
async def test_a_method_is_a_string(method: str | None) -> None:
    member = "" if method is None else f',"method":{method}'
    answer = await answered(f'{{"jsonrpc":"2.0","id":3{member}}}')
    assert (answer["id"], answer["error"]["code"]) == (3, -32600)
    assert answer["error"]["data"]["field"] == "method"


@pytest.mark.req("R002")
@pytest.mark.parametrize("params", ["[]", "[1]", "null", '"x"', "1", "true"])
async def test_params_are_an_object(params: str) -> None:
    answer = await answered(f'{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}')
    assert (answer["id"], answer["error"]["code"]) == (1, -32602)
    assert answer["error"]["data"]["field"] == "params"
    assert "params" in answer["error"]["data"]["details"]


@pytest.mark.req("R002")
@pytest.mark.parametrize("body", ["1", '"x"', "null", "true", "1.5"])
async def test_a_body_that_is_no_call_is_an_invalid_request(body: str) -> None:
    answer = await answered(body)
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)


@pytest.mark.req("R002")
@pytest.mark.parametrize("method", ["missing", "rpc.other", "rpc."])
async def test_unknown_and_reserved_methods_are_not_found(method: str) -> None:
    answer = await answered(f'{{"jsonrpc":"2.0","id":1,"method":"{method}"}}')
    assert (answer["id"], answer["error"]["code"]) == (1, -32601)


def test_absent_params_are_empty_and_unknown_members_are_ignored() -> None:
    item = only('{"jsonrpc":"2.0","id":1,"method":"m","x-vendor":[1]}')
    assert item == Request(1, "m", {})
    assert only('{"jsonrpc":"2.0","method":"m","params":{"a":[]}}') == Notification("m", {"a": []})


def test_only_a_single_request_may_be_streamed() -> None:
    request = '{"jsonrpc":"2.0","id":1,"method":"m"}'
    assert parse(request).single_request == Request(1, "m", {})
    assert parse(f"[{request}]").single_request is None
    assert parse('{"jsonrpc":"2.0","method":"m"}').single_request is None
    assert parse('{"jsonrpc":"2.0","method":"m","params":[]}').single_request is None
    assert parse("{").single_request is None


@pytest.mark.req("R002")
@pytest.mark.parametrize(
    "body",
    [
        '{"jsonrpc":"2.0","method":"m"}',
        '{"jsonrpc":"2.0","method":"missing"}',
        '{"jsonrpc":"2.0","method":"m","params":[1]}',
        '{"jsonrpc":"2.0","method":"rpc.x"}',
        '[{"jsonrpc":"2.0","method":"m"},{"jsonrpc":"2.0","method":"missing"}]',
    ],
)
async def test_notifications_are_never_answered(body: str) -> None:
    assert await answered(body) is None


async def test_a_notification_is_carried_out() -> None:
    seen: list[str] = []

    async def note(call: Request | Notification) -> object:
        seen.append(call.method)
        return None

    await jsonrpc.answer(parse('{"jsonrpc":"2.0","method":"aios/initialized"}'), note, STAMP)
    assert seen == ["aios/initialized"]


async def test_what_is_no_call_at_all_is_answered_even_without_an_id() -> None:
    answer = await answered('{"jsonrpc":"1.0","method":"m"}')
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)


@pytest.mark.req("R002")
async def test_an_empty_batch_is_one_error_and_not_a_list() -> None:
    answer = await answered("[]")
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)


@pytest.mark.req("R002")
async def test_a_batch_of_one_is_a_list_of_one() -> None:
    answer = await answered('[{"jsonrpc":"2.0","id":1,"method":"m"}]')
    assert answer == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


@pytest.mark.req("R002", "S-15")
async def test_a_batch_over_the_limit_is_one_error_that_names_the_limit() -> None:
    call = '{"jsonrpc":"2.0","id":1,"method":"m"}'
    assert len(await answered(f"[{','.join([call] * 3)}]", max_batch_size=3)) == 3
    answer = await answered(f"[{','.join([call] * 4)}]", max_batch_size=3)
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert answer["error"]["data"]["max_batch_size"] == 3
    assert "3" in answer["error"]["data"]["details"]


@pytest.mark.req("R002")
async def test_the_batch_of_the_json_rpc_document_is_answered_item_by_item() -> None:
    answer = await answered(
        '[{"jsonrpc":"2.0","method":"sum","params":{"a":1},"id":"1"},'
        '{"jsonrpc":"2.0","method":"notify_hello","params":{"a":7}},'
        '{"foo":"boo"},1,[],null,'
        '{"jsonrpc":"2.0","method":"missing","id":"5"},'
        '{"jsonrpc":"2.0","method":"get_data","id":9}]'
    )
    assert [(a["id"], a.get("error", {}).get("code")) for a in answer] == [
        ("1", None),
        (None, -32600),
        (None, -32600),
        (None, -32600),
        (None, -32600),
        ("5", -32601),
        (9, None),
    ]


async def test_a_batch_runs_concurrently_up_to_its_bound_and_answers_in_order() -> None:
    running = peak = 0
    full = asyncio.Event()

    async def wait_until_full(call: Request | Notification) -> object:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        if running == 4:
            full.set()
        await asyncio.wait_for(full.wait(), 5)
        running -= 1
        return call.params

    items = tuple(Request(n, "m", {"n": n}) for n in range(20))
    texts = await jsonrpc.answer_batch(items, wait_until_full, STAMP, max_concurrent=4)
    assert [json.loads(text)["id"] for text in texts] == list(range(20))
    assert peak == 4


@pytest.mark.req("S-17")
@pytest.mark.parametrize("result", [object(), float("nan"), {"a": {1, 2}}])
async def test_a_result_without_json_is_an_internal_error(
    result: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def odd(_: Request | Notification) -> object:
        return result

    text = await jsonrpc.answer(parse('{"jsonrpc":"2.0","id":1,"method":"m"}'), odd, STAMP)
    assert text is not None
    assert json.loads(text)["error"]["code"] == -32603
    assert [record.message for record in caplog.records] == ["rpc.failed"]


@pytest.mark.req("S-17")
async def test_one_crash_costs_one_answer_and_leaks_no_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def crash(call: Request | Notification) -> object:
        if call.method == "crash":
            raise RuntimeError("secret=hunter2")
        return 1

    body = (
        '[{"jsonrpc":"2.0","id":1,"method":"crash"},{"jsonrpc":"2.0","id":2,"method":"m"},'
        '{"jsonrpc":"2.0","method":"crash"}]'
    )
    text = await jsonrpc.answer(parse(body), crash, STAMP)
    assert text is not None
    assert "hunter2" not in text
    first, second = json.loads(text)
    assert (first["id"], first["error"]["code"], first["error"]["message"]) == (
        1,
        -32603,
        "Internal error",
    )
    assert second == {"jsonrpc": "2.0", "id": 2, "result": 1}
    assert len(caplog.records) == 2


async def test_cancelling_the_answer_cancels_its_calls() -> None:
    started = asyncio.Event()
    cancelled: list[int] = []

    async def hang(call: Request | Notification) -> object:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise
        return call

    items = tuple(Request(n, "m", {}) for n in range(3))
    task = asyncio.create_task(jsonrpc.answer_batch(items, hang, STAMP))
    await asyncio.wait_for(started.wait(), 5)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(cancelled) == 3


@pytest.mark.req("R002", "S-16")
@given(st.binary(max_size=120) | st.text('[]{}",:\\u0d8jsonrpcmethodid2.0 ', max_size=80))
def test_no_bytes_make_the_parser_raise(body: bytes | str) -> None:
    for item in parse(body).items:
        assert isinstance(item, Request | Notification | Invalid)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("a2.0", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)
calls = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | json_values,
        "id": st.just(1) | json_values,
        "method": st.just("m") | json_values,
        "params": json_values,
    },
)


@pytest.mark.req("R002")
@given(st.lists(calls | json_values, min_size=1, max_size=6))
def test_every_item_of_a_batch_that_has_an_id_is_answered_once(batch: list[Any]) -> None:
    message = parse(json.dumps(batch))
    text = asyncio.run(jsonrpc.answer(message, echo, STAMP))
    answers = [] if text is None else json.loads(text)
    silent = sum(
        isinstance(call, dict)
        and "id" not in call
        and call.get("jsonrpc") == "2.0"
        and isinstance(call.get("method"), str)
        for call in batch
    )
    assert len(answers) == len(batch) - silent
    for answer in answers:
        assert answer["jsonrpc"] == "2.0"
        assert ("result" in answer) != ("error" in answer)


@pytest.mark.req("R103", "R104")
def test_every_error_has_an_id_of_its_own() -> None:
    entries = [value for value in vars(errors).values() if isinstance(value, errors.ErrorEntry)]
    assert len(entries) == len(errors.ERRORS) == 41
    assert all(errors.ERRORS[entry.error_id] is entry for entry in entries)
    for code, count in {-32107: 2, -32108: 3, -32002: 2, -32006: 2, -32009: 4}.items():
        assert sum(entry.code == code for entry in entries) == count


def test_codes_stay_inside_their_ranges() -> None:
    for entry in errors.ERRORS.values():
        if entry.error_id.startswith("JSONRPC-"):
            assert -32768 <= entry.code <= -32600
        else:
            assert re.fullmatch(r"AIOS-[A-Z]+(-[A-Z]+)*", entry.error_id)
            assert -32114 <= entry.code <= -32001


def test_an_error_is_stamped_and_its_fixed_members_win() -> None:
    error = AiosError(
        errors.INVALID_TASK_STATE,
        "a queued task cannot pause",
        data={"current_status": "pending", "allowed": ["working"], "error_id": "forged"},
    )
    assert errors.error_object(error, now_ms=1_767_225_600_007, trace_id="t") == {
        "code": -32108,
        "message": "Invalid task state",
        "data": {
            "current_status": "pending",
            "allowed": ["working"],
            "details": "a queued task cannot pause",
            "error_id": "AIOS-TASK-INVALID-STATE",
            "timestamp": "2026-01-01T00:00:00.007Z",
            "trace_id": "t",
        },
    }


@pytest.mark.parametrize(
    ("now_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (951_782_400_999, "2000-02-29T00:00:00.999Z"),
    ],
)
def test_timestamps_are_rfc_3339_in_utc_with_milliseconds(now_ms: int, text: str) -> None:
    assert errors.timestamp(now_ms) == text
