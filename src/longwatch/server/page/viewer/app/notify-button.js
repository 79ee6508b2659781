/** “Notify me”: a button that opens a dialog about the notifications of this browser. */

import { button, fill, h } from "./dom.js";
import { p } from "./markup.js";
import { Part, define } from "./element.js";
import { icon, iconButton } from "./icons.js";
import { loadPush, push, retryPush, turnOff, turnOn } from "./push.js";
import { pushStateOf, pushText, ruleText } from "./push-state.js";

/** @import { PushFacts } from "./push-state.js" */

class NotifyButton extends Part {
  #label = h("span", { class: "only-wide" });
  #button = button(() => this.#open(), { class: "notify" }, icon("bell"), this.#label);
  #body = h("div", { class: "notify-body", role: "status" });
  #dialog = h("dialog", { class: "notify-dialog", "aria-labelledby": "notify-title" });

  connectedCallback() {
    if (!this.hasChildNodes()) this.append(this.#button, this.#dialog);
    fill(
      this.#dialog,
      h(
        "header",
        {},
        h("h2", { id: "notify-title" }, "Notifications in this browser"),
        iconButton("close", "Close", () => this.#dialog.close()),
      ),
      this.#body,
    );
    this.onDisconnect(push.watch((facts) => this.#show(facts)));
    if (push.value.isSupported && push.value.permission === "granted") void loadPush();
  }

  #open() {
    this.#dialog.showModal();
    if (push.value.isSecure && push.value.isSupported) void loadPush();
  }

  /** @param {PushFacts} facts */
  #show(facts) {
    const isOn = pushStateOf(facts) === "on";
    const name = isOn ? "Notifications are on" : "Notify me";
    this.#label.textContent = name;
    this.#button.setAttribute("aria-label", name);
    this.#button.title = isOn ? "This browser is notified" : "Notifications in this browser";
    this.#button.classList.toggle("is-on", isOn);
    fill(this.#body, ...pushPanel(facts));
  }
}

/**
 * What is so, which rules apply, and what can be done.
 * @param {PushFacts} facts @param {{linksHere?: boolean}} [where] in the view that the link leads to
 */
export function pushPanel(facts, { linksHere = false } = {}) {
  const state = pushStateOf(facts);
  const rules = facts.configuration?.rules ?? [];
  const showsRules = rules.length > 0 && (state === "on" || state === "off");
  return [
    p(state === "failed" ? "is-failed" : "", pushText(state, facts)),
    showsRules
      ? h(
          "ul",
          { class: "notify-rules", "aria-label": "Rules" },
          ...rules.map((rule) =>
            h(
              "li",
              {},
              h("strong", {}, rule.name),
              " ",
              h("span", { class: "dim" }, ruleText(rule)),
            ),
          ),
        )
      : null,
    h(
      "div",
      { class: "toolbar" },
      state === "off" ? button(() => void turnOn(), { class: "primary" }, "Turn on") : null,
      state === "on" ? button(() => void turnOff(), {}, "Turn off") : null,
      state === "failed" ? button(() => void retryPush(), {}, "Try again") : null,
      linksHere
        ? null
        : h("a", { class: "button quiet", href: "/notifications" }, "Rules and deliveries"),
    ),
  ];
}

define("lw-notify", NotifyButton);
