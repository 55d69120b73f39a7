// Parse JSON with exact integers (BigInt), objects as Map, and bare NaN and infinities noted; write it again.

const WORDS = new Map([["null", null], ["true", true], ["false", false]]);
const BARE = new Map([["NaN", NaN], ["Infinity", Infinity], ["-Infinity", -Infinity]]);
const TOKEN = /[ \t\n\r]*(?:([{}[\],:])|("(?:[^"\\\u0000-\u001f]|\\.)*")|(-?\d+(?![\d.eE]))|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|(-?[A-Za-z]+))/y;

/** The value of a JSON text: integers are BigInt, other numbers Number, objects Map. `bare` counts what is no JSON. */
export function parse(text) {
  let position = 0;
  let bare = 0;

  function next() {
    TOKEN.lastIndex = position;
    const found = TOKEN.exec(text);
    if (!found) throw new SyntaxError(`not JSON at character ${position}`);
    position = TOKEN.lastIndex;
    return found;
  }

  function value(found = next()) {
    const [, mark, string, integer, number, word] = found;
    if (string !== undefined) return JSON.parse(string);
    if (integer !== undefined) return integer === "-0" ? -0 : BigInt(integer);
    if (number !== undefined) return Number(number);
    if (word !== undefined) {
      if (WORDS.has(word)) return WORDS.get(word);
      if (!BARE.has(word)) throw new SyntaxError(`not JSON: ${word}`);
      bare += 1;
      return BARE.get(word);
    }
    if (mark === "[") {
      const list = [];
      let token = next();
      if (token[1] === "]") return list;
      for (;;) {
        list.push(value(token));
        const after = next()[1];
        if (after === "]") return list;
        if (after !== ",") throw new SyntaxError(`a list without a comma at character ${position}`);
        token = next();
      }
    }
    if (mark === "{") {
      const object = new Map();
      let token = next();
      if (token[1] === "}") return object;
      for (;;) {
        if (token[2] === undefined || next()[1] !== ":") throw new SyntaxError(`a bad member at character ${position}`);
        object.set(JSON.parse(token[2]), value());
        const after = next()[1];
        if (after === "}") return object;
        if (after !== ",") throw new SyntaxError(`an object without a comma at character ${position}`);
        token = next();
      }
    }
    throw new SyntaxError(`not JSON at character ${position}`);
  }

  const result = value();
  if (text.slice(position).trim() !== "") throw new SyntaxError(`text behind the JSON at character ${position}`);
  return { value: result, bare };
}

/** The JSON text of a value, without blanks. */
export function write(value) {
  if (value instanceof Map) return `{${[...value].map(([k, v]) => `${JSON.stringify(k)}:${write(v)}`).join(",")}}`;
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (typeof value === "number" && Number.isInteger(value) && Math.abs(value) < 1e16) {
    return Object.is(value, -0) ? "-0.0" : `${value}.0`;
  }
  return JSON.stringify(value);
}

/** The text of canonical JSON: a whole number with a point or an exponent is a real one, and larger than 2^53. */
export function print(value) {
  if (Array.isArray(value)) return `[${value.map(print).join(",")}]`;
  if (value !== null && typeof value === "object") {
    return `{${Object.entries(value).map(([k, v]) => `${JSON.stringify(k)}:${print(v)}`).join(",")}}`;
  }
  const large = typeof value === "number" && Number.isInteger(value) && Math.abs(value) > Number.MAX_SAFE_INTEGER + 1;
  return large ? value.toExponential() : JSON.stringify(value);
}

/** Whether two values are the same JSON; numbers by value, members of objects in any order. */
export function same(a, b) {
  if (isNumber(a) && isNumber(b)) return a == b || (a !== a && b !== b); // eslint-disable-line eqeqeq
  if (Array.isArray(a)) return Array.isArray(b) && a.length === b.length && a.every((v, i) => same(v, b[i]));
  if (a instanceof Map) {
    return b instanceof Map && a.size === b.size && [...a].every(([k, v]) => b.has(k) && same(v, b.get(k)));
  }
  return a === b;
}

export const isNumber = (v) => typeof v === "bigint" || typeof v === "number";
export const isObject = (v) => v instanceof Map;
export const isText = (v) => typeof v === "string";
/** A whole number of JSON, from zero on, that counts something. */
export const isCount = (v) => typeof v === "bigint" && v >= 0n && v <= BigInt(Number.MAX_SAFE_INTEGER);
