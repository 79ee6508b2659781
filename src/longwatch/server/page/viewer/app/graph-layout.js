/**
 * The layout of a workflow graph: layers from left to right with few crossings.
 *
 * Edges that would close a cycle are reversed for the layout. Every node is one layer after its furthest predecessor; an
 * edge over several layers passes through empty slots, so that it runs around boxes. Each layer is sorted by the mean
 * position of its neighbours, in a few sweeps forward and back.
 */

import { addTo } from "../core/groups.js";

/** @import { Graph } from "./types.js" */
/** @typedef {{id: string, x: number, y: number, layer: number}} Placed */
/** @typedef {{from: string, to: string, condition: string, points: {x: number, y: number}[]}} Path */
/** @typedef {{nodes: Map<string, Placed>, edges: Path[], width: number, height: number}} Layout */

export const BOX = { width: 168, height: 44 };
const GAP = { x: 64, y: 22 };
const EDGE = 14;
const SWEEPS = 6;

/** @param {Graph} graph @returns {Layout} */
export function layOutGraph(graph) {
  const ids = graph.nodes.map((node) => node.id);
  const nodeIds = new Set(ids);
  const edges = graph.edges.filter(
    (edge) => nodeIds.has(edge.from) && nodeIds.has(edge.to) && edge.from !== edge.to,
  );
  const forward = breakCycles(ids, edges);
  const layerOf = layersOf(ids, forward);
  const { layers, links, chains } = addPassages(ids, forward, layerOf);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) sortLayers(layers, links, sweep % 2 === 0);
  return placeNodes(layers, edges, chains, nodeIds);
}

/**
 * The edges, with those reversed that lead back to an ancestor.
 * @param {string[]} ids @param {{from: string, to: string}[]} edges
 */
function breakCycles(ids, edges) {
  const out = groupBySource(edges);
  /** @type {Map<string, "open" | "done">} */
  const seen = new Map();
  /** @type {{from: string, to: string, index: number}[]} */
  const forward = [];
  for (const root of ids) {
    if (seen.has(root)) continue;
    // An explicit stack: a chain of 10,000 nodes would exhaust the call stack.
    const stack = [{ id: root, next: 0 }];
    seen.set(root, "open");
    while (stack.length) {
      const top = /** @type {{id: string, next: number}} */ (stack[stack.length - 1]);
      const index = out.get(top.id)?.[top.next];
      if (index === undefined) {
        seen.set(top.id, "done");
        stack.pop();
        continue;
      }
      top.next += 1;
      const { from, to } = /** @type {{from: string, to: string}} */ (edges[index]);
      if (seen.get(to) === "open") {
        forward.push({ from: to, to: from, index });
        continue;
      }
      forward.push({ from, to, index });
      if (!seen.has(to)) {
        seen.set(to, "open");
        stack.push({ id: to, next: 0 });
      }
    }
  }
  return forward;
}

/** @param {{from: string}[]} edges */
function groupBySource(edges) {
  /** @type {Map<string, number[]>} */
  const out = new Map();
  edges.forEach((edge, index) => addTo(out, edge.from, index));
  return out;
}

/**
 * The layer of each node: one after its furthest predecessor.
 * @param {string[]} ids @param {{from: string, to: string}[]} edges
 */
function layersOf(ids, edges) {
  const layer = new Map(ids.map((id) => [id, 0]));
  const waiting = new Map(ids.map((id) => [id, 0]));
  for (const { to } of edges) waiting.set(to, (waiting.get(to) ?? 0) + 1);
  const out = groupBySource(edges);
  const ready = ids.filter((id) => waiting.get(id) === 0);
  for (let at = 0; at < ready.length; at += 1) {
    const id = /** @type {string} */ (ready[at]);
    for (const index of out.get(id) ?? []) {
      const { to } = /** @type {{to: string}} */ (edges[index]);
      layer.set(to, Math.max(layer.get(to) ?? 0, (layer.get(id) ?? 0) + 1));
      const left = (waiting.get(to) ?? 0) - 1;
      waiting.set(to, left);
      if (left === 0) ready.push(to);
    }
  }
  return layer;
}

/**
 * Layers with a passage wherever an edge crosses one.
 * @param {string[]} ids @param {{from: string, to: string, index: number}[]} edges
 * @param {Map<string, number>} layerOf
 */
function addPassages(ids, edges, layerOf) {
  /** @type {string[][]} */
  const layers = [];
  const put = (/** @type {number} */ layer, /** @type {string} */ id) => {
    (layers[layer] ??= []).push(id);
  };
  for (const id of ids) put(layerOf.get(id) ?? 0, id);
  /** @type {[string, string][]} */
  const links = [];
  /** @type {Map<number, string[]>} */
  const chains = new Map();
  for (const { from, to, index } of edges) {
    const chain = [from];
    for (let layer = (layerOf.get(from) ?? 0) + 1; layer < (layerOf.get(to) ?? 0); layer += 1) {
      const passage = `\u0000${index}/${layer}`;
      put(layer, passage);
      chain.push(passage);
    }
    chain.push(to);
    for (let at = 1; at < chain.length; at += 1) links.push([chain[at - 1] ?? "", chain[at] ?? ""]);
    chains.set(index, chain);
  }
  return { layers, links, chains };
}

/**
 * Sort each layer by the mean position of its neighbours in the layer before, or after.
 * @param {string[][]} layers @param {[string, string][]} links @param {boolean} down
 */
function sortLayers(layers, links, down) {
  /** @type {Map<string, string[]>} */
  const near = new Map();
  for (const [from, to] of links) {
    if (down) addTo(near, to, from);
    else addTo(near, from, to);
  }
  const sequence = down ? layers : [...layers].reverse();
  const position = new Map((sequence[0] ?? []).map((id, at) => [id, at]));
  for (const layer of sequence.slice(1)) {
    const mean = new Map(
      layer.map((id, at) => {
        const found = (near.get(id) ?? []).map((other) => position.get(other) ?? at);
        return [id, found.length ? found.reduce((sum, each) => sum + each, 0) / found.length : at];
      }),
    );
    layer.sort((one, other) => (mean.get(one) ?? 0) - (mean.get(other) ?? 0));
    layer.forEach((id, at) => position.set(id, at));
  }
}

/**
 * Coordinates: layers side by side, each centred; edges through their passages.
 * @param {string[][]} layers @param {Graph["edges"]} edges @param {Map<number, string[]>} chains
 * @param {Set<string>} nodeIds @returns {Layout}
 */
function placeNodes(layers, edges, chains, nodeIds) {
  const tallest = Math.max(1, ...layers.map((layer) => layer.length));
  const height = tallest * (BOX.height + GAP.y) - GAP.y + 2 * EDGE;
  const width = layers.length * (BOX.width + GAP.x) - GAP.x + 2 * EDGE;
  /** @type {Map<string, Placed>} */
  const at = new Map();
  layers.forEach((layer, column) => {
    const used = layer.length * (BOX.height + GAP.y) - GAP.y;
    layer.forEach((id, row) => {
      at.set(id, {
        id,
        layer: column,
        x: EDGE + column * (BOX.width + GAP.x),
        y: (height - used) / 2 + row * (BOX.height + GAP.y),
      });
    });
  });
  const paths = edges.map((edge, index) => {
    const chain = chains.get(index) ?? [edge.from, edge.to];
    const isReversed = chain[0] !== edge.from;
    const points = chain.flatMap((id) => {
      const box = at.get(id) ?? { x: 0, y: 0 };
      const middle = box.y + BOX.height / 2;
      if (id === chain[0]) return [{ x: box.x + BOX.width, y: middle }];
      if (id === chain[chain.length - 1]) return [{ x: box.x, y: middle }];
      return [
        { x: box.x, y: middle },
        { x: box.x + BOX.width, y: middle },
      ];
    });
    return { ...edge, points: isReversed ? points.reverse() : points };
  });
  const nodes = new Map([...at].filter(([id]) => nodeIds.has(id)));
  return { nodes, edges: paths, width, height };
}

/**
 * The graph in the payload of a `graph_structure` event; malformed nodes and edges are left out.
 * @param {Record<string, unknown>} payload @returns {Graph | null}
 */
export function graphOf(payload) {
  const graph = /** @type {Record<string, unknown>} */ (
    payload["graph"] && typeof payload["graph"] === "object" ? payload["graph"] : payload
  );
  const nodes = objects(graph["nodes"]).flatMap((node) => {
    const id = text(node["id"]) || text(node["name"]);
    return id ? [{ id, name: text(node["name"]) || id, role: text(node["role"]) }] : [];
  });
  const edges = objects(graph["edges"]).flatMap((edge) => {
    const from = text(edge["from"]) || text(edge["source"]);
    const to = text(edge["to"]) || text(edge["target"]);
    return from && to ? [{ from, to, condition: text(edge["condition"]) }] : [];
  });
  const unique = [...new Map(nodes.map((node) => [node.id, node])).values()];
  return unique.length ? { nodes: unique, edges } : null;
}

/** @param {unknown} value @returns {Record<string, unknown>[]} */
function objects(value) {
  return Array.isArray(value) ? value.filter((each) => each && typeof each === "object") : [];
}

/** @param {unknown} value */
function text(value) {
  return typeof value === "string" ? value : "";
}
