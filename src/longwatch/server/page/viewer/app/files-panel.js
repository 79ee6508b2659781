/** `<lw-files>`: the files of a project as a live tree, and the text of the selected file. */

import { contentPath } from "../core/routes.js";
import { button, fill, find, h } from "./dom.js";
import { div, p, spacer, span } from "./markup.js";
import { Part, define } from "./element.js";
import { countText, dateTimeElement, sizeText } from "./format.js";
import { icon, iconButton } from "./icons.js";
import { changedLines, treeOf } from "./file-tree.js";
import { api } from "./client.js";
import { failure, loading, state } from "./placeholders.js";

/** @import { Child } from "./dom.js" */
/** @import { Folder } from "./file-tree.js" */
/** @import { SessionModel } from "./session-model.js" */
/** @import { FileEntry } from "./types.js" */

const LONGEST_TEXT = 400_000; // characters; a longer file is offered as a download
const MOST_LINES = 5000;

export class FilesPanel extends Part {
  /** @type {SessionModel} */
  model;
  /** Called with the selected path, or null to close the file. @type {(path: string | null) => void} */
  onSelect = () => {};

  #tree = div("file-tree");
  #reader = h("div", { class: "file-reader", hidden: true });
  /** @type {Set<string>} */
  #closed = new Set();
  #drawn = "";
  /** @type {{path: string, version: number, text: string | null} | null} */
  #open = null;
  #requests = 0;

  connectedCallback() {
    if (!this.hasChildNodes()) this.append(h("h2", {}, "Files"), this.#tree, this.#reader);
  }

  /** Draw the files of the model, with this file open. @param {string | null} path */
  show(path) {
    const { model } = this;
    const files = [...model.files.values()].map(({ path: name, version }) => `${name}@${version}`);
    const state = [path, model.filesCaughtUp, files, model.changed.size, [...this.#closed]];
    const drawn = state.join(" ");
    if (drawn !== this.#drawn) {
      this.#drawn = drawn;
      this.#drawTree(path);
    }
    void this.#read(path);
  }

  /** @param {string | null} selected */
  #drawTree(selected) {
    const { files, filesCaughtUp, changed, project } = this.model;
    if (!files.size) {
      fill(
        this.#tree,
        filesCaughtUp
          ? state({
              symbol: "file",
              title: "No files yet",
              text: "Files of the project appear here when they are written.",
              command: `curl -T notes.md ${location.origin}/api/projects/${project}/content/notes.md`,
            })
          : loading("files", 4),
      );
      return;
    }
    const focused = document.activeElement?.getAttribute("data-path");
    fill(this.#tree, this.#folder(treeOf(files.values()), selected, changed));
    if (focused) find(this.#tree, `[data-path="${CSS.escape(focused)}"]`)?.focus();
  }

  /**
   * @param {Folder} folder @param {string | null} selected @param {Set<string>} changed
   * @returns {HTMLElement}
   */
  #folder(folder, selected, changed) {
    return h(
      "ul",
      {},
      ...folder.folders.map((each) => {
        const details = h(
          "details",
          { open: !this.#closed.has(each.path) },
          h("summary", { data: { path: each.path } }, icon("folder"), span("cut", each.name)),
          this.#folder(each, selected, changed),
        );
        details.addEventListener("toggle", () => {
          if (details.open) this.#closed.delete(each.path);
          else this.#closed.add(each.path);
        });
        return h("li", {}, details);
      }),
      ...folder.files.map(({ name, entry }) =>
        h(
          "li",
          {},
          button(
            () => this.onSelect(entry.path === selected ? null : entry.path),
            {
              class: "file quiet",
              data: { path: entry.path },
              "aria-pressed": String(entry.path === selected),
              title: entry.path,
            },
            icon("file"),
            span("cut", name),
            changed.has(entry.path)
              ? span("tag warn", entry.version === 1 ? "new" : "changed")
              : null,
            span("dim nums size", sizeText(entry.size)),
          ),
        ),
      ),
    );
  }

  /** @param {string | null} path */
  async #read(path) {
    const entry = path ? this.model.files.get(path) : undefined;
    const show = (/** @type {Child} */ content) =>
      fill(this.#reader, this.#head(path ?? "", entry), content);
    if (!entry) {
      const isMissing = path && this.model.filesCaughtUp;
      this.#reader.hidden = !isMissing;
      if (isMissing) show(p("dim", "This file does not exist, or was deleted."));
      this.#open = null;
      return;
    }
    const before = this.#open;
    if (before?.path === entry.path && before.version >= entry.version) return;
    const same = before?.path === entry.path;
    this.#open = { path: entry.path, version: entry.version, text: same ? before.text : null };
    this.#reader.hidden = false;
    this.#requests += 1;
    const request = this.#requests;
    if (!same) show(loading("file", 5));
    try {
      const text = await this.#text(entry);
      if (request !== this.#requests) return;
      const changed =
        same && before.text !== null && text !== null ? changedLines(before.text, text) : null;
      this.#open = { path: entry.path, version: entry.version, text };
      show(text === null ? this.#notText(entry) : lines(text, changed));
    } catch (error) {
      if (request !== this.#requests) return;
      this.#open = null;
      show(failure("This file", error, () => void this.#read(path)));
    }
  }

  /** @param {FileEntry} entry @returns {Promise<string | null>} */
  async #text(entry) {
    if (entry.kind !== "text" || entry.size > LONGEST_TEXT) return null;
    const response = await api.request(api.url(contentPath(this.model.project, entry.path)));
    return response.text();
  }

  /** @param {string} path @param {FileEntry | undefined} entry */
  #head(path, entry) {
    const props = {
      class: "button icon quiet",
      title: "Download",
      "aria-label": `Download ${path}`,
    };
    return h(
      "header",
      {},
      h("h3", { class: "cut", dir: "auto", title: path }, path),
      entry
        ? span("dim nums", `v${entry.version} · `, dateTimeElement(Date.parse(entry.last_modified)))
        : null,
      spacer(),
      entry ? this.#download(path, props, icon("download")) : null,
      iconButton("close", "Close file", () => this.onSelect(null)),
    );
  }

  /** @param {FileEntry} entry */
  #notText(entry) {
    return state(
      {
        symbol: "file",
        title: entry.kind === "text" ? "File too large to show" : "Not a text file",
        text: `${sizeText(entry.size)}. Download the file to open it.`,
      },
      this.#download(entry.path, { class: "button" }, "Download"),
    );
  }

  /** @param {string} path @param {Record<string, string>} props @param {Child} label */
  #download(path, props, label) {
    const download = path.split("/").pop() ?? "file";
    return h("a", { ...props, href: contentPath(this.model.project, path), download }, label);
  }
}

/** @param {string} text @param {{from: number, to: number} | null} changed */
function lines(text, changed) {
  const all = text.split("\n");
  if (all[all.length - 1] === "") all.pop();
  const shown = all.slice(0, MOST_LINES).map((line, at) => {
    const hasChanged = changed && at >= changed.from && at < changed.to;
    return h("li", { class: hasChanged ? "changed" : null }, line || " ");
  });
  const props = { class: "file-lines", tabindex: 0, "aria-label": "Text of the file" };
  const list = h("ol", props, ...shown);
  if (all.length <= MOST_LINES) return list;
  const more = `${countText(all.length - MOST_LINES, "more line")}. Download the file to see all.`;
  return h("div", {}, list, p("dim", more));
}

define("lw-files", FilesPanel);
