/**
 * What a view shows when it has nothing to show yet: loading, empty, or an error with what to do next.
 */

import { h } from "./dom.js";
import { icon, iconButton } from "./icons.js";
import { copy } from "./toast.js";

/** @import { Child } from "./dom.js" */

/**
 * Grey lines while something loads.
 * @param {string} what
 * @param {number} [lines]
 */
export function loading(what, lines = 8) {
  const bars = Array.from({ length: lines }, () => h("i"));
  return h("div", { class: "skeleton", role: "status", "aria-label": `Loading ${what}` }, ...bars);
}

/**
 * @param {{symbol?: string, title: string, text?: string, command?: string | null, bad?: boolean}} about
 * @param {...Child} more
 */
export function state({ symbol = "inbox", title, text, command, bad = false }, ...more) {
  return h(
    "div",
    { class: `state${bad ? " error" : ""}`, role: bad ? "alert" : null },
    icon(symbol),
    h("h2", {}, title),
    text ? h("p", {}, text) : null,
    command ? commandLine(command) : null,
    ...more,
  );
}

/**
 * A command to type, with a button that copies it.
 * @param {string} command
 */
export function commandLine(command) {
  return h(
    "div",
    { class: "command" },
    h("code", {}, command),
    iconButton("copy", "Copy the command", () => void copy(command, "Command")),
  );
}

/**
 * Why something could not be shown, and a button to try again.
 * @param {string} what
 * @param {unknown} error
 * @param {() => void} again
 */
export function failure(what, error, again) {
  const message = error instanceof Error ? error.message : String(error);
  return state(
    { symbol: "failed", bad: true, title: `${what} could not be loaded`, text: message },
    h("button", { type: "button", on: { click: again } }, "Try again"),
  );
}
