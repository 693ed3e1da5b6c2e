"""The agent card: complete, live, cacheable, and the extended one (a2a.md 5.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from tests.wire_a2a.raw import GRPC, Problem
from tests.wire_a2a.said import script, send

if TYPE_CHECKING:
    from tests.support.stack import Stack
    from tests.wire_a2a.raw import Raw

REQUIRED = {
    "name",
    "description",
    "version",
    "supportedInterfaces",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
}


def get(stack: Stack, **headers: str) -> httpx.Response:
    return httpx.get(f"{stack.http}/.well-known/agent-card.json", headers=headers)


@pytest.mark.req("S-41")
def test_the_card_is_public_complete_and_holds_no_secret(shared_stack: Stack) -> None:
    response = get(shared_stack)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    card = response.json()
    assert set(card) >= REQUIRED
    assert shared_stack.token not in response.text
    interfaces = {one["protocolBinding"]: one for one in card["supportedInterfaces"]}
    assert set(interfaces) == {"JSONRPC", "HTTP+JSON", "GRPC"}
    assert all(one["protocolVersion"] == "1.0" for one in interfaces.values())
    assert interfaces["JSONRPC"]["url"] == f"{shared_stack.http}/a2a"
    assert interfaces["GRPC"]["url"] == shared_stack.ready["a2a_grpc"]
    capabilities = card["capabilities"]
    assert capabilities["streaming"] is capabilities["pushNotifications"] is True
    assert capabilities["extendedAgentCard"] is True
    assert {one["uri"] for one in capabilities["extensions"]} == {
        "urn:aios:ext:resumable-streams:1.0",
        "urn:aios:ext:message-dedupe:1.0",
        "urn:aios:ext:pause-resume:1.0",
    }
    assert not any(one.get("required") for one in capabilities["extensions"])
    ((name, scheme),) = card["securitySchemes"].items()
    assert scheme["httpAuthSecurityScheme"]["scheme"] == "Bearer"
    assert card["securityRequirements"] == [{"schemes": {name: {}}}]
    skills = {skill["id"]: skill for skill in card["skills"]}
    assert {"lab.script", "system.files.digest"} <= set(skills)
    for skill in skills.values():
        assert all(skill[key] for key in ("id", "name", "description", "tags"))


def test_a_bad_token_gets_the_same_card_as_none(shared_stack: Stack) -> None:
    plain = get(shared_stack)
    for token in ("Bearer nonsense", f"Bearer {shared_stack.token}"):
        assert get(shared_stack, authorization=token).content == plain.content


def test_the_card_can_be_cached_and_asked_for_again(shared_stack: Stack) -> None:
    first = get(shared_stack)
    assert "max-age=" in first.headers["cache-control"]
    assert first.headers["last-modified"].endswith("GMT")
    etag = first.headers["etag"]
    again = get(shared_stack, **{"if-none-match": f'"x", {etag}'})
    assert again.status_code == 304
    assert again.headers["etag"] == etag
    assert not again.content
    assert get(shared_stack, **{"if-none-match": '"x"'}).status_code == 200


@pytest.mark.req("S-41")
async def test_the_extended_card_needs_a_token_and_shows_one_skill_to_a_tenant(
    shared_stack: Stack, raw: Raw, binding: str
) -> None:
    card = await raw.call(binding, "GetExtendedAgentCard")
    assert len(card["skills"]) > 3
    assert card["supportedInterfaces"][0]["url"] == f"{shared_stack.http}/a2a"
    card = await raw.call(binding, "GetExtendedAgentCard", {"tenant": "lab.script"})
    assert [skill["id"] for skill in card["skills"]] == ["lab.script"]
    assert {one["tenant"] for one in card["supportedInterfaces"]} == {"lab.script"}
    raw.token = ""
    if binding == GRPC:
        with pytest.raises(Problem) as caught:
            await raw.call(binding, "GetExtendedAgentCard")
        assert caught.value.code == "UNAUTHENTICATED"


async def test_unknown_extensions_are_no_error_and_known_ones_are_confirmed(raw: Raw) -> None:
    headers = {"a2a-extensions": "urn:nobody:1, urn:aios:ext:message-dedupe:1.0"}
    params = send(script(messageId="confirmed"))
    response = await raw.http.post(
        f"{raw.url}/lab.script/message:send",
        json={"message": params["message"]},
        headers=raw.headers(headers),
    )
    assert response.status_code == 200
    assert response.headers["a2a-extensions"] == "urn:aios:ext:message-dedupe:1.0"
