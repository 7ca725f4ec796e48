import { isDeepStrictEqual } from "node:util";
import { isRecord, jsonElementSpans, jsonMemberSpans } from "@turnpike/base";
import type { Question } from "./questions.ts";
import { headAt } from "./truth.ts";

/** What was counted so far. `wrong` must stay empty of everything; `errors` may be few. */
export interface Tally {
  requests: number;
  batches: number;
  batchItems: number;
  /** Calls that were answered, in batches or alone. */
  answers: number;
  notifications: number;
  /** Calls that got an error of the gateway instead of an answer. */
  errors: number;
  writes: number;
  /** Writes that got an error: they are sent once, whatever becomes of them. */
  writeErrors: number;
  /** By what is wrong. */
  readonly wrong: Record<string, number>;
  readonly errorKinds: Record<string, number>;
  /** What the first of them looked like. */
  readonly samples: string[];
  /** Most blocks by which an answered height was behind. */
  mostBehindBlocks: number;
}

/** A tally of nothing. */
export function emptyTally(): Tally {
  return {
    requests: 0,
    batches: 0,
    batchItems: 0,
    answers: 0,
    notifications: 0,
    errors: 0,
    writes: 0,
    writeErrors: 0,
    wrong: {},
    errorKinds: {},
    samples: [],
    mostBehindBlocks: 0,
  };
}

/** An answered height may be so many blocks behind: probes are some seconds old. */
const MAX_BEHIND_BLOCKS = 60;
const MAX_SAMPLES = 10;

/** When a request was sent, and what was known then. */
export interface Sent {
  /** Highest height that had been answered. */
  readonly heightBlocks: number;
}

/** The gateway took no call: it is too full, or this client has too much under way. */
const isRefusal = (status: number): boolean => status === 503 || status === 429;

/** Holds answers against their questions. */
export class Checker {
  readonly tally = emptyTally();
  readonly #startMs: number;
  #heightBlocks = 0;

  constructor(startMs: number) {
    this.#startMs = startMs;
  }

  /** To be taken before a request is sent. */
  sent(): Sent {
    return { heightBlocks: this.#heightBlocks };
  }

  /** No request of ours may end without an answer. */
  lost(what: string, count: number): void {
    this.tally.errors += count;
    this.#count(this.tally.errorKinds, what.slice(0, 80));
  }

  /** A single call's whole answer. */
  single(question: Question, sent: Sent, status: number, text: string): void {
    if (question.id === undefined) {
      // A request that is not taken at all is refused over HTTP, whatever stands in it.
      if (isRefusal(status)) this.lost(`HTTP ${status}`, 1);
      else if (text !== "" || status !== 204) this.#wrong("notification answered", question, text);
      return;
    }
    this.#object(question, sent, text, 0, status);
  }

  /** A batch's whole answer. */
  batch(questions: readonly Question[], sent: Sent, status: number, text: string): void {
    const calls = questions.filter(({ id }) => id !== undefined);
    if (calls.length === 0) {
      if (isRefusal(status)) this.lost(`HTTP ${status}`, questions.length);
      else if (text !== "" || status !== 204) this.#wrong("notifications answered", questions[0], text);
      return;
    }
    const bytes = Buffer.from(text);
    const found = jsonElementSpans(bytes, 0);
    if (found === undefined || found.end !== bytes.length) {
      if (status === 200) this.#wrong("batch not an array", calls[0], text);
      else this.lost(`HTTP ${status} ${text.slice(0, 60)}`, calls.length);
      return;
    }
    if (found.elements.length !== calls.length) {
      this.#wrong(`batch of another length`, calls[0], text);
      return;
    }
    for (const [at, question] of calls.entries()) {
      const span = found.elements[at];
      if (span !== undefined) this.#object(question, sent, bytes.toString("utf8", span.start, span.end), at, 200);
    }
  }

  #object(question: Question, sent: Sent, text: string, at: number, status: number): void {
    const { tally } = this;
    tally.answers++;
    const bytes = Buffer.from(text);
    const members = jsonMemberSpans(bytes, 0)?.members;
    const id = members?.find(({ key }) => key === "id");
    const rawId = id === undefined ? undefined : bytes.toString("utf8", id.start, id.end);
    if (rawId !== question.id) {
      // A gateway that is too full to read a request cannot know its id.
      if (status === 503 && rawId === "null") this.lost(`HTTP ${status}`, 1);
      else this.#wrong(`id ${at === 0 ? "of a first" : "of a later"} item`, question, text);
      return;
    }
    let value: unknown;
    try {
      value = JSON.parse(text) as unknown;
    } catch {
      value = undefined;
    }
    if (!isRecord(value) || value.jsonrpc !== "2.0" || "result" in value === "error" in value) {
      this.#wrong("not a JSON-RPC answer", question, text);
      return;
    }
    const { truth, method } = question;
    const wanted = truth !== undefined && "error" in truth ? truth.error : undefined;
    if ("error" in value && !(wanted !== undefined && isDeepStrictEqual(value.error, wanted))) {
      if (method === "eth_sendRawTransaction") tally.writeErrors++;
      else this.lost(`HTTP ${status} ${JSON.stringify(value.error)}`, 1);
      return;
    }
    if (truth !== undefined) {
      const isRight = "result" in truth ? isDeepStrictEqual(value.result, truth.result) : "error" in value;
      if (!isRight) this.#wrong("another answer", question, text);
    } else if (method === "eth_blockNumber") this.#height(question, sent, value.result, text);
    else if (method === "eth_sendRawTransaction" && !question.params.includes(String(value.result).slice(2))) {
      this.#wrong("another answer to a write", question, text);
    }
  }

  #height(question: Question, sent: Sent, result: unknown, text: string): void {
    const height = Number(result);
    const head = headAt(this.#startMs, Date.now());
    if (!(height <= head)) this.#wrong("height of the future", question, text);
    else if (height < head - MAX_BEHIND_BLOCKS) this.#wrong("height of the past", question, text);
    else if (height < sent.heightBlocks) this.#wrong("height went backwards", question, text);
    if (height <= head) {
      this.tally.mostBehindBlocks = Math.max(this.tally.mostBehindBlocks, head - height);
      this.#heightBlocks = Math.max(this.#heightBlocks, height);
    }
  }

  #count(counts: Record<string, number>, what: string): void {
    // A bounded list of kinds: texts of errors may differ without end.
    if (!Object.hasOwn(counts, what) && Object.keys(counts).length >= 50) return;
    counts[what] = (counts[what] ?? 0) + 1;
  }

  #wrong(what: string, question: Question | undefined, text: string): void {
    this.#count(this.tally.wrong, what);
    if (this.tally.samples.length >= MAX_SAMPLES) return;
    const { method = "", params = "", id } = question ?? {};
    this.tally.samples.push(`${what}: ${method} ${params.slice(0, 200)} id ${id} got ${text.slice(0, 300)}`);
  }
}
