/**
 * Elements that need nothing but a class: `span("dim", text)`. Text that is cut off ends with an ellipsis where its own
 * direction ends, and so has a direction.
 */

import { h } from "./dom.js";

/** @import { Child } from "./dom.js" */

const CUT = /\bcut\b/;

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @returns {(className: string, ...children: Child[]) => HTMLElementTagNameMap[Tag]}
 */
const elementOf =
  (tag) =>
  (className, ...children) =>
    h(tag, { class: className, dir: CUT.test(className) ? "auto" : null }, ...children);

export const code = elementOf("code");
export const div = elementOf("div");
export const p = elementOf("p");
export const span = elementOf("span");

/** Empty space that pushes what follows to the end of its row. */
export const spacer = () => span("spread");
