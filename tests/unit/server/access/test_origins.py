"""Which names are served and which pages may call."""

from __future__ import annotations

import pytest

from longwatch.errors import InvalidInput
from longwatch.server.access.origins import Hosts, is_loopback, name_of, parse_origin, parse_proxy


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost:8321", "localhost"),
        ("Example.ORG", "example.org"),
        ("example.org.:80", "example.org"),
        ("[::1]:8321", "[::1]"),
        ("127.0.0.1", "127.0.0.1"),
        ("", ""),
    ],
)
def test_a_host_header_names_a_host_without_its_port(header: str, name: str) -> None:
    assert name_of(header) == name


def test_on_loopback_only_this_machine_and_admitted_names_are_served() -> None:
    hosts = Hosts.of("127.0.0.1", allow_hosts=("Proxy.Example",))

    assert [hosts.serves(name) for name in ("localhost", "[::1]:1", "proxy.example:443")] == [True] * 3
    assert [hosts.serves(name) for name in ("10.0.0.1", "evil.example", "", "localhost.evil.example")] == [
        False
    ] * 4


def test_on_every_address_any_ip_address_is_served_and_no_foreign_name() -> None:
    hosts = Hosts.of("0.0.0.0")

    assert [hosts.serves(name) for name in ("10.0.0.1:8321", "[2001:db8::1]", "localhost")] == [True] * 3
    assert [hosts.serves(name) for name in ("evil.example", "10.0.0.1.nip.io")] == [False] * 2


@pytest.mark.parametrize(
    ("origin", "host", "admitted"),
    [
        ("http://localhost:8321", "localhost:8321", True),
        ("https://example.org", "example.org", True),
        ("https://example.org", "example.org:443", True),
        ("https://example.org:8443", "example.org", False),
        ("http://localhost:3000", "localhost:8321", False),
        ("http://evil.example", "localhost:8321", False),
        ("null", "localhost:8321", False),
        ("", "localhost:8321", False),
        ("http://[", "localhost:8321", False),
        ("http://localhost:x", "localhost:x", False),
        ("ws://localhost:8321", "localhost:8321", False),
        ("https://tool.example", "localhost:8321", True),
    ],
)
def test_a_page_may_call_the_host_it_came_from(origin: str, host: str, admitted: bool) -> None:
    hosts = Hosts.of("localhost", allow_origins=("https://TOOL.example",))

    assert hosts.admits(origin, host) is admitted


@pytest.mark.parametrize(
    "text", ["", "*", "example.org", "ftp://example.org", "https://example.org/path", "http://a:b"]
)
def test_an_invalid_origin_cannot_be_admitted(text: str) -> None:
    with pytest.raises(InvalidInput, match="Invalid origin"):
        parse_origin(text)


@pytest.mark.parametrize(
    ("host", "response"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("", False),
    ],
)
def test_only_loopback_needs_no_token(host: str, response: bool) -> None:
    assert is_loopback(host) is response


@pytest.mark.parametrize(
    ("text", "proxy"),
    [("127.0.0.1", "127.0.0.1"), ("10.1.2.3/8", "10.0.0.0/8"), ("::1", "::1"), ("fd00::/8", "fd00::/8")],
)
def test_a_proxy_is_an_address_or_a_network(text: str, proxy: str) -> None:
    assert parse_proxy(text) == proxy


@pytest.mark.parametrize("text", ["*", "", "localhost", "10.0.0.0/33", "127.0.0.1:80", "10.0.0.256"])
def test_an_invalid_address_of_a_proxy_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidInput, match="Use an IP address"):
        parse_proxy(text)
