"""One attempt against receivers of every kind, over real sockets."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
import tracemalloc
from collections import Counter
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from aiosd.adapters.http import pinned
from aiosd.adapters.http.pinned import Resolver
from aiosd.adapters.http.webhook_sender import LARGEST_READ, HttpWebhookSender
from tests.support.raw_receiver import Receiver, answering, dripping, endless, hang

if TYPE_CHECKING:
    from pathlib import Path

HEADERS = [("Content-Type", "application/json"), ("X-Test", "1")]


@pytest.fixture
def sender() -> HttpWebhookSender:
    return HttpWebhookSender(("127.0.0.0/8",), connect_timeout_ms=1_000, timeout_ms=1_500)


@pytest.mark.req("R125")
async def test_a_post_arrives_with_its_bytes_and_headers(sender: HttpWebhookSender) -> None:
    async with Receiver(answering(204)) as receiver:
        answer = await sender.send(receiver.url + "?a=b", HEADERS, b'{"x":1}')
    assert (answer.status, answer.error) == (204, "")
    (posted,) = receiver.posted
    assert posted.target == "/hook?a=b"
    assert posted.body == b'{"x":1}'
    assert posted.headers["content-type"] == "application/json"
    assert posted.headers["x-test"] == "1"
    assert posted.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert "cookie" not in posted.headers


@pytest.mark.req("S-24", "H06", "I36")
async def test_a_redirect_is_not_followed(sender: HttpWebhookSender) -> None:
    async with Receiver() as inner:
        where = f"Location: {inner.url}\r\n"
        async with Receiver(answering(302, headers=where)) as receiver:
            answer = await sender.send(receiver.url, HEADERS, b"{}")
        assert answer.status == 302
        assert not answer.accepted
        assert inner.connections == 0


@pytest.mark.req("S-26", "I35")
async def test_an_endless_answer_is_read_to_its_bound(sender: HttpWebhookSender) -> None:
    async with Receiver(endless) as receiver:
        tracemalloc.start()
        answer = await sender.send(receiver.url, HEADERS, b"{}")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert answer.status == 500
    assert len(answer.error) <= 500
    # The receiver is in this process too and writes 64 KiB at a time.
    assert most < 256 * LARGEST_READ


@pytest.mark.req("S-26", "I35")
@pytest.mark.parametrize("behave", [hang, dripping])
async def test_a_receiver_that_never_answers_costs_the_deadline(
    sender: HttpWebhookSender, behave: object
) -> None:
    async with Receiver(behave) as receiver:
        began = time.monotonic()
        answer = await sender.send(receiver.url, HEADERS, b"{}")
    assert 1.4 <= time.monotonic() - began < 4
    assert (answer.status, answer.error) == (0, "no answer within 1.5 s")


@pytest.mark.req("S-26")
@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_read_in_both_forms(sender: HttpWebhookSender, form: str) -> None:
    date = (datetime.now(UTC) + timedelta(seconds=60)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    value = "60" if form == "seconds" else date
    async with Receiver(answering(429, headers=f"Retry-After: {value}\r\n")) as receiver:
        answer = await sender.send(receiver.url, HEADERS, b"{}")
    assert answer.status == 429
    assert 30_000 < answer.retry_after_ms <= 60_000


async def test_nonsense_in_retry_after_is_nothing(sender: HttpWebhookSender) -> None:
    async with Receiver(answering(503, headers="Retry-After: soon\r\n")) as receiver:
        answer = await sender.send(receiver.url, HEADERS, b"{}")
    assert answer.retry_after_ms == 0


async def test_a_failure_says_what_the_receiver_said(sender: HttpWebhookSender) -> None:
    async with Receiver(answering(400, body=b"no such\n\x00 hook")) as receiver:
        answer = await sender.send(receiver.url, HEADERS, b"{}")
    assert answer.error == "HTTP 400: no such \x00 hook"


async def test_nobody_listening_is_a_failure_and_not_an_exception(
    sender: HttpWebhookSender,
) -> None:
    async with Receiver() as receiver:
        url = receiver.url
    answer = await sender.send(url, HEADERS, b"{}")
    assert (answer.status, answer.accepted) == (0, False)
    assert answer.error


@pytest.mark.req("S-24")
async def test_proxies_of_the_environment_are_not_asked(
    sender: HttpWebhookSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Receiver() as proxy, Receiver() as receiver:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await sender.send(receiver.url, HEADERS, b"{}")
        assert (proxy.connections, len(receiver.posted)) == (0, 1)


# --- names ----------------------------------------------------------------------------------------


class Answers(Resolver):
    """A resolver whose answer changes, as an attacker's does."""

    def __init__(self, *answers: list[str]) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked = 0

    async def addresses(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def resolving(sender: HttpWebhookSender, *answers: list[str]) -> Answers:
    sender.resolver = resolver = Answers(*answers)
    return resolver


@pytest.mark.req("S-23", "S-24", "R132", "H06", "I36")
@pytest.mark.parametrize(
    "found", [["10.0.0.7"], ["1.1.1.1", "169.254.169.254"], ["::ffff:10.0.0.7"], ["fe80::1%eth0"]]
)
async def test_a_name_with_any_forbidden_answer_is_refused_whole(
    sender: HttpWebhookSender, found: list[str]
) -> None:
    resolving(sender, found)
    answer = await sender.send("https://rebind.example/", HEADERS, b"{}")
    assert answer.refused
    assert "is not allowed" in answer.error


@pytest.mark.req("S-24", "H06", "I36")
async def test_the_name_is_looked_up_and_checked_at_each_attempt() -> None:
    async with Receiver() as receiver:
        sender = HttpWebhookSender(("127.0.0.9/32",), timeout_ms=500)
        resolver = resolving(sender, ["127.0.0.9"], ["127.0.0.1"])
        url = f"https://rebind.example:{receiver.port}/"
        first = await sender.send(url, HEADERS, b"{}")
        second = await sender.send(url, HEADERS, b"{}")
    assert (first.refused, second.refused) == (False, True)
    assert resolver.asked == 2
    assert receiver.connections == 0


@pytest.mark.req("S-24")
async def test_the_connection_goes_to_the_checked_address_under_the_name_of_the_url() -> None:
    async with Receiver() as receiver:
        sender = HttpWebhookSender((f"hooks.example:{receiver.port}",))
        resolving(sender, ["127.0.0.1"])
        answer = await sender.send(f"http://hooks.example:{receiver.port}/", HEADERS, b"{}")
    assert answer.accepted
    assert receiver.posted[0].headers["host"] == f"hooks.example:{receiver.port}"


@pytest.mark.req("I35", "S-26")
async def test_names_that_hang_cost_the_connect_deadline_and_a_bounded_number_of_threads(
    sender: HttpWebhookSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def stuck(host: str, port: int) -> list[str]:
        release.wait(30)
        return []

    monkeypatch.setattr(pinned, "_look_up", stuck)
    before = threading.active_count()
    try:
        found = await asyncio.gather(
            *(sender.send(f"https://n{one}.example/", HEADERS, b"{}") for one in range(40))
        )
        assert threading.active_count() - before <= pinned.RESOLVERS
    finally:
        release.set()
    said = Counter(one.error for one in found)
    assert said == {
        "the name was not resolved in time": pinned.RESOLVERS,
        "the name cannot be resolved": 40 - pinned.RESOLVERS,
    }


@pytest.mark.req("S-22", "S-24")
async def test_plain_http_to_a_name_outside_the_allowed_networks_is_refused(
    sender: HttpWebhookSender,
) -> None:
    resolving(sender, ["1.1.1.1"])
    answer = await sender.send("http://localhost:8080/", HEADERS, b"{}")
    assert answer.refused
    assert "http is for targets in webhook_allow only" in answer.error


# --- TLS ------------------------------------------------------------------------------------------


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server with a certificate for `name` uses, and what trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    san: x509.GeneralName = (
        x509.IPAddress(ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
    )
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([san]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "server.pem"
    pem.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    trusting = ssl.create_default_context(cafile=str(pem))
    return server, trusting


@pytest.mark.req("S-24")
@pytest.mark.parametrize(("name", "accepted"), [("hooks.example", True), ("other.example", False)])
async def test_the_certificate_must_be_for_the_name_in_the_url(
    tmp_path: Path, name: str, accepted: bool
) -> None:
    server, trusting = certificate(tmp_path, name)
    sender = HttpWebhookSender(("127.0.0.0/8",), ssl_context=trusting, timeout_ms=3_000)
    resolving(sender, ["127.0.0.1"])
    async with Receiver(tls=server) as receiver:
        answer = await sender.send(f"https://hooks.example:{receiver.port}/", HEADERS, b"{}")
        assert answer.accepted is accepted
        assert len(receiver.posted) == int(accepted)
    if not accepted:
        assert "certificate" in answer.error.lower()
