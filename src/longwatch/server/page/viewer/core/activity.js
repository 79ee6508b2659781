/**
 * How active the user of a page is. Feeds and polls run at full speed while the user is active; polls pause after five
 * idle minutes, everything pauses while the tab is hidden, and phones poll at half the speed.
 */

import { environmentWith } from "./environment.js";

/** @import { Environment } from "./environment.js" */

export const IDLE_MS = 300_000;
export const SLOWDOWN = 2; // on a phone, or with the browser's data saver on
const NOTICE_INTERVAL_MS = 1_000; // pointer events arrive far more often than that

const INTERACTIONS = "pointerdown pointermove keydown wheel scroll focus online".split(" ");

/**
 * @typedef {"active" | "idle" | "hidden"} Mode
 *
 * @typedef {object} ActivityTarget
 * @property {(mode: Mode) => void} setActivity Called on every change of the mode, and during interaction.
 *
 * @typedef {object} ActivityOptions
 * @property {Pick<Document, "visibilityState" | "addEventListener" | "removeEventListener">} [document]
 * @property {Pick<Window, "addEventListener" | "removeEventListener">} [window]
 * @property {Partial<Navigator> & {connection?: {saveData?: boolean}, userAgentData?: {mobile?: boolean}}} [navigator]
 * @property {Partial<Environment>} [environment]
 * @property {number} [idleMs]
 */

/** Listens to the page only while a target is attached. */
export class Activity {
  #document;
  #window;
  #navigator;
  #environment;
  #idleMs;
  /** @type {Map<ActivityTarget, number>} */
  #targets = new Map(); // with the number of attachments: two providers may share one manager
  /** @type {Mode} */
  #mode = "active";
  #seenAt = 0;
  /** @type {unknown} */
  #timer = null;
  #onInteraction = () => this.#notice();
  #onVisibility = () => this.#updateVisibility();

  /** @param {ActivityOptions} [options] */
  constructor({
    document = globalThis.document,
    window = globalThis.window,
    navigator = globalThis.navigator,
    environment,
    idleMs = IDLE_MS,
  } = {}) {
    this.#document = document;
    this.#window = window;
    this.#navigator = navigator;
    this.#environment = environmentWith(environment);
    this.#idleMs = idleMs;
  }

  get mode() {
    return this.#mode;
  }

  /** The factor by which delays between polls grow on this device. */
  get slowdown() {
    const { connection, userAgentData, userAgent = "" } = this.#navigator ?? {};
    const isMobile = userAgentData?.mobile ?? /Mobi|Android/.test(userAgent);
    return connection?.saveData || isMobile ? SLOWDOWN : 1;
  }

  /**
   * Notify a feed or a polling manager of the user's activity.
   * @param {ActivityTarget} target
   * @returns {() => void} detaches the target
   */
  attach(target) {
    if (this.#targets.size === 0) this.#listen();
    const attachments = this.#targets.get(target) ?? 0;
    this.#targets.set(target, attachments + 1);
    // Also on an active page: a target that was detached while the page was hidden is still paused.
    if (attachments === 0) target.setActivity(this.#mode);
    let isAttached = true;
    return () => {
      if (isAttached) this.#detach(target);
      isAttached = false;
    };
  }

  /** @param {ActivityTarget} target */
  #detach(target) {
    const attachments = (this.#targets.get(target) ?? 0) - 1;
    if (attachments > 0) return void this.#targets.set(target, attachments);
    this.#targets.delete(target);
    if (this.#targets.size === 0) this.#stop();
  }

  #listen() {
    this.#seenAt = this.#environment.now();
    this.#mode = this.#document?.visibilityState === "hidden" ? "hidden" : "active";
    this.#document?.addEventListener("visibilitychange", this.#onVisibility);
    for (const name of INTERACTIONS)
      this.#window?.addEventListener(name, this.#onInteraction, { passive: true });
    if (this.#mode === "active") this.#wait(this.#idleMs);
  }

  #stop() {
    this.#environment.clearTimeout(this.#timer);
    this.#document?.removeEventListener("visibilitychange", this.#onVisibility);
    for (const name of INTERACTIONS) this.#window?.removeEventListener(name, this.#onInteraction);
  }

  #updateVisibility() {
    if (this.#document?.visibilityState !== "hidden") return this.#notice();
    this.#environment.clearTimeout(this.#timer);
    this.#enter("hidden");
  }

  #notice() {
    const now = this.#environment.now();
    if (this.#document?.visibilityState === "hidden") return;
    const isDue = this.#mode !== "active" || now - this.#seenAt >= NOTICE_INTERVAL_MS;
    if (!isDue) return;
    this.#seenAt = now;
    if (this.#mode !== "active") this.#wait(this.#idleMs);
    this.#enter("active");
  }

  /** @param {number} ms */
  #wait(ms) {
    this.#environment.clearTimeout(this.#timer);
    this.#timer = this.#environment.setTimeout(() => {
      const remainingMs = this.#seenAt + this.#idleMs - this.#environment.now();
      if (remainingMs > 0) this.#wait(remainingMs);
      else this.#enter("idle");
    }, ms);
  }

  /** @param {Mode} mode */
  #enter(mode) {
    this.#mode = mode;
    for (const target of [...this.#targets.keys()]) target.setActivity(mode);
  }
}
