"""`longwatch notify`: send the messages of the rules in `[[notify]]`, test a rule, and show the queue."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from longwatch.cli.exit_codes import ExitCode
from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation
from longwatch.cli.render.styles import Segment
from longwatch.cli.render.table import Column, table
from longwatch.cli.render.terminal import (
    Terminal,
    log_formatter,
    remark,
    write_document,
    write_json,
    write_json_lines,
    write_text,
)
from longwatch.cli.render.text import clean, count_text
from longwatch.cli.render.times import start_text
from longwatch.cli.signals import report_interrupt, stopped_by_signals
from longwatch.errors import InvalidInput
from longwatch.journal.factory import open_journal
from longwatch.notifications.channels.base import ChannelContext, DeliveryError
from longwatch.notifications.channels.registry import CHANNELS
from longwatch.notifications.compose import open_notifier, pass_seconds, run_passes
from longwatch.notifications.message import Message, Notice, compose
from longwatch.notifications.notifier import Notifier
from longwatch.notifications.queue import NotificationQueue
from longwatch.notifications.rules import Rule, rules_of
from longwatch.notifications.stores.factory import open_notifications
from longwatch.notifications.views import DeliveryView, NotificationStatus, RuleView
from longwatch.recording.secret_names import SecretNames
from longwatch.settings import Settings

MAX_DEAD = 1_000  # that `retry` searches
NO_RULES = "No rules. Add [[notify]] tables to longwatch.toml; docs/how-to/get-notified.md has examples."

RULE_COLUMNS = (
    Column("RULE", 9, 8, elastic=True),
    Column("TRIGGER", 7, 10, elastic=True),
    Column("RUNS", 3, 8, elastic=True),
    Column("CHANNEL", 8, 7),
    Column("SINCE", 6, 8),
    Column("PENDING", 5, 7, right=True),
)
DELIVERY_COLUMNS = (
    Column("DELIVERY", 9, 12, elastic=True),
    Column("RULE", 8, 8, elastic=True),
    Column("STATE", 9, 9),
    Column("TITLE", 7, 12, elastic=True),
    Column("CREATED", 5, 8),
    Column("ATTEMPTS", 4, 8, right=True),
    Column("NEXT", 6, 8),
    Column("RESPONSE", 7, 12, elastic=True),
)


@click.group()
def command() -> None:
    """Send notifications, and show what was sent.

    `longwatch serve` and `longwatch executions watch` send them too. Any number of senders may run at once.
    """


@command.command("run")
@click.option("--once", is_flag=True, help="Check the rules once, send what is due, and exit.")
@common_options
@pass_invocation
def run(invocation: Invocation, once: bool) -> int:
    """Check the rules and send their messages until Ctrl-C.

    With --once the exit code is 1 if a message is left that could not be sent.
    """
    settings = invocation.settings()
    if not rules_of(settings, CHANNELS):
        raise InvalidInput(NO_RULES)
    handler = logging.StreamHandler()
    handler.setFormatter(log_formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    with (
        open_journal(settings=settings, clock=invocation.clock) as journal,
        open_notifier(settings, journal, clock=invocation.clock) as notifier,
    ):
        if once:
            return _run_once(notifier)
        remark(f"Notifying about {settings.journal}. Press Ctrl-C to stop.")
        try:
            with stopped_by_signals():
                run_passes(notifier, threading.Event(), pass_seconds(journal))
        except KeyboardInterrupt:
            return report_interrupt("stopped; the queue is kept")
    return ExitCode.SUCCEEDED


def _run_once(notifier: Notifier) -> ExitCode:
    report = notifier.run_once()
    left = f", {report.queued:,} left in the queue" if report.queued else ""
    given_up = f", {report.failed:,} given up" if report.failed else ""
    remark(f"Sent {count_text(report.delivered, 'message')}{given_up}{left}.")
    return ExitCode.FAILED if report.failed or report.queued else ExitCode.SUCCEEDED


@command.command("test")
@click.argument("rule", metavar="RULE")
@output_option()
@common_options
@pass_invocation
def test(invocation: Invocation, rule: str, output: str) -> int:
    """Send a test message of RULE at once, past the queue, and print the response."""
    settings = invocation.settings()
    found = _find_rule(rules_of(settings, CHANNELS), rule)
    message = _test_message(found, settings, invocation.clock.now_ms())
    context = ChannelContext(settings=settings, clock=invocation.clock)
    try:
        receipt = CHANNELS[found.channel].open(found.options, context).send(message)
    except DeliveryError as error:
        remark(f"longwatch: {found.name} could not send: {error}")
        return ExitCode.FAILED
    if output == "text":
        write_text(f"{found.name}: {found.channel} accepted {message.delivery_id} ({receipt.status})")
    else:
        accepted = {"rule": found.name, "channel": found.channel, "status": receipt.status}
        write_document({"delivery_id": message.delivery_id, **accepted}, output)
    return ExitCode.SUCCEEDED


def _find_rule(rules: Sequence[Rule], name: str) -> Rule:
    if not rules:
        raise InvalidInput(NO_RULES)
    found = next((each for each in rules if each.name == name), None)
    if found is None:
        names = ", ".join(each.name for each in rules)
        raise InvalidInput(f"No rule {name!r} in the settings. The rules are {names}.")
    return found


def _test_message(rule: Rule, settings: Settings, now_ms: int) -> Message:
    notice = Notice(
        run_id="wf-000000000000",
        run_name="Test message: example run",
        trigger=rule.triggers[0],
        text=f"this is a test of rule {rule.name}",
        occurred_at=now_ms,
    )
    names = SecretNames(settings.redact_keys)
    return compose(f"msg_test_{now_ms}", rule.name, [notice], page_url=settings.page_url, names=names)


@command.command("retry")
@click.argument("delivery_ids", metavar="[DELIVERY]...", nargs=-1)
@common_options
@pass_invocation
def retry(invocation: Invocation, delivery_ids: Sequence[str]) -> None:
    """Put dead letters into the queue again: those with these IDs, else all of them."""
    with _opened(invocation.settings(), invocation) as queue:
        dead = {each.delivery_id: each for each in queue.dead_letters(MAX_DEAD)}
        unknown = [each for each in delivery_ids if each not in dead]
        if unknown:
            raise InvalidInput(f"No dead letter {unknown[0]!r}. `longwatch notify status` lists them.")
        revived = sum(queue.revive(dead[each]) for each in (delivery_ids or dead))
    remark(f"Queued {count_text(revived, 'message')} again.")


@command.command("status")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Maximum number of dead letters and of past deliveries.",
)
@output_option()
@common_options
@pass_invocation
def status(invocation: Invocation, limit: int, output: str) -> None:
    """Show the rules, the queue, dead letters and the last deliveries."""
    settings = invocation.settings()
    rules = rules_of(settings, CHANNELS)
    with _opened(settings, invocation) as queue:
        found = NotificationStatus.of(rules, queue, limit=limit)
    if output == "json":
        write_json(found)
    elif output == "jsonl":
        write_json_lines([*found.queue, *found.dead_letters, *found.deliveries])
    else:
        _show(found, invocation.clock.now_ms())


@contextmanager
def _opened(settings: Settings, invocation: Invocation) -> Iterator[NotificationQueue]:
    store = open_notifications(settings, clock=invocation.clock)
    try:
        yield NotificationQueue(store, invocation.clock, holder="cli")
    finally:
        store.close()


def _show(found: NotificationStatus, now_ms: int) -> None:
    terminal = Terminal.of_stdout()
    if found.rules:
        rows = [_rule_row(each, now_ms) for each in found.rules]
        terminal.show(table(RULE_COLUMNS, rows, width=terminal.columns))
    deliveries = [*found.queue, *found.dead_letters, *found.deliveries]
    if deliveries:
        write_text("")
        rows = [_delivery_row(each, now_ms) for each in deliveries]
        terminal.show(table(DELIVERY_COLUMNS, rows, width=terminal.columns))
    if not found.rules:
        remark(NO_RULES)
    elif not deliveries:
        remark("No messages yet.")
    if found.dead_letters:
        remark("Dead letters were given up. `longwatch notify retry` queues them again.")


def _rule_row(rule: RuleView, now_ms: int) -> list[Segment]:
    return [
        Segment(clean(rule.name), "strong"),
        Segment(", ".join(rule.trigger)),
        Segment(clean(rule.runs) or "all"),
        Segment(rule.channel),
        Segment("never ran" if rule.since is None else start_text(rule.since, now_ms=now_ms), "dim"),
        Segment(f"{rule.pending:,}"),
    ]


def _delivery_row(each: DeliveryView, now_ms: int) -> list[Segment]:
    style = "bad" if each.state == "dead" else ""
    return [
        Segment(each.delivery_id, "dim"),
        Segment(clean(each.rule)),
        Segment(each.state, style),
        Segment(clean(each.title), "strong"),
        Segment(start_text(each.created_at, now_ms=now_ms), "dim"),
        Segment(f"{each.attempts}"),
        Segment("" if each.next_at is None else start_text(each.next_at, now_ms=now_ms)),
        Segment(clean(each.response or each.problem or ""), style),
    ]
