/** Keyboard shortcuts. A view adds its shortcuts; the help dialog lists them, and what else is added to it. */

import { fill, h } from "./dom.js";
import { iconButton } from "./icons.js";

/** @import { Child } from "./dom.js" */
/** @typedef {{keys: string[], about: string, run: (event: KeyboardEvent) => void}} Shortcut */

/** @type {{title: string, shortcuts: Shortcut[]}[]} */
const groups = [];

/** @type {{href: string, text: string, about: string}[]} */
const links = [];

/** Add links to what programs use, at the end of the help. @param {typeof links} added */
export function addHelpLinks(added) {
  links.push(...added);
}

/** @type {(() => Child[])[]} */
const sections = [];

/** Add a section to the end of the help. @param {() => Child[]} make its content, each time the help opens */
export function addHelp(make) {
  sections.push(make);
}

/**
 * Add shortcuts until the returned function is called. For a key, the latest shortcut counts.
 * @param {string} title @param {Shortcut[]} shortcuts @returns {() => void}
 */
export function addShortcuts(title, shortcuts) {
  const group = { title, shortcuts };
  groups.push(group);
  return () => {
    groups.splice(groups.indexOf(group), 1);
  };
}

/**
 * The shortcuts that move to the next and the previous item.
 * @param {string} noun @param {(step: number) => void} move @returns {Shortcut[]}
 */
export const moveShortcuts = (noun, move) => [
  { keys: ["j", "ArrowDown"], about: `Next ${noun}`, run: () => move(1) },
  { keys: ["k", "ArrowUp"], about: `Previous ${noun}`, run: () => move(-1) },
];

/** Handle keys, and open the help with `?`. */
export function startShortcuts() {
  addShortcuts("Everywhere", [
    { keys: ["?"], about: "Show this help", run: showHelp },
    { keys: ["Escape"], about: "Close a dialog or details, leave a field", run: () => {} },
  ]);
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing =
      event.target instanceof Element && event.target.closest("input, textarea, select, dialog");
    if (typing instanceof HTMLElement && !typing.matches("dialog")) {
      // Browsers clear a search field on Escape; leaving it is enough.
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

/** Show the shortcuts of the open view. */
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
      h("h2", { id: "help-title" }, "Keyboard shortcuts"),
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
            h("dt", {}, ...keys.map((key) => h("kbd", {}, keyText(key)))),
            h("dd", {}, about),
          ]),
        ),
      ]),
    ...(links.length > 0 ? [h("h3", {}, "For programs"), linkList()] : []),
    ...sections.flatMap((make) => make()),
  );
  if (!dialog.isConnected) document.body.append(dialog);
  if (!dialog.open) dialog.showModal();
}

function linkList() {
  const terms = links.flatMap(({ href, text, about }) => [
    h("dt", {}, h("a", { href, target: "_blank" }, text)),
    h("dd", {}, about),
  ]);
  return h("dl", { class: "keys" }, ...terms);
}

/** @param {string} key */
function keyText(key) {
  return (
    { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc" }[key] ?? key
  );
}
