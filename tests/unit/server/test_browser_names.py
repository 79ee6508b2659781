"""How a browser is named in the list of subscriptions."""

from __future__ import annotations

import pytest

from longwatch.server.api.notifications import browser_of

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (
            f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/150.0 Safari/537.36",
            "Chrome on Windows",
        ),
        (
            f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/150.0 Safari/537.36 Edg/150.0",
            "Edge on Windows",
        ),
        (f"Mozilla/5.0 (Linux; Android 15) {WEBKIT} Chrome/150.0 Mobile Safari/537.36", "Chrome on Android"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Version/18 Safari/604",
            "Safari on iPhone",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/605 Version/18 Safari/605",
            "Safari on macOS",
        ),
        ("curl/8.5", ""),
        ("", ""),
    ],
)
def test_browser_and_system_are_named(user_agent: str, name: str) -> None:
    assert browser_of(user_agent) == name
