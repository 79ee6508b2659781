/**
 * The service worker of the page: shows notifications while the page is closed, and opens the run on a click.
 *
 * It does nothing else. Without a `fetch` handler it answers and caches no request, and its scope, `/viewer/`, has no
 * page that it could control.
 */

/**
 * @typedef {object} PushedMessage
 * @property {string} title
 * @property {string} body
 * @property {string} path of the run on this page
 * @property {string} tag a later message with the same tag replaces the notification
 * @property {string} delivery_id
 * @property {number} occurred_at
 * @property {boolean} is_resolved
 */

const SUBSCRIPTIONS = "/api/notifications/subscriptions";
const LIST = "/runs";

// The types of service workers and of pages exclude each other.
const worker = /** @type {any} */ (self);

worker.addEventListener("install", () => worker.skipWaiting()); // a new version is not to wait for pages

worker.addEventListener("push", (/** @type {any} */ event) => {
  event.waitUntil(show(messageOf(event.data)));
});

worker.addEventListener("notificationclick", (/** @type {any} */ event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data?.path));
});

worker.addEventListener("pushsubscriptionchange", (/** @type {any} */ event) => {
  event.waitUntil(renew(event));
});

/**
 * What was pushed. A browser withdraws the permission from a worker that shows nothing, so an unreadable message is
 * shown as well.
 * @param {{json: () => unknown} | null} data @returns {PushedMessage}
 */
function messageOf(data) {
  const unreadable = {
    title: "longwatch",
    body: "Open the list of runs to see what happened.",
    path: LIST,
    tag: "longwatch",
    delivery_id: "",
    occurred_at: Date.now(),
    is_resolved: false,
  };
  try {
    const found = /** @type {any} */ (data?.json());
    return typeof found?.title === "string" && found.tag ? { ...unreadable, ...found } : unreadable;
  } catch {
    return unreadable;
  }
}

/** A resolution replaces the notification of its condition without a sound. @param {PushedMessage} message */
function show({ title, body, path, tag, occurred_at, is_resolved }) {
  return worker.registration.showNotification(title, {
    body,
    tag,
    renotify: !is_resolved,
    silent: is_resolved,
    timestamp: occurred_at,
    data: { path },
  });
}

/** Show the run: in the window that has it already, else in a new one. @param {unknown} path */
async function open(path) {
  const target = targetOf(path);
  const windows = await worker.clients.matchAll({ type: "window", includeUncontrolled: true });
  const shown = windows.find(
    (/** @type {{url: string}} */ each) => new URL(each.url).pathname === target.pathname,
  );
  await (shown ? shown.focus() : worker.clients.openWindow(target.href));
}

/** The address of a path, if it is a view of runs on this server. @param {unknown} path */
function targetOf(path) {
  const { origin } = worker.location;
  const target = new URL(typeof path === "string" ? path : LIST, origin);
  const isView = target.pathname === LIST || target.pathname.startsWith(`${LIST}/`);
  return target.origin === origin && isView ? target : new URL(LIST, origin);
}

/** The push service replaced the subscription: send the new one to the server. @param {any} event */
async function renew({ oldSubscription, newSubscription }) {
  const options = oldSubscription?.options;
  const subscription =
    newSubscription ?? (options && (await worker.registration.pushManager.subscribe(options)));
  if (!subscription) return;
  await fetch(SUBSCRIPTIONS, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(subscription),
    credentials: "same-origin",
  });
}
