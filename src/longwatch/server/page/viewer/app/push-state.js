/** Whether this browser can be notified, and what to tell its user about it. */

/** @import { PushConfiguration } from "./types.js" */

/** @typedef {"checking" | "insecure" | "unsupported" | "unconfigured" | "denied" | "failed" | "off" | "on"} PushState */

/**
 * @typedef {object} PushFacts
 * @property {boolean} isSecure whether the page is at https:// or on localhost
 * @property {boolean} isSupported
 * @property {string} permission `default`, `granted` or `denied`
 * @property {PushConfiguration | null} configuration null until it is loaded
 * @property {string} error of the last action; empty if it succeeded
 * @property {boolean} isSubscribed with the server's knowledge
 */

/** The first obstacle decides, in the order in which a user can remove them. @param {PushFacts} facts @returns {PushState} */
export function pushStateOf({
  isSecure,
  isSupported,
  permission,
  configuration,
  error,
  isSubscribed,
}) {
  if (!isSecure) return "insecure";
  if (!isSupported) return "unsupported";
  if (error) return "failed";
  if (!configuration) return "checking";
  if (configuration.problem !== null) return "unconfigured";
  if (permission === "denied") return "denied";
  return isSubscribed && permission === "granted" ? "on" : "off";
}

/** @param {PushState} state @param {PushFacts} facts */
export function pushText(state, { configuration, error }) {
  switch (state) {
    case "checking":
      return "Checking …";
    case "insecure":
      return "Browsers allow notifications only at an https:// address and on localhost. Open this page at such an address.";
    case "unsupported":
      return "This browser has no Web Push. On an iPhone or iPad, add this page to the Home Screen and open it from there.";
    case "unconfigured":
      return configuration?.problem ?? "";
    case "denied":
      return "Notifications of this page are blocked. Allow them in the browser’s settings for this site, then reload the page.";
    case "failed":
      return error;
    case "on":
      return "This browser is notified, also while this page is closed.";
    case "off":
      return "Get a notification in this browser, also while this page is closed. The browser asks for permission first.";
  }
}

/** `failed or died, in runs with kind:workflow` @param {{triggers: readonly string[], runs: string}} rule */
export function ruleText({ triggers, runs }) {
  return `${triggers.join(" or ")}, in ${runs ? `runs with ${runs}` : "all runs"}`;
}

/** The bytes of base64url. @param {string} text */
export function bytesOf(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (each) => each.charCodeAt(0));
}

/** Whether a subscription was made with this key; without one it cannot be known. @param {ArrayBuffer | null | undefined} used @param {string} key */
export function usesKey(used, key) {
  if (!used) return true;
  const wanted = bytesOf(key);
  const found = new Uint8Array(used);
  return found.length === wanted.length && found.every((byte, at) => byte === wanted[at]);
}
