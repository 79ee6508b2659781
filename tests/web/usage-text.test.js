/** Totals, costs and waits as text. The same table of cases is tested in Python. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { messagesOf } from "../../src/longwatch/server/page/viewer/app/messages.js";
import {
  callCost,
  modelCallText,
  sumUsage,
  usageBrief,
  usageText,
  waitedText,
} from "../../src/longwatch/server/page/viewer/app/usage-text.js";

const CASES = JSON.parse(
  readFileSync(new URL("../fixtures/usage_texts.json", import.meta.url), "utf8"),
);
const RATE = {
  provider: "openai",
  model: "large",
  response_model: "",
  size: 0,
  input: 2,
  output: 8,
  cache_read: 0.5,
  cache_write: null,
};
const USAGE = {
  input_tokens: 1_000,
  output_tokens: 100,
  cache_read_tokens: 400,
  cache_write_tokens: null,
  reasoning_tokens: 10,
};

for (const [text, usage] of CASES)
  test(`totals are shown with their coverage: ${text}`, () => assert.equal(usageText(usage), text));

const ofRun = {
  model_calls: 3,
  calls_with_tokens: 2,
  priced_calls: 1,
  input_tokens: 100,
  output_tokens: 10,
  cost: 0.5,
  threads: [],
};

test("the usage of several runs adds up with its coverage", () => {
  const unpriced = { ...ofRun, priced_calls: 0, cost: null };

  assert.equal(
    usageText(sumUsage([ofRun, null, unpriced, undefined])),
    "220 tokens in 4 of 6 model calls; $0.50 for 1 of 6 calls, 3 have no known price",
  );
  assert.equal(sumUsage([unpriced]).cost, null);
  assert.equal(sumUsage([null, undefined]), null);
});

test("counts of a thread that several turns continue are not added twice", () => {
  const turns = [100, 250].map((tokens) => ({ ...ofRun, input_tokens: tokens, threads: ["t-1"] }));
  const sum = sumUsage([...turns, ofRun]);

  assert.deepEqual([sum.model_calls, sum.input_tokens, sum.cost], [9, 350, 1]);
});

test("a narrow column has the coverage too", () => {
  assert.deepEqual(
    CASES.slice(0, 6).map(([, usage]) => usageBrief(usage)),
    [
      "41,200 tokens, $0.62 (18/21)",
      "41,200 tokens, $0.62 (20/21)",
      "1,204 tokens, $1,204.50",
      "12 tokens",
      "1 token (1/2)",
      "12 tokens (2/3), $0.0042 (1/3)",
    ],
  );
});

test("the cost of a call is that of its tokens by the price of its model, or not known", () => {
  const call = { provider: "openai", model: "large", response_model: "large", usage: USAGE };

  assert.equal(callCost(call, [RATE]), (600 * 2 + 400 * 0.5 + 100 * 8) / 1e6);
  assert.equal(callCost({ ...call, model: "other" }, [RATE]), null);
  assert.equal(callCost({ ...call, usage: null }, [RATE]), null);
  assert.equal(callCost({ ...call, usage: { ...USAGE, cache_write_tokens: 5 } }, [RATE]), null);
  const large = { ...RATE, size: 272_000, input: 4 };
  const usage = { ...USAGE, input_tokens: 300_000, cache_read_tokens: 0, output_tokens: 0 };
  assert.equal(callCost({ ...call, usage }, [RATE, large]), 1.2);
  assert.equal(
    callCost({ ...call, usage: { ...usage, input_tokens: 100_000 } }, [RATE, large]),
    0.2,
  );
});

test("a model call is described by what is known of it", () => {
  assert.equal(
    modelCallText({ usage: USAGE, cost: 0.0022, time_to_first_token_ms: 310 }),
    "1,100 tokens · $0.0022 · first token 310 ms",
  );
  assert.equal(modelCallText({ usage: null, cost: null, time_to_first_token_ms: null }), "");
  assert.equal(modelCallText({}), "");
});

test("waits are summed by their reasons, open ones included", () => {
  const waiting = [{ reason: "approval", detail: null, since: 40_000 }];

  assert.equal(
    waitedText({ waiting, waiting_ms: { approval: 665_000, lock: 500 } }, 1_200_000, 100_000),
    "12 min 05 s of 20 min 00 s waiting for approval, 500 ms of 20 min 00 s waiting for lock",
  );
  assert.equal(waitedText({ waiting: [], waiting_ms: {} }, 1_000, 0), "");
});

test("input and output are messages in every recorded shape, and nothing else is", () => {
  const text = (/** @type {string} */ words) => ({ type: "text", text: words });
  const shapes = /** @type {[unknown, unknown][]} */ ([
    ["Hello", [{ role: "user", parts: [text("Hello")] }]],
    [[{ role: "system", content: "Be brief" }], [{ role: "system", parts: [text("Be brief")] }]],
    [
      { role: "tool", content: [text("ok"), "…"] },
      [{ role: "tool", parts: [text("ok"), text("…")] }],
    ],
    [
      [{ role: "user", parts: [text("Hi")] }, "[3 more]"],
      [
        { role: "user", parts: [text("Hi")] },
        { role: "user", parts: [text("[3 more]")] },
      ],
    ],
    [[{ role: "assistant", content: null }], [{ role: "assistant", parts: [] }]],
    [[1, 2], []],
    [{ rows: 3 }, []],
    [undefined, []],
  ]);
  for (const [value, messages] of shapes) assert.deepEqual(messagesOf(value, "user"), messages);
});
