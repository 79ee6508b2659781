/** Maps of lists. */

/**
 * Add an item to the list of its key.
 * @template Key, Item
 * @param {Map<Key, Item[]>} groups @param {Key} key @param {Item} item
 */
export function addTo(groups, key, item) {
  const group = groups.get(key);
  if (group) group.push(item);
  else groups.set(key, [item]);
}

/**
 * @param {Record<string, string[]>} groups
 * @returns {Map<string, string>} each item of a group → the name of the group
 */
export function invert(groups) {
  return new Map(
    Object.entries(groups).flatMap(([name, items]) => items.map((item) => [item, name])),
  );
}
