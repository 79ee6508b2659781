/** The controls above a timeline. They only report what the user chooses; `show` displays the state. */

import { button, fill, h, setText } from "./dom.js";
import { numberText } from "./format.js";
import { iconButton } from "./icons.js";
import { SearchField } from "./list-filters.js";
import { div, span } from "./markup.js";
import { EVERY_LEVEL } from "./open-rows.js";

/** @import { TimelineFilter } from "./timeline-filter.js" */

const MOST_LEVELS = 6; // that the list of levels offers

/**
 * @typedef {object} Actions
 * @property {(change: Partial<TimelineFilter>) => void} onFilter
 * @property {(levels: number) => void} onLevels
 * @property {(agent: string) => void} onAgent closes or opens the spans of an agent
 * @property {() => void} onFold
 * @property {() => void} onPath
 * @property {(step: 1 | -1) => void} onFailure
 * @property {() => void} onLongest
 * @property {(isIn: boolean) => void} onZoom
 * @property {() => void} onFit
 * @property {() => void} onFollow
 *
 * @typedef {object} ToolbarState
 * @property {TimelineFilter} filter
 * @property {ReadonlyMap<string, boolean>} agents name → whether its spans are closed
 * @property {number} levels
 * @property {number} allLevels
 * @property {boolean} folds
 * @property {boolean} showsPath
 * @property {number} failures
 * @property {number} failure the selected one, from 1; 0 for none
 * @property {boolean} isLive
 * @property {boolean} follows
 * @property {string} text
 */

export class TimelineToolbar {
  #search;
  #agent;
  #errors;
  #levels;
  #fold;
  #path;
  #jumps;
  #failures = span("dim nums jump-count");
  #follow;
  /** What is in view, to be placed elsewhere. */
  text = h("div", { class: "timeline-text nums", role: "status" });

  /** @type {ReadonlyMap<string, boolean> | null} that the list of levels offers */
  #agents = null;

  /** @param {Actions} actions */
  constructor(actions) {
    this.#search = new SearchField("Search calls", "Search calls", (text) =>
      actions.onFilter({ text }),
    );
    this.#agent = h("select", {
      "aria-label": "Agent",
      on: { change: () => actions.onFilter({ agent: this.#agent.value }) },
    });
    this.#errors = chip("Errors only", "Failed calls only (e)", () =>
      actions.onFilter({ errors: this.#errors.getAttribute("aria-pressed") !== "true" }),
    );
    this.#levels = h("select", {
      "aria-label": "Levels",
      title: "Fewer levels ([), more levels (])",
      on: {
        change: () => {
          const [what, value = ""] = this.#levels.value.split(/:(.*)/s);
          if (what === "agent") actions.onAgent(value);
          else actions.onLevels(value ? Number(value) : EVERY_LEVEL);
        },
      },
    });
    this.#fold = chip("Fold repeats", "Show repeated calls as one row (r)", actions.onFold);
    this.#path = chip(
      "Critical path",
      "Highlight the calls that determine the duration (c)",
      actions.onPath,
    );
    this.#jumps = div(
      "jumps",
      iconButton("previous", "Previous failure (N)", () => actions.onFailure(-1), ""),
      this.#failures,
      iconButton("next", "Next failure (n)", () => actions.onFailure(1), ""),
    );
    this.#follow = chip("Follow", "Stay at the newest call (G)", actions.onFollow);
    this.#follow.classList.add("follow");
    this.element = div(
      "toolbar",
      this.#search.element,
      div(
        "timeline-controls",
        this.#follow,
        this.#agent,
        this.#errors,
        this.#levels,
        this.#fold,
        this.#path,
        this.#jumps,
        iconButton("longest", "Longest call (l)", actions.onLongest, ""),
        div(
          "zoom",
          iconButton("plus", "Zoom in (+)", () => actions.onZoom(true), ""),
          iconButton("minus", "Zoom out (−)", () => actions.onZoom(false), ""),
          iconButton("fit", "Fit (0)", actions.onFit, ""),
        ),
      ),
    );
  }

  focusSearch() {
    this.#search.focus();
  }

  /** @param {ToolbarState} state */
  show(state) {
    const { filter, failures, failure } = state;
    this.#search.show(filter.text);
    press(this.#errors, filter.errors);
    press(this.#fold, state.folds);
    press(this.#path, state.showsPath);
    press(this.#follow, state.follows);
    this.#follow.hidden = !state.isLive;
    this.#jumps.hidden = !failures;
    const of = numberText(failures);
    setText(this.#failures, failure ? `${numberText(failure)} of ${of} failed` : `${of} failed`);
    setText(this.text, state.text);
    this.#showLevels(state);
  }

  /** @param {ToolbarState} state */
  #showLevels({ filter, agents, levels, allLevels }) {
    const most = Math.min(allLevels, MOST_LEVELS);
    if (agents !== this.#agents) {
      this.#agents = agents;
      fill(this.#agent, h("option", { value: "" }, "All agents"), ...agentOptions(agents, filter));
      fill(this.#levels, ...levelOptions(most), closeOptions(agents));
    }
    choose(this.#agent, filter.agent);
    choose(this.#levels, `levels:${levels >= most ? "" : levels}`);
  }
}

/** @param {ReadonlyMap<string, boolean>} agents @param {TimelineFilter} filter */
function agentOptions(agents, { agent }) {
  const names = [...agents.keys()];
  if (agent && !agents.has(agent)) names.push(agent);
  return names.map((name) => h("option", { value: name }, name));
}

/** @param {number} most */
function levelOptions(most) {
  const fewer = Array.from({ length: Math.max(0, most - 1) }, (_, at) =>
    h("option", { value: `levels:${at + 1}` }, at ? `${at + 1} levels` : "Collapse all"),
  );
  return [h("option", { value: "levels:" }, "All levels"), ...fewer];
}

/** @param {ReadonlyMap<string, boolean>} agents */
function closeOptions(agents) {
  if (!agents.size) return null;
  const options = [...agents].map(([agent, isClosed]) =>
    h("option", { value: `agent:${agent}` }, `${isClosed ? "Open" : "Close"} ${agent}`),
  );
  return h("optgroup", { label: "Agents" }, ...options);
}

/** @param {HTMLSelectElement} field @param {string} value */
function choose(field, value) {
  if (field.value !== value) field.value = value;
}

/** @param {string} label @param {string} title @param {() => void} click */
function chip(label, title, click) {
  return button(click, { class: "chip", title, "aria-pressed": "false" }, label);
}

/** @param {HTMLElement} element @param {boolean} isPressed */
function press(element, isPressed) {
  element.setAttribute("aria-pressed", String(isPressed));
}
