import type { RpcJson } from "@turnpike/cometbft";

/** JSON text of one value inside a document; every character is a byte of UTF-8. */
export type RawJson = string;

/** Kinds of JSON values, in the words of Go's faults. */
export type JsonKind = "string" | "number" | "bool" | "null" | "array" | "object";

/** One value at the beginning of a text, or why Go's `encoding/json` refuses the text. */
export type Scanned =
  | { readonly ok: true; readonly raw: RawJson; readonly rest: string }
  | { readonly ok: false; readonly fault: string };

const ESCAPES = new Set(['"', "\\", "/", "b", "f", "n", "r", "t"]);
const LITERALS = new Map([
  ["t", "true"],
  ["f", "false"],
  ["n", "null"],
]);
const HEX_DIGITS = "0123456789abcdefABCDEF";
const PLAIN = /[^"\\\p{Cc}]*/uy;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const END = "unexpected end of JSON input";

/** The text of bytes in which every character is one byte. */
export function bytesToRaw(bytes: Uint8Array): RawJson {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

/** The value of a raw text that was scanned; what is not UTF-8 becomes U+FFFD, as in Go. */
export function rawToValue(raw: RawJson): unknown {
  return JSON.parse(Buffer.from(raw, "latin1").toString("utf8"));
}

/** The kind of a scanned value. */
export function kindOf(raw: RawJson): JsonKind {
  const first = raw.charAt(0);
  if (first === '"') return "string";
  if (first === "{") return "object";
  if (first === "[") return "array";
  if (first === "n") return "null";
  return first === "t" || first === "f" ? "bool" : "number";
}

function quoteByte(char: string): string {
  if (char === "'") return "'\\''";
  if (char === '"') return "'\"'";
  return `'${quoteGo(char).slice(1, -1)}'`;
}

/** A text (one character a byte) in double quotes, per Go's `%q`. */
export function quoteGo(text: string): string {
  const named: Readonly<Record<string, string>> = {
    "\x07": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
  };
  let quoted = "";
  for (const char of text) {
    const code = char.charCodeAt(0);
    if (named[char] !== undefined) quoted += named[char];
    else if (code < 0x20 || code === 0x7f) quoted += `\\x${code.toString(16).padStart(2, "0")}`;
    else if ((code > 0x7f && code <= 0xa0) || code === 0xad) quoted += `\\u${code.toString(16).padStart(4, "0")}`;
    else quoted += char;
  }
  return `"${quoted}"`;
}

class Scan {
  readonly text: string;
  readonly maxDepth: number;
  at = 0;
  fault: string | undefined;

  constructor(text: string, maxDepth: number) {
    this.text = text;
    this.maxDepth = maxDepth;
  }

  space(): void {
    for (; ; this.at++) {
      const code = this.text.charCodeAt(this.at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
    }
  }

  /** Refuses the byte at the place; at the end of the text, the end. */
  refuse(where: string): false {
    const char = this.text.charAt(this.at);
    this.fault ??= char === "" ? END : `invalid character ${quoteByte(char)} ${where}`;
    return false;
  }

  string(): boolean {
    for (this.at++; ; this.at++) {
      if (this.text.charCodeAt(this.at) !== 0x5c) {
        PLAIN.lastIndex = this.at;
        PLAIN.test(this.text);
        this.at = PLAIN.lastIndex;
      }
      const char = this.text.charAt(this.at);
      if (char === '"') break;
      if (char === "" || char < " ") return this.refuse("in string literal");
      if (char !== "\\") continue;
      this.at++;
      const mark = this.text.charAt(this.at);
      if (mark !== "u") {
        if (!ESCAPES.has(mark)) return this.refuse("in string escape code");
        continue;
      }
      for (let i = 0; i < 4; i++) {
        this.at++;
        if (!HEX_DIGITS.includes(this.text.charAt(this.at) || "-"))
          return this.refuse("in \\u hexadecimal character escape");
      }
    }
    this.at++;
    return true;
  }

  literal(word: string): boolean {
    for (let i = 1; i < word.length; i++) {
      this.at++;
      if (this.text.charAt(this.at) !== word[i])
        return this.refuse(`in literal ${word} (expecting '${word[i] ?? ""}')`);
    }
    this.at++;
    return true;
  }

  number(): boolean {
    const next = this.text.charCodeAt(this.at + 1);
    if (this.text.charCodeAt(this.at) >= 0x31 && (next === 0x2c || next === 0x5d)) {
      this.at++;
      return true;
    }
    NUMBER.lastIndex = this.at;
    if (NUMBER.test(this.text)) {
      this.at = NUMBER.lastIndex;
      if (this.text.charAt(this.at) === ".") return this.#after("after decimal point in numeric literal");
      if (/^[eE]$/.test(this.text.charAt(this.at))) {
        if (/^[+-]$/.test(this.text.charAt(this.at + 1))) this.at++;
        return this.#after("in exponent of numeric literal");
      }
      return true;
    }
    return this.#after("in numeric literal");
  }

  #after(where: string): false {
    this.at++;
    return this.refuse(where);
  }

  /** Reads one value without recursion: hostile texts nest deeply. */
  value(): boolean {
    const open: string[] = [];
    for (;;) {
      this.space();
      const char = this.text.charAt(this.at);
      if (char === "{" || char === "[") {
        if (open.length >= this.maxDepth) {
          this.fault = "exceeded max depth";
          return false;
        }
        this.at++;
        this.space();
        const closing = char === "{" ? "}" : "]";
        if (this.text.charAt(this.at) !== closing) {
          open.push(closing);
          if (char === "{" && !this.#key("looking for beginning of object key string")) return false;
          continue;
        }
        this.at++;
      } else if (char === '"') {
        if (!this.string()) return false;
      } else if (char === "-" || (char >= "0" && char <= "9")) {
        if (!this.number()) return false;
      } else {
        const word = LITERALS.get(char);
        if (word === undefined) return this.refuse("looking for beginning of value");
        if (!this.literal(word)) return false;
      }
      const next = this.#close(open);
      if (next !== "more") return next === "done";
    }
  }

  #key(where: string): boolean {
    this.space();
    if (this.text.charAt(this.at) !== '"') return this.refuse(where);
    if (!this.string()) return false;
    this.space();
    if (this.text.charAt(this.at) !== ":") return this.refuse("after object key");
    this.at++;
    return true;
  }

  #close(open: string[]): "more" | "done" | "fault" {
    for (;;) {
      const closing = open.at(-1);
      if (closing === undefined) return "done";
      this.space();
      const char = this.text.charAt(this.at);
      if (char === ",") {
        this.at++;
        if (closing === "]") return "more";
        return this.#key("looking for beginning of object key string") ? "more" : "fault";
      }
      if (char !== closing) {
        this.refuse(closing === "}" ? "after object key:value pair" : "after array element");
        return "fault";
      }
      this.at++;
      open.pop();
    }
  }
}

/** Reads the first value of a text (one character a byte). */
export function scanFirst(text: string, maxDepth: number): Scanned {
  const scan = new Scan(text, maxDepth);
  scan.space();
  const from = scan.at;
  if (!scan.value()) return { ok: false, fault: scan.fault ?? END };
  return { ok: true, raw: text.slice(from, scan.at), rest: text.slice(scan.at) };
}

/** Reads a text that is one value. */
export function scanWhole(text: string, maxDepth: number): Scanned {
  const scan = new Scan(text, maxDepth);
  scan.space();
  const from = scan.at;
  if (!scan.value()) return { ok: false, fault: scan.fault ?? END };
  const raw = text.slice(from, scan.at);
  scan.space();
  if (scan.at < text.length) {
    scan.refuse("after top-level value");
    return { ok: false, fault: scan.fault ?? END };
  }
  return { ok: true, raw, rest: "" };
}

/** Elements of a scanned array. @param most further ones are left out */
export function elementsOf(raw: RawJson, maxDepth: number, most = Number.POSITIVE_INFINITY): readonly RawJson[] {
  const elements: RawJson[] = [];
  const scan = new Scan(raw, maxDepth);
  scan.at = 1;
  scan.space();
  while (elements.length < most && scan.text.charAt(scan.at) !== "]") {
    scan.space();
    const from = scan.at;
    if (!scan.value()) break;
    elements.push(raw.slice(from, scan.at));
    scan.space();
    if (scan.text.charAt(scan.at) === ",") scan.at++;
  }
  return elements;
}

/** Members of a scanned object; of a repeated name the last one counts, as in Go. */
export function membersOf(raw: RawJson, maxDepth: number): ReadonlyMap<string, RawJson> {
  const members = new Map<string, RawJson>();
  const scan = new Scan(raw, maxDepth);
  scan.at = 1;
  scan.space();
  while (scan.text.charAt(scan.at) === '"') {
    const nameFrom = scan.at;
    scan.string();
    const name = String(rawToValue(raw.slice(nameFrom, scan.at)));
    scan.space();
    scan.at++;
    scan.space();
    const from = scan.at;
    if (!scan.value()) break;
    members.set(name, raw.slice(from, scan.at));
    scan.space();
    if (scan.text.charAt(scan.at) === ",") scan.at++;
    scan.space();
  }
  return members;
}

const ESCAPED = /[<>&\u2028\u2029]/g;

/** JSON text as Go writes it: `<`, `>`, `&` and the line separators are escaped. */
export function goJsonText(value: RpcJson | Readonly<Record<string, unknown>>): string {
  return JSON.stringify(value).replace(ESCAPED, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
