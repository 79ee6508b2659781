/**
 * `<lw-projects>`: the projects that sessions and files belong to.
 */

import { fill, h } from "./dom.js";
import { Part, define } from "./element.js";
import { moment, timeElement } from "./format.js";
import { icon } from "./icons.js";
import { offerKeys } from "./keys.js";
import { api } from "./live.js";
import { projectPath } from "./router.js";
import { failure, loading, state } from "./states.js";

/** @typedef {import("./types.js").Project} Project */

export class ProjectsView extends Part {
  #list = h("ul", { class: "runs projects", "aria-label": "Projects" });
  #foot = h("div", {}, loading("projects", 5));

  connectedCallback() {
    this.append(h("div", { class: "page-head" }, h("h1", {}, "Projects")), this.#list, this.#foot);
    const seen = () => document.visibilityState === "visible" && void this.#load();
    document.addEventListener("visibilitychange", seen);
    this.whenGone(() => document.removeEventListener("visibilitychange", seen));
    this.whenGone(
      offerKeys("Projects", [
        { keys: ["j", "ArrowDown"], about: "Next project", run: () => this.#move(1) },
        { keys: ["k", "ArrowUp"], about: "Project before", run: () => this.#move(-1) },
      ]),
    );
    void this.#load();
  }

  async #load() {
    try {
      const { projects } = await api.get("/api/projects");
      fill(this.#list, ...projects.map(row));
      fill(this.#foot, projects.length ? null : state({ symbol: "folder", title: "No projects yet", text: "A project holds sessions, their turns and files. Running a command as a turn makes one.", command: "longwatch turn --project notes --session first -- COMMAND" }));
    } catch (error) {
      fill(this.#foot, failure("The list of projects", error, () => void this.#load()));
    }
  }

  /** @param {number} step */
  #move(step) {
    const links = [...this.#list.querySelectorAll("a")];
    const at = links.indexOf(/** @type {HTMLAnchorElement} */ (document.activeElement));
    links[at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + step))]?.focus();
  }
}

/** @param {Project} project */
function row(project) {
  const made = Date.parse(project.created_at);
  return h(
    "li",
    {},
    h("a", { class: "project-row", href: projectPath(project.id) }, icon("folder"), h("span", { class: "run-name cut" }, project.name || project.id), h("code", { class: "dim cut" }, project.id), h("span", { class: "spread" }), h("span", { class: "dim" }, "since ", timeElement(made, moment(made, Date.now())))),
  );
}

define("lw-projects", ProjectsView);
