/** The text of a query: its terms, and how to complete the one that is being typed. */

/** @typedef {Record<string, readonly (readonly [value: string, count: number])[]>} KnownValues field → its values */
/** @typedef {{from: number, to: number, text: string, label: string, note: string}} Completion */
/** @typedef {{from: number, to: number, text: string}} Term */

const FIELDS = /** @type {Record<string, string>} */ ({
  status: "its status",
  tag: "one of its tags",
  agent: "part of an agent’s name",
  tool: "part of a tool’s name",
  error: "part of its error",
  kind: "workflow, session, turn …",
  name: "part of its name",
  run: "part of its ID",
  user: "its user",
  session: "its session",
  duration: "such as >5m",
  since: "started at or after, such as 2h",
  until: "started before",
});
const OFFERED = { duration: [">1m", ">5m", ">1h"], since: ["1h", "1d", "7d"], until: ["1h", "1d"] };
const MIN_WORD = 2; // characters of a word that is searched among the values
const MAX_COMPLETIONS = 8;

/** The terms, separated by spaces outside quotes. @param {string} text @returns {Term[]} */
export function termsOf(text) {
  return [...text.matchAll(/(?:"(?:[^"\\]|\\.)*"?|[^\s"])+/g)].map((found) => ({
    from: found.index,
    to: found.index + found[0].length,
    text: found[0],
  }));
}

/** Whether the last term lacks a value or a closing quote, as while it is being typed. @param {string} text */
export function isIncomplete(text) {
  return (
    /(^|\s)-?\w+:$/.test(text) || (text.replace(/\\./g, "").match(/"/g) ?? []).length % 2 === 1
  );
}

/** `tag:nightly`, with quotes where the value needs them. @param {string} field @param {string} value */
export function termText(field, value) {
  return `${field}:${/[\s,:"\\]/.test(value) ? `"${value.replace(/["\\]/g, "\\$&")}"` : value}`;
}

/** @param {string} text @param {string} term */
export const hasTerm = (text, term) => termsOf(text).some((each) => each.text === term);

/** The query with this term, or without it if it has it. @param {string} text @param {string} term */
export function toggleTerm(text, term) {
  const terms = termsOf(text).map((each) => each.text);
  return (terms.includes(term) ? terms.filter((each) => each !== term) : [...terms, term]).join(
    " ",
  );
}

/**
 * Fields and values for the term at the caret.
 * @param {string} text @param {number} caret @param {KnownValues} known @returns {Completion[]}
 */
export function completionsOf(text, caret, known) {
  const at = termsOf(text.slice(0, caret)).find(({ to }) => to === caret);
  const typed = at?.text ?? "";
  const from = at?.from ?? caret;
  const to = termsOf(text).find((term) => term.from <= caret && caret <= term.to)?.to ?? caret;
  const [, minus = "", field = "", values = typed] = /^(-?)(?:(\w+):)?(.*)$/s.exec(typed) ?? [];
  const options = field
    ? ofField(field, values, known).map((each) => ({ ...each, text: `${minus}${each.text}` }))
    : ofWord(values, known).map((each) => ({ ...each, text: `${minus}${each.text}` }));
  return options
    .filter((each) => each.text !== typed)
    .slice(0, MAX_COMPLETIONS)
    .map((each) => ({ ...each, from, to }));
}

/** @param {string} field @param {string} typed values, separated by commas @param {KnownValues} known */
function ofField(field, typed, known) {
  const comma = typed.lastIndexOf(",") + 1;
  const before = typed.slice(0, comma);
  const value = unquoted(typed.slice(comma));
  const offered = OFFERED[/** @type {keyof typeof OFFERED} */ (field)]?.map((each) => [each, 0]);
  const values = /** @type {[string, number][]} */ (known[field] ?? offered ?? []);
  return matching(values, value).map(([each, count]) => ({
    text: `${field}:${before}${termText("", each).slice(1)}`,
    label: `${field}:${each}`,
    note: count ? String(count) : "",
  }));
}

/** @param {string} word @param {KnownValues} known */
function ofWord(word, known) {
  const typed = word.toLowerCase();
  const fields = Object.entries(FIELDS)
    .filter(([name]) => name.startsWith(typed))
    .map(([name, note]) => ({ text: `${name}:`, label: `${name}:`, note }));
  if (word.length < MIN_WORD) return fields;
  const values = Object.entries(known).flatMap(([field, each]) =>
    matching(each, unquoted(word)).map(([value, count]) => ({
      text: termText(field, value),
      label: `${field}:${value}`,
      note: count ? String(count) : "",
    })),
  );
  return [...fields, ...values];
}

/**
 * The values that begin with the text, then those that contain it.
 * @template {readonly [string, number]} Value
 * @param {readonly Value[]} values @param {string} text
 */
function matching(values, text) {
  const wanted = text.toLowerCase();
  const place = (/** @type {Value} */ [value]) => value.toLowerCase().indexOf(wanted);
  const found = values.filter((each) => place(each) >= 0);
  return found.sort((one, other) => Math.min(place(one), 1) - Math.min(place(other), 1));
}

/** @param {string} value */
const unquoted = (value) => value.replace(/^"|"$/g, "").replace(/\\(.)/g, "$1");
