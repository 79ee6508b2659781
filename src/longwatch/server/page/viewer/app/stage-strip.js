/** The stages of an execution as a strip: the width shows the number of items, the colours their states. */

import { h } from "./dom.js";
import { span } from "./markup.js";
import { termsOf } from "./execution-text.js";
import { countText } from "./format.js";
import { STATES, statesText, statusOfState } from "./item-states.js";

/** @import { ExecutionLine, Progress } from "./types.js" */

const MOST_COMING = 20; // future stages that are drawn; the label has the number of all

/** @param {ExecutionLine} execution @returns {HTMLElement} */
export function stageStrip({ progress, total_waves: total, source }) {
  const terms = termsOf(source);
  const coming = Math.max(0, (total ?? progress.length) - progress.length);
  const stages = progress.map((stage) => `${stage.name}: ${statesText(stage.states, terms)}`);
  const label =
    [...stages, ...(coming ? [`${coming} more to come`] : [])].join("; ") ||
    `no ${terms.stage} yet`;
  return h(
    "span",
    { class: "strip", role: "img", "aria-label": label, title: label },
    ...progress.map((stage) => stageBar(stage)),
    ...Array.from({ length: Math.min(coming, MOST_COMING) }, () => span("strip-stage coming")),
  );
}

/** @param {Progress} stage */
function stageBar({ servers: items, states }) {
  const bar = h("span", { class: "strip-stage", style: { "flex-grow": Math.max(1, items) } });
  for (const state of STATES) {
    const number = states[state];
    if (number)
      bar.append(
        h("i", { class: `is-${statusOfState(state)} at-${state}`, style: { "flex-grow": number } }),
      );
  }
  return bar;
}

/** `2 of 3 waves · 5 of 9 done, 1 failed`. @param {ExecutionLine} execution */
export function progressText({
  progress,
  total_waves: total,
  servers: items,
  progress_text: text,
  source,
}) {
  const terms = termsOf(source);
  const done = progress.filter(({ status }) => status !== "running").length;
  const all =
    total === null ? `${progress.length}+ ${terms.stage}s` : countText(total, terms.stage);
  return `${done} of ${all} · ${items ? text : `no ${terms.item} yet`}`;
}
