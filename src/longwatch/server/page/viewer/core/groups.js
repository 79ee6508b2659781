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
