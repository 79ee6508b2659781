/**
 * Short remarks at the lower edge, read out by screen readers, gone after a while.
 */

import { h } from "./dom.js";
import { code, div, span } from "./markup.js";
import { iconButton } from "./icons.js";

const SHOWN_MS = 3500;

/** @param {string} text */
export function toast(text) {
  const note = div("toast", text);
  shelf().append(note);
  setTimeout(() => note.remove(), SHOWN_MS);
}

/**
 * Put text on the clipboard and say so. Without permission the text is offered to be copied by hand.
 * @param {string} text
 * @param {string} what
 */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied`);
  } catch {
    if (copiedBySelection(text)) toast(`${what} copied`);
    else toast(`The browser does not allow copying here. ${text.slice(0, 200)}`);
  }
}

/**
 * @param {string} what is copied, such as `Run id`
 * @param {string} text
 */
export function copyButton(what, text) {
  return iconButton("copy", `Copy ${what.toLowerCase()}`, () => void copy(text, what));
}

/**
 * An id with a button that copies it.
 * @param {string} what
 * @param {string} id
 */
export function idMark(what, id) {
  return span("id", code("cut", id), copyButton(what, id));
}

export function linkButton() {
  return iconButton("link", "Copy link to this view", () => void copy(location.href, "Link"), "");
}

/** @param {string} text */
function copiedBySelection(text) {
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

function shelf() {
  let found = document.querySelector(".toasts");
  if (!found) {
    found = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
    document.body.append(found);
  }
  return found;
}
