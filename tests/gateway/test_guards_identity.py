from __future__ import annotations

from typing import Any

import pytest

from gateway import refusals
from gateway.guards import GuardPolicy
from gateway.limits import FailureLimiter, peer_of
from tests.support.asgi_probe import call, headers_of, scope_of
from tests.support.guarded_app import get, guarded


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.req("S-13", "H20")
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:9527",
        "localhost:9527",
        "LOCALHOST:9527",
        "[::1]:9527",
        "box:9527",
        "box",
        "alt:1",
    ],
)
async def test_the_names_of_this_server_are_answered(host: str) -> None:
    policy = GuardPolicy(hosts=frozenset({"box", "alt:1"}))
    assert (await get("/aios/events", app=guarded(policy), host=host)).status == 200


@pytest.mark.req("S-13", "H20")
@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.test",
        "evil.test:9527",
        "localhost",
        "localhost:80",
        "localhost:9527.",
        "localhost.:9527",
        "localhost:9527:9527",
        "localhost:",
        "127.0.0.1.evil.test:9527",
        "127.1:9527",
        "2130706433:9527",
        "0.0.0.0:9527",
        "user@localhost:9527",
        "localhost:9527/x",
        "localhost:9527, evil.test",
        "[::1:9527",
        "box",
        "alt:9527",
        "alt",
    ],
)
@pytest.mark.parametrize("path", ["/", "/health", "/aios/events", "/nowhere"])
async def test_any_other_host_is_misdirected_before_routing(host: str | None, path: str) -> None:
    policy = GuardPolicy(hosts=frozenset({"alt:1"}))
    answer = await get(path, app=guarded(policy), host=host)
    assert (answer.status, answer.reason) == (421, "wrong_host")


@pytest.mark.req("S-13")
async def test_two_host_headers_are_refused() -> None:
    assert (await get("/health", ("host", "127.0.0.1:9527"))).status == 421


@pytest.mark.req("S-13")
@pytest.mark.parametrize(
    ("host", "scheme", "port", "status"),
    [
        ("localhost", "http", 80, 200),
        ("localhost:80", "http", 80, 200),
        ("localhost", "https", 443, 200),
        ("localhost", "http", 443, 421),
        ("localhost", "http", None, 200),
        ("localhost:9527", "http", None, 421),
    ],
)
async def test_the_port_may_be_left_out_only_where_it_is_the_default(
    host: str, scheme: str, port: int | None, status: int
) -> None:
    answer = await get("/health", host=host, scheme=scheme, server=("127.0.0.1", port))
    assert answer.status == status


@pytest.mark.req("S-13", "H20")
@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:9527", "http://localhost:9527", "https://app.example"]
)
async def test_our_own_and_named_origins_may_call(origin: str) -> None:
    policy = GuardPolicy(origins=frozenset({"https://app.example"}))
    answer = await get("/aios/events", ("origin", origin), app=guarded(policy))
    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.req("S-13", "H20")
@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "*",
        "http://evil.test",
        "http://evil.test:9527",
        "http://localhost",
        "http://localhost:3000",
        "https://localhost:9527",
        "http://localhost:9527.evil.test",
        "http://localhost:9527/",
        "http://user@localhost:9527",
        "file://",
        "localhost:9527",
        "://localhost:9527",
        "http://localhost:9527 http://evil.test",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD", "DELETE"])
async def test_pages_of_any_other_origin_are_refused_for_every_method(
    origin: str, method: str
) -> None:
    headers = headers_of(("origin", origin), ("access-control-request-method", "POST"))
    for path in ("/health", "/aios/events", "/aios/rpc"):
        answer = await call(guarded(), scope_of(path, method=method, headers=headers))
        assert answer.status == 403
        assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.req("S-13")
async def test_two_origin_headers_are_refused() -> None:
    own = ("origin", "http://127.0.0.1:9527")
    assert (await get("/health", own, own)).status == 403


@pytest.mark.parametrize(
    "wrong",
    [
        {"hosts": frozenset({"*"})},
        {"hosts": frozenset({"http://box"})},
        {"hosts": frozenset({"Box"})},
        {"origins": frozenset({"*"})},
        {"origins": frozenset({"null"})},
        {"origins": frozenset({"https://app.example/"})},
        {"origins": frozenset({"https://*.example"})},
    ],
    ids=repr,
)
def test_a_policy_that_would_allow_everything_or_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GuardPolicy(**wrong)


@pytest.mark.req("S-12", "S-10")
@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Bearer a b",
        "Bearer a,b",
        "Bearer \xe9",
        "Bearer " + "a" * 5000,
        "aios_test",
        "Token aios_test",
    ],
    ids=lambda a: repr(a)[:24],
)
async def test_without_a_bearer_token_every_route_gives_the_same_401(
    authorization: str | None,
) -> None:
    extra = [] if authorization is None else [("authorization", authorization)]
    for path in ("/aios/events", "/nowhere", "/metrics", "/openapi.json"):
        answer = await get(path, *extra, token=None)
        assert (answer.status, answer.reason) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"] == 'Bearer realm="aios"'
        assert answer.json()["error"]["message"] == refusals.UNAUTHENTICATED.message


@pytest.mark.req("S-10")
async def test_a_missing_and_a_bad_token_are_answered_alike() -> None:
    missing = await get("/tokens", ("x-request-id", "r"), token=None)
    bad = await get("/tokens", ("x-request-id", "r"), token="aios_stolen")
    assert (missing.status, missing.headers, missing.body) == (bad.status, bad.headers, bad.body)


@pytest.mark.req("S-12")
@pytest.mark.parametrize("path", ["/", "/health", "/.well-known/agent-card.json", "/static/app.js"])
async def test_public_paths_are_public_for_reading_only(path: str) -> None:
    answer = await get(path, token=None)
    assert answer.status == 200
    assert answer.json()["bearer"] is None
    headers = headers_of(token=None)
    assert (await call(guarded(), scope_of(path, method="POST", headers=headers))).status == 401


@pytest.mark.req("S-12")
@pytest.mark.parametrize("path", ["/static/../aios/rpc", "/staticx", "/health/", "//", "/Health"])
async def test_paths_beside_the_public_ones_are_not_public(path: str) -> None:
    assert (await get(path, token=None)).status == 401


async def test_the_token_is_handed_on_and_the_scheme_has_no_case() -> None:
    answer = await get("/health", ("authorization", "bEaReR  abc.DEF~+/-_9=="), token=None)
    assert answer.json()["bearer"] == "abc.DEF~+/-_9=="


async def test_two_authorization_headers_are_no_credential() -> None:
    assert (await get("/aios/events", ("authorization", "Bearer x"))).status == 401


@pytest.mark.req("S-08")
@pytest.mark.parametrize(
    "query", [b"token=aios_x", b"a=1&access_token=x", b"API_KEY=x", b"acc%65ss_token=x", b"token"]
)
async def test_a_credential_in_the_query_is_refused(query: bytes) -> None:
    answer = await get("/aios/events", query=query)
    assert (answer.status, answer.reason) == (400, "credential_in_query")
    assert b"aios_x" not in answer.body
    assert (await get("/aios/events", query=query, token=None)).status == 401


async def test_other_query_parameters_pass() -> None:
    assert (await get("/aios/events", query=b"subscription_id=sub-1&page_token=2")).status == 200


@pytest.mark.req("S-10")
async def test_after_ten_failures_in_a_minute_a_peer_waits_and_a_good_token_still_passes() -> None:
    clock = Clock()
    app = guarded(now=clock)
    for n in range(10):
        token = None if n % 2 else "aios_wrong"
        assert (await get("/tokens", app=app, token=token)).status == 401
        clock.seconds += 1
    for token in (None, "aios_wrong"):
        answer = await get("/tokens", app=app, token=token)
        assert (answer.status, answer.headers["retry-after"]) == (429, "50")
    assert (await get("/tokens", app=app)).status == 200
    assert (await get("/tokens", app=app, token=None, client=("10.0.0.9", 1))).status == 401
    clock.seconds += 50
    assert (await get("/tokens", app=app, token=None)).status == 401
    assert (await get("/tokens", app=app, token=None)).status == 429


async def test_successes_are_never_limited() -> None:
    app = guarded()
    for _ in range(50):
        assert (await get("/tokens", app=app)).status == 200


def test_the_limiter_forgets_peers_but_not_the_newest() -> None:
    limiter = FailureLimiter(1, lambda: 0.0)
    for n in range(5000):
        assert limiter.failed(f"peer-{n}") == 0
    assert limiter.failed("peer-4999") == 60
    assert limiter.failed("peer-0") == 0


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::9", "2001:db8:1:2::/64"),
        ("testclient", "testclient"),
    ],
)
def test_a_peer_is_an_address_or_a_network_of_one_subscriber(address: str, peer: str) -> None:
    assert peer_of((address, 1)) == peer
    assert peer_of(None) == "local"
