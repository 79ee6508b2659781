/** `<lw-projects>`: the list of projects. */

import { fill, h, moveFocus } from "./dom.js";
import { code, div, spacer, span } from "./markup.js";
import { Part, define } from "./element.js";
import { dateTimeElement } from "./format.js";
import { icon } from "./icons.js";
import { addShortcuts, moveShortcuts } from "./keys.js";
import { api, follow } from "./client.js";
import { projectPath } from "./router.js";
import { failure, loading, state } from "./placeholders.js";
import { whenVisible } from "./ticker.js";

/** @import { Project } from "./types.js" */

export class ProjectsView extends Part {
  #list = h("ul", { class: "runs projects", "aria-label": "Projects" });
  #foot = h("div", {}, loading("projects", 5));
  /** @type {Set<string> | null} ids of the listed projects */
  #ids = null;
  /** @type {Set<string>} ids that the feed reported since the last request */
  #reported = new Set();

  connectedCallback() {
    this.append(div("page-head", h("h1", {}, "Projects")), this.#list, this.#foot);
    this.onDisconnect(
      whenVisible(() => void this.#load()),
      follow("projects", { onMessage: (message) => this.#onMessage(message) }),
      addShortcuts(
        "Projects",
        moveShortcuts("project", (step) => moveFocus(this.#list.querySelectorAll("a"), step)),
      ),
    );
    void this.#load();
  }

  /** Reload the list when a new project is reported. @param {{event: string, data: any}} message */
  #onMessage({ event, data }) {
    if (event !== "project") return;
    this.#reported.add(data.project.id);
    this.#loadIfMissing();
  }

  #loadIfMissing() {
    const listed = this.#ids;
    if (listed && [...this.#reported].some((id) => !listed.has(id))) void this.#load();
  }

  async #load() {
    this.#reported.clear();
    try {
      const { projects } = await api.get("/api/projects");
      this.#ids = new Set(projects.map((/** @type {Project} */ project) => project.id));
      fill(this.#list, ...projects.map(row));
      fill(
        this.#foot,
        projects.length
          ? null
          : state({
              symbol: "folder",
              title: "No projects yet",
              text: "A project has sessions, their turns, and files. Running a command as a turn creates one.",
              command: "longwatch turn --project notes --session first -- COMMAND",
            }),
      );
      this.#loadIfMissing(); // the response may be older than a report
    } catch (error) {
      fill(
        this.#foot,
        failure("The list of projects", error, () => void this.#load()),
      );
    }
  }
}

/** @param {Project} project */
function row(project) {
  const made = Date.parse(project.created_at);
  return h(
    "li",
    {},
    h(
      "a",
      { class: "project-row", href: projectPath(project.id) },
      icon("folder"),
      span("run-name cut", project.name || project.id),
      code("dim cut", project.id),
      spacer(),
      span("created dim", "created ", dateTimeElement(made)),
    ),
  );
}

define("lw-projects", ProjectsView);
