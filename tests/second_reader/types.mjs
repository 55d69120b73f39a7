// Read types and their values: declarations, the packed form, values in JSON, canonical JSON.

import { isCount, isNumber, isObject, isText } from "./json.mjs";
import { legal, splitFqn } from "./names.mjs";

const NUMBERS = {
  int8: [1, "b"], uint8: [1, "B"], int16: [2, "h"], uint16: [2, "H"], int32: [4, "i"], uint32: [4, "I"],
  int64: [8, "q"], uint64: [8, "Q"], float32: [4, "f"], float64: [8, "d"],
};
const NUMPY = {
  i1: "int8", u1: "uint8", i2: "int16", u2: "uint16", i4: "int32", u4: "uint32", i8: "int64", u8: "uint64",
  f4: "float32", f8: "float64",
};
const ATOMIC = new Map(
  [...Object.keys(NUMBERS), "char", "string"].map((name) => [name, { class: "atomic", name }]),
);
export const DEFAULTS = {
  int8: -127n, uint8: 255n, int16: -32767n, uint16: 65535n, int32: -2147483647n, uint32: 4294967295n,
  int64: -9223372036854775806n, uint64: 18446744073709551614n,
  float32: 9.969209968386869e36, float64: 9.969209968386869e36,
};

export const atomic = (name) => ATOMIC.get(name) ?? ATOMIC.get(NUMPY[/^[<>|=]?([iuf]\d)$/u.exec(name)?.[1]]);
export const isInteger = (type) => type.class === "enum" || /^u?int/u.test(type.name ?? "");
export const isFloat = (type) => type.class === "atomic" && /^float/u.test(type.name);
export const isNumeric = (type) => type.class === "atomic" && type.name in NUMBERS;
export const is = (type, name) => type.class === "atomic" && type.name === name;
/** An enum's base, or the type itself. */
export const base = (type) => (type.class === "enum" ? type.base : type);

/** The range of an integer type. */
export function range(name) {
  const bits = BigInt(8 * NUMBERS[name][0]);
  return name.startsWith("u") ? [0n, 2n ** bits - 1n] : [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n];
}

/** The bytes of one value, or null where they differ from value to value. */
export function size(type) {
  if (type.class === "atomic") return type.name === "char" ? 1 : (NUMBERS[type.name]?.[0] ?? null);
  if (type.class === "enum") return size(type.base);
  if (type.class === "opaque") return type.size;
  if (type.class === "vlen") return null;
  let sum = 0;
  for (const field of type.fields) {
    const each = size(field.type);
    if (each === null) return null;
    sum += each * field.shape.reduce((a, b) => a * b, 1);
  }
  return sum;
}

/**
 * What is wrong with a declaration by itself: a list of codes, empty if nothing.
 * Members of version 3.0 may be an object.
 */
export function faults(declaration) {
  if (!isObject(declaration)) return ["type-damaged"];
  const kind = declaration.get("class");
  if (kind === "enum") {
    const kept = atomic(declaration.get("base"));
    const members = pairs(declaration.get("members"));
    if (!kept || !isInteger(kept) || !members) return ["type-damaged"];
    if (members.length === 0) return ["enum-empty"];
    const [low, high] = range(kept.name);
    if (!members.every(([n, v]) => isText(n) && n !== "" && typeof v === "bigint" && v >= low && v <= high)) {
      return ["type-damaged"];
    }
    return new Set(members.map(([n]) => n)).size < members.length ? ["enum-duplicate"] : [];
  }
  if (kind === "opaque") return isCount(declaration.get("size")) && declaration.get("size") > 0n ? [] : ["type-damaged"];
  if (kind === "vlen") return isText(declaration.get("base")) ? [] : ["type-damaged"];
  if (kind !== "compound") return ["type-damaged"];
  const fields = declaration.get("fields");
  const good = (f) =>
    isObject(f) && legal(f.get("name")) && isText(f.get("type")) &&
    (!f.has("shape") || (Array.isArray(f.get("shape")) && f.get("shape").every((n) => isCount(n) && n > 0n)));
  if (!Array.isArray(fields) || fields.length === 0 || !fields.every(good)) return ["type-damaged"];
  return new Set(fields.map((f) => f.get("name"))).size < fields.length ? ["type-damaged"] : [];
}

function pairs(members) {
  if (isObject(members)) return [...members];
  return Array.isArray(members) && members.every((m) => Array.isArray(m) && m.length === 2) ? members : null;
}

/** The types that a declaration needs, as they are written. */
export function needs(declaration) {
  if (declaration.get("class") === "vlen") return [declaration.get("base")];
  return declaration.get("class") === "compound" ? declaration.get("fields").map((f) => f.get("type")) : [];
}

/** The type of a declaration; `find` gives the types that it needs. */
export function build(declaration, fqn, find) {
  const type = { class: declaration.get("class"), fqn };
  if (type.class === "enum") {
    type.base = atomic(declaration.get("base"));
    type.members = pairs(declaration.get("members"));
  } else if (type.class === "opaque") {
    type.size = Number(declaration.get("size"));
  } else if (type.class === "vlen") {
    type.base = find(declaration.get("base"));
  } else {
    type.fields = declaration.get("fields").map((f) => ({
      name: f.get("name"), type: find(f.get("type")), shape: (f.get("shape") ?? []).map(Number),
    }));
  }
  return type;
}

export const nameOf = (type) => type.fqn ?? type.name;

/** A declaration in canonical JSON. */
export function declare(type) {
  const parts = { name: splitFqn(type.fqn).at(-1), class: type.class };
  if (type.class === "enum") {
    return { ...parts, base: type.base.name, members: type.members.map(([n, v]) => [n, number(v)]) };
  }
  if (type.class === "opaque") return { ...parts, size: type.size };
  if (type.class === "vlen") return { ...parts, base: nameOf(type.base) };
  const fields = type.fields.map((f) => ({
    name: f.name, type: nameOf(f.type), ...(f.shape.length > 0 ? { shape: f.shape } : {}),
  }));
  return { ...parts, fields };
}

// ---- the packed form -------------------------------------------------------------------------------------------

/** One value from its packed bytes; all of them must be used. */
export function unpack(bytes, type) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (n) => {
    if (at + n > bytes.length) throw new RangeError(`a value ends after ${bytes.length} bytes`);
    at += n;
    return at - n;
  };
  const many = (t, n) => (is(t, "char") ? bytes.slice(take(n), at) : Array.from({ length: n }, () => one(t)));
  function one(t) {
    if (t.class === "enum") return one(t.base);
    if (t.class === "opaque") return bytes.slice(take(t.size), at);
    if (t.class === "vlen") return many(t.base, view.getUint32(take(4), true));
    if (t.class === "compound") return new Map(t.fields.map((f) => [f.name, field(f.type, f.shape)]));
    if (t.name === "char") return bytes[take(1)];
    if (t.name === "string") return bytes.slice(take(view.getUint32(take(4), true)), at);
    const [width, code] = NUMBERS[t.name];
    const where = take(width);
    if (code === "f" || code === "d") return real(view, where, width);
    const read = { b: "getInt8", B: "getUint8", h: "getInt16", H: "getUint16", i: "getInt32", I: "getUint32",
      q: "getBigInt64", Q: "getBigUint64" }[code];
    return BigInt(view[read](where, true));
  }
  function field(t, shape) {
    if (shape.length === 0) return one(t);
    if (shape.length === 1) return many(t, shape[0]);
    return Array.from({ length: shape[0] }, () => field(t, shape.slice(1)));
  }
  if (type.class === "vlen") {
    if (is(type.base, "char")) return bytes;
    const items = [];
    while (at < bytes.length) items.push(one(type.base));
    return items;
  }
  const value = one(type);
  if (at !== bytes.length) throw new RangeError(`a value has ${bytes.length - at} bytes too many`);
  return value;
}

function real(view, where, width) {
  const value = width === 4 ? view.getFloat32(where, true) : view.getFloat64(where, true);
  if (value === value) return value; // eslint-disable-line no-self-compare
  const bits = width === 4 ? BigInt(view.getUint32(where, true)) : view.getBigUint64(where, true);
  if (bits === (width === 4 ? 0x7fc00000n : 0x7ff8000000000000n)) return NaN;
  return `0x${bits.toString(16).padStart(2 * width, "0")}`;
}

/** The packed bytes of a default fill value. */
export function defaultFill(type) {
  if (is(type, "string") || type.class === "vlen") return new Uint8Array(0);
  const kept = base(type);
  if (isNumeric(kept)) return packNumber(DEFAULTS[kept.name], kept.name);
  return zeros(type);
}

function zeros(type) {
  if (type.class !== "compound") return new Uint8Array(size(type) ?? 4); // no elements: a count of zero
  const parts = type.fields.flatMap((f) => Array(f.shape.reduce((a, b) => a * b, 1)).fill(zeros(f.type)));
  return concatenate(parts);
}

export function concatenate(parts) {
  const whole = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The little-endian bytes of a number, a BigInt or a Number or the bits of a NaN. */
export function packNumber(value, name) {
  const [width, code] = NUMBERS[name];
  const view = new DataView(new ArrayBuffer(width));
  if (code === "f" || code === "d") {
    if (isText(value)) {
      const bits = BigInt(value);
      if (width === 4) view.setUint32(0, Number(bits), true);
      else view.setBigUint64(0, bits, true);
    } else if (width === 4) view.setFloat32(0, Number(value), true);
    else view.setFloat64(0, Number(value), true);
  } else {
    for (let i = 0; i < width; i += 1) view.setUint8(i, Number((BigInt.asUintN(64, value) >> BigInt(8 * i)) & 255n));
  }
  return new Uint8Array(view.buffer);
}

// ---- values in JSON ---------------------------------------------------------------------------------------------

export const utf8 = (text) => new TextEncoder().encode(text);
export const base64 = (bytes) => Buffer.from(bytes).toString("base64");

export function fromBase64(text) {
  const bytes = Uint8Array.from(Buffer.from(text, "base64"));
  if (!isText(text) || base64(bytes) !== text) throw new TypeError("not base64");
  return bytes;
}

/** Text if the bytes are UTF-8, else null. */
export function decodeText(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

const wrapped = (v) => isObject(v) && v.size === 1 && isText(v.get("base64"));

/** A value of a type from its JSON; a TypeError where it is none. */
export function fromJson(json, type) {
  const no = () => {
    throw new TypeError(`not a value of ${nameOf(type)}`);
  };
  if (type.class === "enum") return fromJson(json, type.base);
  if (type.class === "opaque") {
    const bytes = isText(json) ? fromBase64(json) : no();
    return bytes.length === type.size ? bytes : no();
  }
  if (type.class === "vlen") return row(json, type.base, null);
  if (type.class === "compound") {
    if (!isObject(json) || json.size !== type.fields.length) no();
    return new Map(type.fields.map((f) => [f.name, json.has(f.name) ? nested(json.get(f.name), f.type, f.shape) : no()]));
  }
  if (type.name === "string") return wrapped(json) ? fromBase64(json.get("base64")) : isText(json) ? utf8(json) : no();
  if (type.name === "char") {
    const bytes = wrapped(json) ? fromBase64(json.get("base64")) : isText(json) ? utf8(json) : no();
    return bytes.length === 1 ? bytes[0] : no();
  }
  if (isFloat(type)) {
    if (isText(json)) {
      if (["NaN", "Infinity", "-Infinity"].includes(json)) return Number(json);
      if (!(type.name === "float32" ? /^0x[0-9a-f]{8}$/iu : /^0x[0-9a-f]{16}$/iu).test(json)) no();
      const bytes = packNumber(json, type.name);
      return real(new DataView(bytes.buffer), 0, bytes.length);
    }
    if (!isNumber(json)) no();
    const value = Number(json);
    const held = type.name === "float32" ? Math.fround(value) : value;
    const overflows = !Number.isFinite(held) && (typeof json === "bigint" || Number.isFinite(json));
    return overflows ? no() : held; // 1e300 is no float32
  }
  const whole = typeof json === "number" && Number.isInteger(json) ? BigInt(json) : json;
  const [low, high] = range(type.name);
  return typeof whole === "bigint" && whole >= low && whole <= high ? whole : no();
}

function row(json, type, length) {
  if (is(type, "char")) {
    const bytes = wrapped(json) ? fromBase64(json.get("base64")) : isText(json) ? utf8(json) : null;
    if (bytes === null || (length !== null && bytes.length > length)) throw new TypeError("not a row of text");
    return length === null ? bytes : concatenate([bytes, new Uint8Array(length - bytes.length)]);
  }
  if (!Array.isArray(json) || (length !== null && json.length !== length)) throw new TypeError("not a row");
  return json.map((v) => fromJson(v, type));
}

function nested(json, type, shape) {
  if (shape.length === 0) return fromJson(json, type);
  if (shape.length === 1) return row(json, type, shape[0]);
  if (!Array.isArray(json) || json.length !== shape[0]) throw new TypeError("not a nested list");
  return json.map((v) => nested(v, type, shape.slice(1)));
}

/** The JSON of a value, as JavaScript data whose integers are BigInt and whose objects are Map. */
export function toJson(value, type) {
  if (type.class === "enum") return value;
  if (type.class === "opaque") return base64(value);
  if (type.class === "vlen") return is(type.base, "char") ? text(value) : value.map((v) => toJson(v, type.base));
  if (type.class === "compound") {
    return new Map(type.fields.map((f) => [f.name, spread(value.get(f.name), f.type, f.shape)]));
  }
  if (type.name === "string") return text(value);
  if (type.name === "char") return value < 128 ? String.fromCharCode(value) : text(Uint8Array.of(value));
  if (isFloat(type) && typeof value === "number" && !Number.isFinite(value)) return String(value);
  return value;
}

function spread(value, type, shape) {
  if (shape.length === 0) return toJson(value, type);
  if (shape.length > 1) return value.map((v) => spread(v, type, shape.slice(1)));
  return is(type, "char") ? text(trim(value)) : value.map((v) => toJson(v, type));
}

function trim(bytes) {
  let n = bytes.length;
  while (n > 0 && bytes[n - 1] === 0) n -= 1;
  return bytes.slice(0, n);
}

function text(bytes) {
  return decodeText(bytes) ?? new Map([["base64", base64(bytes)]]);
}

/** JSON of a value as canonical JSON has it: numbers that every JSON reader gets right. */
export function canonical(json) {
  if (Array.isArray(json)) return json.map(canonical);
  if (isObject(json)) return Object.fromEntries([...json].map(([k, v]) => [k, canonical(v)]));
  return isNumber(json) ? number(json) : json;
}

function number(value) {
  if (typeof value === "bigint") return value > 2n ** 53n || value < -(2n ** 53n) ? value.toString() : Number(value);
  return Object.is(value, -0) ? "-0" : value;
}

export const latin1 = (bytes) => Buffer.from(bytes).toString("latin1");
