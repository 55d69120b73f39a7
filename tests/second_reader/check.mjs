// Check what a reader need not know: fill values, labels, storage.

import { fillBytes } from "./arrays.mjs";
import { CONVENTION, isEarlier, objects } from "./identity.mjs";
import { isCount, isObject, isText } from "./json.mjs";
import { isForbidden, joinFqn } from "./names.mjs";
import { base, concatenate, declare, defaultFill, is, isNumeric, packNumber, range, isFloat, size } from "./types.mjs";
import { pack } from "./pack.mjs";

const STORAGE = new Set(["contiguous", "chunked", "compact"]);

export function check(dataset) {
  for (const group of dataset.groups) {
    const nodes = [group, ...group.arrays];
    const named = [...nodes, ...nodes.flatMap((n) => n.attributes), ...group.dimensions, ...group.types.map(declare)];
    if (named.some((n) => Buffer.byteLength(n.name) > 256)) dataset.report("name-long");
    const inside = group.types.map(declare).flatMap((t) => [...(t.fields ?? []), ...(t.members ?? []).map(([name]) => ({ name }))]);
    if ([...named, ...inside].some((n) => n.name.normalize("NFC") !== n.name)) dataset.report("name-not-nfc");
  }
  members(dataset);
  if (usesLaterTypes(dataset)) dataset.report("type-forward");
  const names = new Set(dataset.groups.flatMap((g) => g.dimensions.map((d) => d.name)));
  for (const group of dataset.groups) {
    for (const array of group.arrays) {
      const { document, keys } = array;
      if (array.foreign || (keys.size === 0 && objects(document).length === 0)) continue;
      // Where a type or a reference is not known, nothing can be said of what follows from it.
      if (!array.guessed && !array.unreadable && !hasFill(array)) dataset.report("fill-value");
      if (!sound(array)) dataset.report("storage-damaged");
      if (!array.labelled && !array.outOfReach && !hasLabels(dataset, array, names)) dataset.report("labels");
    }
  }
}

/** Check the members with which nodes say what they are. Versions before 3.2 do not have them. */
function members(dataset) {
  const { root } = dataset;
  const block = root.recovered ? undefined : root.keys.get("_nczarr_superblock");
  const hasBlock = block !== undefined && block.size > 0;
  if (hasBlock ? isEarlier(block.get("version")) : dataset.home.dataset === null) return;
  const named = (keys) => isText(keys.get("dataset")) && keys.get("dataset") !== "";
  if (hasBlock) {
    if (block.get("convention") !== CONVENTION) dataset.report("convention-missing");
    if (!named(block)) dataset.report("dataset-missing");
  }
  const unlimited = new Map(dataset.groups.flatMap((g) => g.dimensions.map((d) => [joinFqn([...dataset.names(g), d.name]), d.unlimited])));
  const lists = (group, kind, node) => {
    const nodes = group.recovered ? [] : group.keys.get("_nczarr_group")?.get(kind);
    return Array.isArray(nodes) && nodes.includes(node);
  };
  const node = ({ node: own }, record) => {
    if (!own.startsWith("_nc-")) {
      if (isForbidden(own)) dataset.report("node-name");
    } else if (!record.has("name")) dataset.report("name-missing");
  };
  for (const group of dataset.groups) {
    for (const child of group.groups) {
      const own = child.recovered ? new Map() : child.keys;
      const explained = child.recovered || child.lost || child.damaged || !lists(group, "groups", child.node);
      if (child.foreign || (own.size === 0 && explained)) continue;
      const record = own.get("_nczarr_group") ?? new Map();
      if (record.get("fqn") !== joinFqn(dataset.names(child))) dataset.report("fqn-wrong");
      if (!named(record)) dataset.report("dataset-missing");
      node(child, record);
    }
    for (const array of group.arrays) {
      if (array.foreign || array.unreadable) continue;
      const [object] = objects(array.document);
      if (object === undefined) {
        if (array.keys.size === 0 && lists(group, "arrays", array.node)) dataset.report("object-missing");
        continue;
      }
      const configuration = object.get("configuration");
      if (object.get("name") !== "nczarr" || object.get("must_understand") !== false || !configuration.has("version")) {
        dataset.report("object-damaged");
      }
      if (!named(configuration)) dataset.report("dataset-missing");
      node(array, array.record);
      const references = array.record.get("dimension_references");
      if (!Array.isArray(references) && array.inner.length > 0) continue;
      const known = (Array.isArray(references) ? references : []).filter((r) => isText(r));
      const wanted = new Set(known.filter((r) => unlimited.get(r) === true));
      const listed = array.record.get("unlimited") ?? [];
      const others = Array.isArray(listed) ? new Set(listed.filter((r) => !known.includes(r) || unlimited.has(r))) : null;
      if (others?.size !== wanted.size || ![...wanted].every((r) => others.has(r))) dataset.report("unlimited-wrong");
    }
  }
}

/** Whether something uses a type of a group that stands behind its own. */
function usesLaterTypes(dataset) {
  const declared = new Set();
  const late = (type) => type.fqn !== undefined && !declared.has(type.fqn);
  return dataset.groups.some((group) => {
    group.types.forEach((t) => declared.add(t.fqn));
    const inside = group.types.flatMap((t) => (t.class === "vlen" ? [t.base] : (t.fields ?? []).map((f) => f.type)));
    const nodes = [group, ...group.arrays];
    const used = [...inside, ...group.arrays.map((a) => a.type), ...nodes.flatMap((n) => n.attributes.map((a) => a.type))];
    return used.some(late);
  });
}

/** Whether the Zarr fill value is what the attribute, or the default, says. */
function hasFill(array) {
  const wanted = expectedFill(array);
  let found;
  try {
    found = fillBytes(array.document.get("fill_value"), array.stored);
  } catch {
    return false;
  }
  if (array.stored.class === "number" && size(array.type) !== null && (array.type.class === "opaque" || array.type.class === "compound")) {
    return wanted.every((b) => b === found[0]);
  }
  return Buffer.compare(Buffer.from(found), Buffer.from(wanted)) === 0;
}

function expectedFill(array) {
  const { type } = array;
  const fill = array.attributes.find((a) => a.name === "_FillValue");
  if (fill && fill.values.length > 0) {
    const [value] = fill.values;
    if (fill.type === type) return stored(value, array);
    const kept = base(type);
    if (isNumeric(kept) && isNumeric(base(fill.type))) {
      const exact = exactly(value, kept);
      if (exact !== null) return packNumber(exact, kept.name);
    }
  }
  const wanted = defaultFill(type);
  return is(type, "string") && array.stored.class === "bytes" ? concatenate([new Uint8Array(4), wanted]) : wanted;
}

function stored(value, array) {
  if (is(array.type, "string") && array.stored.class === "string") return value;
  return pack(value, array.type);
}

/** A number as a value of a type that holds it exactly, or null. */
function exactly(value, type) {
  if (isFloat(type)) {
    if (isText(value)) return null; // a NaN of other bits
    const held = type.name === "float32" ? Math.fround(Number(value)) : Number(value);
    const equal = typeof value === "bigint" ? BigInt(held) === value : Object.is(held, value);
    return equal ? held : null;
  }
  const whole = typeof value === "number" && Number.isInteger(value) ? BigInt(value) : value;
  const [low, high] = range(type.name);
  return typeof whole === "bigint" && whole >= low && whole <= high ? whole : null;
}

function sound(array) {
  const { record } = array;
  const has = (key, good) => !record.has(key) || good(record.get(key));
  const counts = (list) => Array.isArray(list) && list.every(isCount);
  return (
    has("storage", (v) => STORAGE.has(v)) &&
    has("chunk_shape", (v) => v === null || (counts(v) && v.length === array.dimensions.length && v.every((n) => n > 0n))) &&
    has("filters", (v) => Array.isArray(v) && v.every((f) => isObject(f) && isCount(f.get("id")) && counts(f.get("parameters") ?? []))) &&
    has("endian", (v) => v === "little" || v === "big") &&
    has("no_fill", (v) => v === true)
  );
}

function hasLabels(dataset, array, names) {
  const found = array.document.get("dimension_names");
  if (!Array.isArray(found) || !found.every(isText) || new Set(found).size < found.length) return false;
  const used = new Set();
  return found.every((label, i) => {
    const dimension = (array.recorded ?? array.dimensions)[i];
    const known = dimension && !dimension.anonymous && !used.has(dimension.name);
    if (!known || dataset.search(array.group, dimension.name) !== dimension) return !names.has(label);
    used.add(dimension.name);
    return label === dimension.name;
  });
}
