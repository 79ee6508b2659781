/** The theme: light, dark, or that of the system. The choice is stored in the browser. */

import { fill } from "./dom.js";
import { icon } from "./icons.js";

const KEY = "longwatch.theme";
const SYMBOLS = { auto: "auto", light: "sun", dark: "moon" };
const THEMES = /** @type {(keyof typeof SYMBOLS)[]} */ (Object.keys(SYMBOLS));

/** Apply the stored theme, and let a button switch between the three. @param {HTMLElement} button */
export function startTheme(button) {
  let at = Math.max(
    0,
    THEMES.findIndex((theme) => theme === storedTheme()),
  );
  const show = () => {
    const theme = THEMES[at] ?? "auto";
    if (theme === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
    button.title = `Theme: ${theme === "auto" ? "system" : theme}`;
    button.setAttribute("aria-label", button.title);
    fill(button, icon(SYMBOLS[theme]));
    return theme;
  };
  button.addEventListener("click", () => {
    at = (at + 1) % THEMES.length;
    const theme = show();
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // Without storage (private windows, file://), the choice lasts as long as the page.
    }
  });
  show();
}

function storedTheme() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
