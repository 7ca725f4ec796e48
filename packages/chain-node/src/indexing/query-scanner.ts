/** Kinds of tokens of the query language; the texts are those of CometBFT's faults. */
export type TokenKind =
  | "invalid token"
  | "tag"
  | "string"
  | "number"
  | "timestamp"
  | "datestamp"
  | "AND operator"
  | "CONTAINS operator"
  | "EXISTS operator"
  | "= operator"
  | "< operator"
  | "<= operator"
  | "> operator"
  | ">= operator";

/** One token: where it begins (bytes of UTF-8), its text without quotes and labels. */
export interface Token {
  readonly kind: TokenKind;
  readonly offset: number;
  readonly text: string;
  /** Why the text has no token here. `EOF`: it ends. */
  readonly fault?: string;
}

const SPACE = /^\p{White_Space}$/u;
const DIGIT = /^\d$/;
const TAG_FIRST = /^[_\p{L}\p{Nd}]$/u;
const TAG_REST = /^[._\-\p{L}\p{Nd}]$/u;
const TIME_PART = /^[-T:+Z\d]$/;
const DATE_PART = /^[-\d]$/;

const RFC3339 = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))$/;
const DATE = /^(\d{4})-(\d\d)-(\d\d)$/;
const NS_PER_MS = 1_000_000n;
const NS_PER_MINUTE = 60_000_000_000n;
const FIRST_YEAR = 1900;
const LAST_YEAR = 2999;
const WORDS = new Map<string, TokenKind>([
  ["AND", "AND operator"],
  ["EXISTS", "EXISTS operator"],
  ["CONTAINS", "CONTAINS operator"],
]);

function dayMs(year: string, month: string, day: string): number | undefined {
  const text = `${year}-${month}-${day}`;
  const timeMs = Date.parse(`${text}T00:00:00Z`);
  return Number.isNaN(timeMs) || new Date(timeMs).toISOString().slice(0, 10) !== text ? undefined : timeMs;
}

/** Nanoseconds since 1970 of an RFC 3339 text with any offset; undefined when it is none. */
export function readTime(text: string): bigint | undefined {
  const [all, year = "", month = "", day = "", h = "", m = "", s = "", fraction = "", sign, oh = "0", om = "0"] =
    RFC3339.exec(text) ?? [];
  const startMs = all === undefined ? undefined : dayMs(year, month, day);
  if (startMs === undefined || Number(h) > 23 || Number(m) > 59 || Number(s) > 59) return undefined;
  if (Number(oh) > 24 || Number(om) > 60) return undefined;
  const seconds = Number(h) * 3600 + Number(m) * 60 + Number(s);
  const offset = BigInt(Number(oh) * 60 + Number(om)) * NS_PER_MINUTE;
  const nanos = BigInt(fraction.slice(0, 9).padEnd(9, "0"));
  const local = BigInt(startMs + seconds * 1000) * NS_PER_MS + nanos;
  return sign === "-" ? local + offset : local - offset;
}

/** Nanoseconds since 1970 of the beginning of a day `yyyy-mm-dd`; undefined when it is none. */
export function readDate(text: string): bigint | undefined {
  const [all, year = "", month = "", day = ""] = DATE.exec(text) ?? [];
  const startMs = all === undefined ? undefined : dayMs(year, month, day);
  return startMs === undefined ? undefined : BigInt(startMs) * NS_PER_MS;
}

/** Reads the tokens of a query one after the other, as CometBFT 0.38 does (`libs/pubsub/query/syntax`). */
export class QueryScanner {
  readonly #chars: readonly string[];
  #at = 0;
  #offset = 0;

  constructor(text: string) {
    this.#chars = Array.from(text);
  }

  /** The next token; at the end, and after it, one with the fault `EOF`. */
  next(): Token {
    while (this.#is(SPACE)) this.#take();
    const offset = this.#offset;
    const token = (kind: TokenKind, text: string): Token => ({ kind, offset, text });
    const fail = (fault: string): Token => ({ kind: "invalid token", offset, text: "", fault });
    if (this.#at >= this.#chars.length) return fail("EOF");
    if (this.#is(DIGIT)) return token("number", this.#number());
    if (this.#is(TAG_FIRST)) return this.#word(token, fail);
    const first = this.#take();
    if (first === "'") {
      const text = this.#takeWhile(/^[^']$/su);
      return this.#take() === "'" ? token("string", text) : fail("EOF");
    }
    if (first === "=") return token("= operator", first);
    if (first === "<" || first === ">") {
      if (!this.#is(/^=$/)) return token(`${first} operator`, first);
      this.#take();
      return token(`${first}= operator`, `${first}=`);
    }
    return fail(`invalid input ${first} at offset ${this.#offset}`);
  }

  #word(token: (kind: TokenKind, text: string) => Token, fail: (fault: string) => Token): Token {
    const text = this.#takeWhile(TAG_REST);
    if (this.#is(/^ $/) && (text === "TIME" || text === "DATE")) {
      this.#take();
      return text === "TIME" ? this.#time(token, fail) : this.#date(token, fail);
    }
    return token(WORDS.get(text) ?? "tag", text);
  }

  #number(): string {
    const whole = this.#takeWhile(DIGIT);
    return this.#is(/^\.$/) ? whole + this.#take() + this.#takeWhile(DIGIT) : whole;
  }

  #time(token: (kind: TokenKind, text: string) => Token, fail: (fault: string) => Token): Token {
    const text = this.#takeWhile(TIME_PART);
    if (readTime(text) === undefined) return fail(`invalid TIME value: cannot read "${text}" as RFC 3339`);
    return inRange(text) ? token("timestamp", text) : fail(`timestamp year ${yearOf(text)} out of range`);
  }

  #date(token: (kind: TokenKind, text: string) => Token, fail: (fault: string) => Token): Token {
    const text = this.#takeWhile(DATE_PART);
    if (readDate(text) === undefined) return fail(`invalid DATE value: cannot read "${text}" as yyyy-mm-dd`);
    return inRange(text) ? token("datestamp", text) : fail(`datestamp year ${yearOf(text)} out of range`);
  }

  #is(pattern: RegExp): boolean {
    const char = this.#chars[this.#at];
    return char !== undefined && pattern.test(char);
  }

  #take(): string {
    const char = this.#chars[this.#at] ?? "";
    this.#at++;
    this.#offset += Buffer.byteLength(char);
    return char;
  }

  #takeWhile(pattern: RegExp): string {
    const taken: string[] = [];
    while (this.#is(pattern)) taken.push(this.#take());
    return taken.join("");
  }
}

function yearOf(text: string): number {
  return Number(text.slice(0, 4));
}

function inRange(text: string): boolean {
  const year = yearOf(text);
  return year >= FIRST_YEAR && year <= LAST_YEAR;
}
