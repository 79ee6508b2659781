/** How runs end, by the cases that the fold in Python passes too (tests/unit/model/test_shared_endings.py). */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { RunFold } from "../../src/longwatch/server/page/viewer/core/run-fold.js";
import { viewOf } from "./support/fold.js";

const NOW_MS = 100_000;
const CASES = JSON.parse(
  readFileSync(new URL("../fixtures/endings.json", import.meta.url), "utf8"),
);

for (const { name, events, expected } of CASES) {
  test(name, () => {
    for (const ordered of [events, events.toReversed()]) {
      const view = viewOf(new RunFold("wf-1").add(ordered), NOW_MS);
      const calls = Object.fromEntries(view.calls.map((call) => [call.call_id, call.status]));
      const found = Object.fromEntries(
        Object.keys(expected).map((key) => [key, key === "calls" ? calls : view[key]]),
      );

      assert.deepEqual(found, expected);
    }
  });
}
