/** The state of the connection to the server, and the elements that show it. */

import { button, fill, h } from "./dom.js";
import { dateTimeText } from "./format.js";
import { icon } from "./icons.js";
import { Observable } from "./observable.js";

/** @typedef {"none" | "connecting" | "live" | "polling" | "offline" | "paused"} ConnectionState */
/** @typedef {{state: ConnectionState, message: string}} Connection */

export const connection = new Observable(
  /** @type {Connection} */ ({ state: "none", message: "" }),
);

/** Whether the server is unreachable; stays true while the page reconnects. */
export const offline = new Observable(false);

/** When the page noticed that the server is unreachable: epoch milliseconds. */
let offlineAt = Date.now();

connection.watch(({ state }) => {
  if (state === "connecting") return;
  if (state === "offline" && !offline.value) offlineAt = Date.now();
  offline.set(state === "offline");
});

export function offlineSince() {
  return `since ${dateTimeText(offlineAt, Date.now())}`;
}

/** Whether the server reports that it cannot reach its journal. */
export const journalAway = new Observable(false);

/** Whether the server requires a sign-in. */
export const signedOut = new Observable(false);

/** @type {Record<ConnectionState | "journal", [symbol: string, label: string, title: string]>} */
const STATES = {
  none: ["live", "", ""],
  live: ["live", "Live", "New events appear automatically"],
  polling: ["square", "Polling", "A proxy blocks streaming; the page polls the server instead"],
  connecting: ["triangle", "Connecting", "Connecting to the server"],
  offline: ["cross", "Offline", "Server not reachable; the page reconnects automatically"],
  paused: ["square", "Paused", "Paused while you were away; updates resume when you return"],
  journal: [
    "triangle",
    "Journal unavailable",
    "The server cannot reach its journal, so the page may be out of date. Run longwatch doctor to find out why",
  ],
};

/**
 * Show a banner while the server is unreachable, with a button that reconnects at once.
 * @param {HTMLElement} element @param {() => void} reconnect
 */
export function showOffline(element, reconnect) {
  offline.watch((isOffline) => {
    if (element.hidden === !isOffline) return;
    element.hidden = !isOffline;
    const text = `Server not reachable ${offlineSince()}. This page may be out of date; it reconnects automatically. Check that `;
    fill(
      element,
      icon("lost"),
      h("span", {}, text, h("code", {}, "longwatch serve"), " is running."),
      button(reconnect, {}, "Try now"),
    );
  });
}

/** @param {HTMLElement} element */
export function showConnection(element) {
  const show = () => {
    const { state, message } = connection.value;
    const shown = state === "live" && journalAway.value ? "journal" : state;
    const [symbol, label, title] = STATES[shown];
    element.dataset["state"] = state;
    element.dataset["journal"] = journalAway.value ? "away" : "ok";
    element.hidden = state === "none";
    element.title = message ? `${title}. ${message}` : title;
    fill(element, icon(symbol), h("span", {}, label));
  };
  connection.watch(show);
  journalAway.watch(show);
}
