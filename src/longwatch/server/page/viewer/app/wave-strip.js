/**
 * The waves of an execution side by side, each as wide as it has servers, filled with how these stand.
 */

import { h } from "./dom.js";
import { STATES, lookOf, statesText } from "./server-states.js";

/** @typedef {import("./types.js").ExecutionLine} ExecutionLine */
/** @typedef {import("./types.js").Progress} Progress */

const MOST_COMING = 20; // waves that are drawn before they are there; the label has the number of all

/**
 * @param {ExecutionLine} execution
 * @returns {HTMLElement}
 */
export function waveStrip(execution) {
  const { progress, total_waves: total } = execution;
  const coming = Math.max(0, (total ?? progress.length) - progress.length);
  const said = progress.map((wave) => `${wave.name}: ${statesText(wave.states)}`);
  const label = [...said, ...(coming ? [`${coming} more to come`] : [])].join("; ") || "no wave yet";
  return h(
    "span",
    { class: "strip", role: "img", "aria-label": label, title: label },
    ...progress.map((wave) => waveBar(wave)),
    ...Array.from({ length: Math.min(coming, MOST_COMING) }, () => h("span", { class: "strip-wave coming" })),
  );
}

/** @param {Progress} wave */
function waveBar(wave) {
  const bar = h("span", { class: "strip-wave", style: { "flex-grow": Math.max(1, wave.servers) } });
  for (const state of STATES) {
    const number = wave.states[state];
    if (number) bar.append(h("i", { class: `is-${lookOf(state)} at-${state}`, style: { "flex-grow": number } }));
  }
  return bar;
}

/**
 * `2 of 3 waves · 5 of 9 done, 1 failed`.
 * @param {ExecutionLine} execution
 */
export function progressText({ progress, total_waves: total, servers, progress_text: items }) {
  const done = progress.filter(({ status }) => status !== "running").length;
  const waves = total === null ? `${done} of ${progress.length}+ waves` : `${done} of ${total} ${total === 1 ? "wave" : "waves"}`;
  return servers ? `${waves} · ${items}` : `${waves} · no server yet`;
}
