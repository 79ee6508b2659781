"""What a browser receives: a small JSON text, and how a push service treats it."""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode
from urllib.parse import quote

from longwatch.notifications.message import Message
from longwatch.notifications.rules import Trigger
from longwatch.notifications.web_push.request import MAX_PAYLOAD_BYTES, TOPIC_CHARACTERS, Urgency

TTL_SECONDS = 24 * 3600  # how long a push service stores a message for a browser that is offline
MAX_TITLE, MAX_BODY = 120, 600  # characters; a notification shows less
URGENT = frozenset({Trigger.FAILED, Trigger.DIED, Trigger.WAITING, Trigger.OVERDUE})


def payload_of(message: Message) -> bytes:
    """The message for the service worker of the page, which resolves the path against its own origin."""
    fields = {
        "title": _cut(message.title, MAX_TITLE),
        "body": _cut(message.body, MAX_BODY),
        "path": path_of(message),
        "tag": topic_of(message),
        "delivery_id": message.delivery_id,
        "occurred_at": message.occurred_at,
        "is_resolved": message.is_resolved,
    }
    encoded = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    if len(encoded) > MAX_PAYLOAD_BYTES:  # a path may be long: the list is better than nothing
        fields |= {"path": "/runs", "body": _cut(message.body, MAX_BODY // 6)}
        encoded = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    return encoded


def path_of(message: Message) -> str:
    """The path of the run on the page; of the list if there are several."""
    run_ids = message.run_ids
    return f"/runs/{quote(run_ids[0], safe='')}" if len(run_ids) == 1 else "/runs"


def topic_of(message: Message) -> str:
    """The same for a condition of a run and its resolution, so that the later one replaces the earlier one.

    A message about several runs is replaced by nothing.
    """
    single = len(message.notices) == 1 and message.count == 1
    parts = (message.rule, message.run_ids[0], message.trigger) if single else (message.delivery_id,)
    digest = hashlib.sha256("\0".join(parts).encode(errors="replace")).digest()
    return urlsafe_b64encode(digest).decode()[:TOPIC_CHARACTERS]


def urgency_of(message: Message) -> Urgency:
    """A phone that saves power receives urgent messages at once, and others later."""
    is_urgent = any(each.trigger in URGENT and not each.is_resolved for each in message.notices)
    return "high" if is_urgent else "normal"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
