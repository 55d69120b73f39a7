// Decode and encode attributes, as the page's two algorithms say.

import { isNumber, isObject, isText, same, write } from "./json.mjs";
import {
  atomic, base, base64, decodeText, fromBase64, fromJson, is, isFloat, isNumeric, range, toJson, utf8,
  packNumber, unpack,
} from "./types.mjs";

export const KEYS = new Set(["_nczarr_superblock", "_nczarr_group", "_nczarr_array", "_nczarr_attr", "_nczarr_copy"]);
const RESERVED = new Set([...KEYS, "zarr_conventions"]);
/** The same for groups where the agreement with NZ-1.0 counts. */
const RESERVED_BY_NZ = new Set([...RESERVED, "conventions"]);
const EXACT = 2n ** 53n;
const WORDS = new Set(["NaN", "Infinity", "-Infinity"]);

/**
 * The attributes of a node: `{ name, type, values }` in order. Values of `char` are bytes.
 * `findType` gives the type of a name, or null; `report` takes codes; `variable` is the variable's type, or null.
 */
export function decode(plain, record, variable, findType, report, nz = false) {
  const reserved = nz ? RESERVED_BY_NZ : RESERVED;
  const types = members(record, "types", report);
  const exact = members(record, "exact", report);
  const given = record?.get("order") ?? [];
  const order = Array.isArray(given) ? given.filter(isText) : [];
  if (!Array.isArray(given) || order.length < given.length) report("annotation-stale");
  if (new Set(order).size < order.length) report("order-duplicate");
  const found = new Map();
  const names = [...plain.keys()].filter((n) => !reserved.has(n));
  const hidden = (name, type, list) => reserved.has(name) || encode(name, type, list, variable) === undefined;
  for (const name of exact.keys()) {
    if (plain.has(name) && !reserved.has(name)) continue;
    const type = findType(types.get(name));
    if (type && values(exact.get(name), type) !== null && hidden(name, type, values(exact.get(name), type))) {
      names.push(name);
    } else report("annotation-stale");
  }
  for (const name of types.keys()) if (!names.includes(name) && !exact.has(name)) report("annotation-stale");
  for (const name of names) found.set(name, one(name));
  const sorted = [...new Set(order.filter((n) => found.has(n))), ...names.filter((n) => !order.includes(n))];
  return sorted.map((name) => ({ name, ...found.get(name) }));

  function one(name) {
    const json = reserved.has(name) ? undefined : plain.get(name);
    let type = types.has(name) ? findType(types.get(name)) : undefined;
    if (types.has(name) && !type) report("annotation-stale");
    if (exact.has(name)) {
      const kept = values(exact.get(name), type ?? defaultType(name, json, variable));
      if (kept !== null && json === undefined) return { type, values: kept };
      const own = type ?? defaultType(name, json, variable);
      if (kept !== null && same(encode(name, own, kept, variable), json)) return { type: own, values: kept };
      report("annotation-stale");
    }
    type ??= undefined;
    if (type) {
      try {
        return { type, values: read(name, json, type, variable) };
      } catch {
        report("annotation-stale");
      }
    }
    const own = defaultType(name, json, variable);
    try {
      if (own) return { type: own, values: read(name, json, own, variable) };
    } catch {
      // A fill value that is none of its variable's.
      const found = defaultType("", json, null);
      if (found) return { type: found, values: read("", json, found, null) };
    }
    return other(json);
  }
}

function members(record, key, report) {
  const found = record?.get(key) ?? new Map();
  if (isObject(found)) return found;
  report("annotation-stale");
  return new Map();
}

/** The default type of a plain form, or null. */
export function defaultType(name, json, variable) {
  if (name === "_FillValue" && variable && isNumeric(base(variable))) return variable;
  if (isText(json)) return atomic("char");
  if (Array.isArray(json) && json.length > 0 && json.every(isText)) return atomic("string");
  const numbers = Array.isArray(json) ? json : [json];
  if (numbers.length === 0 || !numbers.every(isNumber)) return null;
  if (!numbers.every((v) => typeof v === "bigint")) return atomic("float64");
  const fits = (n) => numbers.every((v) => v >= range(n)[0] && v <= range(n)[1]);
  return fits("int64") ? atomic("int64") : fits("uint64") ? atomic("uint64") : null;
}

function other(json) {
  const flags = Array.isArray(json) ? json : [json];
  if (flags.length && flags.every((flag) => flag === true || flag === false))
    return { type: atomic("int8"), values: flags.map((flag) => (flag ? 1n : 0n)) };
  const real = (v) => WORDS.has(v) || typeof v === "number" || (typeof v === "bigint" && v <= EXACT && v >= -EXACT);
  if (Array.isArray(json) && json.length > 0 && json.every(real)) {
    return { type: atomic("float64"), values: json.map(Number) };
  }
  return { type: atomic("char"), values: utf8(write(json)) };
}

/** The values of a plain form as a type; throws where it has none. */
function read(name, json, type, variable) {
  if (name === "_FillValue" && variable && isFloat(variable) && isText(json) && !WORDS.has(json)) {
    const bytes = fromBase64(json);
    return [fromJson(convertNan(unpack(bytes, atomic("float64")), "float64", type.name), type)];
  }
  if (is(type, "char")) {
    if (Array.isArray(json) && json.length === 0) return new Uint8Array();
    if (!isText(json)) throw new TypeError("not text");
    return utf8(json);
  }
  const list = type.class === "vlen" || Array.isArray(json) ? json : [json];
  const given = isFloat(type) && !(name === "_FillValue" && variable) ? list.map((v) => (v === null ? "NaN" : v)) : list;
  const flags = is(type, "int8") ? given.map((v) => (v === true ? 1n : v === false ? 0n : v)) : given;
  return flags.map((v) => fromJson(v, type));
}

/** The values of an exact form, or null where they are none of the type. */
function values(json, type) {
  if (!type) return null;
  try {
    if (is(type, "char")) return isObject(json) ? fromBase64(json.get("base64")) : isText(json) ? utf8(json) : null;
    return json.map((v) => fromJson(v, type));
  } catch {
    return null;
  }
}

/** The plain form of an attribute, or undefined where it has none. */
export function encode(name, type, list, variable) {
  if (RESERVED.has(name)) return undefined;
  if (name === "_FillValue" && variable) {
    const of = base(variable);
    if (!isNumeric(of) || !isNumeric(type) || list.length !== 1) return undefined;
    const [value] = list;
    if (isFloat(of)) return base64(packNumber(convertNan(value, type.name, "float64"), "float64"));
    const whole = typeof value === "number" && Number.isInteger(value) ? BigInt(value) : value;
    const [low, high] = range(of.name);
    return typeof whole === "bigint" && whole >= low && whole <= high ? whole : undefined;
  }
  if (is(type, "char")) return loose(list);
  const forms = list.map((v) => {
    if (is(type, "string")) return loose(v);
    const json = toJson(v, type);
    return name === "missing_value" && variable && isFloat(type) && isNan(v) ? null : json;
  });
  return forms.length === 1 && type.class !== "vlen" ? forms[0] : forms;
}

const isNan = (value) => isText(value) || value !== value; // eslint-disable-line no-self-compare

/** The bits of a NaN in another format: the sign, and as much of the payload as there is place for, from the left. */
function convertNan(value, from, to) {
  if (!isText(value) || from === to) return value;
  const bits = BigInt(value);
  if (to === "float64") return hex(((bits >> 31n) << 63n) | (0x7ffn << 52n) | ((bits & 0x7fffffn) << 29n), 16);
  return hex(((bits >> 63n) << 31n) | (0xffn << 23n) | ((bits >> 29n) & 0x7fffffn), 8);
}

const hex = (bits, digits) => `0x${bits.toString(16).padStart(digits, "0")}`;

/** Bytes as text without NUL, with U+FFFD for what is not UTF-8. */
function loose(bytes) {
  return (decodeText(bytes) ?? new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)).replaceAll("\u0000", "");
}

