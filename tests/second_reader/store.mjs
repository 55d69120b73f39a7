// Read the documents and chunks of a Zarr hierarchy from a folder.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

import { isObject, isText, parse } from "./json.mjs";

export class Store {
  constructor(folder) {
    this.folder = folder;
  }

  /** A file below a node, or undefined. */
  bytes(path, key) {
    try {
      return Uint8Array.from(readFileSync(join(this.folder, ...path, ...key.split("/"))));
    } catch (error) {
      if (error.code === "ENOENT" || error.code === "EISDIR" || error.code === "ENOTDIR") return undefined;
      throw error;
    }
  }

  /** The document of a node as `{ value, bare, unknown }`, or undefined; `unknown`: the node cannot be opened. */
  document(path) {
    const bytes = this.bytes(path, "zarr.json");
    if (!bytes) return undefined;
    try {
      const parsed = parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
      const wrong = forbidden(parsed.value);
      if (wrong) throw new Error(`${[...path, "zarr.json"].join("/")}: ${wrong}`);
      return { ...parsed, unknown: asksForMore(parsed.value) };
    } catch (error) {
      if (path.length === 0) throw error;
      return { value: new Map([["node_type", "array"]]), bare: 0, unknown: true };
    }
  }

  /** The names of the nodes in a group, in the order of their code points: that of their UTF-8 form. */
  children(path) {
    const folder = join(this.folder, ...path);
    const isNode = (name) => {
      try {
        return statSync(join(folder, name, "zarr.json")).isFile();
      } catch {
        return false;
      }
    };
    return readdirSync(folder).filter(isNode).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  }
}

const CORE = {
  group: new Set(["zarr_format", "node_type", "attributes", "consolidated_metadata", "extensions"]),
  array: new Set([
    "zarr_format", "node_type", "attributes", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value",
    "codecs", "dimension_names", "storage_transformers", "extensions",
  ]),
};

/** What Zarr forbids in a document, as far as it concerns this convention; null if nothing. */
function forbidden(document) {
  if (!isObject(document) || document.get("zarr_format") !== 3n) return "not a Zarr v3 document";
  const known = CORE[document.get("node_type")];
  if (!known) return "neither a group nor an array";
  for (const [key, value] of document) {
    const open = isObject(value) && (document.get("node_type") === "array" || understood(key, value));
    if (!known.has(key) && !open) return `unknown key ${key}`;
  }
  if (!isObject(document.get("attributes") ?? new Map())) return "attributes are not an object";
  const labels = document.get("dimension_names");
  const rank = document.get("shape")?.length;
  if (labels === undefined || labels === null || (Array.isArray(labels) && labels.length === rank && labels.every((l) => l === null || isText(l)))) {
    return null;
  }
  return "dimension_names are not one label for each dimension";
}

/** Whether an array has something which must be understood and is not. */
function asksForMore(document) {
  if (document.get("node_type") !== "array") return false;
  return [...document].some(([key, value]) => !CORE.array.has(key) && !understood(key, value));
}

/** Whether a key need not be understood, or is the one of this convention. */
const understood = (key, value) => key === "nczarr" || value.get("must_understand") === false;
