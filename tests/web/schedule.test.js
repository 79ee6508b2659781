import assert from "node:assert/strict";
import { test } from "node:test";

import { FEED_BACKOFF, Backoff } from "../../web/react/core/backoff.js";
import { Ramp } from "../../web/react/core/schedule.js";
import { REQUEST_BACKOFF, Cadence } from "../../web/react/src/polling/cadence.js";
import { Fixed, Soonest, scheduleFor } from "../../web/react/src/polling/schedules.js";

/** The delays of a ramp that is polled when it is due, without news. */
function delaysOf(ramp) {
  const delays = [];
  let now = 0;
  for (
    let state = ramp.afterPoll(0, true);
    state.delay !== null;
    state = state.afterPoll(now, false)
  ) {
    delays.push(state.delay);
    now += state.delay;
  }
  return { delays, now };
}

test("an interval means exactly that, none means the ramp", () => {
  assert.equal(scheduleFor(2_000).delay, 2_000);
  assert.ok(scheduleFor() instanceof Ramp);
});

test("a ramp polls every second for 30 s, then ever more seldom up to 5 s, and stops after 2 minutes", () => {
  const { delays, now } = delaysOf(new Ramp());

  assert.deepEqual(delays.slice(0, 30), Array(30).fill(1_000));
  assert.deepEqual(delays.slice(30, 36), [1_500, 2_250, 3_375, 5_000, 5_000, 5_000]);
  assert.ok(now >= 120_000 && now < 125_000);
});

test("news keeps a ramp alive and does not quicken it", () => {
  let ramp = new Ramp().afterPoll(0, true).afterPoll(119_000, true);

  ramp = ramp.afterPoll(200_000, false);

  assert.equal(ramp.delay, 2_250);
  assert.equal(ramp.reason, null);
});

test("a ramp that has stopped has a reason and starts again when it is touched", () => {
  const stopped = new Ramp().afterPoll(0, true).afterPoll(120_000, false);

  assert.equal(stopped.delay, null);
  assert.equal(stopped.reason, "no news for 120 s");
  assert.equal(stopped.touched(130_000).delay, 1_000);
});

test("the soonest of several schedules decides, and one that leaves is forgotten", () => {
  const both = new Soonest().withInterval(5_000).withInterval(2_000);

  assert.equal(both.delay, 2_000);
  assert.equal(both.without(2_000).delay, 5_000);
  assert.equal(new Soonest().reason, "no subscribers");
});

test("an invalid interval is refused", () => {
  for (const wrong of [0, -1, NaN, Infinity, "2000"]) {
    assert.throws(() => new Fixed(/** @type {number} */ (wrong)), RangeError);
  }
  assert.throws(() => new Ramp({ first: 6_000 }), RangeError);
  assert.throws(() => new Backoff({ first: 0, factor: 2, most: 1 }), RangeError);
});

test("requests wait 2, 4, 8, 16 and 16 seconds and give up at the sixth failure", () => {
  const delays = [];
  let backoff = REQUEST_BACKOFF;
  for (let failure = 0; failure < 6; failure += 1) delays.push((backoff = backoff.failed()).delay);

  assert.deepEqual(delays, [2_000, 4_000, 8_000, 16_000, 16_000, null]);
  assert.ok(backoff.stopped);
  assert.equal(backoff.succeeded().delay, 0);
});

test("a feed's backoff never gives up, however long the night", () => {
  let backoff = FEED_BACKOFF;
  for (let failure = 0; failure < 2_000; failure += 1) backoff = backoff.failed(() => 0);

  assert.equal(backoff.delay, 30_000);
  assert.equal(FEED_BACKOFF.failed(() => 1).delay, 750);
});

test("a cadence states why it waits, and interest does not reset failures", () => {
  const failing = new Cadence(new Fixed(1_000))
    .failed(new TypeError("no network"))
    .failed(new Error("gone"));

  assert.equal(failing.reason, "2 failures in a row: Error: gone");
  assert.equal(failing.touched(0).nextDelay, 4_000);
  assert.equal(failing.succeeded(0).nextDelay, 1_000);
});

test("a cadence that gave up begins again when it is touched", () => {
  let cadence = new Cadence(new Fixed(1_000));
  for (let failure = 0; failure < 6; failure += 1) cadence = cadence.failed(new Error("gone"));

  assert.equal(cadence.reason, "gave up after 6 failures in a row: Error: gone");
  assert.equal(cadence.touched(0).nextDelay, 1_000);
});
