"""Which addresses requests may go to. Checked after the name was resolved and before anything is sent.

Link-local addresses and those of cloud metadata services hand out credentials to any caller on the machine.
Where the URL comes from a client of the API instead of the settings, addresses of this machine and of private
networks are refused as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from longwatch.errors import InvalidInput

METADATA = tuple(
    map(ip_address, ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"))
)


class ForbiddenAddress(OSError):
    """The name of a URL resolves to an address that requests must not go to."""


@dataclass(frozen=True)
class OutgoingAddresses:
    """The addresses that requests may go to. Raises `InvalidInput` for one that cannot be parsed."""

    allowed: tuple[str, ...] = ()  # addresses and networks that are allowed in any case
    is_public_only: bool = False  # whether private networks and this machine are refused, too

    def __post_init__(self) -> None:
        _ = self._networks

    @cached_property
    def _networks(self) -> Sequence[IPv4Network | IPv6Network]:
        return [parse_network(each) for each in self.allowed]

    def allows(self, address: str) -> bool:
        """Whether requests may go to this IP address."""
        found = ip_address(address.partition("%")[0])  # without the zone
        if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        if any(found.version == each.version and found in each for each in self._networks):
            return True
        if self.is_public_only and (not found.is_global or found.is_multicast):
            return False
        return not _is_sensitive(found)

    def check(self, address: str, host: str) -> None:
        """Raise `ForbiddenAddress` unless requests for this host may go to the address."""
        if not self.allows(address):
            named = f"{host} ({address})" if host.strip("[]") != address else address
            raise ForbiddenAddress(
                f"requests to {named} are not allowed; add the address to notifications.allow_addresses"
            )


def parse_network(text: str) -> IPv4Network | IPv6Network:
    """An address or a network. Raises `InvalidInput`."""
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise InvalidInput(
            f"Invalid address {text!r}. Use an IP address or a network such as 10.0.0.0/8."
        ) from error


def _is_sensitive(address: IPv4Address | IPv6Address) -> bool:
    return address.is_link_local or address.is_unspecified or address in METADATA
