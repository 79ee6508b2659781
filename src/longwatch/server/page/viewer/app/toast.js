/** Short messages at the bottom of the page, for a few seconds; and buttons that copy. */

import { h } from "./dom.js";
import { code, div, span } from "./markup.js";
import { iconButton } from "./icons.js";

const SHOWN_MS = 3500;

/** @param {string} text */
export function toast(text) {
  const note = div("toast", text);
  toasts().append(note);
  setTimeout(() => note.remove(), SHOWN_MS);
}

/**
 * Copy text to the clipboard and report it. Without permission, the message contains the text.
 * @param {string} text @param {string} what
 */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied`);
  } catch {
    if (copyBySelection(text)) toast(`${what} copied`);
    else toast(`The browser does not allow copying. Copy it by hand: ${text.slice(0, 200)}`);
  }
}

/** @param {string} what is copied, such as `Run id` @param {string} text */
export function copyButton(what, text) {
  const isAcronym = /^[A-Z]{2}/.test(what);
  const name = isAcronym ? what : what.charAt(0).toLowerCase() + what.slice(1);
  return iconButton("copy", `Copy ${name}`, () => void copy(text, what));
}

/** @param {string} what @param {string} id */
export function idMark(what, id) {
  return span("id", code("cut", id), copyButton(what, id));
}

export function linkButton() {
  return iconButton("link", "Copy link to this view", () => void copy(location.href, "Link"), "");
}

/** @param {string} text */
function copyBySelection(text) {
  const field = h("textarea", { class: "unseen", "aria-hidden": "true", tabindex: -1 });
  field.value = text;
  document.body.append(field);
  const before = document.activeElement;
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}

function toasts() {
  let found = document.querySelector(".toasts");
  if (!found) {
    found = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
    document.body.append(found);
  }
  return found;
}
