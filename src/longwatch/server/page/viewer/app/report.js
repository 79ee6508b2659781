/** Starts a report: a file that contains a run, shown by the same view as on the page, without a server. */

import { compareEvents } from "../core/order.js";
import { fill, h } from "./dom.js";
import { dateTimeText } from "./format.js";
import { watchUrl } from "./router.js";
import { RunModel } from "./run-model.js";
import { failure } from "./placeholders.js";
import { startShell } from "./shell.js";
import "./run-view.js";

/** @import { RunEvent, Summary } from "./types.js" */

const main = startShell();

watchUrl();
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
  const model = new RunModel(summary.run_id, () => madeAt); // an open run is shown as of then
  model.setSummary(summary);
  // The server streams the events in order of arrival: sorting there would need all of them in memory.
  model.add(events.sort(compareEvents));
  model.markCaughtUp();
  const view = h("lw-run");
  view.model = model;
  view.actions = { note: `as of ${dateTimeText(madeAt, Date.now())}` };
  fill(main, view);
}
