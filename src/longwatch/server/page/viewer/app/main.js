/** Starts the page: theme, keyboard, router, and the view of the URL. */

import { fill, h } from "./dom.js";
import { showConnection, showStale, signedOut } from "./connection.js";
import { followActivity, probeWhileOffline, reconnectNow } from "./client.js";
import { icon } from "./icons.js";
import { addHelp, addHelpLinks } from "./keys.js";
import { currentRoute, startRouter } from "./router.js";
import { commandLine, state } from "./placeholders.js";
import { partOf, startShell } from "./shell.js";
import "./compare-view.js";
import "./executions-list.js";
import "./execution-page.js";
import "./run-page.js";
import "./login.js";
import "./notifications-view.js";
import "./projects-view.js";
import "./runs-list.js";
import "./search-view.js";
import "./session-view.js";

/** @import { Route } from "./router.js" */

/**
 * The element of a view, its section in the navigation, and its title. A new view needs an entry here and in the router.
 * @type {Record<string, {element: string, section: string, title: (route: Route) => string}>}
 */
const VIEWS = {
  runs: { element: "lw-runs", section: "runs", title: () => "Runs" },
  run: { element: "lw-live-run", section: "runs", title: ({ ids }) => ids["run"] ?? "" },
  search: { element: "lw-search", section: "runs", title: () => "Search in events" },
  compare: { element: "lw-compare", section: "runs", title: () => "Compare runs" },
  executions: { element: "lw-executions", section: "executions", title: () => "Executions" },
  execution: {
    element: "lw-live-execution",
    section: "executions",
    title: ({ ids }) => ids["execution"] ?? "",
  },
  notifications: {
    element: "lw-notifications",
    section: "notifications",
    title: () => "Notifications",
  },
  projects: { element: "lw-projects", section: "projects", title: () => "Projects" },
  project: { element: "lw-session", section: "projects", title: ({ ids }) => ids["project"] ?? "" },
  session: { element: "lw-session", section: "projects", title: ({ ids }) => ids["session"] ?? "" },
};

const main = startShell();
addHelpLinks([
  { href: "/openapi.json", text: "OpenAPI", about: "The schema of the HTTP API" },
  {
    href: "/graphql/schema.graphql",
    text: "GraphQL",
    about: "The schema of queries and subscriptions at /graphql",
  },
]);
let shown = "";

fill(partOf("#notifications"), icon("bell"));
addHelp(agentHelp);
showConnection(partOf("#connection"));
showStale(partOf("#offline"), reconnectNow);
probeWhileOffline();
startRouter();
followActivity();
currentRoute.watch(show);
signedOut.watch(() => show(currentRoute.value));

/** How an agent reads these runs: one command to copy. */
function agentHelp() {
  return [
    h("h3", {}, "Connect an agent"),
    h("p", { class: "dim" }, "Agents read these runs over MCP. In Claude Code:"),
    commandLine(`claude mcp add --transport http longwatch ${location.origin}/mcp`),
    h(
      "p",
      { class: "dim" },
      "If the server requires a token, add ",
      h("code", {}, '--header "Authorization: Bearer TOKEN"'),
      ".",
    ),
  ];
}

/** @param {Route} route */
function show(route) {
  const view = VIEWS[route.view];
  const key = signedOut.value ? "login" : `${view?.element} ${Object.values(route.ids).join(" ")}`;
  if (key === shown) return;
  const first = shown === "";
  shown = key;
  for (const link of document.querySelectorAll("nav a, #notifications")) {
    const here = link.getAttribute("href") === `/${view?.section}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = view ? `${view.title(route)} · longwatch` : "longwatch";
  if (signedOut.value) fill(main, h("lw-login"));
  else if (view) fill(main, h(view.element));
  else
    fill(
      main,
      state(
        { symbol: "search", title: "Page not found", text: "Check the URL for typos.", level: 1 },
        h("a", { class: "button", href: "/runs" }, "All runs"),
      ),
    );
  if (!first) {
    scrollTo(0, 0);
    if (!signedOut.value) main.focus({ preventScroll: true }); // the sign-in form focuses its field
  }
}
