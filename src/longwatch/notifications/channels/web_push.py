"""Web Push: sends a message to every browser that subscribed on the page."""

from __future__ import annotations

from contextlib import closing

from longwatch.errors import LongwatchError, WorthAnotherTry
from longwatch.notifications.channels.base import (
    Channel,
    ChannelContext,
    ChannelKind,
    DeliveryError,
    DeliveryReceipt,
    Options,
)
from longwatch.notifications.message import Message
from longwatch.notifications.stores.factory import open_notifications
from longwatch.notifications.web_push.fan_out import fan_out
from longwatch.notifications.web_push.post import poster
from longwatch.notifications.web_push.store import PushStore
from longwatch.notifications.web_push.vapid import parse_contact, require_extra
from longwatch.storage.outgoing import OutgoingAddresses

CONTACT = "contact"


class WebPushChannel:
    """A `Channel` to the browsers in the store of push subscriptions beside the journal."""

    def __init__(self, context: ChannelContext, contact: str | None = None) -> None:
        self._context = context
        self._contact = contact
        allowed = context.settings.notification_addresses
        self._post = poster(OutgoingAddresses(allowed, is_public_only=True))

    def send(self, message: Message) -> DeliveryReceipt:
        context = self._context
        try:
            require_extra()
            with closing(open_notifications(context.settings, clock=context.clock)) as records:
                store = PushStore(records)
                return fan_out(store, message, post=self._post, clock=context.clock, contact=self._contact)
        except LongwatchError as error:  # of the store, or a missing extra
            raise DeliveryError(str(error), is_retryable=isinstance(error, WorthAnotherTry)) from error


def check(options: Options) -> None:
    """Raise ValueError if a rule has an invalid contact."""
    if CONTACT in options:
        parse_contact(options[CONTACT])


def open_channel(options: Options, context: ChannelContext) -> Channel:
    """The channel of a rule."""
    contact = options.get(CONTACT)
    return WebPushChannel(context, None if contact is None else parse_contact(contact))


KIND = ChannelKind(name="web_push", options=frozenset({CONTACT}), check=check, open=open_channel)
