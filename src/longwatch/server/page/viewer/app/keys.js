/**
 * Keyboard use. A view says which keys it knows and what they do; the help dialog is made from that.
 */

import { fill, h } from "./dom.js";
import { iconButton } from "./icons.js";

/** @typedef {{keys: string[], about: string, run: (event: KeyboardEvent) => void}} Shortcut */

/** @type {{title: string, shortcuts: Shortcut[]}[]} */
const groups = [];

/**
 * Offer shortcuts until the returned function is called. The latest offer of a key counts.
 * @param {string} title
 * @param {Shortcut[]} shortcuts
 * @returns {() => void}
 */
export function addShortcuts(title, shortcuts) {
  const group = { title, shortcuts };
  groups.push(group);
  return () => {
    groups.splice(groups.indexOf(group), 1);
  };
}

/** Listen to the keyboard, and open the help with `?`. */
export function startShortcuts() {
  addShortcuts("Everywhere", [
    { keys: ["?"], about: "This help", run: showHelp },
    { keys: ["Escape"], about: "Close what is open, leave a field", run: () => {} },
  ]);
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing =
      event.target instanceof Element && event.target.closest("input, textarea, select, dialog");
    if (typing instanceof HTMLElement && !typing.matches("dialog")) {
      // A search field would be emptied by Escape; leaving it is enough.
      if (event.key === "Escape" && !typing.closest("dialog")) {
        event.preventDefault();
        typing.blur();
      }
      return;
    }
    if (typing) return;
    for (const { shortcuts } of [...groups].reverse()) {
      const found = shortcuts.find(({ keys }) => keys.includes(event.key));
      if (!found) continue;
      found.run(event);
      if (event.key !== "Escape") event.preventDefault();
      return;
    }
  });
}

/** Show what the keys do in the view that is open. */
export function showHelp() {
  const dialog = /** @type {HTMLDialogElement} */ (
    document.querySelector("dialog.help") ??
      h("dialog", { class: "help", "aria-labelledby": "help-title" })
  );
  fill(
    dialog,
    h(
      "header",
      {},
      h("h2", { id: "help-title" }, "Keyboard"),
      iconButton("close", "Close", () => dialog.close()),
    ),
    ...[...groups]
      .reverse()
      .flatMap(({ title, shortcuts }) => [
        h("h3", {}, title),
        h(
          "dl",
          { class: "keys" },
          ...shortcuts.flatMap(({ keys, about }) => [
            h("dt", {}, ...keys.map((key) => h("kbd", {}, named(key)))),
            h("dd", {}, about),
          ]),
        ),
      ]),
  );
  if (!dialog.isConnected) document.body.append(dialog);
  if (!dialog.open) dialog.showModal();
}

/** @param {string} key */
function named(key) {
  return (
    { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc" }[key] ?? key
  );
}
