/** The state of the connection to the server, and the elements that show it. */

import { button, fill, h, setText } from "./dom.js";
import { agoText, dateTimeText } from "./format.js";
import { icon } from "./icons.js";
import { Observable } from "./observable.js";

/** @typedef {"none" | "connecting" | "live" | "polling" | "offline" | "paused"} ConnectionState */
/** @typedef {{state: ConnectionState, message: string}} Connection */

export const connection = new Observable(
  /** @type {Connection} */ ({ state: "none", message: "" }),
);

/** Whether the server reports that it cannot reach its journal. */
export const journalAway = new Observable(false);

/** @typedef {"offline" | "journal" | "paused"} Staleness */

/**
 * Why the page shows the past: the server is unreachable, the server cannot reach its journal, or polls are paused. It
 * stays while the page reconnects.
 */
export const stale = new Observable(/** @type {Staleness | null} */ (null));

const HEARTBEAT_MS = 15_000; // between two heartbeats of a stream

/** When the page last received something from the server: epoch milliseconds. */
let receivedAt = Date.now();
let wasLive = false;

connection.watch(({ state }) => {
  const now = Date.now();
  // A stream that ends without having missed a heartbeat was up to date until then.
  if (wasLive && state !== "live" && now - receivedAt < HEARTBEAT_MS + 1000) receivedAt = now;
  wasLive = state === "live";
  if (state === "offline" || state === "paused") stale.set(state);
  else if (state === "live" || state === "polling") markReceived();
});
journalAway.watch((isAway) => {
  if (isAway) stale.set("journal");
  else if (stale.value === "journal") stale.set(null);
});

/** Note that the server has responded, or sent a message. */
export function markReceived() {
  if (journalAway.value) return;
  receivedAt = Date.now();
  stale.set(null);
}

/** Note that a request got no response. A live stream is better evidence than one failed request. */
export function markUnreachable() {
  if (connection.value.state !== "live") stale.set("offline");
}

/** The time that the page shows: now, or that of its data while these are stale, so that nothing keeps counting. */
export function pageNow() {
  return stale.value === null ? Date.now() : receivedAt;
}

/** `as of 14:02:10` */
export const asOfText = () => `as of ${dateTimeText(receivedAt, Date.now())}`;

/** Whether the server requires a sign-in. */
export const signedOut = new Observable(false);

/** @type {Record<ConnectionState | "journal", [symbol: string, label: string, title: string]>} */
const STATES = {
  none: ["live", "", ""],
  live: ["live", "Live", "New events appear automatically"],
  polling: [
    "square",
    "Polling",
    "The page polls the server: a proxy blocks streams, or other windows use the connections",
  ],
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
 * Show a banner with the age of the data while these are stale, with a button that reconnects at once.
 * @param {HTMLElement} element @param {() => void} reconnect
 */
export function showStale(element, reconnect) {
  const age = h("span", { "aria-live": "off" }); // a screen reader would read every second
  const count = () => setText(age, `${asOfText()}, ${agoText(receivedAt, Date.now())}`);
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let timer;
  stale.watch((reason) => {
    clearInterval(timer);
    element.hidden = reason === null || reason === "paused";
    if (element.hidden) return;
    count();
    timer = setInterval(count, 1000);
    const [what, command] =
      reason === "journal"
        ? ["The server cannot reach its journal", "longwatch doctor"]
        : ["Server not reachable", "longwatch serve"];
    const hint = reason === "journal" ? " shows why." : " is running.";
    fill(
      element,
      icon("lost"),
      h(
        "span",
        {},
        `${what}. Data `,
        age,
        ". The page resumes by itself. ",
        reason === "journal" ? "" : "Check that ",
        h("code", {}, command),
        hint,
      ),
      reason === "offline" ? button(reconnect, {}, "Try now") : null,
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
