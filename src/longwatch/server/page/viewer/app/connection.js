/**
 * How the connection to the server stands, for every view that wants to say so.
 */

import { button, fill, h } from "./dom.js";
import { dateTimeText } from "./format.js";
import { icon } from "./icons.js";
import { Observable } from "./observable.js";

/** @typedef {"none" | "connecting" | "live" | "polling" | "offline" | "resting"} ConnectionState */
/** @typedef {{state: ConnectionState, retryInMs: number | null, message: string}} Connection */

/** @type {Observable<Connection>} */
export const connection = new Observable(
  /** @type {Connection} */ ({ state: "none", retryInMs: null, message: "" }),
);

/** Whether the server does not answer: until it does again, also while the page tries to connect. */
export const offline = new Observable(false);

/** When the page noticed that the server does not answer: epoch milliseconds. */
let offlineAt = Date.now();

connection.watch(({ state }) => {
  if (state === "connecting") return;
  if (state === "offline" && !offline.value) offlineAt = Date.now();
  offline.set(state === "offline");
});

/** How old what is shown is, while the server does not answer. */
export function offlineSince() {
  return `since ${dateTimeText(offlineAt, Date.now())}`;
}

/** Whether the server says that its journal does not answer. */
export const journalAway = new Observable(false);

/** Whether the server has asked for a token. */
export const signedOut = new Observable(false);

const LOOKS = /** @type {Record<ConnectionState, [string, string, string]>} */ ({
  none: ["live", "", "Nothing here changes by itself"],
  live: ["live", "Live", "New events arrive by themselves"],
  polling: [
    "square",
    "Polling",
    "Something between here and the server holds streams back; the page asks again and again instead",
  ],
  connecting: ["triangle", "Connecting", "Connecting to the server"],
  offline: ["cross", "Offline", "Server not reachable; the page reconnects automatically"],
  resting: [
    "square",
    "Resting",
    "Nobody was here for a while; the page goes on as soon as you move",
  ],
});

const AWAY = /** @type {[string, string, string]} */ ([
  "triangle",
  "Journal away",
  "The server answers, but its journal does not. You see what was known last; longwatch doctor says what is wrong",
]);

/**
 * Say in a line what being offline means and what to do, with a button that tries at once.
 * @param {HTMLElement} element
 * @param {() => void} tryNow
 */
export function showOffline(element, tryNow) {
  offline.watch((isOffline) => {
    if (element.hidden === !isOffline) return;
    element.hidden = !isOffline;
    fill(
      element,
      icon("lost"),
      h(
        "span",
        {},
        `Server not reachable ${offlineSince()}. What you see may be out of date; the page reconnects automatically. Check that `,
        h("code", {}, "longwatch serve"),
        " is running.",
      ),
      button(tryNow, {}, "Try now"),
    );
  });
}

/**
 * Show the state of the connection in an element.
 * @param {HTMLElement} element
 */
export function showConnection(element) {
  const show = () => {
    const { state, message } = connection.value;
    const [symbol, word, about] = state === "live" && journalAway.value ? AWAY : LOOKS[state];
    element.dataset["state"] = state;
    element.dataset["journal"] = journalAway.value ? "away" : "ok";
    element.hidden = state === "none";
    element.title = message ? `${about}. ${message}` : about;
    fill(element, icon(symbol), h("span", {}, word));
  };
  connection.watch(show);
  journalAway.watch(show);
}
