/** The text of a query while it is typed: its terms, completions, and terms that are added and removed. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  differenceText,
  differing,
  leftOutText,
} from "../../src/longwatch/server/page/viewer/app/run-diff.js";
import {
  completionsOf,
  hasTerm,
  isIncomplete,
  termText,
  termsOf,
  toggleTerm,
} from "../../src/longwatch/server/page/viewer/app/query-text.js";

/** @type {import("../../src/longwatch/server/page/viewer/app/query-text.js").KnownValues} */
const KNOWN = {
  status: [
    ["running", 0],
    ["failed", 0],
  ],
  tag: [
    ["nightly", 14],
    ["team a", 2],
  ],
  agent: [["reader", 3]],
};

/** @param {string} text the caret is at `|` */
const complete = (text) =>
  completionsOf(text.replace("|", ""), text.indexOf("|"), KNOWN).map((each) => each.text);

/** The text after the first completion. @param {string} text */
function accepted(text) {
  const plain = text.replace("|", "");
  const [first] = completionsOf(plain, text.indexOf("|"), KNOWN);
  assert.ok(first);
  return plain.slice(0, first.from) + first.text + plain.slice(first.to);
}

test("terms end at spaces outside quotes", () => {
  const texts = termsOf('a  tag:"team a",b -x:"c\\" d" "open e').map((term) => term.text);

  assert.deepEqual(texts, ["a", 'tag:"team a",b', '-x:"c\\" d"', '"open e']);
});

test("fields and values are completed", () => {
  assert.deepEqual(complete("sta|"), ["status:"]);
  assert.deepEqual(complete("status:|"), ["status:running", "status:failed"]);
  assert.deepEqual(complete("status:FA|"), ["status:failed"]);
  assert.deepEqual(complete("-tag:nig|"), ["-tag:nightly"]);
  assert.deepEqual(complete("tag:te|"), ['tag:"team a"']);
  assert.deepEqual(complete("tag:nightly,te|"), ['tag:nightly,"team a"']);
  assert.deepEqual(complete("tag:nightly|"), []);
  assert.deepEqual(complete("since:|"), ["since:1h", "since:1d", "since:7d"]);
  assert.deepEqual(complete("name:x|"), []);
});

test("a word is searched among the values", () => {
  assert.deepEqual(complete("read|"), ["agent:reader"]);
  assert.deepEqual(complete("x fail|"), ["status:failed"]);
  assert.ok(complete("|").includes("status:"));
});

test("a completion replaces the term at the caret only", () => {
  assert.equal(accepted("a sta| b"), "a status: b");
  assert.equal(accepted("a tag:ni|g b"), "a tag:nightly b");
});

test("a query is incomplete while a value or a quote is missing", () => {
  for (const text of ["status:", "a -tag:", 'tag:"team', '"a b'])
    assert.ok(isIncomplete(text), text);
  for (const text of ["", "a", "status:failed", 'tag:"team a"', 'x:"a\\"b"'])
    assert.ok(!isIncomplete(text), text);
});

test("a term is added to a query and removed from it", () => {
  const term = termText("tag", "team a");

  const added = toggleTerm("error:Timeout", term);

  assert.equal(added, 'error:Timeout tag:"team a"');
  assert.ok(hasTerm(added, term));
  assert.equal(toggleTerm(added, term), "error:Timeout");
  assert.equal(termText("user", 'a"b'), 'user:"a\\"b"');
});

/** @param {number} depth @param {string[]} differences */
const row = (depth, differences = []) => ({ depth, differences });

test("rows that differ are kept with their callers", () => {
  const rows = [row(0), row(1), row(2, ["result"]), row(1), row(0), row(1, ["added"])];

  assert.deepEqual([...differing(/** @type {any} */ (rows))], [0, 1, 2, 4, 5]);
});

test("a difference is stated with what was and what is", () => {
  const a = { status: "completed", error: null, input_preview: "ACME", output_preview: null };
  const b = { status: "failed", error: "Timed out", input_preview: "INIT", output_preview: null };
  const text = (/** @type {object} */ of) => differenceText(/** @type {any} */ (of));

  assert.equal(
    text({ a, b, differences: ["status", "error", "arguments", "result"] }),
    "completed → failed, error: – → Timed out, arguments: ACME → INIT, result",
  );
  assert.equal(text({ a: null, b, differences: ["added"] }), "only in B: Timed out");
  assert.equal(text({ a, b: null, differences: ["missing"] }), "only in A");
  assert.equal(text({ a, b: a, differences: [] }), "");
});

test("what a comparison leaves out is alike, or differs beyond the limit", () => {
  const row = (/** @type {string[]} */ ...differences) => ({ differences });
  const found = (/** @type {number} */ differing) =>
    /** @type {any} */ ({ rows: [row(), row("status")], left_out: 1200, differing });

  assert.equal(leftOutText(found(1)), "1,200 more calls alike.");
  assert.equal(leftOutText(found(18)), "1,200 more calls, 17 of them differ.");
});
