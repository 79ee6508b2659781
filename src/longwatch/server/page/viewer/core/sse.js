/** Server-sent events as the standard has them, from text in pieces of any size. */

/**
 * @typedef {object} SseMessage
 * @property {string} event
 * @property {string} data
 * @property {string} id The last id that was sent, with this message or before it.
 */

export class SseParser {
  #rest = "";
  #afterReturn = false; // the last piece ended in \r: a \n that comes next belongs to it
  #begun = false;
  #event = "";
  /** @type {string[]} */
  #data = [];
  #id = "";

  /**
   * The messages that this piece completes.
   * @param {string} piece
   * @returns {SseMessage[]}
   */
  push(piece) {
    if (piece === "") return [];
    let text = piece;
    if (!this.#begun && text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    this.#begun = true;
    if (this.#afterReturn && text.startsWith("\n")) text = text.slice(1);
    this.#afterReturn = piece.endsWith("\r");
    const lines = (this.#rest + text).split(/\r\n|\r|\n/);
    this.#rest = lines.pop() ?? "";
    /** @type {SseMessage[]} */
    const messages = [];
    for (const line of lines) this.#take(line, messages);
    return messages;
  }

  /** @param {string} line @param {SseMessage[]} messages */
  #take(line, messages) {
    if (line === "") {
      if (this.#data.length) {
        messages.push({
          event: this.#event || "message",
          data: this.#data.join("\n"),
          id: this.#id,
        });
      }
      this.#event = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "event") this.#event = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id" && !value.includes("\0")) this.#id = value;
  }
}
