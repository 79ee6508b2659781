/** The tags, the user and the session of a run, in the list and on its page. */

import { h } from "./dom.js";
import { span } from "./markup.js";
import { termText, toggleTerm } from "./query-text.js";
import { currentRoute, queryPath, setQuery } from "./router.js";

/** @import { Summary } from "./types.js" */

const MOST_TAGS = 3; // in a row of the list

/** The first tags as marks, and the number of the others. @param {string[]} tags */
export function tagMarks(tags) {
  if (!tags.length) return null;
  const hidden = tags.length - MOST_TAGS;
  return h(
    "span",
    { class: "run-tags", title: tags.join(", ") },
    ...tags.slice(0, MOST_TAGS).map(tagMark),
    hidden > 0 ? span("dim", `+${hidden}`) : null,
  );
}

/** A click filters the list by the tag; the row is a link, so the counts above the list do the same with a key. @param {string} tag */
function tagMark(tag) {
  const filter = (/** @type {Event} */ event) => {
    event.preventDefault();
    setQuery({ q: toggleTerm(currentRoute.value.query.get("q") ?? "", termText("tag", tag)) });
  };
  return h("span", { class: "tag", dir: "auto", on: { click: filter } }, tag);
}

/**
 * The facts for the head of a run: links to the runs with the same label, except in a report.
 * @param {Summary} summary @param {boolean} isReport @returns {[string, Element | null][]}
 */
export function labelFacts({ tags, user, session }, isReport) {
  /** @type {[field: string, value: string, text: string][]} */
  const labels = [
    ...tags.map((tag) => /** @type {[string, string, string]} */ (["tag", tag, tag])),
    ...(user ? [/** @type {[string, string, string]} */ (["user", user, `user ${user}`])] : []),
    ...(session
      ? [/** @type {[string, string, string]} */ (["session", session, `session ${session}`])]
      : []),
  ];
  return labels.map(([field, value, text]) => [
    `${field}-${encodeURIComponent(value)}`,
    isReport
      ? h("span", { class: "tag", title: value }, text)
      : h("a", { class: "tag", title: value, href: queryPath(termText(field, value)) }, text),
  ]);
}
