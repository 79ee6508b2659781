"""Every kind of channel, by its name in `[[notify]]`."""

from __future__ import annotations

from collections.abc import Mapping

from longwatch.notifications.channels import command, desktop, sns, web_push, webhook
from longwatch.notifications.channels.base import ChannelKind

_KINDS = (webhook.KIND, command.KIND, desktop.KIND, sns.KIND, web_push.KIND)

CHANNELS: Mapping[str, ChannelKind] = {kind.name: kind for kind in _KINDS}
