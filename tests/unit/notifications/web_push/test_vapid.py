"""The key pair of an installation, and whom push services can contact."""

from __future__ import annotations

import pytest

from longwatch.errors import InvalidInput
from longwatch.notifications.web_push.subscription import decode_key
from longwatch.notifications.web_push.vapid import (
    LOCAL_CONTACT,
    check_point,
    contact_for,
    generate_key,
    parse_contact,
)


def test_a_new_key_is_a_point_as_browsers_expect_it() -> None:
    one, other = generate_key(), generate_key()

    assert len(decode_key(one.public)) == 65
    check_point(decode_key(one.public))
    assert one.public != other.public
    assert "PRIVATE" not in repr(one)


def test_a_point_beside_the_curve_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="p256dh"):
        check_point(b"\4" + b"\1" * 64)


@pytest.mark.parametrize("text", ["mailto:ops@example.org", "https://example.org/ops"])
def test_a_contact_is_a_mail_address_or_a_page(text: str) -> None:
    assert parse_contact(text) == text


@pytest.mark.parametrize(
    "value", ["ops@example.org", "mailto:", "mailto:@", "http://example.org", "https://", "mailto:a@b c", 5]
)
def test_an_invalid_contact_names_the_forms(value: object) -> None:
    with pytest.raises(ValueError, match=r"contact must be a URL such as mailto:you@example\.org"):
        parse_contact(value)


@pytest.mark.parametrize(
    ("page", "configured", "contact"),
    [
        ("https://lw.example.org", None, "https://lw.example.org"),
        ("https://lw.example.org", "mailto:ops@example.org", "mailto:ops@example.org"),
        ("http://localhost:8321", None, LOCAL_CONTACT),
    ],
)
def test_the_contact_is_the_rules_or_the_page(page: str, configured: str | None, contact: str) -> None:
    assert contact_for(page, configured) == contact
