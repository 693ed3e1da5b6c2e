"""Which addresses and which URLs a webhook may have: the whole corpus of E24."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosd.adapters.http.address_policy import Allowlist, why_denied
from aiosd.adapters.http.webhook_url import read_url
from aiosd.application.errors import WebhookUrlRefused

DENIED = [
    *("0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1"),
    *("172.31.255.255", "192.168.1.1", "169.254.169.254", "169.254.0.1", "100.64.0.1"),
    *("100.127.255.255", "192.0.0.1", "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1"),
    *("198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255"),
    *("240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1"),
    *("::ffff:7f00:1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "64:ff9b::7f00:1"),
    *("64:ff9b::1.1.1.1", "64:ff9b:1::1", "2002:7f00:1::", "2002:101:101::", "2001::1"),
    *("2001:db8::1", "fc00::1", "fd12:3456::1", "fe80::1", "fec0::1", "ff02::1", "ff0e::1"),
    *("100::1", "::a00:1"),
]
ALLOWED = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1"]
NOTHING = Allowlist(())

REFUSED_URLS = [
    *("https://127.0.0.1/", "https://127.1/", "https://2130706433/", "https://0x7f000001/"),
    *("https://0177.0.0.1/", "https://0/", "https://0x7f.1/", "https://127.0.0.1./"),
    *("https://①②⑦.0.0.1/", "https://[::1]/", "https://[::ffff:7f00:1]/"),
    *("https://[64:ff9b::7f00:1]/", "https://[fe80::1%25eth0]/", "https://[::]/"),
    *("https://169.254.169.254/latest/meta-data", "https://10.0.0.1/", "https://localhost/"),
    *("https://a.localhost/", "https://LOCALHOST:8443/", "http://example.com/"),
    *("ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)", "example.com/hook"),
    *("https://user@example.com/", "https://user:pw@example.com/", "https://example.com/#f"),
    *("https://example.com:22/", "https://example.com:25/", "https://example.com:1023/"),
    *("https://example.com:0/", "https://example.com:99999/", "https://exa mple.com/"),
    *("https://example.com/\r\nX: y", "https://exam\u00adple.com/", "https://bücher.example/"),
    *("https://example.com\\@127.0.0.1/", "https:\\\\example.com", "https://%31%32%37.0.0.1/"),
    *(
        "https://",
        "https:///x",
        "https://.example.com/",
        "https://-a.example/",
        "https:example.com",
    ),
    *("https://" + "a" * 300 + ".example/", "https://example.com/" + "a" * 2048, ""),
]


@pytest.mark.req("S-23", "R132", "H06")
@pytest.mark.parametrize("text", DENIED)
def test_no_spelling_of_an_inner_address_may_be_reached(text: str) -> None:
    assert why_denied(ipaddress.ip_address(text))


@pytest.mark.req("S-23")
@pytest.mark.parametrize("text", ALLOWED)
def test_addresses_of_the_internet_may_be_reached(text: str) -> None:
    assert why_denied(ipaddress.ip_address(text)) == ""


@pytest.mark.req("S-23", "I36")
@given(st.ip_addresses(v=4))
def test_every_wrapping_of_an_inner_address_is_denied_like_itself(
    address: ipaddress.IPv4Address,
) -> None:
    if not why_denied(address):
        return
    number = int(address)
    for wrapped in (
        0xFFFF << 32 | number,  # mapped
        0x64FF9B << 96 | number,  # NAT64
        0x2002 << 112 | number << 80,  # 6to4
        number,  # compatible
    ):
        assert why_denied(ipaddress.IPv6Address(wrapped))


@pytest.mark.req("S-23")
@given(st.ip_addresses())
def test_nothing_that_is_not_global_is_reached(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if not address.is_global and not getattr(address, "ipv4_mapped", None):
        assert why_denied(address)


@pytest.mark.req("S-22", "R132", "H06")
@pytest.mark.parametrize("url", REFUSED_URLS)
def test_a_url_that_may_mean_anything_else_is_refused_at_registration(url: str) -> None:
    with pytest.raises(WebhookUrlRefused) as refused:
        read_url(url, NOTHING)
    assert refused.value.metadata["field"] == "url"


@pytest.mark.req("S-22")
@pytest.mark.parametrize(
    ("url", "endpoint", "shown"),
    [
        ("https://example.com", "https://example.com:443", "https://example.com"),
        (
            "https://Example.com:8443/a?k=v",
            "https://example.com:8443",
            "https://Example.com:8443/a",
        ),
        ("https://1.1.1.1/", "https://1.1.1.1:443", "https://1.1.1.1/"),
        (
            "https://[2606:4700:4700:0::1111]/",
            "https://[2606:4700:4700::1111]:443",
            "https://[2606:4700:4700:0::1111]/",
        ),
        (
            "https://xn--bcher-kva.example/",
            *["https://xn--bcher-kva.example:443"],
            "https://xn--bcher-kva.example/",
        ),
    ],
)
def test_a_plain_https_url_is_taken_apart_without_its_query(
    url: str, endpoint: str, shown: str
) -> None:
    target = read_url(url, NOTHING).target
    assert (target.endpoint, target.shown) == (endpoint, shown)


@pytest.mark.req("S-24", "R132")
@pytest.mark.parametrize(
    ("allow", "url"),
    [
        ("127.0.0.1:9000", "http://127.0.0.1:9000/"),
        ("127.0.0.1:22", "http://127.0.0.1:22/"),
        ("localhost:9000", "http://localhost:9000/"),
        ("10.0.0.0/8", "http://10.1.2.3/"),
        ("127.0.0.0/8", "http://[::ffff:127.0.0.1]:9000/"),
        ("fd00::/8", "https://[fd00::5]/"),
        ("[::1]:9000", "http://[::1]:9000/"),
        ("127.0.0.0/8", "http://localhost:9000/"),
    ],
)
def test_the_operator_may_let_a_target_through(allow: str, url: str) -> None:
    read_url(url, Allowlist((allow,)))


@pytest.mark.req("S-24", "R132")
@pytest.mark.parametrize(
    ("allow", "url"),
    [
        ("127.0.0.1:9000", "http://127.0.0.1:9001/"),
        ("127.0.0.1:9000", "http://127.0.0.2:9000/"),
        ("10.0.0.0/8", "http://127.0.0.1/"),
        ("10.0.0.0/8", "http://inner.example:8080/"),
        ("10.0.0.0/8", "http://localhost:8080/"),
        ("inner.example:80", "http://inner.example.evil.example/"),
    ],
)
def test_what_is_let_through_is_that_target_and_no_other(allow: str, url: str) -> None:
    with pytest.raises(WebhookUrlRefused):
        read_url(url, Allowlist((allow,)))
