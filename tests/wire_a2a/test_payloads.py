"""Payloads that are not A2A 1.0, and those that merely look odd."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.wire_a2a.raw import GRPC, JSONRPC, REST, Problem, rpc
from tests.wire_a2a.said import script, send, text, user

if TYPE_CHECKING:
    import httpx

    from tests.wire_a2a.raw import Raw

HTTP_BINDINGS = (JSONRPC, REST)


async def refused(raw: Raw, binding: str, params: dict[str, Any]) -> Problem:
    with pytest.raises(Problem) as caught:
        await raw.call(binding, "SendMessage", params)
    return caught.value


@pytest.mark.req("R186", "R188", "Z18", "Z19", "Z21", "Z23")
@pytest.mark.parametrize("binding", HTTP_BINDINGS)
@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"kind": "message", "parts": [{"text": "x"}]}, "message.kind"),
        ({"parts": [{"kind": "text", "text": "x"}]}, "message.parts[0].kind"),
        (
            {"parts": [{"file": {"bytes": "eA==", "mimeType": "a/b"}}]},
            "message.parts[0].file",
        ),
        ({"parts": [{"text": "x", "file": {"uri": "u"}}]}, "message.parts[0].file"),
        ({"parts": [{"text": "x", "data": {}}]}, "message.parts[0]"),
        ({"parts": [{"text": "", "url": ""}]}, "message.parts[0]"),
        ({"parts": [{"text": "x", "data": None}]}, "message.parts[0]"),
        ({"parts": [{}]}, "message.parts[0]"),
        ({"parts": [{"text": None}]}, "message.parts[0]"),
        ({"parts": [{"metadata": {"a": 1}, "filename": "f"}]}, "message.parts[0]"),
        ({"parts": [{"video": "x"}]}, "message.parts[0]"),
        ({"parts": [{"text": "x"}, {"text": "y", "raw": "eA=="}]}, "message.parts[1]"),
        ({"parts": ["x"]}, "message.parts[0]"),
        ({"parts": []}, "message.parts"),
        ({"role": "user", "parts": [{"text": "x"}]}, "message.role"),
        ({"role": "ROLE_UNKNOWN", "parts": [{"text": "x"}]}, "message.role"),
        ({"role": "ROLE_UNSPECIFIED", "parts": [{"text": "x"}]}, "message.role"),
    ],
)
async def test_a_message_of_another_version_is_refused_by_name(
    raw: Raw, binding: str, message: dict[str, Any], field: str
) -> None:
    params = send({"messageId": "m", "role": "ROLE_USER"} | message)
    problem = await refused(raw, binding, params)
    assert problem.reason == "INVALID_PARAMS", problem.raw
    assert problem.fields == (field,), problem.raw


@pytest.mark.req("R186", "Z18")
async def test_a_part_without_content_is_refused_over_grpc(raw: Raw) -> None:
    problem = await refused(raw, GRPC, send(user([{"filename": "f"}])))
    assert problem.fields == ("message.parts[0]",)


WELL_FORMED = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}


@pytest.mark.req("R155", "R187")
@pytest.mark.parametrize("binding", HTTP_BINDINGS)
@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"message": "x"}, "message"),
        ({"message": []}, "message"),
        ({"message": WELL_FORMED | {"messageId": 5}}, "message.messageId"),
        ({"message": WELL_FORMED | {"message_id": "n"}}, "message.messageId"),
        ({"message": WELL_FORMED | {"role": True}}, "message.role"),
        ({"message": WELL_FORMED | {"role": {}}}, "message.role"),
        ({"message": WELL_FORMED | {"parts": {"text": "x"}}}, "message.parts"),
        ({"message": WELL_FORMED | {"parts": [{"text": 5}]}}, "message.parts[0].text"),
        ({"message": WELL_FORMED | {"parts": [{"raw": "***"}]}}, "message.parts[0].raw"),
        ({"message": WELL_FORMED | {"metadata": []}}, "message.metadata"),
        ({"message": WELL_FORMED | {"extensions": [None]}}, "message.extensions[0]"),
        ({"message": WELL_FORMED, "metadata": 5}, "metadata"),
        (
            {"message": WELL_FORMED, "configuration": {"historyLength": 1.5}},
            "configuration.historyLength",
        ),
        (
            {"message": WELL_FORMED, "configuration": {"historyLength": 2**31}},
            "configuration.historyLength",
        ),
        (
            {"message": WELL_FORMED, "configuration": {"returnImmediately": "true"}},
            "configuration.returnImmediately",
        ),
        ({}, "message"),
    ],
)
async def test_a_request_of_the_wrong_form_is_refused_by_the_name_of_its_member(
    raw: Raw, binding: str, params: dict[str, Any], field: str
) -> None:
    problem = await refused(raw, binding, {"tenant": "lab.script"} | params)
    assert problem.reason == "INVALID_PARAMS", problem.raw
    assert problem.code in (-32602, 400)
    assert problem.fields[0].startswith(field), problem.raw


@pytest.mark.parametrize("binding", HTTP_BINDINGS)
@pytest.mark.parametrize(
    ("operation", "params", "field"),
    [
        ("ListTasks", {"statusTimestampAfter": "yesterday"}, "statusTimestampAfter"),
        ("ListTasks", {"statusTimestampAfter": "2026-01-01T00:00:00"}, "statusTimestampAfter"),
        ("ListTasks", {"pageSize": 10**10}, "pageSize"),
        ("ListTasks", {"historyLength": "1.5"}, "historyLength"),
        ("GetTask", {"id": "task-x", "historyLength": "many"}, "historyLength"),
        ("CreateTaskPushNotificationConfig", {"taskId": "task-x", "url": 5}, "url"),
        (
            "CreateTaskPushNotificationConfig",
            {"taskId": "task-x", "url": "http://x.test", "authentication": {"scheme": 1}},
            "authentication.scheme",
        ),
    ],
)
async def test_a_member_of_the_wrong_type_is_named_in_every_call(
    raw: Raw, binding: str, operation: str, params: dict[str, Any], field: str
) -> None:
    with pytest.raises(Problem) as caught:
        await raw.call(binding, operation, params)
    assert caught.value.reason == "INVALID_PARAMS"
    assert caught.value.fields == (field,)


@pytest.mark.req("R186", "Z19")
async def test_empty_text_and_null_are_content(raw: Raw, binding: str) -> None:
    parts = [{"text": ""}, {"data": None}, {"raw": ""}, {"url": ""}, {"data": {"steps": []}}]
    if binding == GRPC:
        parts = [{"text": ""}, {"data": None}, {"url": ""}, {"data": {"steps": []}}]
    answer = await raw.call(binding, "SendMessage", send(user(parts)))
    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert answer["task"]["history"][0]["parts"] == parts


@pytest.mark.parametrize("binding", HTTP_BINDINGS)
@pytest.mark.req("R187", "Z20")
async def test_both_spellings_are_read_and_one_is_written(raw: Raw, binding: str) -> None:
    message = {
        "message_id": "m",
        "role": 1,
        "context_id": f"spelled-{binding}",
        "parts": [{"data": {"steps": []}, "media_type": "application/json"}],
        "unknown": {"is": "ignored"},
    }
    params = {"tenant": "lab.script", "message": message, "configuration": {"history_length": 1}}
    answer = await raw.call(binding, "SendMessage", params)
    shown = answer["task"]["history"][0]
    assert shown["messageId"] == "m"
    assert shown["role"] == "ROLE_USER"
    assert shown["contextId"] == f"spelled-{binding}"
    assert shown["parts"][0]["mediaType"] == "application/json"
    assert "_" not in "".join(key for key in shown)


@pytest.mark.req("R155", "R179", "Z09")
@pytest.mark.parametrize("word", ["TASK_STATE_COMPLETED", "completed", "COMPLETED"])
async def test_states_are_read_in_every_spelling(raw: Raw, word: str) -> None:
    await raw.call(JSONRPC, "SendMessage", send(script()))
    for binding in HTTP_BINDINGS:
        page = await raw.call(binding, "ListTasks", {"status": word, "pageSize": 1})
        assert page["tasks"][0]["status"]["state"] == "TASK_STATE_COMPLETED"
    for binding in HTTP_BINDINGS:
        with pytest.raises(Problem) as caught:
            await raw.call(binding, "ListTasks", {"status": "finished"})
        assert caught.value.fields == ("status",)


async def test_a_body_that_is_not_json_is_a_parse_error(raw: Raw) -> None:
    for body in (b"", b"{", b"\xff", b'{"a":NaN}', b'{"id":1,"id":2}', b"[" * 5000):
        answer = await raw.post(body)
        assert answer.status_code == 200
        assert answer.json()["error"]["code"] == -32700, body
        assert answer.json()["error"]["data"][0]["reason"] == "PARSE_ERROR"
        assert answer.json()["id"] is None
    for body in (b"", b"{", b"\xff", b"[]", b'"x"'):
        response = await raw.http.post(
            f"{raw.url}/message:send",
            content=body,
            headers=raw.headers({"content-type": "application/json"}),
        )
        assert response.status_code == 400
        assert response.json()["error"]["status"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ([], -32600),
        ([rpc("ListTasks", {})], -32600),
        ("x", -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "ListTasks"}, -32600),
        ({"id": 1, "method": "ListTasks"}, -32600),
        ({"jsonrpc": "2.0", "id": 1}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ListTasks"}, -32600),
        (rpc("message/send", {}), -32601),
        (rpc("tasks/get", {}), -32601),
        (rpc("NoSuchMethod", {}), -32601),
        (rpc("ListTasks", []), -32602),
        (rpc("ListTasks", "x"), -32602),
    ],
)
async def test_an_envelope_that_is_not_json_rpc_is_refused(raw: Raw, body: Any, code: int) -> None:
    answer = await raw.post(body)
    assert answer.status_code == 200
    assert answer.json()["error"]["code"] == code
    assert set(answer.json()) == {"jsonrpc", "id", "error"}


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "application/xml",
        "multipart/form-data",
        "application/json; charset=utf-16",
        "",
    ],
)
async def test_the_media_type_is_looked_at_before_the_body(raw: Raw, media_type: str) -> None:
    headers = {"content-type": media_type}
    answer = await raw.post(b"{not json", headers)
    assert answer.status_code == 200
    assert answer.json()["error"]["code"] == -32005
    response = await raw.http.post(
        f"{raw.url}/message:send", content=b"{not json", headers=raw.headers(headers)
    )
    assert response.status_code == 400
    assert response.json()["error"]["details"][0]["reason"] == "CONTENT_TYPE_NOT_SUPPORTED"


@pytest.mark.parametrize(
    ("sent", "accept", "expected"),
    [
        ("application/json", "*/*", "application/json"),
        ("application/json", None, "application/json"),
        ("application/a2a+json", "*/*", "application/a2a+json"),
        ("application/a2a+json", "application/json", "application/json"),
        ("application/json", "application/a2a+json", "application/a2a+json"),
    ],
)
async def test_the_answer_has_the_media_type_of_the_client(
    raw: Raw, sent: str, accept: str | None, expected: str
) -> None:
    headers = raw.headers({"content-type": sent})
    headers["accept"] = accept or "*/*"
    params = send(script())
    del params["tenant"]
    response = await raw.http.post(
        f"{raw.url}/lab.script/message:send", json=params, headers=headers
    )
    assert response.headers["content-type"] == expected
    assert response.json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_the_url_is_served_with_and_without_a_slash_and_with_a_tenant(raw: Raw) -> None:
    for path in ("", "/", "/lab.script"):
        answer = await raw.post(rpc("SendMessage", send(script())), path=path)
        assert answer.status_code == 200
        assert answer.json()["result"]["task"]["metadata"]["aiosCapabilityId"] == "lab.script"
    # The tenant of the path wins over the one of the body.
    answer = await raw.post(
        rpc("SendMessage", send(script(), tenant="lab.other.script")), path="/lab.script"
    )
    assert answer.json()["result"]["task"]["metadata"]["aiosCapabilityId"] == "lab.script"


async def test_numbers_files_and_metadata_come_back_as_they_were_sent(
    raw: Raw, binding: str
) -> None:
    parts = [
        {"text": "grüße \u2028 😀", "metadata": {"k": [1, {"x": None}]}},
        {"raw": base64.b64encode(bytes(range(256))).decode(), "filename": "b.bin"},
        {"url": "https://example.org/x?a=1", "mediaType": "image/png"},
        {"data": {"steps": [], "n": 9007199254740992, "f": 1.5, "b": True, "e": {}, "l": []}},
    ]
    message = user(parts, metadata={"m": "d"}, referenceTaskIds=["task-1"], extensions=["urn:x"])
    params = send(message) | {"metadata": {"of": "the task"}}
    params["message"]["parts"][3]["data"] = {"steps": []}
    task = (await raw.call(binding, "SendMessage", params))["task"]
    shown = task["history"][0]
    assert shown["parts"] == parts
    assert shown["metadata"] == {"m": "d"}
    assert shown["referenceTaskIds"] == ["task-1"]
    assert shown["extensions"] == ["urn:x"]
    assert task["metadata"]["of"] == "the task"


async def test_garbage_page_tokens_are_refused(raw: Raw, binding: str) -> None:
    for token in ("x", "AAAA", "WzEsMiwzXQ==", "eyJhIjoxfQ==", "💥", "W251bGwsIngiXQ=="):
        with pytest.raises(Problem) as caught:
            await raw.call(binding, "ListTasks", {"pageToken": token})
        assert caught.value.fields == ("pageToken",), token


async def test_booleans_and_numbers_of_a_query_are_checked(raw: Raw) -> None:
    for query in ("includeArtifacts=maybe", "pageSize=ten", "historyLength=1.5", "status=done"):
        response = await raw.http.get(f"{raw.url}/tasks?{query}", headers=raw.headers())
        assert response.status_code == 400, query
    for query in ("page_size=1&include_artifacts=true", "pageSize=1&history_length=0"):
        response = await raw.http.get(f"{raw.url}/tasks?{query}", headers=raw.headers())
        assert response.json()["pageSize"] == 1


async def test_an_unknown_path_and_a_wrong_method_answer_in_json(raw: Raw) -> None:
    for method, path, status in (
        ("GET", "/nothing/here/at/all", 404),
        ("GET", "", 405),
        ("DELETE", "/message:send", 405),
    ):
        response = await raw.http.request(method, raw.url + path, headers=raw.headers())
        assert response.status_code == status
        assert response.json()["error"]["code"] == status


async def test_many_broken_requests_at_once_leave_the_service_well(raw: Raw) -> None:
    async def one(number: int) -> httpx.Response:
        body = json.dumps(rpc("SendMessage", {"message": {"parts": [{"kind": number}]}})).encode()
        return await raw.post(body[: len(body) - number % 40])

    answers = await asyncio.gather(*(one(number) for number in range(120)))
    assert all("error" in answer.json() for answer in answers)
    answer = await raw.call(JSONRPC, "SendMessage", send(script()))
    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    with pytest.raises(Problem):
        await raw.call(REST, "SendMessage", send(text("x"), tenant=""))
