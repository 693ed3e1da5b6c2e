from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

if TYPE_CHECKING:
    from tests.support.stack import Stack
    from tests.wire_aios.client import AiosClient

PEM = (
    "-----BEGIN CERTIFICATE-----\n"
    + base64.encodebytes(hashlib.sha512(b"not a real one").digest()).decode()
    + "-----END CERTIFICATE-----\n"
)
OAUTH = {
    "type": "oauth2",
    "provider": "google",
    "authorization_url": "https://accounts.example.org/auth?client_id=c",
    "scopes": ["drive"],
    "reason": "needs the drive",
}


async def waiting(aios: AiosClient, need: dict[str, Any]) -> str:
    task_id = await aios.create({"auth": need})
    await aios.until(task_id, "auth_required")
    return task_id


async def issued(aios: AiosClient, task_id: str) -> dict[str, str]:
    url = (await aios.get(task_id))["auth_request"]["authorization_url"]
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


@pytest.mark.req("R108", "R109")
@pytest.mark.parametrize(
    "given",
    [
        {"type": "api_key", "api_key": "key-0123456789"},
        {"type": "password", "username": "u", "password": "word-0123456789"},
        {"type": "certificate", "certificate": PEM},
    ],
    ids=lambda given: str(given["type"]),
)
async def test_a_credential_lets_the_task_go_on(aios: AiosClient, given: dict[str, str]) -> None:
    task_id = await waiting(aios, {"type": given["type"]})
    result = await aios.call("aios/task.authenticate", task_id=task_id, auth_response=given)
    assert (result["task_id"], result["status"]) == (task_id, "working")
    assert result["authenticated_at"]
    assert (await aios.ended(task_id))["status"] == "completed"


@pytest.mark.req("R108", "R109", "R110")
async def test_oauth2_needs_the_state_that_was_issued(aios: AiosClient) -> None:
    task_id = await waiting(aios, OAUTH)
    query = await issued(aios, task_id)
    assert query["client_id"] == "c"
    assert query["code_challenge_method"] == "S256"
    assert query["code_challenge"]
    for wrong in ("", "x" * len(query["state"]), query["state"][:-1]):
        given = {"type": "oauth2", "authorization_code": "code-1", "state": wrong or "x"}
        error = await aios.refused("aios/task.authenticate", task_id=task_id, auth_response=given)
        assert (error.code, error.data["error_id"]) == (-32001, "AIOS-AUTH-FAILED")
        assert await aios.status(task_id) == "auth_required"
    good = {"type": "oauth2", "authorization_code": "code-1", "state": query["state"]}
    result = await aios.call("aios/task.authenticate", task_id=task_id, auth_response=good)
    assert result["status"] == "working"
    other = await waiting(aios, OAUTH)
    error = await aios.refused("aios/task.authenticate", task_id=other, auth_response=good)
    assert error.code == -32001
    assert (await issued(aios, other))["state"] != query["state"]


@pytest.mark.req("R108", "R110")
async def test_a_credential_of_another_sort_is_refused(aios: AiosClient) -> None:
    task_id = await waiting(aios, {"type": "api_key"})
    error = await aios.refused(
        "aios/task.authenticate",
        task_id=task_id,
        auth_response={"type": "password", "username": "u", "password": "p-0123456789"},
    )
    assert error.code == -32001
    assert await aios.status(task_id) == "auth_required"


@pytest.mark.req("R108")
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"type": "oauth2"},
        {"type": "magic"},
        {"type": "api_key", "api_key": 7},
        {"type": "certificate", "certificate": "not pem"},
    ],
    ids=str,
)
async def test_an_incomplete_credential_is_a_bad_parameter(
    aios: AiosClient, given: dict[str, Any]
) -> None:
    task_id = await waiting(aios, {"type": "certificate"})
    error = await aios.refused("aios/task.authenticate", task_id=task_id, auth_response=given)
    assert error.code == -32602
    assert error.data["field"].startswith("auth_response")
    assert await aios.status(task_id) == "auth_required"


@pytest.mark.req("R113", "R105", "R182")
async def test_a_credential_is_found_nowhere_afterwards(
    aios: AiosClient, shared_stack: Stack
) -> None:
    secret = "sk-Xq7-unlikely-to-be-anything-else"
    task_id = await waiting(aios, {"type": "api_key"})
    wrong = await aios.refused(
        "aios/task.authenticate",
        task_id=task_id,
        auth_response={"type": "password", "username": secret, "password": secret},
    )
    await aios.call(
        "aios/task.authenticate",
        task_id=task_id,
        auth_response={"type": "api_key", "api_key": secret},
    )
    await aios.ended(task_id)
    told = [wrong.data, await aios.get(task_id, include_history=True)]
    told += [event.data for event in await aios.events(task_id)]
    assert secret not in str(told)
    for path in (*shared_stack.state_dir.rglob("*"), shared_stack.log):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path.name


@pytest.mark.req("R182", "X34")
async def test_a_credential_sent_as_input_is_refused(aios: AiosClient) -> None:
    task_id = await aios.create({"ask": {"prompt": "?"}})
    await aios.until(task_id, "input_required")
    error = await aios.refused(
        "aios/task.input", task_id=task_id, input={"password": "hunter2-hunter2"}
    )
    assert error.code == -32108
    assert "hunter2" not in str(error)
    assert await aios.status(task_id) == "input_required"
