/** Paths as a tree of folders, and the changed lines of a text. */

/** @import { FileEntry } from "./types.js" */
/** @typedef {{name: string, path: string, folders: Folder[], files: {name: string, entry: FileEntry}[]}} Folder */

/** Folders first, both by name. @param {Iterable<FileEntry>} entries @returns {Folder} */
export function treeOf(entries) {
  /** @type {Folder} */
  const root = { name: "", path: "", folders: [], files: [] };
  const folders = new Map([["", root]]);
  for (const entry of [...entries].sort((one, other) => (one.path < other.path ? -1 : 1))) {
    const parts = entry.path.split("/");
    const name = parts.pop() ?? entry.path;
    let folder = root;
    let path = "";
    for (const part of parts) {
      path = path ? `${path}/${part}` : part;
      let next = folders.get(path);
      if (!next) {
        next = { name: part, path, folders: [], files: [] };
        folders.set(path, next);
        folder.folders.push(next);
      }
      folder = next;
    }
    folder.files.push({ name, entry });
  }
  return root;
}

/**
 * The lines of the new text between the common beginning and the common end.
 * @param {string} before @param {string} after
 * @returns {{from: number, to: number}} `to` is exclusive
 */
export function changedLines(before, after) {
  const [old, now] = [before.split("\n"), after.split("\n")];
  let from = 0;
  while (from < old.length && from < now.length && old[from] === now[from]) from += 1;
  let tail = 0;
  while (
    tail < old.length - from &&
    tail < now.length - from &&
    old[old.length - 1 - tail] === now[now.length - 1 - tail]
  )
    tail += 1;
  return { from, to: now.length - tail };
}
