/**
 * Why polls or a feed are paused: the application called `pause()`, or the page is hidden or idle.
 *
 * The rule: each side lifts only its own pause. An application's `pause()` lasts until the application's
 * `resume()`, whatever the visibility of the tab, interaction, the network or retries do in between; and
 * `resume()` does not wake a page that is hidden or idle.
 *
 * @typedef {"application" | "activity"} PauseReason
 */

export class PauseReasons {
  /** @type {Set<PauseReason>} */
  #reasons = new Set();

  get isPaused() {
    return this.#reasons.size > 0;
  }

  /** @param {PauseReason} reason @returns {boolean} whether the pause begins now */
  add(reason) {
    const begins = !this.isPaused;
    this.#reasons.add(reason);
    return begins;
  }

  /** @param {PauseReason} reason @returns {boolean} whether the pause ends now */
  remove(reason) {
    return this.#reasons.delete(reason) && !this.isPaused;
  }
}
