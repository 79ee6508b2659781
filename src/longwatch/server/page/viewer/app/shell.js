/**
 * What surrounds every view, on the page and in a report: theme, help, keyboard, and the link that skips to the view.
 */

import { fill } from "./dom.js";
import { icon } from "./icons.js";
import { showHelp, startShortcuts } from "./keys.js";
import { restoreTheme, themeButton } from "./theme.js";

/**
 * An element that is in the HTML.
 * @param {string} selector
 */
export const partOf = (selector) => /** @type {HTMLElement} */ (document.querySelector(selector));

/** Returns the element for the view. */
export function startShell() {
  const main = partOf("main");
  restoreTheme();
  themeButton(partOf("#theme"));
  fill(partOf("#help"), icon("help"));
  partOf("#help").addEventListener("click", showHelp);
  partOf(".skip-link").addEventListener("click", (event) => {
    event.preventDefault(); // the hash is for what is selected
    main.focus();
  });
  startShortcuts();
  return main;
}
