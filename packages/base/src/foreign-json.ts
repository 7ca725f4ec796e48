import { isUtf8 } from "node:buffer";
import { asBuffer } from "./bytes.ts";
import { withoutLoneSurrogates } from "./json.ts";
import { JsonCheck, type JsonCheckFault, MAX_CHECKED_DEPTH } from "./json-check.ts";

/** Bounds of foreign JSON. Each is exact: what is at the bound is read. */
export interface ForeignJsonLimits {
  readonly maxBytes: number;
  /** Maximum nesting of arrays and objects. */
  readonly maxDepth: number;
  /** Maximum number of members and elements in the whole document: each costs memory, however short its text is. */
  readonly maxValues: number;
  /** Maximum number of values of a document that is parsed, too: of a larger one there is the text alone. Unbounded by default. */
  readonly maxParsedValues?: number;
}

/**
 * Bounds of an answer that a supplier gave. Deep, because the trace of a transaction is; `JSON.stringify` reaches three times
 * as deep on a main thread's stack.
 */
export const SUPPLIER_JSON: Omit<ForeignJsonLimits, "maxBytes"> = {
  maxDepth: MAX_CHECKED_DEPTH,
  maxValues: 2_000_000,
};

/** Reason that foreign bytes were not read. `cut`: they are the beginning of a JSON document. */
export type ForeignJsonFault = JsonCheckFault | "size" | "utf8" | "cut" | "empty";

/** Result of reading foreign JSON. */
export type ForeignJson =
  | {
      readonly ok: true;
      /** Parsed JSON: its numbers are doubles, and of members with one key it has the last. */
      readonly value: unknown;
      /** The document as it was sent, with U+FFFD for each half of a surrogate pair. */
      readonly text: string;
    }
  | { readonly ok: false; readonly fault: ForeignJsonFault };

/**
 * Reads JSON from somebody else, while it arrives: checks form, depth, number of values and size of each part before it is kept, so
 * that what is refused costs no memory and overflows no stack. Strings are well-formed: half a surrogate pair is U+FFFD.
 * `__proto__` is an own property, as `JSON.parse` makes it.
 */
export class ForeignJsonReader {
  readonly #maxBytes: number;
  readonly #maxParsedValues: number;
  readonly #check: JsonCheck;
  #parts: Uint8Array[] = [];
  #bytes = 0;
  #fault: ForeignJsonFault | undefined;

  constructor(limits: ForeignJsonLimits) {
    this.#maxBytes = limits.maxBytes;
    this.#maxParsedValues = limits.maxParsedValues ?? Number.POSITIVE_INFINITY;
    this.#check = new JsonCheck(limits);
  }

  /** Reads further bytes. False when they are refused: no more are needed. */
  write(part: Uint8Array): boolean {
    if (this.#fault !== undefined) return false;
    this.#bytes += part.length;
    if (this.#bytes > this.#maxBytes) this.#fault = "size";
    else if (!this.#check.write(part)) this.#fault = this.#check.fault ?? "syntax";
    if (this.#fault !== undefined) {
      this.#parts = [];
      return false;
    }
    this.#parts.push(part);
    return true;
  }

  /** Ends the reading. The bytes are released. */
  end(): ForeignJson {
    const parts = this.#parts;
    this.#parts = [];
    if (this.#fault !== undefined) return { ok: false, fault: this.#fault };
    if (this.#bytes === 0) return { ok: false, fault: "empty" };
    if (!this.#check.end()) return { ok: false, fault: "cut" };
    const [first] = parts;
    const bytes = first !== undefined && parts.length === 1 ? asBuffer(first) : Buffer.concat(parts);
    if (!isUtf8(bytes)) return { ok: false, fault: "utf8" };
    const text = withoutLoneSurrogates(bytes.toString());
    const isParsed = this.#check.values <= this.#maxParsedValues;
    return { ok: true, value: isParsed ? (JSON.parse(text) as unknown) : undefined, text };
  }
}

/** Reads JSON from somebody else that is there as a whole: see {@link ForeignJsonReader}. */
export function readForeignJson(bytes: Uint8Array, limits: ForeignJsonLimits): ForeignJson {
  const reader = new ForeignJsonReader(limits);
  reader.write(bytes);
  return reader.end();
}

/** True when a value has more than so many levels of arrays and objects. Looks no deeper. */
export function isNestedDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  const inner: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  return inner.some((one) => isNestedDeeper(one, levels - 1));
}
