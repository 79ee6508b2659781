/** Whether a browser can be notified, and what its user reads about it. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  bytesOf,
  pushStateOf,
  pushText,
  ruleText,
  usesKey,
} from "../../src/longwatch/server/page/viewer/app/push-state.js";

/** @import { PushFacts } from "../../src/longwatch/server/page/viewer/app/push-state.js" */

const CONFIGURATION = { public_key: "BAAA", problem: null, rules: [] };

/** @type {PushFacts} */
const READY = {
  isSecure: true,
  isSupported: true,
  permission: "default",
  configuration: CONFIGURATION,
  error: "",
  isSubscribed: false,
};

const cases = /** @type {[Partial<PushFacts>, string, RegExp][]} */ ([
  [{}, "off", /asks for permission first/],
  [{ permission: "granted" }, "off", /Get a notification/],
  [{ permission: "granted", isSubscribed: true }, "on", /also while this page is closed/],
  [{ isSubscribed: true }, "off", /Get a notification/], // the user withdrew the permission
  [{ permission: "denied", isSubscribed: true }, "denied", /Allow them in the browser/],
  [{ configuration: null }, "checking", /Checking/],
  [{ configuration: { ...CONFIGURATION, problem: "No rule." } }, "unconfigured", /^No rule\.$/],
  [
    { configuration: { ...CONFIGURATION, problem: "No rule." }, permission: "denied" },
    "unconfigured",
    /No rule/,
  ],
  [{ error: "No connection." }, "failed", /^No connection\.$/],
  [{ isSupported: false, permission: "denied" }, "unsupported", /Home Screen/],
  [{ isSecure: false, isSupported: false }, "insecure", /https:\/\//],
]);

test("the first obstacle decides, and its text says what to do", () => {
  for (const [given, state, text] of cases) {
    const facts = { ...READY, ...given };
    assert.equal(pushStateOf(facts), state, JSON.stringify(given));
    assert.match(pushText(pushStateOf(facts), facts), text);
  }
});

test("a rule is described by what it reacts to and its runs", () => {
  assert.equal(ruleText({ triggers: ["failed", "died"], runs: "" }), "failed or died, in all runs");
  assert.equal(ruleText({ triggers: ["ended"], runs: "tag:x" }), "ended, in runs with tag:x");
});

test("a key is compared byte by byte", () => {
  const bytes = bytesOf("BP-_");

  assert.deepEqual([...bytes], [4, 255, 191]);
  assert.equal(usesKey(bytes.buffer, "BP-_"), true);
  assert.equal(usesKey(bytes.buffer, "BP-A"), false);
  assert.equal(usesKey(bytes.buffer, "BP-_BP-_"), false);
  assert.equal(usesKey(null, "BP-_"), true);
});
