/** `<lw-graph>`: the graph of a `graph_structure` event, with the current status of each node. */

import { beforePaint, fill, find, h, svg } from "./dom.js";
import { Part, define } from "./element.js";
import { durationText } from "./format.js";
import { icon, statusOf } from "./icons.js";
import { BOX, layOutGraph } from "./graph-layout.js";

/** @import { Layout, Path, Placed } from "./graph-layout.js" */
/** @import { RunModel } from "./run-model.js" */
/** @import { Call, Graph, GraphNode } from "./types.js" */
/** @typedef {{status: string, last: Call | null, times: number}} NodeState */

/** @type {NodeState} */
const PENDING = { status: "pending", last: null, times: 0 };

export class GraphView extends Part {
  /** @type {RunModel} */
  model;
  /** Called with the latest call of the node that the user selects. @type {(call: Call) => void} */
  onSelect = () => {};

  /** @type {Graph | null} */
  #graph = null;
  /** @type {Layout | null} */
  #layout = null;
  #draw = beforePaint(() => this.#drawNow());
  /** @type {string | null} */
  #selected = null;
  #space = h("div", {
    class: "graph-space",
    tabindex: "0",
    role: "group",
    "aria-label": "Workflow graph",
  });

  connectedCallback() {
    if (!this.hasChildNodes()) this.append(this.#space);
    this.onDisconnect(this.model.watch(this.#draw));
    this.#draw();
  }

  /** @param {string | null} callId */
  reveal(callId) {
    this.#selected = callId;
    this.#draw();
  }

  #drawNow() {
    const { graph } = this.model;
    if (!graph) return;
    if (graph !== this.#graph) {
      this.#graph = graph;
      this.#layout = layOutGraph(graph);
    }
    const layout = /** @type {Layout} */ (this.#layout);
    const states = nodeStates(graph, this.model.calls());
    const focused = document.activeElement?.getAttribute("data-node");
    fill(
      this.#space,
      svg(
        "svg",
        {
          class: "graph",
          viewBox: `0 0 ${layout.width} ${layout.height}`,
          width: layout.width,
          height: layout.height,
          role: "group",
        },
        svg(
          "defs",
          {},
          svg(
            "marker",
            {
              id: "arrow",
              viewBox: "0 0 8 8",
              refX: 7,
              refY: 4,
              markerWidth: 7,
              markerHeight: 7,
              orient: "auto",
            },
            svg("path", { d: "M0 0.5L7.5 4L0 7.5z", fill: "context-stroke" }),
          ),
        ),
        ...layout.edges.map((edge) => edgeOf(edge, states)),
        ...graph.nodes.map((node) =>
          this.#node(node, layout.nodes.get(node.id), states.get(node.id)),
        ),
      ),
    );
    if (focused) find(this.#space, `[data-node="${CSS.escape(focused)}"]`)?.focus();
  }

  /**
   * @param {GraphNode} node @param {Placed | undefined} place @param {NodeState | undefined} found
   */
  #node(node, place, found) {
    if (!place) return null;
    const { status, last, times } = found ?? PENDING;
    const selected = last !== null && last.call_id === this.#selected;
    const select = () => last && this.onSelect(last);
    const keydown = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      select();
    };
    const took = last && last.duration_ms !== null ? durationText(last.duration_ms) : "";
    const about = [status, took, times > 1 ? `${times} times` : ""].filter(Boolean).join(" · ");
    const mark = icon(statusOf(status));
    for (const [name, value] of Object.entries({ x: "12", y: "14", width: "16", height: "16" }))
      mark.setAttribute(name, value);
    return svg(
      "g",
      {
        class: `node is-${statusOf(status)}${selected ? " selected" : ""}`,
        transform: `translate(${place.x} ${place.y})`,
        role: "button",
        tabindex: 0,
        "aria-label": `${node.name}, ${about}`,
        "aria-disabled": last ? null : "true",
        data: { node: node.id },
        on: { click: select, keydown },
      },
      svg("title", {}, node.role ? `${node.name}: ${node.role}` : node.name),
      svg("rect", { width: BOX.width, height: BOX.height, rx: 8 }),
      mark,
      svg("text", { x: 36, y: 19, class: "node-name" }, truncate(node.name, 16)),
      svg("text", { x: 36, y: 34, class: "node-about" }, truncate(about, 24)),
    );
  }
}

/**
 * The status of each node: that of its latest call, or of the latest span of the agent with its name.
 * @param {Graph} graph @param {Call[]} calls @returns {Map<string, NodeState>}
 */
function nodeStates(graph, calls) {
  /** @type {Map<string, NodeState>} */
  const byName = new Map();
  for (const call of calls) {
    if (call.kind === "tool") continue;
    const times = (byName.get(call.name)?.times ?? 0) + 1;
    byName.set(call.name, { status: call.status, last: call, times });
  }
  return new Map(
    graph.nodes.map(({ id, name }) => [id, byName.get(id) ?? byName.get(name) ?? PENDING]),
  );
}

/** @param {Path} edge @param {Map<string, NodeState>} states */
function edgeOf({ from, to, condition, points }, states) {
  const walked = (states.get(from)?.times ?? 0) > 0 && (states.get(to)?.times ?? 0) > 0;
  const [start, ...rest] = points;
  if (!start) return null;
  let path = `M${start.x} ${start.y}`;
  let before = start;
  for (const point of rest) {
    const bend = (point.x - before.x) / 2;
    path += `C${before.x + bend} ${before.y} ${point.x - bend} ${point.y} ${point.x} ${point.y}`;
    before = point;
  }
  const middle = { x: (start.x + before.x) / 2, y: (start.y + before.y) / 2 };
  return svg(
    "g",
    { class: `edge${walked ? " walked" : ""}` },
    svg("path", { d: path, "marker-end": "url(#arrow)" }),
    condition
      ? svg(
          "text",
          { x: middle.x, y: middle.y - 6, "text-anchor": "middle" },
          truncate(condition, 22),
        )
      : null,
  );
}

/** @param {string} text @param {number} most */
function truncate(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

define("lw-graph", GraphView);
