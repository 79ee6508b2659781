/** `<lw-notifications>`: this browser, the rules, what waits to be sent, what was given up, and what was sent. */

import { button, fill, h } from "./dom.js";
import { code, div, p, span } from "./markup.js";
import { Part, define } from "./element.js";
import { asError } from "../core/errors.js";
import { api } from "./client.js";
import { dateTimeElement, countText } from "./format.js";
import { icon } from "./icons.js";
import { pushPanel } from "./notify-button.js";
import { failure, loading, state } from "./placeholders.js";
import { SUBSCRIPTIONS, loadPush, ownSubscription, push } from "./push.js";
import { queryPath, runPath } from "./router.js";
import { everySeconds } from "./ticker.js";
import { toast } from "./toast.js";

/** @import { Child } from "./dom.js" */
/** @import { NotificationDelivery, NotificationRule, NotificationStatus, PushSubscriptionView } from "./types.js" */

const REFRESH_SECONDS = 15;
const EXAMPLE = '[[notify]]\nname = "failures"\ntrigger = ["failed", "died"]\nchannel = "web_push"';

export class NotificationsView extends Part {
  #body = h("div", { class: "notifications" }, loading("notifications", 6));
  #panel = h("div", { class: "notify-body", role: "status" });
  /** @type {NotificationStatus | null} */
  #status = null;
  /** @type {PushSubscriptionView[]} */
  #browsers = [];

  connectedCallback() {
    this.append(div("page-head", h("h1", {}, "Notifications")), this.#body);
    this.onDisconnect(
      everySeconds(REFRESH_SECONDS, () => void this.#load()),
      push.watch((facts) => {
        fill(this.#panel, ...pushPanel(facts, { linksHere: true }));
        if (this.#status) void this.#load(); // turned on or off: the list of browsers differs
      }),
    );
    if (push.value.isSecure && push.value.isSupported) void loadPush();
    void this.#load();
  }

  async #load() {
    try {
      const [status, { subscriptions }] = await Promise.all([
        api.get("/api/notifications"),
        api.get(SUBSCRIPTIONS),
      ]);
      this.#status = status;
      this.#browsers = subscriptions;
      this.#draw(status);
    } catch (error) {
      if (this.#status) return; // the page reports an outage, and the next refresh shows the rest
      fill(
        this.#body,
        failure("Notifications", error, () => void this.#load()),
      );
    }
  }

  /** @param {NotificationStatus} status */
  #draw({ rules, queue, dead_letters: dead, deliveries }) {
    fill(
      this.#body,
      section("This browser", this.#panel),
      section("Rules", rules.length ? list("Rules", rules.map(ruleRow)) : noRules()),
      queue.length ? section("Waiting to be sent", list("Queue", queue.map(deliveryRow))) : null,
      dead.length ? section("Given up", list("Dead letters", dead.map(deliveryRow))) : null,
      section(
        "Sent",
        deliveries.length
          ? list("Deliveries", deliveries.map(deliveryRow))
          : p("dim", "Nothing was sent in the last seven days."),
      ),
      this.#browsers.length
        ? section(
            "Browsers",
            list(
              "Browsers",
              this.#browsers.map((each) => this.#browserRow(each)),
            ),
          )
        : null,
    );
  }

  /** @param {PushSubscriptionView} found */
  #browserRow(found) {
    const { subscription_id: id, browser, page, service, ends_at, sent_at, problem } = found;
    const isOwn = id === ownSubscription();
    return div(
      "notification-row",
      div(
        "notification-text",
        h("strong", {}, browser || "A browser"),
        isOwn ? span("tag", "this browser") : null,
        h("bdi", { class: "dim cut" }, `${page} through ${service}`),
      ),
      div(
        "notification-facts dim",
        sent_at === null ? "not notified yet" : span("", "notified ", dateTimeElement(sent_at)),
        span("", "until ", dateTimeElement(ends_at)),
        isOwn ? null : button(() => void this.#remove(id), { class: "quiet" }, "Remove"),
      ),
      problem ? p("is-failed notification-problem", problem) : null,
    );
  }

  /** @param {string} id */
  async #remove(id) {
    try {
      await api.send("DELETE", `${SUBSCRIPTIONS}/${id}`);
      toast("Browser removed");
    } catch (error) {
      toast(asError(error).message);
    }
    await this.#load();
  }
}

/** @param {string} title @param {...Child} content */
const section = (title, ...content) => h("section", {}, h("h2", {}, title), ...content);

/** @param {string} label @param {Child[]} rows */
const list = (label, rows) =>
  h("ul", { class: "runs", "aria-label": label }, ...rows.map((row) => h("li", {}, row)));

const noRules = () =>
  state({
    symbol: "bell",
    title: "No rules",
    text: "Add a rule to longwatch.toml and restart the server. This one notifies browsers of failures:",
    command: EXAMPLE,
  });

/** @param {NotificationRule} rule */
function ruleRow({ name, trigger, runs, channel, since, pending }) {
  return div(
    "notification-row",
    div(
      "notification-text",
      h("strong", {}, name),
      span("", trigger.join(" or ")),
      runs
        ? h("a", { class: "cut", href: queryPath(runs) }, code("", runs))
        : span("dim", "all runs"),
    ),
    div(
      "notification-facts dim",
      span("tag", channel),
      pending ? span("", `${countText(pending, "notice")} collected`) : null,
      since === null ? "has not run yet" : span("", "since ", dateTimeElement(since)),
    ),
  );
}

/** @param {NotificationDelivery} delivery */
function deliveryRow(delivery) {
  const { title, rule, channel, run_ids: runs, created_at, settled_at, attempts } = delivery;
  const { state: at, next_at: next, response, problem } = delivery;
  const isBad = at === "dead" || (problem !== null && settled_at === null);
  const [run] = runs;
  const single = runs.length === 1 && run !== undefined;
  return div(
    "notification-row",
    div(
      "notification-text",
      span(
        isBad ? "status is-failed" : "status is-succeeded",
        icon(isBad ? "failed" : "succeeded"),
      ),
      h("a", { class: "cut", href: single ? runPath(run) : "/runs" }, title),
    ),
    div(
      "notification-facts dim",
      span("", rule),
      span("tag", channel),
      attempts > 1 ? span("", countText(attempts, "attempt")) : null,
      next === null ? null : span("", "next ", dateTimeElement(next)),
      dateTimeElement(settled_at ?? created_at),
      response ? span("", response) : null,
    ),
    problem && at !== "delivered" ? p("is-failed notification-problem", problem) : null,
  );
}

define("lw-notifications", NotificationsView);
