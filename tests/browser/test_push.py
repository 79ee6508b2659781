"""Notifications in the browser: subscribing on a click, and the service worker while the page is closed.

The push service is local and the PushManager a stub of it; the server, the encryption, the service worker and
the notification are real. Chromium's DevTools deliver what the push service received.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, expect

from longwatch.clock import SYSTEM_CLOCK
from longwatch.journal.sqlite import SqliteJournal
from longwatch.notifications.channels.base import ChannelContext
from longwatch.notifications.channels.web_push import WebPushChannel
from longwatch.notifications.compose import open_notifier
from longwatch.notifications.message import Message, Notice, compose
from longwatch.notifications.rules import Trigger
from longwatch.settings import load_settings
from tests.browser import stories
from tests.browser.conftest import PHONE, OpenPage, Serve
from tests.browser.server_process import Served
from tests.browser.test_views import serious, sideways
from tests.contract.events import event
from tests.push_service import PushService, push_service

REFRESHED_MS = 40_000  # the view polls every 15 s, and the server's own notifier may be the one that sends
RULE = '[[notify]]\nname = "failures"\ntrigger = ["failed", "silent"]\nchannel = "web_push"\n'
REGISTRATION = "navigator.serviceWorker.getRegistration('/viewer/')"
SHOWN = f"""async () => (await (await {REGISTRATION}).getNotifications())
    .map(({{ title, body, data, silent }}) => ({{ title, body, path: data.path, silent }}))"""
# Counts the requests for permission, and subscribes at the local push service.
STUB = """({ endpoint, keys, permission, onRequest }) => {
  globalThis.asked = 0;
  let [granted, subscription] = [permission, null];
  Object.defineProperty(Notification, "permission", { get: () => granted });
  Notification.requestPermission = async () => {
    globalThis.asked += 1;
    return (granted = onRequest);
  };
  const made = (options) => ({
    options: { applicationServerKey: options.applicationServerKey.buffer },
    toJSON: () => ({ endpoint, expirationTime: null, keys }),
    unsubscribe: async () => { subscription = null; sessionStorage.removeItem("key"); },
  });
  PushManager.prototype.getSubscription = async () => {
    const key = sessionStorage.getItem("key");
    if (key) subscription ??= made({ applicationServerKey: Uint8Array.from(JSON.parse(key)) });
    return subscription;
  };
  PushManager.prototype.subscribe = async (options) => {
    sessionStorage.setItem("key", JSON.stringify([...options.applicationServerKey]));
    return (subscription = made(options));
  };
}"""


@pytest.fixture
def service() -> Iterator[PushService]:
    with push_service() as service:
        yield service


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of settings, with a rule that sends to browsers and permission to send to loopback."""
    file = tmp_path / "longwatch.toml"
    file.write_text(RULE)
    monkeypatch.setenv("LONGWATCH_CONFIG", str(file))
    monkeypatch.setenv("LONGWATCH_JOURNAL", f"sqlite:///{tmp_path / 'runs.db'}")
    monkeypatch.setenv("LONGWATCH_NOTIFICATION_ADDRESSES", "127.0.0.1")
    return file


@pytest.fixture
def server(tmp_path: Path, settings: Path, serve: Serve) -> Served:
    with SqliteJournal(tmp_path / "runs.db") as journal:
        journal.append(stories.failed().events)
    return serve(tmp_path / "runs.db")


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    yield context
    context.close()


def stubbed(
    context: BrowserContext,
    service: PushService,
    *,
    permission: str = "default",
    on_request: str = "granted",
) -> Page:
    page = context.new_page()
    keys = {"p256dh": service.keys.p256dh, "auth": service.keys.auth}
    given = {
        "endpoint": f"{service.origin}/push/one",
        "keys": keys,
        "permission": permission,
        "onRequest": on_request,
    }
    page.add_init_script(f"({STUB})({json.dumps(given)})")
    return page


def turn_on(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_role("button", name="Notify me").click()
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_role("dialog")).to_contain_text("This browser is notified")


def subscriptions(server: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.call("GET", "/api/notifications/subscriptions")["subscriptions"]
    return found


def failure(run_id: str = "wf-failed", *, delivery_id: str = "d-1", is_resolved: bool = False) -> Message:
    trigger = Trigger.SILENT if is_resolved else Trigger.FAILED
    notice = Notice(
        run_id=run_id,
        run_name="export the bills",
        trigger=trigger,
        text="ValueError: no such column",
        occurred_at=1_700_000_000_000,
        is_resolved=is_resolved,
    )
    return compose(delivery_id, "failures", [notice])


def send(message: Message) -> str:
    """Send as a notifier does, with the settings of the server."""
    return WebPushChannel(ChannelContext(settings=load_settings())).send(message).status


def test_permission_is_requested_on_a_click_and_never_before(
    server: Served, service: PushService, context: BrowserContext
) -> None:
    page = stubbed(context, service)
    page.goto(f"{server.url}/runs")
    expect(page.locator("a.run-row")).to_have_count(1)
    page.get_by_role("button", name="Notify me").click()
    expect(page.get_by_role("dialog")).to_contain_text("failures failed or silent, in all runs")

    assert page.evaluate("globalThis.asked") == 0
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_role("dialog")).to_contain_text("This browser is notified")

    assert page.evaluate("globalThis.asked") == 1
    assert [(each["page"], each["service"]) for each in subscriptions(server)] == [(server.url, "127.0.0.1")]
    assert "Chrome" in subscriptions(server)[0]["browser"]
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("button", name="Notifications are on")).to_be_visible()


def test_a_subscribed_browser_renews_its_subscription_without_asking(
    server: Served, service: PushService, context: BrowserContext
) -> None:
    page = stubbed(context, service)
    turn_on(page, f"{server.url}/runs/wf-failed")
    before = subscriptions(server)[0]

    again = stubbed(context, service, permission="granted")
    key = page.evaluate("sessionStorage.getItem('key')")
    again.add_init_script(f"sessionStorage.setItem('key', {key!r})")
    again.goto(f"{server.url}/runs")

    expect(again.get_by_role("button", name="Notifications are on")).to_be_visible()
    [after] = subscriptions(server)
    assert after["subscription_id"] == before["subscription_id"]
    assert after["created_at"] == before["created_at"] <= before["renewed_at"] <= after["renewed_at"]
    assert again.evaluate("globalThis.asked") == 0


def test_turning_it_off_removes_the_subscription(
    server: Served, service: PushService, context: BrowserContext
) -> None:
    page = stubbed(context, service)
    turn_on(page, f"{server.url}/runs/wf-failed")

    page.get_by_role("button", name="Turn off").click()
    expect(page.get_by_role("button", name="Turn on")).to_be_visible()

    assert subscriptions(server) == []
    assert page.evaluate("sessionStorage.getItem('key')") is None
    assert send(failure()) == "no browser is subscribed"


def test_a_user_who_declines_learns_how_to_allow_it_later(
    server: Served, service: PushService, context: BrowserContext
) -> None:
    page = stubbed(context, service, on_request="denied")
    page.goto(f"{server.url}/runs")
    page.get_by_role("button", name="Notify me").click()

    page.get_by_role("button", name="Turn on").click()

    expect(page.get_by_role("dialog")).to_contain_text("Allow them in the browser’s settings for this site")
    expect(page.get_by_role("button", name="Turn on")).to_have_count(0)
    assert subscriptions(server) == []


def test_a_server_without_a_rule_says_what_is_missing(
    server: Served, settings: Path, serve: Serve, service: PushService, context: BrowserContext
) -> None:
    settings.write_text("")
    server.kill()
    server.start()
    page = stubbed(context, service)
    page.goto(f"{server.url}/runs")

    page.get_by_role("button", name="Notify me").click()

    expect(page.get_by_role("dialog")).to_contain_text('Add one with channel = "web_push"')


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("delete window.PushManager", "This browser has no Web Push"),
        (
            "Object.defineProperty(window, 'isSecureContext', { value: false })",
            "only at an https:// address and on localhost",
        ),
    ],
)
def test_a_browser_that_cannot_be_notified_is_told_why(
    server: Served, context: BrowserContext, script: str, text: str
) -> None:
    page = context.new_page()
    page.add_init_script(script)
    page.goto(f"{server.url}/runs")

    page.get_by_role("button", name="Notify me").click()

    expect(page.get_by_role("dialog")).to_contain_text(text)


def test_an_error_can_be_retried(server: Served, service: PushService, context: BrowserContext) -> None:
    page = stubbed(context, service)
    page.goto(f"{server.url}/runs")
    page.route("**/api/notifications/push", lambda route: route.abort())
    page.get_by_role("button", name="Notify me").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Try again")).to_be_visible()

    page.unroute("**/api/notifications/push")
    page.get_by_role("button", name="Try again").click()

    expect(page.get_by_role("button", name="Turn on")).to_be_visible()


class Worker:
    """The service worker of the page, driven through the DevTools."""

    def __init__(self, page: Page, url: str) -> None:
        self._page = page
        self._url = url
        self._devtools: CDPSession = page.context.new_cdp_session(page)
        registrations: list[dict[str, Any]] = []
        self._devtools.on(
            "ServiceWorker.workerRegistrationUpdated",
            lambda event: registrations.extend(event["registrations"]),
        )
        self._devtools.send("ServiceWorker.enable")
        page.wait_for_function("() => true")
        while not registrations:
            page.wait_for_timeout(20)
        self._registration = registrations[0]["registrationId"]

    def deliver(self, data: str) -> None:
        """As the push service of the browser does."""
        self._devtools.send(
            "ServiceWorker.deliverPushMessage",
            {"origin": self._url, "registrationId": self._registration, "data": data},
        )

    def shown(self, count: int = 1) -> list[dict[str, Any]]:
        """The notifications on the screen."""
        page = self._page.context.new_page()
        page.goto(f"{self._url}/runs")
        page.wait_for_function(f"async () => (await ({SHOWN})()).length === {count}")
        found: list[dict[str, Any]] = page.evaluate(SHOWN)
        page.close()
        return found

    def click(self) -> list[str]:
        """Click the notification; returns the windows that were opened or focused.

        Browsers open windows only for a real click, which the DevTools do not offer.
        """
        [worker] = self._page.context.service_workers
        found: list[str] = worker.evaluate("""async () => {
          const shown = [];
          self.clients.openWindow = async (url) => void shown.push(`opened ${url}`);
          WindowClient.prototype.focus = async function () { shown.push(`focused ${this.url}`); };
          const [notification] = await self.registration.getNotifications();
          const event = new NotificationEvent("notificationclick", { notification });
          const done = new Promise((resolve) => { event.waitUntil = resolve; });
          self.dispatchEvent(event);
          await (await done);
          return shown;
        }""")
        return found


@pytest.fixture
def worker(server: Served, service: PushService, context: BrowserContext) -> Worker:
    """The worker of a subscribed browser whose page is closed."""
    context.grant_permissions(["notifications"], origin=server.url)
    page = stubbed(context, service)
    turn_on(page, f"{server.url}/runs")
    worker = Worker(page, server.url)
    page.goto("about:blank")
    return worker


def pushed(service: PushService) -> str:
    """The last message that the push service received, decrypted."""
    assert service.rejected == []
    return json.dumps(service.received[-1].payload)


def test_a_failure_is_shown_while_the_page_is_closed_and_a_click_opens_the_run(
    server: Served, service: PushService, worker: Worker, context: BrowserContext
) -> None:
    assert send(failure()) == "1 of 1 browsers"
    worker.deliver(pushed(service))

    assert worker.shown() == [
        {
            "title": "export the bills failed",
            "body": "export the bills (wf-failed): ValueError: no such column",
            "path": "/runs/wf-failed",
            "silent": False,
        }
    ]
    [opened] = worker.click()
    assert opened == f"opened {server.url}/runs/wf-failed"
    page = context.new_page()
    page.goto(opened.removeprefix("opened "))
    expect(page.get_by_role("heading", name="export the bills")).to_be_visible()


def test_a_click_focuses_the_window_that_shows_the_run(
    server: Served, service: PushService, worker: Worker, context: BrowserContext
) -> None:
    page = context.new_page()
    page.goto(f"{server.url}/runs/wf-failed?tab=timeline")
    send(failure())
    worker.deliver(pushed(service))
    worker.shown()

    assert worker.click() == [f"focused {server.url}/runs/wf-failed?tab=timeline"]


def test_a_resolution_replaces_the_notification_without_a_sound(service: PushService, worker: Worker) -> None:
    silent = failure(is_resolved=True)
    before = replace(silent.notices[0], is_resolved=False)
    send(compose("d-1", "failures", [before]))
    worker.deliver(pushed(service))
    assert [each["title"] for each in worker.shown()] == ["export the bills silent"]

    send(replace(silent, delivery_id="d-2"))
    worker.deliver(pushed(service))

    [shown] = worker.shown()
    assert (shown["title"], shown["silent"]) == ("export the bills reports again", True)


@pytest.mark.parametrize("data", ["", "not json", "[]", '{"title": 5}'])
def test_an_unreadable_message_is_shown_as_well(worker: Worker, server: Served, data: str) -> None:
    worker.deliver(data)

    assert [each["title"] for each in worker.shown()] == ["longwatch"]
    assert worker.click()[0].endswith(f"{server.url}/runs")


@pytest.mark.parametrize(
    "path", ["https://evil.example/runs/x", "//evil.example/runs", "/login", "javascript:0"]
)
def test_a_click_never_leaves_the_runs_of_this_server(worker: Worker, server: Served, path: str) -> None:
    worker.deliver(json.dumps({"title": "t", "tag": "t", "path": path}))
    worker.shown()

    assert worker.click()[0].endswith(f" {server.url}/runs")


def test_the_worker_answers_no_request_of_the_page(
    server: Served, worker: Worker, context: BrowserContext
) -> None:
    page = context.new_page()
    page.goto(f"{server.url}/runs")

    assert page.evaluate("navigator.serviceWorker.controller") is None
    assert page.evaluate("async () => (await caches.keys()).length") == 0


@pytest.mark.parametrize("width", [1280, PHONE])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_dialog_is_readable_at_every_width(
    server: Served, open_page: OpenPage, width: int, theme: str
) -> None:
    page = open_page(f"{server.url}/runs", width=width, theme=theme)
    page.get_by_role("button", name="Notify me").click()
    expect(page.get_by_role("dialog")).to_contain_text("failures")

    assert sideways(page) == 0
    assert serious(page) == []


@pytest.mark.parametrize("width", [1280, PHONE])
def test_the_view_shows_rules_deliveries_and_browsers(
    server: Served, service: PushService, open_page: OpenPage, tmp_path: Path, width: int
) -> None:
    keys = {"p256dh": service.keys.p256dh, "auth": service.keys.auth}
    server.call("GET", "/api/notifications/push")  # generates the key
    for name in ("one", "two"):
        endpoint = f"{service.origin}/push/{name}"
        server.call("POST", "/api/notifications/subscriptions", {"endpoint": endpoint, "keys": keys})
    report_a_failure(tmp_path / "runs.db")
    page = open_page(f"{server.url}/runs", width=width, theme="light")

    if width <= PHONE:  # without the bell at the top
        page.get_by_role("button", name="Notify me").click()
        page.get_by_role("link", name="Rules and deliveries").click()
    else:
        page.get_by_role("link", name="Notifications").click()

    expect(page.get_by_role("list", name="Rules").last).to_contain_text("failures")
    sent = page.get_by_role("list", name="Deliveries")
    expect(sent.get_by_role("listitem")).to_contain_text("2 of 2 browsers", timeout=REFRESHED_MS)
    expect(page.get_by_role("list", name="Browsers").get_by_role("listitem")).to_have_count(2)
    assert sideways(page) == 0
    assert serious(page) == []
    page.get_by_role("button", name="Remove").first.click()
    expect(page.get_by_role("list", name="Browsers").get_by_role("listitem")).to_have_count(1)
    sent.get_by_role("link", name="import failed").click()
    expect(page.get_by_role("heading", name="import")).to_be_visible()
    expect(page.locator(".event-text").last).to_have_text(
        "failed · sent by failures through web_push: 2 of 2 browsers"
    )
    page.get_by_role("link", name="notified").click()
    expect(page.locator("lw-detail")).to_contain_text("delivery_id")


def test_a_message_that_was_not_accepted_waits_with_the_reason(
    server: Served, service: PushService, open_page: OpenPage, tmp_path: Path
) -> None:
    keys = {"p256dh": service.keys.p256dh, "auth": service.keys.auth}
    server.call("GET", "/api/notifications/push")
    endpoint = f"{service.origin}/push/one"
    server.call("POST", "/api/notifications/subscriptions", {"endpoint": endpoint, "keys": keys})
    service.responses["/push/one"] = (503, {}, b"overloaded")
    report_a_failure(tmp_path / "runs.db")

    page = open_page(f"{server.url}/notifications")

    queue = page.get_by_role("list", name="Queue")
    expect(queue).to_contain_text("import failed", timeout=REFRESHED_MS)
    expect(queue).to_contain_text("0 of 1 browsers: HTTP 503 (overloaded)")
    expect(page.get_by_role("list", name="Browsers")).to_contain_text("HTTP 503 (overloaded)")


def test_a_server_without_rules_shows_one_to_copy(
    server: Served, settings: Path, open_page: OpenPage
) -> None:
    settings.write_text("")
    server.kill()
    server.start()

    page = open_page(f"{server.url}/notifications")

    expect(page.get_by_role("heading", name="No rules")).to_be_visible()
    expect(page.locator(".command")).to_contain_text('channel = "web_push"')


def report_a_failure(path: Path) -> None:
    """Let a run fail between two passes of a notifier."""
    settings = load_settings()
    with SqliteJournal(path) as journal, open_notifier(settings, journal) as notifier:
        notifier.run_once()
        now = SYSTEM_CLOCK.now_ms() + 1
        journal.append(
            [
                event("wf-import", now, "workflow_start", payload={"name": "import"}),
                event("wf-import", now + 1, "workflow_error", payload={"error": "Timeout"}),
            ]
        )
        notifier.run_once()
