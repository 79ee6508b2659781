/**
 * Starts a report: a file with a run inside, shown by the same view as on the page, without a server.
 */

import { compareOrders, orderOf } from "../core/order.js";
import { fill, h } from "./dom.js";
import { moment } from "./format.js";
import { icon } from "./icons.js";
import { showHelp, startKeys } from "./keys.js";
import { watchAddress } from "./router.js";
import { RunModel } from "./run-model.js";
import { failure } from "./placeholders.js";
import { restoreTheme, themeButton } from "./theme.js";
import "./run-view.js";

/** @import { RunView } from "./run-view.js" */
/** @import { RunEvent, Summary } from "./types.js" */

const main = /** @type {HTMLElement} */ (document.querySelector("main"));

restoreTheme();
themeButton(/** @type {HTMLElement} */ (document.querySelector("#theme")));
const help = /** @type {HTMLElement} */ (document.querySelector("#help"));
fill(help, icon("help"));
help.addEventListener("click", showHelp);
document.querySelector(".skip-link")?.addEventListener("click", (event) => {
  event.preventDefault(); // the hash is for what is selected
  main.focus();
});
startKeys();
watchAddress();
try {
  show(JSON.parse(document.querySelector("#recorded")?.textContent ?? ""));
} catch (error) {
  fill(main, failure("This report", error, () => location.reload()));
}

/** @param {{made_at: number, summary: Summary, events: RunEvent[]}} recorded */
function show({ made_at: madeAt, summary, events }) {
  const model = new RunModel(summary.run_id, () => madeAt); // an open run stands as it stood then
  model.tell(summary);
  // The server streams them as they arrived: sorting there would hold all of them in memory.
  model.add(events.sort((one, other) => compareOrders(orderOf(one), orderOf(other))));
  model.caught();
  const view = /** @type {RunView} */ (h("lw-run"));
  view.model = model;
  view.actions = { note: `as of ${moment(madeAt, Date.now())}` };
  fill(main, view);
}
