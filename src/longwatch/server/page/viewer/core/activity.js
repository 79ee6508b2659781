/**
 * How active people are on a page, and what may be done for it: all while somebody is there, no polls
 * after five idle minutes, nothing while the tab is hidden, and everything more slowly on a phone.
 */

import { environmentWith } from "./environment.js";

/** @import { Environment } from "./environment.js" */

export const IDLE_MS = 300_000;
export const SLOWDOWN = 2; // on a phone, or where people save data
const NOTED_MS = 1_000; // a moving pointer says nothing new more often than that

const INTERACTIONS = [
  "pointerdown",
  "pointermove",
  "keydown",
  "wheel",
  "scroll",
  "focus",
  "online",
];

/**
 * @typedef {"active" | "idle" | "hidden"} Mode
 *
 * @typedef {object} Attentive
 * @property {(mode: Mode) => void} attend Told of every change, and of interaction now and then.
 *
 * @typedef {object} AttentionOptions
 * @property {Pick<Document, "visibilityState" | "addEventListener" | "removeEventListener">} [document]
 * @property {Pick<Window, "addEventListener" | "removeEventListener">} [window]
 * @property {Partial<Navigator> & {connection?: {saveData?: boolean}, userAgentData?: {mobile?: boolean}}} [navigator]
 * @property {Partial<Environment>} [environment]
 * @property {number} [idleMs]
 */

/** Listens to the page only while somebody wants to know. */
export class Activity {
  #document;
  #window;
  #navigator;
  #environment;
  #idleMs;
  /** @type {Map<Attentive, number>} */
  #attentive = new Map(); // with how often each is guided: two providers may share one manager
  /** @type {Mode} */
  #mode = "active";
  #seenAt = 0;
  /** @type {unknown} */
  #timer = null;
  #noticed = () => this.#notice();
  #turned = () => this.#turn();

  /** @param {AttentionOptions} [options] */
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

  /** What delays between looks are multiplied by on this device. */
  get slowdown() {
    const { connection, userAgentData, userAgent = "" } = this.#navigator ?? {};
    const isMobile = userAgentData?.mobile ?? /Mobi|Android/.test(userAgent);
    return connection?.saveData || isMobile ? SLOWDOWN : 1;
  }

  /**
   * Let a feed or a polling manager follow people's activity.
   * @param {Attentive} attentive
   * @returns {() => void} stops it
   */
  guide(attentive) {
    if (this.#attentive.size === 0) this.#listen();
    const guided = this.#attentive.get(attentive) ?? 0;
    this.#attentive.set(attentive, guided + 1);
    // Also in an active page: a target that was let go while the page was hidden is still paused.
    if (guided === 0) attentive.attend(this.#mode);
    let isGuided = true;
    return () => {
      if (isGuided) this.#letGo(attentive);
      isGuided = false;
    };
  }

  /** @param {Attentive} attentive */
  #letGo(attentive) {
    const guided = (this.#attentive.get(attentive) ?? 0) - 1;
    if (guided > 0) return void this.#attentive.set(attentive, guided);
    this.#attentive.delete(attentive);
    if (this.#attentive.size === 0) this.#stop();
  }

  #listen() {
    this.#seenAt = this.#environment.now();
    this.#mode = this.#document?.visibilityState === "hidden" ? "hidden" : "active";
    this.#document?.addEventListener("visibilitychange", this.#turned);
    for (const name of INTERACTIONS)
      this.#window?.addEventListener(name, this.#noticed, { passive: true });
    if (this.#mode === "active") this.#wait(this.#idleMs);
  }

  #stop() {
    this.#environment.clearTimeout(this.#timer);
    this.#document?.removeEventListener("visibilitychange", this.#turned);
    for (const name of INTERACTIONS) this.#window?.removeEventListener(name, this.#noticed);
  }

  #turn() {
    if (this.#document?.visibilityState !== "hidden") return this.#notice();
    this.#environment.clearTimeout(this.#timer);
    this.#enter("hidden");
  }

  #notice() {
    const now = this.#environment.now();
    if (this.#document?.visibilityState === "hidden") return;
    const isNews = this.#mode !== "active" || now - this.#seenAt >= NOTED_MS;
    if (!isNews) return;
    this.#seenAt = now;
    if (this.#mode !== "active") this.#wait(this.#idleMs);
    this.#enter("active");
  }

  /** @param {number} ms */
  #wait(ms) {
    this.#environment.clearTimeout(this.#timer);
    this.#timer = this.#environment.setTimeout(() => {
      const restMs = this.#seenAt + this.#idleMs - this.#environment.now();
      if (restMs > 0) this.#wait(restMs);
      else this.#enter("idle");
    }, ms);
  }

  /** @param {Mode} mode */
  #enter(mode) {
    this.#mode = mode;
    for (const attentive of [...this.#attentive.keys()]) attentive.attend(mode);
  }
}
