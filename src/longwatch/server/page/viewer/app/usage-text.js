/** Tokens, cost and waits as text, as the command line writes them: every sum with its coverage. */

import { countText, durationText, elapsedText, numberText } from "./format.js";

/** @import { Call, Rate, Summary, Usage } from "./types.js" */

/** @typedef {Pick<Usage, "model_calls" | "calls_with_tokens" | "priced_calls" | "input_tokens" | "output_tokens" | "cost">} Sums */

const MILLION = 1_000_000;

/** `41,200 tokens; $0.62 for 18 of 21 calls, 3 have no known price` @param {Sums} usage */
export function usageText(usage) {
  const { model_calls: all, calls_with_tokens: counted, priced_calls: priced } = usage;
  const calls = countText(all, "model call");
  if (!counted && !priced) return `${calls} without token counts`;
  const tokens = countText(usage.input_tokens + usage.output_tokens, "token");
  const coverage =
    counted < all ? ` in ${numberText(counted)} of ${calls}` : priced ? "" : ` in ${calls}`;
  return `${tokens}${coverage}; ${costCoverage(usage)}`;
}

/** @param {Sums} usage */
function costCoverage({
  cost,
  model_calls: all,
  calls_with_tokens: counted,
  priced_calls: priced,
}) {
  if (cost === null) return "no known price";
  if (priced === all) return `${costText(cost)} for ${countText(priced, "call")}`;
  const unpriced = counted - priced; // a call without tokens may well have a price
  const have = unpriced === 1 ? "has" : "have";
  const missing = unpriced > 0 ? `, ${numberText(unpriced)} ${have} no known price` : "";
  return `${costText(cost)} for ${numberText(priced)} of ${numberText(all)} calls${missing}`;
}

/**
 * The usage of several runs together, with its coverage; null if none has called a model.
 *
 * The counts of a thread that several turns continue are cumulative: the highest counts.
 * @param {readonly (Usage | null | undefined)[]} usages @returns {Sums | null}
 */
export function sumUsage(usages) {
  /** @type {Map<string, Sums>} */
  const byThread = new Map();
  for (const [number, usage] of usages.entries()) {
    if (!usage) continue;
    const thread = usage.threads.length ? usage.threads.join("\n") : `run ${number}`;
    const before = byThread.get(thread);
    byThread.set(thread, before ? highest(before, usage) : usage);
  }
  return byThread.size ? [...byThread.values()].reduce(addUsage) : null;
}

/** @param {Sums} one @param {Sums} other @returns {Sums} */
function addUsage(one, other) {
  const costs = [one.cost, other.cost].filter((cost) => cost !== null);
  return {
    ...addCalls(one, other),
    input_tokens: one.input_tokens + other.input_tokens,
    output_tokens: one.output_tokens + other.output_tokens,
    cost: costs.length ? costs.reduce((sum, cost) => sum + cost) : null,
  };
}

/** @param {Sums} one @param {Sums} other @returns {Sums} */
function highest(one, other) {
  return {
    ...addCalls(one, other),
    input_tokens: Math.max(one.input_tokens, other.input_tokens),
    output_tokens: Math.max(one.output_tokens, other.output_tokens),
    cost: one.cost === null ? other.cost : Math.max(one.cost, other.cost ?? 0),
  };
}

/** @param {Sums} one @param {Sums} other */
function addCalls(one, other) {
  return {
    model_calls: one.model_calls + other.model_calls,
    calls_with_tokens: one.calls_with_tokens + other.calls_with_tokens,
    priced_calls: one.priced_calls + other.priced_calls,
  };
}

/** The same for a narrow column: `41,200 tokens, $0.62 (18/21)`. @param {Usage} usage */
export function usageBrief(usage) {
  const { cost, model_calls: all, calls_with_tokens: counted, priced_calls: priced } = usage;
  const of = (/** @type {number} */ some) =>
    some < all ? ` (${numberText(some)}/${numberText(all)})` : "";
  const tokens = usage.input_tokens + usage.output_tokens;
  const parts = [
    counted ? `${countText(tokens, "token")}${of(counted)}` : countText(all, "model call"),
    cost === null ? "" : `${costText(cost)}${of(priced)}`,
  ];
  return parts.filter(Boolean).join(", ");
}

/** `$0.62`, `$1,204.50`; small amounts with two significant digits, `$0.0042`. @param {number} cost */
export function costText(cost) {
  // A half is rarely exact in binary: 0.000215 is a little less, and is to be rounded up.
  const raised = cost * (1 + 4 * Number.EPSILON);
  if (cost >= 0.995 || cost === 0) {
    const [whole, cents] = raised.toFixed(2).split(".");
    return `$${numberText(Number(whole))}.${cents}`;
  }
  if (cost < 0.00001) return "<$0.00001";
  const exponent = Number(cost.toExponential().split("e")[1]);
  return `$${raised.toFixed(Math.max(2, 1 - exponent))}`;
}

/**
 * The cost of a call by the prices of its run; null if it is not known.
 * @param {Call} call @param {readonly Rate[]} rates @returns {number | null}
 */
export function callCost({ usage, provider, model, response_model }, rates) {
  const { input_tokens: input = null, output_tokens: output = null } = usage ?? {};
  if (!usage || input === null) return null;
  const responded = response_model === model ? "" : (response_model ?? "");
  // The price may depend on the size of the input: the largest size that this call exceeds counts.
  const [rate] = rates
    .filter(
      (each) =>
        each.provider === (provider ?? "") &&
        each.model === (model ?? "") &&
        each.response_model === responded &&
        (each.size === 0 || input > each.size),
    )
    .sort((one, other) => other.size - one.size);
  if (!rate) return null;
  const [reads, writes] = [usage.cache_read_tokens ?? 0, usage.cache_write_tokens ?? 0];
  let cost = 0;
  for (const [tokens, price] of /** @type {[number, number | null][]} */ ([
    [Math.max(0, input - reads - writes), rate.input],
    [output ?? 0, rate.output],
    [reads, rate.cache_read],
    [writes, rate.cache_write],
  ])) {
    if (tokens && price === null) return null;
    cost += (tokens * (price ?? 0)) / MILLION;
  }
  return cost;
}

/** `1,204 tokens · $0.0042 · first token 310 ms`: what is known of a model call. @param {Call} call */
export function modelCallText({ usage, cost, time_to_first_token_ms: first }) {
  const { input_tokens: input = null, output_tokens: output = null } = usage ?? {};
  const parts = [
    input === null && output === null ? "" : countText((input ?? 0) + (output ?? 0), "token"),
    (cost ?? null) === null ? "" : costText(cost ?? 0),
    (first ?? null) === null ? "" : `first token ${durationText(first ?? 0)}`,
  ];
  return parts.filter(Boolean).join(" · ");
}

/**
 * `12 min 05 s of 20 min 00 s waiting for approval`: all waits of the run, also open ones; empty without any.
 * @param {Pick<Summary, "waiting" | "waiting_ms">} run @param {number} elapsedMs @param {number} now
 */
export function waitedText({ waiting, waiting_ms }, elapsedMs, now) {
  const waited = new Map(Object.entries(waiting_ms));
  for (const { reason, since } of waiting)
    waited.set(reason, (waited.get(reason) ?? 0) + Math.max(0, now - since));
  return [...waited]
    .sort(([one, ms], [other, otherMs]) => otherMs - ms || (one < other ? -1 : 1))
    .map(([reason, ms]) => {
      const whole = ms > 0 && ms <= elapsedMs ? ` of ${durationText(elapsedMs)}` : "";
      return `${durationText(ms)}${whole} waiting for ${reason}`;
    })
    .join(", ");
}

/**
 * `waiting for approval: deploy to production, for 12 min 05 s`
 * @param {{reason: string, detail: string | null, since: number}} wait @param {number} now
 */
export function openWaitText({ reason, detail, since }, now) {
  const what = detail ? `${reason}: ${detail}` : reason;
  return `waiting for ${what}, for ${elapsedText(now - since)}`;
}
