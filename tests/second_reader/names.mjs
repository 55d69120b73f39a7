// Spell names: what is legal, fully qualified names, and the names of nodes.

export const legal = (name) =>
  typeof name === "string" && name !== "" && !/[\u0000-\u001f\u007f]/u.test(name) && !name.endsWith(" ");

const DOCUMENTS = new Set([
  "zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", ".nczarr", ".nczgroup", ".nczvar", ".nczattr",
]);

/** Whether a name has to be escaped where it is that of a node. */
export const isForbidden = (name) => DOCUMENTS.has(name) || /^__|^_nc-|^\.+$|[/\\]| $/u.test(name);

/** The names that an FQN consists of, or null where the text is none. */
export function splitFqn(text) {
  if (typeof text !== "string" || !text.startsWith("/")) return null;
  if (text === "/") return [];
  const parts = [];
  for (const [, component] of text.matchAll(/\/((?:[^/\\]|\\.)*)/gsu)) {
    parts.push(component.replace(/\\(.)/gu, "$1"));
  }
  return parts.every(legal) && joinFqn(parts) === text ? parts : null;
}

export const joinFqn = (parts) =>
  parts.length === 0 ? "/" : parts.map((p) => "/" + p.replace(/[/\\ ]/gu, "\\$&")).join("");

/** The beginning of the name of a cut node name, or null. */
export function beginningOf(node) {
  const [stem, ...rest] = node.split("..");
  return rest.length > 0 && nameOfNode(stem) !== stem ? nameOfNode(stem) : null;
}

/** The name that a node name stands for, where no key says it. */
export function nameOfNode(node) {
  if (!node.startsWith("_nc-")) return node;
  const text = node.slice(4);
  if (!/^(?:[A-Za-z0-9_-]|[^\u0000-\u007f]|\.[0-9A-F]{2})+$/u.test(text)) return node; // cut, or not escaped
  const bytes = [];
  for (const [, escape, plain] of text.matchAll(/\.([0-9A-F]{2})|([^])/gu)) {
    bytes.push(...(escape ? [parseInt(escape, 16)] : new TextEncoder().encode(plain)));
  }
  try {
    const name = new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes));
    return legal(name) ? name : node;
  } catch {
    return node;
  }
}
