"""What a server does with push subscriptions: its key and rules, adding, and revoking those of old tokens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from longwatch.errors import LongwatchError, MissingExtra
from longwatch.notifications.rules import Rule
from longwatch.notifications.web_push.post import check_endpoint
from longwatch.notifications.web_push.store import PushStore
from longwatch.notifications.web_push.subscription import (
    PushSubscription,
    decode_key,
    expired,
    revoked,
)
from longwatch.notifications.web_push.vapid import (
    EXTRA,
    VapidKey,
    check_point,
    generate_key,
    is_installed,
    require_extra,
)
from longwatch.notifications.web_push.views import PushConfiguration, PushRuleView
from longwatch.storage.outgoing import OutgoingAddresses

log = logging.getLogger("longwatch.notifications")

CHANNEL = "web_push"
PUBLIC_ONLY = OutgoingAddresses(is_public_only=True)
NO_RULE = (
    'No rule sends to browsers. Add one with channel = "web_push" to longwatch.toml, and restart the server.'
)


@dataclass(frozen=True, slots=True)
class PushService:
    """The push subscriptions of one server. Its methods block."""

    store: PushStore
    rules: Sequence[Rule] = ()  # of all channels
    addresses: OutgoingAddresses = PUBLIC_ONLY  # that pushes may go to

    def configuration(self) -> PushConfiguration:
        """What a browser needs. The key is generated on first use."""
        rules = self._rules_for_browsers()
        problem = None if rules else NO_RULE
        if not is_installed():
            problem = str(MissingExtra("Web Push", EXTRA))
        key = None if problem else self.key().public
        return PushConfiguration(public_key=key, problem=problem, rules=rules)

    def key(self) -> VapidKey:
        """The stored key pair, or a new one."""
        return self.store.vapid_key() or self.store.add_vapid_key(generate_key())

    def subscribe(self, subscription: PushSubscription) -> PushSubscription:
        """Store or renew a subscription. Raises `InvalidInput` if it cannot be sent to."""
        require_extra()
        check_endpoint(subscription.endpoint, self.addresses)
        check_point(decode_key(subscription.p256dh))
        for each in expired(self.store.subscriptions(), subscription.renewed_at):
            self.store.remove(each.subscription_id)
        return self.store.add(subscription)

    def revoke(self, grants: Collection[str], serves: Callable[[str], bool]) -> None:
        """Remove the subscriptions of tokens that this server no longer has. Errors are logged."""
        if not grants or not self._rules_for_browsers():
            return  # the store is left alone where nothing is sent
        try:
            found = revoked(self.store.subscriptions(), grants, serves)
            for each in found:
                self.store.remove(each.subscription_id)
        except LongwatchError as error:
            log.warning("cannot check push subscriptions: %s", error)
            return
        if found:
            log.warning("removed %d push subscriptions of tokens that are not in use any more", len(found))

    def _rules_for_browsers(self) -> list[PushRuleView]:
        return [PushRuleView.of(rule) for rule in self.rules if rule.channel == CHANNEL]
