// Read NCZarr v3 stores: print the canonical JSON of each, or the constraints that it breaks.
//
//   node reader.mjs [--findings] STORE...
//
// One line for each store: the canonical JSON, or with --findings a list of codes, or {"error": message}. Without a
// STORE, the names of stores are read from the standard input, line by line.

import { createInterface } from "node:readline";

import { readCells } from "./arrays.mjs";
import { check } from "./check.mjs";
import { Dataset, Refused } from "./dataset.mjs";
import { Store } from "./store.mjs";
import { canonical, concatenate, declare, is, latin1, nameOf, toJson, unpack } from "./types.mjs";
import { print } from "./json.mjs";
import { joinFqn } from "./names.mjs";

async function describe(dataset) {
  const { name, ...rest } = await describeGroup(dataset, dataset.root);
  return { name, format: dataset.format, ...rest };
}

async function describeGroup(dataset, group) {
  const variables = [];
  for (const array of group.arrays) {
    variables.push({
      name: array.name,
      type: nameOf(array.type),
      dimensions: array.dimensions.map((d) => (d.anonymous ? d.size : joinFqn([...dataset.names(d.group), d.name]))),
      shape: array.shape,
      attributes: array.attributes.map(attribute),
      values: await values(dataset.store, array),
    });
  }
  const groups = [];
  for (const child of group.groups) groups.push(await describeGroup(dataset, child));
  return {
    name: group.name,
    types: group.types.map(declare),
    dimensions: group.dimensions.map((d) => ({ name: d.name, size: d.size, unlimited: d.unlimited })),
    attributes: group.attributes.map(attribute),
    variables,
    groups,
  };
}

function attribute({ name, type, values: list }) {
  const given = is(type, "char") ? latin1(list) : list.map((v) => canonical(toJson(v, type)));
  return { name, type: nameOf(type), values: given };
}

async function values(store, array) {
  const inBytes = array.extent.length > array.dimensions.length;
  const width = inBytes ? array.extent.at(-1) : null;
  let cells = await readCells(store, array.path, array.document, inBytes ? [...array.shape, width] : array.shape);
  if (inBytes) {
    const whole = concatenate(cells);
    cells = Array.from({ length: whole.length / width }, (_, i) => whole.slice(i * width, (i + 1) * width));
  }
  if (is(array.type, "char")) return latin1(concatenate(cells));
  const text = is(array.type, "string") && array.stored.class === "string";
  return cells.map((cell) => canonical(toJson(text ? cell : unpack(cell, array.type), array.type)));
}

async function answer(folder, findings) {
  try {
    const dataset = new Dataset(new Store(folder));
    if (findings) check(dataset);
    return findings ? [...dataset.findings].sort() : await describe(dataset);
  } catch (error) {
    if (process.env.DEBUG) console.error(error);
    if (findings && error instanceof Refused) return ["metadata"];
    return { error: `${folder}: ${error.message}` };
  }
}

const stores = process.argv.slice(2).filter((a) => a !== "--findings");
const findings = process.argv.includes("--findings");
for await (const folder of stores.length > 0 ? stores : createInterface({ input: process.stdin })) {
  console.log(print(await answer(folder, findings)));
}
