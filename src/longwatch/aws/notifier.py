"""The Lambda function that notifies: one pass over the rules, once a minute.

Two invocations may overlap, and one may be killed at any moment: what it has not finished, the next one does.

Environment: LONGWATCH_NOTIFY has the rules as JSON, LONGWATCH_JOURNAL is the URL of the journal whose table
has the queue, LONGWATCH_EXECUTIONS that of the executions.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import cache

from longwatch.aws.finder import EXECUTIONS_VARIABLE
from longwatch.errors import InvalidSettings
from longwatch.executions.stores.factory import open_executions
from longwatch.journal.factory import open_journal
from longwatch.notifications.compose import open_notifier
from longwatch.notifications.notifier import Notifier
from longwatch.settings import NOTIFY_VARIABLE, load_settings


def handler(event: object, context: object = None) -> dict[str, int]:
    """The handler. Returns the number of messages that were delivered, given up, and left in the queue."""
    report = open_parts().run_once()
    return {"delivered": report.delivered, "given_up": report.failed, "queued": report.queued}


@cache
def open_parts() -> Notifier:
    """The notifier of this container, from its environment."""
    settings = load_settings()
    if not settings.notify:
        raise InvalidSettings([f"{NOTIFY_VARIABLE} is not set. Set it to the rules as JSON"])
    opened = ExitStack()  # as long as the container lives
    journal = opened.enter_context(open_journal(settings=settings))
    executions = open_executions(os.environ.get(EXECUTIONS_VARIABLE), settings=settings)
    opened.callback(executions.close)
    return opened.enter_context(open_notifier(settings, journal, executions=executions))
