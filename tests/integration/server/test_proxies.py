"""X-Forwarded-* headers count only from proxies that were configured, on a real server and real sockets."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from tests.integration.server.processes import journal_option, serving
from tests.patience import PATIENCE_SECONDS

TOKEN = "a-token-for-the-proxy"
FORWARDED = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}


def is_believed(tmp_path: Path, *arguments: str, **variables: str) -> bool:
    """Whether the server takes a request for one over TLS because of a header."""
    with serving(
        "--token", *journal_option(tmp_path / "s.db"), *arguments, LONGWATCH_TOKEN=TOKEN, **variables
    ) as server:
        response = httpx2.post(
            f"{server.url}/api/login", json={"token": TOKEN}, headers=FORWARDED, timeout=PATIENCE_SECONDS
        )
    assert response.status_code == 200
    return "Secure" in response.headers["set-cookie"]


@pytest.mark.parametrize(
    ("arguments", "variables", "believed"),
    [
        ((), {}, False),
        ((), {"FORWARDED_ALLOW_IPS": "*"}, False),
        (("--trusted-proxy", "10.1.2.3"), {"FORWARDED_ALLOW_IPS": "127.0.0.1"}, False),
        (("--trusted-proxy", "127.0.0.1"), {}, True),
        (("--trusted-proxy", "10.1.2.3", "--trusted-proxy", "127.0.0.0/8"), {}, True),
        ((), {"LONGWATCH_SERVER_TRUSTED_PROXIES": "127.0.0.1"}, True),
    ],
)
def test_forwarded_headers_are_trusted_from_configured_proxies_alone(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], believed: bool
) -> None:
    assert is_believed(tmp_path, *arguments, **variables) is believed
