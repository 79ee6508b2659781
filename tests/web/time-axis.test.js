/** The time axis of the timeline: follow mode, jumps and labels. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { axisLabels, tickText } from "../../src/longwatch/server/page/viewer/app/axis-labels.js";
import { followedStretch } from "../../src/longwatch/server/page/viewer/app/follow-window.js";
import { stretchAround } from "../../src/longwatch/server/page/viewer/app/time-scale.js";

for (const [
  about,
  now,
  newest,
  length,
  expected,
] of /** @type {[string, number, number, number | undefined, object | null][]} */ ([
  ["a short run is shown whole", 50_000, 49_000, undefined, null],
  ["a long run by its last minute", 200_000, 199_000, undefined, { from: 140_000, to: 203_000 }],
  ["a length that the user chose stays", 200_000, 199_000, 10_000, { from: 190_000, to: 200_500 }],
  ["the newest call is in view", 200_000, 100_000, undefined, { from: 97_000, to: 205_150 }],
])) {
  test(`follow mode: ${about}`, () => {
    assert.deepEqual(followedStretch({ from: 0, to: 210_000 }, now, newest, length), expected);
  });
}

test("a jump moves the visible time only if the call is outside it, and shows all of it", () => {
  const view = { from: 100, to: 200 };

  assert.equal(stretchAround(view, { from: 150, to: 900 }), view);
  assert.deepEqual(stretchAround(view, { from: 500, to: 520 }), { from: 460, to: 560 });
  assert.deepEqual(stretchAround(view, { from: 400, to: 800 }), { from: 350, to: 850 });
});

for (const [ms, step, expected] of /** @type {[number, number, string][]} */ ([
  [0, 1000, "0"],
  [250, 50, "250 ms"],
  [1500, 500, "1.5 s"],
  [30_000, 10_000, "30 s"],
  [60_000, 30_000, "1:00"],
  [239_250, 10, "3:59.25"],
  [239_005, 1, "3:59.005"],
  [3_725_000, 60_000, "1:02:05"],
  [183_600_000, 3_600_000, "2 d 3:00:00"],
])) {
  test(`a tick at ${ms} ms with a step of ${step} ms is ${expected}`, () => {
    assert.equal(tickText(ms, step), expected);
  });
}

test("no label leaves the axis or meets another, whatever the width", () => {
  const start = 1_000_000;
  for (const width of [60, 150, 222, 320, 905]) {
    for (const from of [0, 239_000, 86_400_000 * 3]) {
      const view = { from: start + from, to: start + from + 3_300 };
      const ticks = Array.from({ length: 7 }, (_, at) => view.from + at * 500);
      let right = 0;
      for (const { at, text, side } of axisLabels(ticks, view, start, width)) {
        if (!side) continue;
        const x = ((at - view.from) / 3_300) * width;
        const size = text.length * 6.6 + 10;
        const left = side === "right" ? x : x - size;
        assert.ok(left >= right - 0.001, `${text} at ${width}`);
        right = left + size;
        assert.ok(right <= width + 0.001, `${text} at ${width}`);
      }
    }
  }
});
