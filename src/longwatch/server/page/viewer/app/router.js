/**
 * Maps URLs to views, and goes from one view to another without reloading the page.
 *
 * The path names the view, the query holds its filters, and the hash what is selected. A new view is one more line in
 * `ROUTES`.
 */

import { Observable } from "./observable.js";

/**
 * @typedef {object} Route
 * @property {string} view
 * @property {Record<string, string>} ids in the path
 * @property {URLSearchParams} query
 * @property {URLSearchParams} selection
 */

/** @type {[RegExp, string, string[]][]} pattern of the path, view, names of its groups */
const ROUTES = [
  [/^\/(?:runs\/?)?$/, "runs", []],
  [/^\/runs\/([^/]+)\/?$/, "run", ["run"]],
  [/^\/search\/?$/, "search", []],
  [/^\/compare\/?$/, "compare", []],
  [/^\/executions\/?$/, "executions", []],
  [/^\/executions\/([^/]+)\/?$/, "execution", ["execution"]],
  [/^\/executions\/([^/]+)\/([^/]+)\/?$/, "execution", ["plan", "execution"]],
  [/^\/notifications\/?$/, "notifications", []],
  [/^\/projects\/?$/, "projects", []],
  [/^\/projects\/([^/]+)\/?$/, "project", ["project"]],
  [/^\/projects\/([^/]+)\/sessions\/([^/]+)\/?$/, "session", ["project", "session"]],
];

/** @param {{pathname: string, search: string, hash: string}} address @returns {Route} */
export function routeOf({ pathname, search, hash }) {
  const query = new URLSearchParams(search);
  const selection = new URLSearchParams(hash.replace(/^#/, ""));
  for (const [pattern, view, names] of ROUTES) {
    const found = pattern.exec(pathname);
    if (!found) continue;
    try {
      const ids = Object.fromEntries(
        names.map((name, at) => [name, decodeURIComponent(found[at + 1] ?? "")]),
      );
      return { view, ids, query, selection };
    } catch {
      break; // an invalid percent escape
    }
  }
  return { view: "missing", ids: {}, query, selection };
}

/** @param {string} runId */
export const runPath = (runId) => `/runs/${encodeURIComponent(runId)}`;

/** @param {{plan_id: string, execution_id: string}} execution */
export const executionPath = ({ plan_id: plan, execution_id: id }) =>
  `/executions/${encodeURIComponent(plan)}/${encodeURIComponent(id)}`;

/**
 * The board of the execution of a run. The run id is `plan/execution`, or the execution id in older runs.
 * @param {string} runId
 */
export const boardPath = (runId) => `/executions/${encodeURIComponent(runId)}`;

/**
 * The main view of a run: for an execution its board, which links to the log.
 * @param {{run_id: string, kind: string}} run
 */
export const pathOf = (run) =>
  run.kind === "execution" ? boardPath(run.run_id) : runPath(run.run_id);

/** The search in events. @param {string} q */
export const searchPath = (q) => (q ? `/search?${new URLSearchParams({ q })}` : "/search");

/** The list of the runs that a query selects. @param {string} q */
export const queryPath = (q) => `/runs?${new URLSearchParams({ q })}`;

/** A run beside the one of its name before. @param {string} runId */
export const comparePath = (runId) => `/compare?${new URLSearchParams({ b: runId })}`;

/** @param {string} project */
export const projectPath = (project) => `/projects/${encodeURIComponent(project)}`;

/** @param {string} project @param {string} session */
export const sessionPath = (project, session) =>
  `${projectPath(project)}/sessions/${encodeURIComponent(session)}`;

export const currentRoute = new Observable(routeOf(location));

/** Go to another view, as a click on a link does. @param {string} path */
export function go(path) {
  history.pushState(null, "", path);
  currentRoute.set(routeOf(location));
}

/**
 * Change filters in the URL. A choice is a new history entry, so that Back undoes it; a text that is being typed
 * replaces the entry.
 * @param {Record<string, string | null>} changes @param {{replace?: boolean}} [how]
 */
export function setQuery(changes, how) {
  change({ query: changes }, how);
}

/**
 * Set the selection, in the hash of the URL so that a link includes it. A new history entry, so that Back closes the
 * details; moving from row to row replaces it.
 * @param {Record<string, string>} selection @param {{replace?: boolean}} [how]
 */
export function select(selection, how) {
  change({ selection }, how);
}

/**
 * Change filters and the selection in one step.
 * @param {{query?: Record<string, string | null>, selection?: Record<string, string>}} changes
 * @param {{replace?: boolean}} [how]
 */
export function change({ query = {}, selection }, { replace = false } = {}) {
  const url = new URL(currentUrl());
  for (const [name, value] of Object.entries(query)) {
    if (value) url.searchParams.set(name, value);
    else url.searchParams.delete(name);
  }
  if (selection) url.hash = new URLSearchParams(selection).toString();
  if (url.href !== currentUrl()) enter(url, replace);
}

/** @type {string | null} a URL that the browser rejected: some do not allow changing that of a file */
let rejected = null;

function currentUrl() {
  return rejected ?? location.href;
}

/** @param {URL} url @param {boolean} replaces the current history entry */
function enter(url, replaces) {
  try {
    if (replaces) history.replaceState(history.state, "", url);
    else history.pushState(null, "", url);
    rejected = null;
  } catch {
    rejected = url.href;
  }
  currentRoute.set(routeOf(url));
}

/** Follow the back and forward buttons, and edits of the URL. */
export function watchUrl() {
  addEventListener("popstate", () => currentRoute.set(routeOf(location)));
  addEventListener("hashchange", () => currentRoute.set(routeOf(location)));
}

/** The same, and handle clicks on links of this page. */
export function startRouter() {
  watchUrl();
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin)
      return;
    if (routeOf(link).view === "missing") return;
    event.preventDefault();
    go(link.pathname + link.search + link.hash);
  });
}
