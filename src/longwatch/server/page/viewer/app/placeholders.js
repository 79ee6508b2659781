/** What a view shows without content: loading, an empty state, or an error and what to do next. */

import { asError } from "../core/errors.js";
import { button, h, setText, updateChildren } from "./dom.js";
import { div } from "./markup.js";
import { stale } from "./connection.js";
import { capital } from "./format.js";
import { icon } from "./icons.js";
import { copyButton } from "./toast.js";

/** @import { Child } from "./dom.js" */

/** Grey lines while content loads. @param {string} what @param {number} [lines] */
export function loading(what, lines = 8) {
  const bars = Array.from({ length: lines }, () => h("i"));
  return h("div", { class: "skeleton", role: "status", "aria-label": `Loading ${what}` }, ...bars);
}

/**
 * @param {{symbol?: string, title: string, text?: string, command?: string | null, bad?: boolean, level?: 1 | 2}} about
 *   with the level of its heading: 1 where it is the whole view
 * @param {...Child} more @returns {HTMLElement}
 */
export function state(about, ...more) {
  const { symbol = "inbox", title, text, command, bad = false, level = 2 } = about;
  return h(
    "div",
    { class: `state${bad ? " error" : ""}`, role: bad ? "alert" : null },
    icon(symbol),
    h(level === 1 ? "h1" : "h2", {}, title),
    text ? h("p", {}, text) : null,
    command ? commandLine(command) : null,
    ...more,
  );
}

/** A command with a copy button. @param {string} command */
export function commandLine(command) {
  return div("command", h("code", {}, command), copyButton("Command", command));
}

/**
 * An error, and a button to try again. While the server is unreachable it tries again by itself, once it responds.
 * @param {string} what @param {unknown} error @param {() => void} again
 */
export function failure(what, error, again) {
  const title = `${what} could not be loaded`;
  const text = asError(error).message;
  const shown = state({ symbol: "failed", bad: true, title, text }, button(again, {}, "Try again"));
  if (stale.value === "offline") {
    const stop = stale.watch((reason) => {
      if (reason === "offline") return;
      stop();
      if (shown.isConnected) again();
    });
  }
  return shown;
}

/** The error of a run or a call, in a frame that scrolls with the keyboard too. @param {string} error @param {string} [more] */
export function errorFrame(error, more = "") {
  const props = { class: `problem${more}`, tabindex: 0, role: "group", "aria-label": "Error" };
  return h("div", props, error);
}

/**
 * The view of an unknown id.
 * @param {string} what @param {string} text
 * @param {string} href of the list
 */
export function missing(what, text, href) {
  return state(
    { symbol: "search", title: `${capital(what)} not found`, text, level: 1 },
    h("a", { class: "button", href }, `All ${what}s`),
  );
}

/** @param {string} what @param {string} text when and by whom @param {string} href of the list */
export function deleted(what, text, href) {
  return state(
    { symbol: "search", title: `${capital(what)} deleted`, text, level: 1 },
    h("a", { class: "button", href }, `All ${what}s`),
  );
}

/**
 * Show facts as list items, and replace only those that have changed.
 * @param {Element} list @param {[key: string, content: Element | null][]} facts
 */
export function showFacts(list, facts) {
  const shown = /** @type {[string, Element][]} */ (facts.filter(([, content]) => content));
  updateChildren(list, shown, {
    key: ([key]) => key,
    make: ([key]) => h("li", { class: `fact-${key}` }),
    update: (item, [, content]) => {
      if (!item.firstChild?.isEqualNode(content)) item.replaceChildren(content);
    },
  });
}

/**
 * Show conditions as a list of banners.
 * @param {Element} list @param {{key: string, text: string}[]} banners
 */
export function showBanners(list, banners) {
  updateChildren(list, banners, {
    key: ({ key }) => key,
    make: () => h("li", { class: "banner" }, icon("unknown"), h("span")),
    update: (item, { text }) => setText(/** @type {Element} */ (item.lastElementChild), text),
  });
}
