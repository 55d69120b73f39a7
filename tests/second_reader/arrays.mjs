// Read the values of Zarr arrays with zarrita, each as its bytes: one cell for each element.

import * as zarr from "zarrita";

import { isObject, isText } from "./json.mjs";
import { concatenate, fromBase64, fromJson, atomic, packNumber, size, utf8 } from "./types.mjs";

/** Elements of any length: vlen-utf8 and vlen-bytes, whose chunks are alike. */
class Sequences {
  kind = "array_to_bytes";

  constructor(shape) {
    this.shape = shape;
  }

  static fromConfig(_, meta) {
    return new Sequences(meta.shape);
  }

  decode(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const data = [];
    let at = 4;
    for (let n = view.getUint32(0, true); n > 0; n -= 1) {
      const length = view.getUint32(at, true);
      data.push(bytes.slice(at + 4, at + 4 + length));
      at += 4 + length;
    }
    return { data, shape: this.shape, stride: rowMajor(this.shape) };
  }
}

/** Elements of a fixed number of bytes that are no numbers: structs, text of fixed length. */
class Fixed {
  kind = "array_to_bytes";

  constructor(width, shape) {
    this.width = width;
    this.shape = shape;
  }

  static fromConfig(configuration, meta) {
    return new Fixed(configuration.width, meta.shape);
  }

  decode(bytes) {
    const count = bytes.length / this.width;
    const data = Array.from({ length: count }, (_, i) => bytes.slice(i * this.width, (i + 1) * this.width));
    return { data, shape: this.shape, stride: rowMajor(this.shape) };
  }
}

zarr.registry.set("vlen-utf8", () => Sequences);
zarr.registry.set("vlen-bytes", () => Sequences);
zarr.registry.set("fixed", () => Fixed);

function rowMajor(shape) {
  const strides = shape.map(() => 1);
  for (let i = shape.length - 2; i >= 0; i -= 1) strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

const nameOf = (dataType) => (isObject(dataType) ? dataType.get("name") : dataType);
const setting = (dataType, key) => dataType.get("configuration")?.get(key);

/** What a Zarr data type is: `class` and, where it has one, the `width` of an element in bytes; null if unknown. */
export function dataType(declared) {
  const name = nameOf(declared);
  const number = isText(declared) ? atomic(name) : undefined;
  if (number && number.name === name && name !== "char" && name !== "string") {
    return { class: "number", name, width: size(number) };
  }
  if (name === "string" || name === "bytes") return { class: name };
  if (name === "null_terminated_bytes" || name === "raw_bytes") {
    return { class: name, width: Number(setting(declared, "length_bytes")) };
  }
  if (name !== "struct") return null;
  const fields = setting(declared, "fields").map((f) => ({ name: f.get("name"), type: dataType(f.get("data_type")) }));
  if (fields.some((f) => f.type?.width === undefined)) return null;
  return { class: "struct", fields, width: fields.reduce((n, f) => n + f.type.width, 0) };
}

/** The bytes of a Zarr `fill_value`. */
export function fillBytes(json, type) {
  if (type.class === "number") return packNumber(fromJson(json, atomic(type.name)), type.name);
  if (type.class === "string") return utf8(json);
  if (type.class === "bytes") return fromBase64(json);
  if (type.class === "struct") return concatenate(type.fields.map((f) => fillBytes(json.get(f.name), f.type)));
  const bytes = fromBase64(json);
  return concatenate([bytes, new Uint8Array(type.width - bytes.length)]);
}

const plain = (json) =>
  isObject(json) ? Object.fromEntries([...json].map(([k, v]) => [k, plain(v)]))
    : Array.isArray(json) ? json.map(plain) : typeof json === "bigint" ? Number(json) : json;

/** Cells of an array, row-major, of a shape that may be larger than its own: what is beyond has the fill value. */
export async function readCells(store, path, document, shape) {
  const type = dataType(document.get("data_type"));
  const fill = fillBytes(document.get("fill_value"), type);
  const own = document.get("shape").map(Number);
  const grid = plain(document.get("chunk_grid"));
  if (grid.name !== "regular") throw new Error(`chunk grids of the kind ${grid.name} are not read`);
  const numeric = type.class === "number";
  const cellwise = (codec) => {
    if (codec.name === "sharding_indexed") {
      const configuration = { ...codec.configuration, codecs: codec.configuration.codecs.map(cellwise) };
      return { ...codec, configuration };
    }
    const fixed = codec.name === "bytes" && !numeric && type.width !== undefined;
    return fixed ? { name: "fixed", configuration: { width: type.width } } : codec;
  };
  const codecs = plain(document.get("codecs")).map(cellwise);
  const get = (key) => store.bytes(path, key.slice(1));
  const getRange = async (key, { offset, length, suffixLength }) => {
    const bytes = await get(key);
    if (bytes === undefined || suffixLength === undefined) return bytes?.subarray(offset, offset + length);
    return bytes.subarray(bytes.length - suffixLength);
  };
  const array = new zarr.Array({ get, getRange }, "/", {
    zarr_format: 3,
    node_type: "array",
    shape: own,
    // Numbers are read as their bits, so that every NaN stays what it is.
    data_type: numeric ? `uint${8 * type.width}` : "string",
    chunk_grid: grid,
    chunk_key_encoding: plain(document.get("chunk_key_encoding")),
    fill_value: numeric ? bitsOf(fill) : fill,
    codecs,
    attributes: {},
  });
  const cells = new Array(shape.reduce((a, b) => a * b, 1)).fill(fill);
  const strides = rowMajor(shape);
  const chunks = own.map((n, i) => Math.ceil(n / array.chunks[i]));
  for (const chunk of places(chunks)) {
    const { data, stride } = await array.getChunk(chunk);
    const start = chunk.map((c, i) => c * array.chunks[i]);
    const extent = start.map((s, i) => Math.min(array.chunks[i], own[i] - s));
    for (const place of places(extent)) {
      const from = place.reduce((sum, p, i) => sum + p * stride[i], 0);
      const to = place.reduce((sum, p, i) => sum + (p + start[i]) * strides[i], 0);
      cells[to] = numeric ? bytesOf(data[from], type.width) : data[from];
    }
  }
  return cells;
}

function bitsOf(bytes) {
  const bits = [...bytes].reduceRight((sum, b) => sum * 256n + BigInt(b), 0n);
  return bytes.length === 8 ? bits : Number(bits);
}

function bytesOf(bits, width) {
  return Uint8Array.from({ length: width }, (_, i) => Number((BigInt(bits) >> BigInt(8 * i)) & 255n));
}

function* places(shape, done = []) {
  if (done.length === shape.length) yield done;
  else for (let i = 0; i < shape[done.length]; i += 1) yield* places(shape, [...done, i]);
}
