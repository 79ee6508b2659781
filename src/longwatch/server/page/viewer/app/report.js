/**
 * Starts a report: a file with a run inside, shown by the same view as on the page, without a server.
 */

import { compareEvents } from "../core/order.js";
import { fill, h } from "./dom.js";
import { dateTimeText } from "./format.js";
import { watchAddress } from "./router.js";
import { RunModel } from "./run-model.js";
import { failure } from "./placeholders.js";
import { startShell } from "./shell.js";
import "./run-view.js";

/** @import { RunEvent, Summary } from "./types.js" */

const main = startShell();

watchAddress();
try {
  show(JSON.parse(document.querySelector("#recorded")?.textContent ?? ""));
} catch (error) {
  fill(
    main,
    failure("This report", error, () => location.reload()),
  );
}

/** @param {{made_at: number, summary: Summary, events: RunEvent[]}} recorded */
function show({ made_at: madeAt, summary, events }) {
  const model = new RunModel(summary.run_id, () => madeAt); // an open run stands as it stood then
  model.tell(summary);
  // The server streams them as they arrived: sorting there would hold all of them in memory.
  model.add(events.sort(compareEvents));
  model.caught();
  const view = h("lw-run");
  view.model = model;
  view.actions = { note: `as of ${dateTimeText(madeAt, Date.now())}` };
  fill(main, view);
}
