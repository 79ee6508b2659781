/** The filter of the timeline. It has the same fields as that of the log, and shares them in the URL. */

import { searchWords } from "./highlight.js";

/** @import { Call } from "./types.js" */
/** @typedef {{agent: string, errors: boolean, text: string}} TimelineFilter */

/**
 * Null without a filter. The text is searched in the name, the agent, the error and the previews.
 * @param {TimelineFilter} filter @returns {((call: Call) => boolean) | null}
 */
export function callMatcher({ agent, errors, text }) {
  const words = searchWords(text);
  if (!agent && !errors && !words.length) return null;
  return (call) => {
    if (agent && agentOf(call) !== agent) return false;
    if (errors && call.status !== "failed") return false;
    if (!words.length) return true;
    const { call_id, kind, name, agent_name, error, input_preview, output_preview } = call;
    const searched = [call_id, kind, name, agent_name, error, input_preview, output_preview]
      .join(" ")
      .toLowerCase();
    return words.every((word) => searched.includes(word));
  };
}

/** @param {Call} call */
function agentOf({ kind, name, agent_name }) {
  return agent_name ?? (kind === "agent" ? name : null);
}
