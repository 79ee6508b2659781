/** The frame of every view, on the page and in a report: theme, help, keyboard and skip link. */

import { fill } from "./dom.js";
import { icon } from "./icons.js";
import { showHelp, startShortcuts } from "./keys.js";
import { startTheme } from "./theme.js";

/** @param {string} selector of an element in the HTML */
export const partOf = (selector) => /** @type {HTMLElement} */ (document.querySelector(selector));

/** Returns the element for the view. */
export function startShell() {
  const main = partOf("main");
  startTheme(partOf("#theme"));
  fill(partOf("#help"), icon("help"));
  partOf("#help").addEventListener("click", showHelp);
  partOf(".skip-link").addEventListener("click", (event) => {
    event.preventDefault(); // the hash holds the selection
    main.focus();
  });
  startShortcuts();
  return main;
}
