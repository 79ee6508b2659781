// Folds runs and previews events for the Python tests: a line of {batches, now} in, a line with the run's view out.

import { createInterface } from "node:readline";

import { ENDS, STARTS, STATUS_WORDS } from "../../src/longwatch/server/page/viewer/core/endings.js";
import { eventPreview } from "../../src/longwatch/server/page/viewer/core/preview.js";
import { CALL_WORDS } from "../../src/longwatch/server/page/viewer/core/payloads.js";
import { RunFold } from "../../src/longwatch/server/page/viewer/core/run-fold.js";
import { viewOf } from "./support/fold.js";

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(answerTo(JSON.parse(line))));
}

function answerTo({ words, previews, limit, batches, now }) {
  if (previews) return previews.map((event) => eventPreview(event, limit));
  if (words) {
    const tables = Object.entries({ STARTS, ENDS, STATUS_WORDS, CALL_WORDS });
    return Object.fromEntries(tables.map(([name, table]) => [name, Object.fromEntries(table)]));
  }
  const run = new RunFold(batches.flat()[0].run_id);
  for (const batch of batches) run.add(batch);
  return viewOf(run, now);
}
