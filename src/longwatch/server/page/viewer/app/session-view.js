/** `<lw-session>`: a project with its sessions, the turns of the open session, and its files. */

import { asError, isNotFound } from "../core/errors.js";
import { projectPath } from "../core/routes.js";
import { beforePaint, button, fill, h, moveFocus, setText, updateChildren } from "./dom.js";
import { div, spacer, span } from "./markup.js";
import { Part, define } from "./element.js";
import { countText, dateTimeElement } from "./format.js";
import { icon, statusMark } from "./icons.js";
import { addShortcuts } from "./keys.js";
import { api } from "./client.js";
import { currentRoute, select, sessionPath, setQuery } from "./router.js";
import { SessionModel } from "./session-model.js";
import { failure, loading, missing, state } from "./placeholders.js";
import { toast } from "./toast.js";
import "./files-panel.js";
import { turnCard, updateTurn } from "./turn-card.js";
import { usageText } from "./usage-text.js";

/** @import { Child } from "./dom.js" */
/** @import { Session } from "./types.js" */

const AT_END_PX = 80;
const PANES = /** @type {[string, string][]} */ ([
  ["turns", "Turns"],
  ["files", "Files"],
  ["sessions", "Sessions"],
]);

export class SessionView extends Part {
  #model = new SessionModel("", "");
  #draw = beforePaint(() => this.#drawNow());
  #title = h("h1", { class: "cut", dir: "auto" });
  #usage = h("p", { class: "dim nums session-usage", hidden: true });
  #crumb = h("a", { href: "/projects" }, "Projects");
  #panes = h("div", { class: "panes chips", role: "group", "aria-label": "Part of the project" });
  #sessions = h("ul", { class: "sessions" });
  #turns = h("ol", { class: "turns", "aria-label": "Turns" });
  #foot = h("div");
  #prompt = h("textarea", {
    rows: 2,
    placeholder: "Prompt for a new turn …",
    "aria-label": "Prompt of a new turn",
    on: {
      keydown: (/** @type {KeyboardEvent} */ event) =>
        event.key === "Enter" && (event.metaKey || event.ctrlKey) && void this.#createTurn(event),
    },
  });
  #form = h(
    "form",
    {
      class: "new-turn",
      on: { submit: (/** @type {Event} */ event) => void this.#createTurn(event) },
    },
    this.#prompt,
    div(
      "toolbar",
      span("dim", "Queued until an executor picks it up. A running turn is cancelled."),
      spacer(),
      h("button", { type: "submit", class: "primary" }, "New turn"),
    ),
  );
  #files = h("lw-files");

  connectedCallback() {
    const { project, session } = currentRoute.value.ids;
    this.#model = new SessionModel(project ?? "", session ?? "");
    this.#files.model = this.#model;
    this.#files.onSelect = (path) => select(path ? { file: path } : {});
    this.append(
      div(
        "page-head",
        h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, this.#crumb, " / "),
        this.#title,
      ),
      this.#usage,
      this.#panes,
      div(
        "project-grid",
        pane("Sessions", h("h2", {}, "Sessions"), this.#sessions),
        pane("Turns", this.#turns, this.#foot, this.#form),
        pane("Files", this.#files),
      ),
    );
    this.#model.open();
    this.onDisconnect(
      () => this.#model.close(),
      this.#model.watch(this.#draw),
      currentRoute.watch(this.#draw),
      addShortcuts("Session", [
        {
          keys: ["j", "k"],
          about: "Next turn, previous turn",
          run: (event) => this.#move(event.key === "j" ? 1 : -1),
        },
        { keys: ["n"], about: "New turn", run: () => this.#prompt.focus() },
        {
          keys: ["G"],
          about: "Jump to the latest block",
          run: () => scrollTo(0, document.documentElement.scrollHeight),
        },
      ]),
    );
    void this.#showName(project ?? "");
  }

  /** @param {string} project */
  async #showName(project) {
    this.#title.textContent = project;
    try {
      const { name } = await api.get(projectPath(project));
      if (name) this.#title.textContent = name;
    } catch {
      // The list of sessions shows the error.
    }
  }

  #drawNow() {
    const model = this.#model;
    const shown =
      PANES.find(([name]) => name === currentRoute.value.query.get("pane"))?.[0] ??
      (model.session ? "turns" : "sessions");
    this.dataset["pane"] = shown;
    fill(
      this.#panes,
      ...PANES.map(([name, label]) =>
        button(
          () => setQuery({ pane: name }),
          { class: "chip", "aria-pressed": String(name === shown) },
          label,
        ),
      ),
    );
    this.#usage.hidden = !model.usage;
    setText(this.#usage, model.usage ? usageText(model.usage) : "");
    this.#drawSessions();
    this.#drawTurns();
    this.#files.show(currentRoute.value.selection.get("file"));
  }

  #drawSessions() {
    const { sessions, session: chosen, project } = this.#model;
    if (!sessions) return;
    updateChildren(this.#sessions, sessions, {
      key: (session) =>
        `${session.id} ${session.turn_count} ${session.last_turn?.status} ${session.id === chosen}`,
      make: (session) => sessionRow(project, session, session.id === chosen),
    });
    if (!sessions.length) fill(this.#sessions, h("li", { class: "dim" }, "No sessions yet"));
  }

  #drawTurns() {
    const model = this.#model;
    const page = document.documentElement;
    const atEnd =
      page.scrollTop > 0 && page.scrollTop + innerHeight >= page.scrollHeight - AT_END_PX;
    const turns = model.turns();
    updateChildren(this.#turns, turns, {
      key: (turn) => turn.id,
      make: (turn) => turnCard(turn, (id) => void this.#interrupt(id)),
      update: (card, turn) => updateTurn(card, turn),
    });
    if (atEnd) page.scrollTop = page.scrollHeight;
    this.#form.hidden = !model.session || (!model.caughtUp && !turns.length);
    fill(this.#foot, this.#placeholder(turns.length > 0));
  }

  /** @param {boolean} hasTurns */
  #placeholder(hasTurns) {
    const { error, session, caughtUp, project } = this.#model;
    if (error && !hasTurns) {
      const text = `This server has no project with the ID ${project}.`;
      return isNotFound(error)
        ? missing("project", text, "/projects")
        : failure("This project", error, () => void this.#model.refresh());
    }
    if (!session) return this.#chooseSession();
    if (hasTurns) return null;
    if (!caughtUp) return loading("turns");
    return state({
      symbol: "thought",
      title: "No turns yet",
      text: "Run a command as a turn of this session, or create a turn below.",
      command: `longwatch turn --project ${project} --session ${session} -- COMMAND`,
    });
  }

  #chooseSession() {
    const { sessions, project } = this.#model;
    if (!sessions) return loading("sessions");
    const [latest] = sessions.toSorted((one, other) =>
      one.created_at > other.created_at ? -1 : 1,
    );
    if (!latest)
      return state({
        symbol: "thought",
        title: "No sessions yet",
        text: "A session starts with its first turn.",
        command: `longwatch turn --project ${project} --session first -- COMMAND`,
      });
    const title = countText(sessions.length, "session");
    return state(
      { symbol: "thought", title, text: "Choose a session to see its turns." },
      h("a", { class: "button", href: sessionPath(project, latest.id) }, "Open latest session"),
    );
  }

  /** @param {string} turnId */
  async #interrupt(turnId) {
    try {
      await this.#model.interrupt(turnId);
    } catch (error) {
      toast(`The turn was not interrupted: ${asError(error).message}`);
    }
  }

  /** @param {Event} event */
  async #createTurn(event) {
    event.preventDefault();
    const prompt = this.#prompt.value.trim();
    if (!prompt) return;
    this.#prompt.value = "";
    try {
      await this.#model.createTurn(prompt);
    } catch (error) {
      this.#prompt.value ||= prompt;
      toast(`The turn was not created: ${asError(error).message}`);
    }
  }

  /** @param {number} step */
  #move(step) {
    moveFocus(this.#turns.children, step)?.scrollIntoView({ block: "start" });
  }
}

/** @param {string} label @param {...Child} children */
function pane(label, ...children) {
  const props = { class: `pane-${label.toLowerCase()}`, "aria-label": label };
  return h("section", props, ...children);
}

/** @param {string} project @param {Session} session @param {boolean} chosen */
function sessionRow(project, session, chosen) {
  const made = Date.parse(session.created_at);
  return h(
    "li",
    {},
    h(
      "a",
      { href: sessionPath(project, session.id), "aria-current": chosen ? "true" : null },
      session.last_turn ? statusMark(session.last_turn.status, { quiet: true }) : icon("pending"),
      span("cut", session.title || session.id),
      span("dim", countText(session.turn_count, "turn"), " · ", dateTimeElement(made)),
    ),
  );
}

define("lw-session", SessionView);
