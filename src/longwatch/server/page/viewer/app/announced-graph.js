/** The graph that a workflow announces. */

/** @import { Graph } from "./types.js" */

/**
 * The graph in a `graph_structure` event, without the parts that are not a graph.
 * @param {Record<string, unknown>} said
 * @returns {Graph | null}
 */
export function graphOf(said) {
  const graph = /** @type {Record<string, unknown>} */ (
    said["graph"] && typeof said["graph"] === "object" ? said["graph"] : said
  );
  const nodes = list(graph["nodes"]).flatMap((node) => {
    const id = text(node["id"]) || text(node["name"]);
    return id ? [{ id, name: text(node["name"]) || id, role: text(node["role"]) }] : [];
  });
  const edges = list(graph["edges"]).flatMap((edge) => {
    const [from, to] = [
      text(edge["from"]) || text(edge["source"]),
      text(edge["to"]) || text(edge["target"]),
    ];
    return from && to ? [{ from, to, condition: text(edge["condition"]) }] : [];
  });
  const unique = [...new Map(nodes.map((node) => [node.id, node])).values()];
  return unique.length ? { nodes: unique, edges } : null;
}

/** @param {unknown} value @returns {Record<string, unknown>[]} */
function list(value) {
  return Array.isArray(value) ? value.filter((each) => each && typeof each === "object") : [];
}

/** @param {unknown} value */
function text(value) {
  return typeof value === "string" ? value : "";
}
