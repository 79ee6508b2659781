"""Which redirects are followed."""

from __future__ import annotations

import pytest

from longwatch.storage.http import resolve_redirect


@pytest.mark.parametrize(
    ("address", "location", "expected"),
    [
        ("https://a.example/x/1", "2", "https://a.example/x/2"),
        ("https://a.example/x", "//b.example/y", "https://b.example/y"),
        ("http://a.example/x", "https://a.example/x", "https://a.example/x"),
        ("http://a.example/x", "http://b.example/x", "http://b.example/x"),
    ],
)
def test_a_redirect_leads_to_another_address(address: str, location: str, expected: str) -> None:
    assert resolve_redirect(address, location) == expected


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("http://a.example/x?state=s3cret", "redirects from https to http"),
        ("file:///etc/passwd?s3cret", "an invalid HTTP URL"),
        ("ftp://a.example/s3cret", "an invalid HTTP URL"),
        ("https://me:s3cret@a.example/", "an invalid HTTP URL"),
        ("https://[s3cret", "an invalid HTTP URL"),
    ],
)
def test_a_redirect_that_is_not_followed_is_reported_without_its_content(location: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        resolve_redirect("https://a.example/x", location)

    assert "s3cret" not in str(raised.value)
