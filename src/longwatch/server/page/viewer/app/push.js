/** The push subscription of this browser: what it is, and turning it on and off. */

import { asError } from "../core/errors.js";
import { api } from "./client.js";
import { Observable } from "./observable.js";
import { bytesOf, pushStateOf, usesKey } from "./push-state.js";

/** @import { PushFacts } from "./push-state.js" */
/** @import { PushConfiguration, PushSubscriptionView } from "./types.js" */

const WORKER = "/viewer/notifications-worker.js";
const SCOPE = "/viewer/"; // has no pages: the worker controls none
const CONFIGURATION = "/api/notifications/push";
export const SUBSCRIPTIONS = "/api/notifications/subscriptions";

/** @type {PushFacts} */
const atFirst = {
  isSecure: globalThis.isSecureContext,
  isSupported: "serviceWorker" in navigator && "PushManager" in window && "Notification" in window,
  permission: "Notification" in window ? Notification.permission : "denied",
  configuration: null,
  error: "",
  isSubscribed: false,
};

export const push = new Observable(atFirst);

/** The id of this browser's subscription on the server. */
let id = "";
/** @type {Promise<void> | null} */
let loading = null;

/** Find out once whether this browser is notified, and renew its subscription. */
export function loadPush() {
  loading ??= attempt(load);
  return loading;
}

/** The id of this browser in the list of subscriptions; empty if it is not in there. */
export const ownSubscription = () => (push.value.isSubscribed ? id : "");

/** Ask for permission and subscribe. Call it in a click: browsers require one. */
export async function turnOn() {
  const permission = await Notification.requestPermission();
  change({ permission });
  if (permission === "granted") await attempt(subscribe);
}

/** Unsubscribe, on the server first: without the browser's part nothing is shown anyway. */
export function turnOff() {
  return attempt(async () => {
    const registration = await navigator.serviceWorker.getRegistration(SCOPE);
    const subscription = await registration?.pushManager.getSubscription();
    if (id) await api.send("DELETE", `${SUBSCRIPTIONS}/${id}`);
    await subscription?.unsubscribe();
    id = "";
    change({ isSubscribed: false });
  });
}

/** Forget an error and check again. */
export function retryPush() {
  loading = null;
  change({ error: "" });
  return loadPush();
}

async function load() {
  /** @type {PushConfiguration} */
  const configuration = await api.get(CONFIGURATION);
  change({ configuration });
  if (!["off", "on"].includes(pushStateOf(push.value))) return;
  const registration = await navigator.serviceWorker.getRegistration(SCOPE);
  if (await registration?.pushManager.getSubscription()) await subscribe();
}

/** Subscribe with the server's key, or renew the subscription. */
async function subscribe() {
  const key = push.value.configuration?.public_key ?? "";
  const registration = await navigator.serviceWorker.register(WORKER, { scope: SCOPE });
  await activation(registration);
  let subscription = await registration.pushManager.getSubscription();
  if (subscription && !usesKey(subscription.options.applicationServerKey, key)) {
    await subscription.unsubscribe(); // of a server with another store
    subscription = null;
  }
  subscription ??= await registration.pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: bytesOf(key),
  });
  /** @type {PushSubscriptionView} */
  const stored = await api.send("POST", SUBSCRIPTIONS, subscription.toJSON());
  id = stored.subscription_id;
  change({ isSubscribed: true });
}

/** Browsers subscribe only with an active worker. @param {ServiceWorkerRegistration} registration @returns {Promise<void>} */
function activation(registration) {
  const worker = registration.installing ?? registration.waiting;
  if (registration.active || !worker) return Promise.resolve();
  return new Promise((resolve, reject) => {
    worker.addEventListener("statechange", () => {
      if (worker.state === "activated") resolve();
      if (worker.state === "redundant")
        reject(new Error("The browser rejected the service worker."));
    });
  });
}

/** @param {() => Promise<void>} action */
async function attempt(action) {
  try {
    await action();
    change({ error: "" });
  } catch (error) {
    change({ error: asError(error).message });
  }
}

/** @param {Partial<PushFacts>} facts */
function change(facts) {
  push.set({ ...push.value, ...facts });
}
