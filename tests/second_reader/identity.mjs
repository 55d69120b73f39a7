// Find the dataset that a hierarchy is, or is a group of: the steps of the section Identity.

import { isNumber, isObject, isText, parse, same } from "./json.mjs";
import { splitFqn } from "./names.mjs";

export const GROUP_KEYS = ["_nczarr_superblock", "_nczarr_group", "_nczarr_attr"];
export const ARRAY_KEYS = ["_nczarr_array", "_nczarr_attr", "_nczarr_copy"];
export const CONVENTION = "4058cf9a-85c0-4aeb-a3e4-72f486c51814";

export const isVersion = (version) => isText(version) && /^3(\.|$)/u.test(version);
/** Whether a version is one whose nodes name no dataset. */
export const isEarlier = (version) => isText(version) && /^3($|\.[01](\.|$))/u.test(version);
const text = (value) => (isText(value) && value !== "" ? value : null);
const nodeOf = (array) => array.path.at(-1);

/** The objects that hold keys: the top-level one, then those of a list `extensions`. */
export function objects(document) {
  const entries = document.get("extensions");
  const listed = (Array.isArray(entries) ? entries : []).filter((e) => isObject(e) && e.get("name") === "nczarr");
  return document.has("nczarr") ? [document.get("nczarr"), ...listed] : listed;
}

/** Whether an object has the form, and the version, that this reader knows. */
export function isReadable(object) {
  const configuration = object?.get?.("configuration");
  const version = configuration?.get?.("version");
  return isObject(configuration) && (version === undefined || isVersion(version));
}

/** The configurations of the objects that can be read; the first counts. */
export const extensions = (document) => objects(document).filter(isReadable).map((o) => o.get("configuration"));

/** The keys in carriers, the first of which counts, without those of a wrong form. */
function keysIn(carriers, names) {
  const keys = new Map();
  for (const name of names) {
    const value = carriers.find((c) => c.has(name))?.get(name);
    if (name === "_nczarr_copy" ? isText(value) : isObject(value)) keys.set(name, value);
  }
  return keys;
}

const groupKeys = (group) => keysIn([group.plain, ...extensions(group.document)], GROUP_KEYS);

function arrayKeys(array) {
  const { document } = array;
  // Version 3.0, without copies, has its keys among the attributes; they mean nothing without those of the root.
  if (!document.has("nczarr") && !document.has("extensions") && !array.plain.has("_nczarr_copy")) return new Map();
  return keysIn([...extensions(document), array.plain], ARRAY_KEYS);
}

const datasetOfRecord = (keys) =>
  text(keys.get("_nczarr_superblock")?.get("dataset")) ?? text(keys.get("_nczarr_group")?.get("dataset"));

/** The dataset that a group or an array names, or null. */
export function datasetOf(node) {
  if (node.document.get("node_type") === "group") return datasetOfRecord(groupKeys(node));
  return text(extensions(node.document).find((c) => c.has("dataset"))?.get("dataset"));
}

/** The keys of a group, whose annotations its record can hold. */
export function withOwnAnnotations(keys) {
  const own = keys.get("_nczarr_group")?.get("_nczarr_attr");
  return isObject(own) ? new Map([...keys, ["_nczarr_attr", own]]) : keys;
}

/** The records in a copy, by FQN; null if it has not the form of one. */
export function recordsOf(copy) {
  let value;
  try {
    ({ value } = parse(copy));
  } catch {
    return null;
  }
  if (!isObject(value) || ![...value].every(([k, v]) => splitFqn(k) && isObject(v))) return null;
  const good = (v) => withOwnAnnotations(new Map([...v].filter(([k, w]) => GROUP_KEYS.includes(k) && isObject(w))));
  return new Map([...value].map(([k, v]) => [k, good(v)]));
}

/** The copies that an array holds. */
export function copiesOf(array, keys) {
  const records = keys.has("_nczarr_copy") ? (recordsOf(keys.get("_nczarr_copy")) ?? []) : [];
  return [...records].map(([fqn, record]) => {
    const names = record.get("_nczarr_group")?.get("arrays");
    const listed = Array.isArray(names) ? names.filter(isText) : [];
    const dataset = datasetOfRecord(record) ?? datasetOf(array);
    return { array, dataset, fqn, record, listed, inPlace: listed[0] === nodeOf(array) };
  });
}

/** The order of nodes by their paths, name by name in code points: that of the UTF-8 forms. */
export function byPath(a, b) {
  const i = a.path.findIndex((name, k) => name !== b.path[k]);
  if (i < 0 || i >= b.path.length) return a.path.length - b.path.length;
  return Buffer.compare(Buffer.from(a.path[i]), Buffer.from(b.path[i]));
}

/** The dataset and the FQN of the root; `copy` stands for its record, `unclear`: none does. Null for plain Zarr. */
export function findHome(root, groups) {
  const keys = groupKeys(root);
  const arrays = groups.flatMap((g) => g.arrays);
  if (root.plain.has("_nczarr_superblock") || keys.has("_nczarr_superblock")) {
    const block = keys.get("_nczarr_superblock") ?? new Map();
    return { dataset: text(block.get("dataset")) ?? onlyDataset(arrays), fqn: "/" };
  }
  const record = keys.get("_nczarr_group");
  const fqn = record?.get("fqn");
  if (isText(fqn) && splitFqn(fqn)?.length > 0) return { dataset: text(record.get("dataset")), fqn };
  const found = byArrays(root, arrays);
  if (record) return found?.copy ? { dataset: found.dataset, fqn: found.copy.fqn } : { dataset: null, fqn: null };
  const carriers = [root.plain, ...extensions(root.document)];
  const wrong = GROUP_KEYS.some((k) => !keys.has(k) && carriers.some((c) => c.has(k)));
  return found ?? (wrong ? { dataset: null, fqn: "/" } : null);
}

function byArrays(root, arrays) {
  const keys = new Map(arrays.map((a) => [a, arrayKeys(a)]));
  if (arrays.every((a) => keys.get(a).size === 0)) return null;
  const copies = [...arrays].sort(byPath).flatMap((a) => copiesOf(a, keys.get(a)));
  const inPlace = copies.filter((c) => c.array.path.length === 1 && c.inPlace);
  const known = new Set(inPlace.map((c) => c.dataset));
  const candidates = [];
  for (const copy of [...inPlace, ...copies.filter((c) => c.fqn === "/" && !known.has(c.dataset))]) {
    const equal = (c) => c.dataset === copy.dataset && c.fqn === copy.fqn && same(c.record, copy.record);
    if (!candidates.some(equal)) candidates.push(copy);
  }
  let home = candidates.map((copy) => ({ copy, missing: missing(copy, root) })).filter((h) => h.missing !== null);
  if (home.length > 1 && home.some((h) => h.missing === 0)) home = home.filter((h) => h.missing === 0);
  if (home.length === 1) return { dataset: home[0].copy.dataset, fqn: home[0].copy.fqn, copy: home[0].copy };
  if (home.length > 1) return { dataset: null, fqn: "/", unclear: true };
  const named = arrays.filter((a) => keys.get(a).size > 0).map(datasetOf);
  const most = named.find((d) => 2 * named.filter((n) => n === d).length > arrays.length);
  return most === undefined ? null : { dataset: most, fqn: "/" };
}

/** How many nodes of a record are missing below the root; null if the root is not the group of the record. */
function missing(copy, root) {
  const groups = copy.record.get("_nczarr_group")?.get("groups");
  const listed = [...copy.listed, ...(Array.isArray(groups) ? groups : [])];
  const there = new Map([...root.arrays, ...root.groups].map((n) => [n.path.at(-1), n]));
  const isMember = (name) => {
    if (root.leftOut.has(name)) return true;
    const node = there.get(name);
    if (node === undefined || node.document.get("node_type") === "group") return node !== undefined;
    return [null, copy.dataset].includes(datasetOf(node));
  };
  const members = listed.filter(isMember).length;
  const others = there.size + root.leftOut.size - members;
  const gone = listed.length - members;
  return (listed.length > 0 && gone >= members) || members < others ? null : gone;
}

/** The dataset that arrays name, if they name no other and are not fewer than those that name none. */
function onlyDataset(arrays) {
  const told = arrays.map(datasetOf);
  const named = [...new Set(told.filter((d) => d !== null))];
  return named.length === 1 && 2 * told.filter((d) => d === null).length <= told.length ? named[0] : null;
}

/** Whether the keys are those of netCDF-C's draft for Zarr v3. */
export function isDraftOfNetcdfC(root, groups) {
  const block = groupKeys(root).get("_nczarr_superblock");
  const declared = root.plain.get("zarr_conventions");
  const version = block?.get("version");
  if (!block || block.get("convention") === CONVENTION || text(block.get("dataset")) !== null) return false;
  if (Array.isArray(declared) && declared.some((c) => isObject(c) && c.get("uuid") === CONVENTION)) return false;
  const hasSign = ({ plain }) => {
    const record = plain.get("_nczarr_group");
    const dimensions = isObject(record) ? record.get("dimensions") : undefined;
    const own = plain.get("_nczarr_array");
    return (
      plain.has("_nczarr_attrs") ||
      (isObject(record) && record.has("subgroups")) ||
      (isObject(own) && (own.has("type_alias") || own.has("nczarr_type"))) ||
      (Array.isArray(dimensions) && isText(version) && version.startsWith("3.0")) ||
      ((isObject(dimensions) || Array.isArray(dimensions)) &&
        [...dimensions.values()].some((d) => isObject(d) && isNumber(d.get("unlimited"))))
    );
  };
  return isNumber(block.get("format")) || [...groups, ...groups.flatMap((g) => g.arrays)].some(hasSign);
}
