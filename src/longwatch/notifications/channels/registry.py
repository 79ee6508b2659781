"""Every kind of channel by its name in `[[notify]]`. Their modules are imported when a rule uses them."""

from __future__ import annotations

from collections.abc import Mapping

from longwatch.notifications.channels.base import ChannelKind

_KINDS: tuple[ChannelKind, ...] = ()

CHANNELS: Mapping[str, ChannelKind] = {kind.name: kind for kind in _KINDS}
