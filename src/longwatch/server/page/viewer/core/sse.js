/** A parser for server-sent events, fed with text in chunks of any size. */

/**
 * @typedef {object} SseMessage
 * @property {string} event
 * @property {string} data
 * @property {string} id The last id received, with this message or before it.
 */

export class SseParser {
  #partialLine = "";
  #afterReturn = false; // the last chunk ended in \r: a \n that follows belongs to it
  #hasStarted = false;
  #event = "";
  /** @type {string[]} */
  #data = [];
  #id = "";

  /** @param {string} chunk @returns {SseMessage[]} the messages that this chunk completes */
  push(chunk) {
    if (chunk === "") return [];
    let text = chunk;
    if (!this.#hasStarted && text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    this.#hasStarted = true;
    if (this.#afterReturn && text.startsWith("\n")) text = text.slice(1);
    this.#afterReturn = chunk.endsWith("\r");
    const lines = (this.#partialLine + text).split(/\r\n|\r|\n/);
    this.#partialLine = lines.pop() ?? "";
    /** @type {SseMessage[]} */
    const messages = [];
    for (const line of lines) this.#parseLine(line, messages);
    return messages;
  }

  /** @param {string} line @param {SseMessage[]} messages */
  #parseLine(line, messages) {
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
