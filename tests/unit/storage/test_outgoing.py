"""Which addresses requests may go to."""

from __future__ import annotations

import pytest

from longwatch.errors import InvalidInput
from longwatch.storage.outgoing import ForbiddenAddress, OutgoingAddresses


@pytest.mark.parametrize(
    ("address", "from_settings", "public_only"),
    [
        ("93.184.216.34", True, True),
        ("2606:2800:220:1::1", True, True),
        ("10.1.2.3", True, False),
        ("192.168.1.1", True, False),
        ("127.0.0.1", True, False),
        ("::1", True, False),
        ("fd12::1", True, False),
        ("100.64.0.1", True, False),
        ("224.0.0.1", True, False),
        ("169.254.1.1", False, False),
        ("169.254.169.254", False, False),
        ("::ffff:169.254.169.254", False, False),
        ("fe80::1", False, False),
        ("fe80::1%eth0", False, False),
        ("fd00:ec2::254", False, False),
        ("100.100.100.200", False, False),
        ("168.63.129.16", False, False),
        ("0.0.0.0", False, False),
        ("::", False, False),
    ],
)
def test_each_address_is_allowed_or_not(address: str, from_settings: bool, public_only: bool) -> None:
    assert OutgoingAddresses().allows(address) is from_settings
    assert OutgoingAddresses(is_public_only=True).allows(address) is public_only


@pytest.mark.parametrize(
    ("allowed", "address", "is_allowed"),
    [
        ("169.254.10.0/24", "169.254.10.7", True),
        ("169.254.10.7/24", "169.254.10.8", True),  # host bits are ignored
        ("169.254.10.0/24", "169.254.11.7", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("fd00::/8", "fd12::1", True),
        ("::/0", "10.0.0.1", False),
    ],
)
def test_the_settings_allow_more(allowed: str, address: str, is_allowed: bool) -> None:
    assert OutgoingAddresses((allowed,), is_public_only=True).allows(address) is is_allowed


def test_an_address_that_is_not_allowed_is_named_with_the_setting() -> None:
    with pytest.raises(
        ForbiddenAddress, match=r"evil\.example \(169\.254\.169\.254\) are not allowed.*allow_addresses"
    ):
        OutgoingAddresses().check("169.254.169.254", "evil.example")


def test_an_invalid_network_is_rejected_at_once() -> None:
    with pytest.raises(InvalidInput, match="Invalid address 'localhost'"):
        OutgoingAddresses(("localhost",))
