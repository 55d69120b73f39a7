// Pack values: the inverse of unpacking.

import { concatenate, is, packNumber } from "./types.mjs";

const count = (n) => packNumber(BigInt(n), "uint32");

/** The packed form of a value that stands by itself: a sequence has no count. */
export function pack(value, type) {
  if (type.class === "vlen") return is(type.base, "char") ? value : concatenate(value.map((v) => inside(v, type.base)));
  return inside(value, type);
}

function inside(value, type) {
  if (type.class === "enum") return packNumber(value, type.base.name);
  if (type.class === "opaque") return value;
  if (type.class === "vlen") return concatenate([count(value.length), pack(value, type)]);
  if (type.class === "compound") {
    return concatenate(type.fields.map((f) => spread(value.get(f.name), f.type, f.shape)));
  }
  if (type.name === "string") return concatenate([count(value.length), value]);
  if (type.name === "char") return Uint8Array.of(value);
  return packNumber(value, type.name);
}

function spread(value, type, shape) {
  if (shape.length === 0) return inside(value, type);
  if (is(type, "char") && shape.length === 1) return value;
  return concatenate([...value].map((v) => spread(v, type, shape.slice(1))));
}

