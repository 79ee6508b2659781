/** The theme: light, dark, or that of the system. The choice is stored in the browser. */

import { fill } from "./dom.js";
import { icon } from "./icons.js";

const KEY = "longwatch.theme";
const CHOICES = /** @type {const} */ (["auto", "light", "dark"]);
const SYMBOLS = { auto: "auto", light: "sun", dark: "moon" };

/** @typedef {typeof CHOICES[number]} Theme */

/** Apply the stored choice. */
export function restoreTheme() {
  apply(chosen());
}

/** Make a button switch between the three choices. @param {HTMLElement} button */
export function themeButton(button) {
  const show = () => {
    const theme = chosen();
    const name = `Theme: ${theme === "auto" ? "system" : theme}`;
    button.setAttribute("aria-label", name);
    button.title = name;
    fill(button, icon(SYMBOLS[theme]));
  };
  button.addEventListener("click", () => {
    const next = CHOICES[(CHOICES.indexOf(chosen()) + 1) % CHOICES.length] ?? "auto";
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // Without storage (private windows, file://), the choice lasts as long as the page.
    }
    remembered = next;
    apply(next);
    show();
  });
  show();
}

/** @type {Theme | undefined} */
let remembered;

/** @returns {Theme} */
function chosen() {
  if (remembered) return remembered;
  try {
    const stored = localStorage.getItem(KEY);
    return CHOICES.find((choice) => choice === stored) ?? "auto";
  } catch {
    return "auto";
  }
}

/** @param {Theme} theme */
function apply(theme) {
  if (theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}
