/**
 * Why polls or a feed are paused: the application called `pause()`, or the page is hidden or idle.
 *
 * Each side lifts only its own pause. An application's `pause()` lasts until its `resume()`, whatever the visibility of
 * the tab, interaction, the network or retries do in between; and `resume()` does not wake a hidden or idle page.
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
