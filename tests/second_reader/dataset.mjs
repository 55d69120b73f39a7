// Read the model of a hierarchy: groups, types, dimensions, variables; recover what other programs left.

import { decode } from "./attributes.mjs";
import { dataType } from "./arrays.mjs";
import { ARRAY_KEYS, GROUP_KEYS, byPath, copiesOf, datasetOf, extensions, findHome, isDraftOfNetcdfC, isEarlier, isReadable, isVersion, objects, recordsOf, withOwnAnnotations } from "./identity.mjs";
import { isCount, isObject, isText, same, write } from "./json.mjs";
import { beginningOf, joinFqn, legal, nameOfNode, splitFqn } from "./names.mjs";
import { atomic, build, faults, is, isNumeric, needs, size } from "./types.mjs";

export class Refused extends Error {}

/** The dataset of a store: the root group; `findings` has the codes of the constraints that are broken. */
export class Dataset {
  constructor(store) {
    this.store = store;
    this.findings = new Set();
    this.groups = []; // in the order in which groups stand before what they hold
    this.types = new Map(); // FQN → type
    const root = store.document([]);
    if (!root) throw new Refused("no zarr.json at the root");
    this.root = this.node([], root);
    this.consolidated(root.value);
    this.keys();
    this.declareTypes();
    for (const group of this.groups) for (const array of group.arrays) this.variable(group, array);
    this.sizes();
    for (const group of this.groups) this.attributes(group);
    if (this.part) this.asDataset();
  }

  report(code) {
    this.findings.add(code);
  }

  // ---- nodes -----------------------------------------------------------------------------------------------------

  node(path, { value: document, bare }) {
    if (bare > 0) this.report("bare-nan");
    const group = {
      path, at: path, document, plain: document.get("attributes") ?? new Map(), arrays: [], groups: [], dimensions: [], types: [],
      leftOut: new Set(),
    };
    this.groups.push(group);
    for (const name of this.store.children(path)) {
      const found = this.store.document([...path, name]);
      const place = { node: name, path: [...path, name], ...found };
      if (found.unknown) {
        this.report("left-out");
        group.leftOut.add(name);
      } else if (found.value.get("node_type") === "array") {
        if (found.bare > 0) this.report("bare-nan");
        group.arrays.push({ ...place, document: found.value, plain: found.value.get("attributes") ?? new Map() });
      } else group.groups.push(Object.assign(this.node(place.path, found), { node: name }));
    }
    return group;
  }

  consolidated(root) {
    const copies = root.get("consolidated_metadata")?.get("metadata");
    if (!isObject(copies)) return;
    const own = new Map();
    const walk = (path) => {
      for (const name of this.store.children(path)) {
        const { value } = this.store.document([...path, name]);
        own.set([...path, name].join("/"), value);
        if (value.get("node_type") === "group") walk([...path, name]);
      }
    };
    walk([]);
    const bare = (d) => new Map([...d].filter(([k]) => k !== "consolidated_metadata"));
    if (copies.size !== own.size || ![...own].every(([k, v]) => copies.has(k) && same(bare(copies.get(k)), bare(v)))) {
      this.report("consolidated-stale");
    }
  }

  // ---- keys ------------------------------------------------------------------------------------------------------

  keys() {
    if (isDraftOfNetcdfC(this.root, this.groups)) throw new Refused("netCDF-C's draft for Zarr v3");
    this.home = findHome(this.root, this.groups) ?? { dataset: null, fqn: "/" };
    if (this.home.unclear) this.report("copy-unclear");
    for (const node of [...this.groups, ...this.groups.flatMap((g) => g.arrays)]) {
      const named = datasetOf(node);
      node.foreign = this.home.dataset !== null && named !== null && named !== this.home.dataset;
      if (node.foreign) this.report("node-foreign");
    }
    this.above();
    for (const group of this.groups) {
      group.keys = group.foreign || !group.document ? new Map() : this.carried(group, GROUP_KEYS, [group.plain, ...extensions(group.document)]);
      for (const array of group.arrays) {
        if (array.foreign) {
          array.keys = new Map();
          continue;
        }
        this.readable(array);
        array.keys = this.carried(array, ARRAY_KEYS, [...extensions(array.document), array.plain]);
        // A dataset may say that its arrays have their keys among the attributes; otherwise version 3.0 had them there.
        const asked = this.groups[0].keys.get("_nczarr_superblock")?.get("arrays") === "attributes";
        if (!asked && ARRAY_KEYS.some((k) => array.plain.has(k) && array.keys.get(k) === array.plain.get(k))) this.report("version-old");
      }
    }
    const copies = this.copies();
    for (const group of this.groups) {
      const found = group.keys.size === 0 && !group.foreign && (copies.get(joinFqn(this.names(group))) ?? this.cutCopy(group, copies));
      if (found) {
        this.report("keys-removed");
        group.keys = new Map(found);
        group.recovered = true;
      }
      const needed = group === this.root || group.arrays.length + group.groups.length > 0;
      group.lost = !found && group.keys.size === 0 && !group.damaged && needed;
      if (group.lost && group.document && !group.foreign) this.report("record-lost");
      this.record(group);
    }
    const walk = (group) => [group, ...group.groups.flatMap(walk)];
    this.groups = walk(this.root); // from now on in the order of the records
    this.version();
  }

  /** Whether the object `nczarr` of an array can be read. */
  readable(array) {
    if (objects(array.document).every(isReadable)) return true;
    this.report("key-unreadable");
    array.unreadable = true;
    return false;
  }

  /** The records of this dataset's groups that arrays hold, by FQN. */
  copies() {
    const arrays = this.groups.flatMap((g) => g.arrays);
    for (const array of arrays) {
      if (array.keys.has("_nczarr_copy") && !recordsOf(array.keys.get("_nczarr_copy"))) this.report("key-unreadable");
    }
    const own = arrays.sort(byPath).flatMap((a) => copiesOf(a, a.keys)).filter((c) => c.dataset === this.home.dataset);
    const ordered = [...own.filter((c) => c.inPlace), ...own.filter((c) => !c.inPlace)];
    const copies = new Map();
    for (const copy of this.home.copy ? [this.home.copy, ...ordered] : ordered) {
      if (!this.home.unclear && !copies.has(copy.fqn)) copies.set(copy.fqn, copy.record);
    }
    return copies;
  }

  /** The copy for a group whose node name is cut: that of the only name below its parent with this beginning. */
  cutCopy(group, copies) {
    const beginning = beginningOf(group.node ?? "");
    const above = joinFqn(this.names(group).slice(0, -1));
    const found = [...copies.keys()].map(splitFqn).filter(
      (parts) => beginning !== null && parts?.length > 0 && joinFqn(parts.slice(0, -1)) === above && parts.at(-1).startsWith(beginning),
    );
    return found.length === 1 ? copies.get(joinFqn(found[0])) : undefined;
  }

  /** The groups above a group that is opened alone: nothing is known of them. */
  above() {
    const base = splitFqn(this.home.fqn ?? "/");
    if (base.length === 0) return;
    for (const group of this.groups) group.at = [...base, ...group.path];
    this.part = this.root;
    this.part.node = base.at(-1);
    for (let n = base.length - 1; n >= 0; n -= 1) {
      this.root = {
        path: null, at: base.slice(0, n), node: base[n - 1], plain: new Map(), arrays: [], groups: [this.root], dimensions: [],
        types: [], leftOut: new Set(),
      };
      this.groups.unshift(this.root);
    }
  }

  /** Make the group that is opened alone the root, and declare there what it uses of the groups above. */
  asDataset() {
    const base = this.part.at;
    const fqn = joinFqn(base);
    const walk = (group) => [group, ...group.groups.flatMap(walk)];
    const inside = walk(this.part);
    const moved = this.groups.filter((g) => !inside.includes(g));
    const dimensions = inside.flatMap((g) => g.arrays).flatMap((a) => a.dimensions);
    const outer = (kind, isUsed) => {
      const taken = new Set(inside.flatMap((g) => g[kind]).map((x) => x.name ?? splitFqn(x.fqn).at(-1)));
      const found = moved.flatMap((g) => g[kind].filter(isUsed).map((x) => ({ x, depth: g.at.length })));
      for (const { x } of [...found].sort((a, b) => b.depth - a.depth)) {
        const wanted = x.name ?? splitFqn(x.fqn).at(-1);
        let name = wanted;
        for (let n = 1; taken.has(name); n += 1) name = `${wanted}_hidden${n}`;
        taken.add(name);
        if (kind === "dimensions") Object.assign(x, { name, group: this.part });
        else x.fqn = joinFqn([name]);
      }
      return found.map((f) => f.x);
    };
    const used = new Set();
    const use = (type) => {
      if (used.has(type)) return;
      used.add(type);
      (type.class === "vlen" ? [type.base] : (type.fields ?? []).map((f) => f.type)).forEach(use);
    };
    for (const group of inside) {
      for (const node of [group, ...group.arrays]) [node.type, ...node.attributes.map((a) => a.type)].filter(Boolean).forEach(use);
      group.types.forEach(use);
    }
    const own = inside.flatMap((g) => g.types);
    const types = outer("types", (t) => used.has(t));
    for (const type of own) type.fqn = type.fqn.slice(fqn.length);
    this.part.dimensions.unshift(...outer("dimensions", (d) => dimensions.includes(d)));
    this.part.types.unshift(...types);
    for (const group of inside) group.at = group.path;
    this.part.name = "";
    this.root = this.part;
    this.groups = inside;
  }

  carried(node, names, carriers) {
    const keys = new Map();
    for (const name of names) {
      const carrier = carriers.find((c) => c.has(name));
      if (!carrier) continue;
      const value = carrier.get(name);
      if (name === "_nczarr_copy" ? isText(value) : isObject(value)) keys.set(name, value);
      else if (names === GROUP_KEYS) {
        this.report("record-damaged");
        node.damaged = true;
      } else if (name === "_nczarr_attr") this.report("annotation-stale");
      else {
        this.report("key-unreadable");
        node.unreadable = true;
      }
    }
    return names === GROUP_KEYS ? withOwnAnnotations(keys) : keys;
  }

  version() {
    const block = this.root.keys.get("_nczarr_superblock");
    const version = block?.get("version") ?? undefined;
    if (version === undefined && !this.root.lost) this.report("version-missing");
    if (version !== undefined && !isVersion(version)) throw new Refused(`version ${write(version)} is not 3`);
    if (isEarlier(version) && !this.root.recovered) this.report("version-old");
    this.format = isText(block?.get("format")) ? block.get("format") : null;
    if (block?.has("format") && this.format === null) this.report("record-damaged");
    this.nz = block?.get("nz") === true; // of every group; its earlier form is of the root alone
    this.nzug = this.nz || block?.get("nzug") === true;
    const sources = block?.get("sources") ?? [];
    const good = (Array.isArray(sources) ? sources : [sources]).filter(isSource);
    const names = new Set(good.map((s) => s.get("name")));
    if (!Array.isArray(sources) || names.size < sources.length) this.report("record-damaged");
  }

  /** Names of a group from the root on. */
  names(group) {
    return group.at.map((node, i) => {
      const at = this.groups.find((g) => g.at.length === i + 1 && g.at.every((p, k) => p === group.at[k]));
      if (this.part && i < this.part.at.length) return node;
      const name = at?.keys?.get("_nczarr_group")?.get("name");
      return legal(name) ? name : nameOfNode(node);
    });
  }

  // ---- records ---------------------------------------------------------------------------------------------------

  record(group) {
    const record = group.keys.get("_nczarr_group") ?? new Map();
    group.name = group.at.length === 0 ? "" : this.name(record.get("name"), group.node);
    group.fqn = joinFqn(this.names(group));
    group.dimensions = this.list(record, "dimensions", (d) => this.dimension(group, d), oldDimensions);
    this.once(group.dimensions.map((d) => d.name));
    group.declarations = this.list(record, "types", (d) => isObject(d) && legal(d.get("name")) && d, oldTypes);
    this.once(group.declarations.map((d) => d.get("name")));
    for (const kind of ["arrays", "groups"]) {
      const nodes = this.list(record, kind, (n) => isText(n) && !n.includes("/") && n);
      this.once(nodes);
      const at = new Map(group[kind].map((n) => [n.node, n]));
      if (nodes.some((n) => !at.has(n) && !group.leftOut.has(n))) this.report("node-missing");
      if (!group.lost && group[kind].some((n) => !nodes.includes(n.node))) this.report("node-unlisted");
      const listed = [...new Set(nodes)].filter((n) => at.has(n)).map((n) => at.get(n));
      group[kind] = [...listed, ...group[kind].filter((n) => !nodes.includes(n.node))];
    }
  }

  /** The good entries of a list of a record; of version 3.0, an object that `old` turns into one. */
  list(record, key, good, old) {
    let entries = record.get(key) ?? [];
    if (isObject(entries) && old) entries = old(entries);
    if (!Array.isArray(entries)) {
      this.report("record-damaged");
      return [];
    }
    const kept = entries.map(good).filter(Boolean);
    if (kept.length < entries.length) this.report("record-damaged");
    return kept;
  }

  once(names) {
    if (new Set(names).size < names.length) this.report("record-damaged");
  }

  dimension(group, entry) {
    if (!isObject(entry) || !legal(entry.get("name"))) return null;
    // Copies leave out the sizes of unlimited dimensions. A damaged size is one that is not known.
    const unlimited = entry.get("unlimited") === true;
    const known = isCount(entry.get("size"));
    if (!known && (entry.get("size") ?? null) !== null) this.report("record-damaged");
    else if (!known && !group.recovered) this.report("size-missing");
    const recorded = known ? Number(entry.get("size")) : null;
    return { group, name: entry.get("name"), recorded, unlimited };
  }

  name(written, node) {
    if (written === undefined) return nameOfNode(node);
    if (legal(written)) return written;
    this.report("key-unreadable");
    return nameOfNode(node);
  }

  // ---- types -----------------------------------------------------------------------------------------------------

  declareTypes() {
    const declared = new Map();
    for (const group of this.groups) {
      for (const d of group.declarations) declared.set(joinFqn([...this.names(group), d.get("name")]), { group, d });
    }
    // What arrays declare counts where the groups' records do not have it.
    const homeless = [];
    for (const group of this.groups) {
      for (const array of group.arrays) {
        const own = array.keys.get("_nczarr_array")?.get("types");
        if (own !== undefined && !Array.isArray(own)) this.report("key-unreadable");
        for (const d of Array.isArray(own) ? own : []) {
          const parts = isObject(d) ? splitFqn(d.get("name")) : null;
          if (!parts?.length) {
            this.report("key-unreadable");
            continue;
          }
          if (declared.has(d.get("name"))) continue;
          const home = this.groups.find((g) => g.fqn === joinFqn(parts.slice(0, -1)));
          if (!home) homeless.push({ group, d, last: parts.at(-1) });
          else {
            declared.set(d.get("name"), { group: home, d, unlisted: !home.lost });
          }
        }
      }
    }
    for (const { group, d, last } of homeless) {
      if (!this.resolve(d.get("name"), group, declared)) declared.set(joinFqn([...this.names(group), last]), { group, d });
    }
    const good = new Map();
    for (const [fqn, { d, group }] of declared) {
      const codes = faults(d);
      codes.forEach((c) => this.report(c));
      if (!codes.includes("type-damaged")) good.set(fqn, { d, group });
    }
    const building = new Set();
    const find = (fqn) => {
      if (this.types.has(fqn)) return this.types.get(fqn);
      if (building.has(fqn)) throw new Refused("type-damaged"); // it contains itself
      building.add(fqn);
      const { d, group } = good.get(fqn);
      const type = build(d, fqn, (name) => {
        const needed = atomic(name) ?? this.resolve(name, group, good);
        if (!needed) throw new Refused("type-damaged");
        if (isText(needed) && needed !== name) this.report("reference-moved");
        return isText(needed) ? find(needed) : needed;
      });
      this.types.set(fqn, type);
      return type;
    };
    for (const [fqn, { group }] of good) {
      try {
        group.types.push(find(fqn));
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        this.report(error.message);
        good.delete(fqn);
      }
      building.clear();
    }
    // What cannot be read breaks no further constraint.
    for (const [fqn, { unlisted }] of declared) if (unlisted && this.types.has(fqn)) this.report("type-unlisted");
  }

  /** The FQN of the type that a name means in a group: itself, or where its group is gone one of the same last name. */
  resolve(name, group, types) {
    if (types.has(name)) return name;
    const parts = splitFqn(name);
    if (!parts?.length || this.groups.some((g) => g.fqn === joinFqn(parts.slice(0, -1)))) return null;
    const last = parts.at(-1);
    const names = this.names(group);
    for (let n = names.length; n >= 0; n -= 1) {
      const fqn = joinFqn([...names.slice(0, n), last]);
      if (types.has(fqn)) return fqn;
    }
    const anywhere = [...types.keys()].filter((fqn) => splitFqn(fqn).at(-1) === last);
    return anywhere.length === 1 ? anywhere[0] : null;
  }

  /** The type of a name that a node of a group uses, or null. */
  type(name, group) {
    if (!isText(name)) return null;
    if (atomic(name)) return atomic(name);
    const fqn = this.resolve(name, group, this.types);
    if (fqn !== null && fqn !== name) this.report("reference-moved");
    return fqn === null ? null : this.types.get(fqn);
  }

  // ---- variables -------------------------------------------------------------------------------------------------

  variable(group, array) {
    const record = array.keys.get("_nczarr_array") ?? new Map();
    array.group = group;
    array.record = record;
    array.name = this.free(this.name(record.get("name"), array.node), array.node, group.arrays.slice(0, group.arrays.indexOf(array)));
    array.stored = dataType(array.document.get("data_type"));
    if (!array.stored) throw new Refused(`data type of ${array.path.join("/")} is not read`);
    array.extent = array.document.get("shape").map(Number);
    array.type = this.variableType(group, array, record);
    const inner = extraDimension(array) ? array.extent.slice(0, -1) : array.extent;
    array.inner = inner;
    const references = record.get("dimension_references");
    const listed = Array.isArray(references) && references.every((r) => isCount(r) || splitFqn(r)?.length > 0);
    if (references === undefined) {
      if (inner.length > 0 && array.keys.size > 0 && !array.unreadable) this.report("references-missing");
    } else if (!listed) this.report("key-unreadable");
    else if (references.length !== inner.length) this.report("rank-mismatch");
    const unlimited = Array.isArray(record.get("unlimited")) ? record.get("unlimited") : [];
    // Without references the labels are taken, once the sizes are known.
    if (listed && references.length === inner.length) {
      array.dimensions = inner.map((length, i) =>
        this.reference(group, references[i], length, unlimited.includes(references[i])),
      );
    }
  }

  /** The name of a node that no other of its kind has: else what its node name gives, else with a number. */
  free(name, node, others) {
    const taken = (n) => others.some((o) => o.name === n);
    if (!taken(name)) return name;
    this.report("name-taken");
    let found = nameOfNode(node);
    if (taken(found) || !legal(found)) {
      for (let n = 2; taken((found = `${name}_${n}`)); n += 1);
    }
    return found;
  }

  variableType(group, array, record) {
    const written = record.get("type");
    if (written === undefined) {
      const hasKeys = array.keys.size > 0 || objects(array.document).length > 0;
      if (!impliesType(array.stored) && hasKeys && !array.foreign && !array.unreadable) {
        this.report("type-missing");
        array.guessed = true;
      }
      return this.plainType(group, array.name, array.stored);
    }
    const type = this.type(written, group);
    if (type && holds(array, type)) return type;
    this.report(type ? "type-mismatch" : "type-missing");
    array.guessed = true;
    return this.plainType(group, array.name, array.stored);
  }

  /** The type that a Zarr data type gives by itself; what netCDF has no name for is declared in the group. */
  plainType(group, name, stored) {
    const fqn = (last) => joinFqn([...this.names(group), last]);
    const declare = (type) => {
      if (!this.types.has(type.fqn)) {
        this.types.set(type.fqn, type);
        group.types.push(type);
      }
      return this.types.get(type.fqn);
    };
    if (stored.class === "number") return atomic(stored.name);
    if (stored.class === "string") return atomic("string");
    if (stored.class === "null_terminated_bytes" && stored.width === 1) return atomic("char");
    if (stored.class === "null_terminated_bytes") return atomic("string");
    if (stored.class === "bytes") return declare({ class: "vlen", fqn: fqn("bytes_t"), base: atomic("uint8") });
    if (stored.class === "raw_bytes") {
      return declare({ class: "opaque", fqn: fqn(`opaque_${stored.width}`), size: stored.width });
    }
    const fields = stored.fields.map((f) =>
      f.type.class === "null_terminated_bytes"
        ? { name: f.name, type: atomic("char"), shape: f.type.width === 1 ? [] : [f.type.width] }
        : { name: f.name, type: this.plainType(group, `${name}_${f.name}`, f.type), shape: [] },
    );
    return declare({ class: "compound", fqn: fqn(`${name}_t`), fields });
  }

  reference(group, written, length, unlimited) {
    if (!isText(written)) {
      if (Number(written) !== length) this.report("size-stale");
      return { anonymous: true, name: null, size: length };
    }
    const parts = splitFqn(written);
    const last = parts.at(-1);
    const home = this.groups.find((g) => g.fqn === joinFqn(parts.slice(0, -1)));
    if (!home) {
      this.report("reference-moved");
      return this.search(group, last) ?? this.declare(group, last, unlimited);
    }
    const found = home.dimensions.find((d) => d.name === last);
    if (!home.at.every((p, k) => p === group.at[k])) {
      this.report("dimension-unreachable");
      return { ...found, unreachable: true, name: last };
    }
    if (found) return found;
    if (!home.lost) this.report("dimension-unlisted");
    return this.declare(home, last, unlimited);
  }

  label(group, array, i, length) {
    const labels = array.document.get("dimension_names") ?? array.plain.get("_ARRAY_DIMENSIONS") ?? [];
    const label = labels[i];
    if (!legal(label)) return { anonymous: true, name: null, size: length };
    group.byLabel ??= new Map();
    const key = JSON.stringify([label, length]);
    if (!group.byLabel.has(key)) group.byLabel.set(key, this.byLabel(group, label, length));
    return group.byLabel.get(key);
  }

  /** The dimension of a label: the nearest of its name if the length is the same, else a new one. */
  byLabel(group, label, length) {
    const found = this.search(group, label);
    if (found?.size === length) return found;
    const taken = (name) => group.dimensions.some((d) => d.name === name);
    let name = taken(label) ? `${label}_${length}` : label;
    for (let n = 2; taken(name); n += 1) name = `${label}_${length}_${n}`;
    const own = this.declare(group, name, false);
    own.size = length;
    return own;
  }

  search(group, name) {
    for (let n = group.at.length; n >= 0; n -= 1) {
      const at = this.groups.find((g) => g.at.length === n && g.at.every((p, k) => p === group.at[k]));
      const found = at.dimensions.find((d) => d.name === name);
      if (found) return found;
    }
    return null;
  }

  declare(group, name, unlimited) {
    const dimension = { group, name, recorded: null, unlimited, added: true };
    group.dimensions.push(dimension);
    return dimension;
  }

  // ---- sizes -----------------------------------------------------------------------------------------------------

  sizes() {
    const used = new Map();
    for (const group of this.groups) {
      for (const array of group.arrays) {
        array.dimensions?.forEach((d, i) => used.set(d, [...(used.get(d) ?? []), { array, i, length: array.extent[i] }]));
      }
    }
    for (const group of this.groups) {
      for (const dimension of [...group.dimensions]) {
        const uses = used.get(dimension) ?? [];
        const lengths = uses.map((u) => u.length);
        const { recorded } = dimension;
        if (uses.length === 0) dimension.size = recorded ?? 0;
        else if (dimension.unlimited) {
          dimension.size = Math.max(...lengths);
          if (lengths.some((n) => n !== dimension.size)) this.report("length-differs");
        } else if (lengths.every((n) => n === lengths[0])) [dimension.size] = lengths;
        else {
          this.conflict(dimension, uses);
          continue; // the recorded size is one of those in conflict, or none
        }
        if (uses.length > 0 && recorded !== null && recorded !== dimension.size) this.report("size-stale");
      }
    }
    for (const group of this.groups) for (const array of group.arrays) this.separate(array);
    for (const group of this.groups) {
      for (const array of group.arrays) {
        array.labelled = !array.dimensions;
        array.dimensions ??= array.inner.map((length, i) => this.label(group, array, i, length));
        array.shape = array.dimensions.map((d) => d.size);
      }
    }
  }

  conflict(dimension, uses) {
    this.report("size-conflict");
    const lengths = uses.map((u) => u.length);
    const coordinate = uses.find((u) => u.array.group === dimension.group && u.array.name === dimension.name && u.array.extent.length === 1);
    dimension.size = lengths.includes(dimension.recorded) ? dimension.recorded : (coordinate?.length ?? Math.max(...lengths));
  }

  /** Give an array dimensions of its own where its lengths contradict fixed dimensions, or a dimension is out of reach. */
  separate(array) {
    array.dimensions?.forEach((dimension, i) => {
      const length = array.extent[i];
      if (!dimension.unreachable && (dimension.unlimited || dimension.size === length)) return;
      const { dimensions } = array.group;
      const other = (name) => dimensions.find((d) => d.name === name && (d.size !== length || d.unlimited));
      let name = `${dimension.name}_${length}`;
      for (let n = 2; other(name); n += 1) name = `${dimension.name}_${length}_${n}`;
      const own = dimensions.find((d) => d.name === name) ?? this.declare(array.group, name, false);
      own.size = length;
      array.outOfReach ||= dimension.unreachable;
      array.recorded ??= [...array.dimensions]; // labels are those of what the keys say
      array.dimensions[i] = own;
    });
  }

  // ---- attributes ------------------------------------------------------------------------------------------------

  attributes(group) {
    const own = (node, variable, nzug = false) =>
      decode(node.plain, node.keys.get("_nczarr_attr"), variable, (n) => this.type(n, group), (c) => this.report(c), nzug);
    group.attributes = own(group, null, group === this.root ? this.nzug : this.nz);
    for (const array of group.arrays) {
      array.attributes = own(array, array.type).filter((a) => array.keys.size > 0 || a.name !== "_ARRAY_DIMENSIONS");
    }
  }
}

const oldDimensions = (object) =>
  [...object].map(([name, size_]) => new Map([["name", name], ...(isObject(size_) ? size_ : [["size", size_]])]));
const oldTypes = (object) => [...object].map(([name, d]) => isObject(d) && new Map([["name", name], ...d]));

const isSource = (source) => {
  if (!isObject(source) || !isText(source.get("name"))) return false;
  const steps = source.get("steps") ?? [];
  const isWhole = (n) => typeof n === "bigint";
  const good = (key, check) => !source.has(key) || check(source.get(key));
  return good("sha256", isText) && good("version", isText) && good("size", isWhole) &&
    Array.isArray(steps) && steps.every(isWhole) && [0, 2].includes(steps.length);
};

/** Whether a Zarr data type alone is a type of netCDF. */
const impliesType = (stored) =>
  ["number", "string"].includes(stored.class) || (stored.class === "null_terminated_bytes" && stored.width === 1);

const extraDimension = (array) =>
  array.stored.class === "number" && (array.type.class === "opaque" || array.type.class === "compound");

/** Whether an array holds values of a type in one of the forms of the page. */
function holds(array, type) {
  const { stored, extent } = array;
  const fixed = size(type);
  if (stored.class === "bytes") return !isNumeric(type) && type.class !== "enum" && !is(type, "char");
  if (stored.class === "string") return is(type, "string");
  if (type.class === "enum") return stored.class === "number" && stored.name === type.base.name;
  if (is(type, "char")) return stored.name === "uint8" || (stored.class === "null_terminated_bytes" && stored.width === 1);
  if (type.class === "atomic") return stored.class === "number" && stored.name === type.name;
  if (fixed === null) return false;
  if (stored.class === "number") return stored.name === "uint8" && extent.at(-1) === fixed;
  return type.class === "compound" && stored.class === "struct" && matches(stored, type);
}

function matches(stored, type) {
  return stored.fields.length === type.fields.length && stored.fields.every((f, i) => {
    const field = type.fields[i];
    return f.name === field.name && matchesField(f.type, field.type, field.shape);
  });
}

function matchesField(stored, type, shape) {
  if (is(type, "char") && shape.length > 0 && stored.class === "null_terminated_bytes") {
    return shape.length === 1 && stored.width === shape[0];
  }
  if (shape.length > 0) {
    return stored.class === "struct" && stored.fields.length === shape[0] &&
      stored.fields.every((f, i) => f.name === String(i) && matchesField(f.type, type, shape.slice(1)));
  }
  if (type.class === "compound") return stored.class === "struct" && matches(stored, type);
  if (type.class === "opaque") return stored.class === "raw_bytes" && stored.width === type.size;
  if (is(type, "char")) return stored.class === "null_terminated_bytes" && stored.width === 1;
  const number = type.class === "enum" ? type.base : type;
  return stored.class === "number" && stored.name === number.name;
}
