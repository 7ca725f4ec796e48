import { isRecord, type Metrics } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";
import { type UpstreamAnswer, type UpstreamOutcome, wasTooMuch } from "../answers/upstream-answer.ts";
import { findMembers } from "../members.ts";
import { relaySplitLogsTotal } from "../metrics.ts";
import type { Job } from "./job.ts";

export interface LogSplittingTools {
  readonly metrics: Metrics;
  /** Largest answer, all parts together. */
  readonly maxAnswerBytes: number;
  /** The newest block, where it is known. */
  tip(job: Job): number | undefined;
  ask(job: Job): Promise<UpstreamOutcome>;
}

/** Parts of one question that are asked at once. */
const AT_ONCE = 4;

interface Range {
  readonly from: number;
  /** Last block, inclusive. `isOpen`: the range ends at whatever is newest then. */
  readonly to: number;
  readonly isOpen: boolean;
}

function readHeight(value: unknown): number | undefined {
  if (typeof value !== "string" || !/^0x[0-9a-fA-F]{1,12}$/.test(value)) return undefined;
  return Number(value);
}

/** The blocks that a question for logs is about; undefined when it cannot be taken apart. */
export function logRange(params: unknown, tip: number | undefined): Range | undefined {
  const filter = Array.isArray(params) ? (params as readonly unknown[])[0] : undefined;
  if (!isRecord(filter) || filter.blockHash !== undefined) return undefined;
  const { fromBlock, toBlock = "latest" } = filter;
  const from = fromBlock === "earliest" ? 0 : readHeight(fromBlock);
  const isOpen = toBlock === "latest";
  const to = isOpen ? tip : readHeight(toBlock);
  if (from === undefined || to === undefined || to <= from) return undefined;
  return { from, to, isOpen };
}

function partOf(call: BackendCall, range: Range): BackendCall {
  const [filter, ...rest] = call.params as readonly Readonly<Record<string, unknown>>[];
  const fromBlock = `0x${range.from.toString(16)}`;
  const toBlock = range.isOpen ? "latest" : `0x${range.to.toString(16)}`;
  const params = [{ ...filter, fromBlock, toBlock }, ...rest];
  const { clientId: _, ...own } = call;
  const body = Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":${JSON.stringify(params)}}`);
  return { ...own, id: "1", params, body };
}

const isSpace = (byte: number | undefined): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

/** The inside of an answer's list; undefined when it is no list. */
function insideOf({ body, resultAt = findMembers(body)?.get("result") }: UpstreamAnswer): Uint8Array | undefined {
  if (resultAt === undefined) return undefined;
  let { start, end } = resultAt;
  if (body[start] !== 0x5b || body[end - 1] !== 0x5d) return undefined;
  start++;
  end--;
  while (start < end && isSpace(body[start])) start++;
  while (end > start && isSpace(body[end - 1])) end--;
  return body.subarray(start, end);
}

/** Two halves; of a range that goes beyond the newest block, of its part up to that. */
function halves({ from, to, isOpen }: Range, tip: number | undefined): readonly [Range, Range] {
  const last = tip === undefined || tip <= from ? to : Math.min(to, tip);
  const middle = from + Math.floor((last - from) / 2);
  return [
    { from, to: middle, isOpen: false },
    { from: middle + 1, to, isOpen },
  ];
}

function slices(range: Range, maxBlocks: number, maxParts: number): Range[] | undefined {
  const count = Math.ceil((range.to - range.from + 1) / maxBlocks);
  if (count > maxParts) return undefined;
  return Array.from({ length: count }, (_, at) => {
    const from = range.from + at * maxBlocks;
    const isLast = at === count - 1;
    return { from, to: isLast ? range.to : from + maxBlocks - 1, isOpen: isLast && range.isOpen };
  });
}

class LogSplitter {
  readonly #job: Job;
  readonly #tools: LogSplittingTools;
  readonly #tip: number | undefined;
  #left: number;
  #bytes = 0;
  #asking = 0;
  readonly #waiting: (() => void)[] = [];
  failed: UpstreamOutcome | undefined;
  schemaCheck: UpstreamAnswer["schemaCheck"] = "passed";
  operator = "";

  constructor(job: Job, tools: LogSplittingTools, maxParts: number, tip: number | undefined) {
    this.#job = job;
    this.#tools = tools;
    this.#tip = tip;
    this.#left = maxParts;
  }

  /** The logs of a range as the insides of lists, in order; undefined when `failed` is set. */
  async ask(range: Range): Promise<readonly Uint8Array[] | undefined> {
    if (this.failed !== undefined) return undefined;
    if (this.#left-- <= 0) return this.#fail({ ok: false, code: "ANSWER_TOO_LARGE", attempts: 0 });
    const outcome = await this.#askPart(range);
    if (outcome === undefined) return undefined;
    if (wasTooMuch(outcome) && range.to > range.from) return this.askAll(halves(range, this.#tip));
    if (!outcome.ok || outcome.isError || outcome.lastResort !== undefined) return this.#fail(outcome);
    const inside = insideOf(outcome);
    if (inside === undefined) return this.#fail({ ok: false, code: "SUPPLIERS_FAILED", attempts: 1 });
    this.#bytes += inside.length;
    if (this.#bytes > this.#tools.maxAnswerBytes) {
      return this.#fail({ ok: false, code: "ANSWER_TOO_LARGE", attempts: 1 });
    }
    if (outcome.schemaCheck !== "passed") this.schemaCheck = outcome.schemaCheck;
    this.operator = outcome.operator;
    return inside.length === 0 ? [] : [inside];
  }

  /** Asks suppliers for a range when few others are asked for; undefined when that is of no use any more. */
  async #askPart(range: Range): Promise<UpstreamOutcome | undefined> {
    if (this.#asking >= AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#asking++;
    try {
      return this.failed === undefined ? await this.#tools.ask(this.#partOf(range)) : undefined;
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#asking--;
      else next();
    }
  }

  #partOf(range: Range): Job {
    const call = partOf(this.#job.call, range);
    const refs = [{ height: range.from }, range.isOpen ? ({ tag: "latest" } as const) : { height: range.to }];
    return { ...this.#job, mayStream: false, call, refs };
  }

  /** All ranges, some at once. */
  async askAll(ranges: readonly Range[]): Promise<readonly Uint8Array[] | undefined> {
    const results: (readonly Uint8Array[] | undefined)[] = [];
    let next = 0;
    const worker = async (): Promise<void> => {
      while (next < ranges.length && this.failed === undefined) {
        const at = next++;
        const range = ranges[at];
        if (range !== undefined) results[at] = await this.ask(range);
      }
    };
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, ranges.length) }, worker));
    if (this.failed !== undefined) return undefined;
    return results.flatMap((part) => part ?? []);
  }

  #fail(outcome: UpstreamOutcome): undefined {
    this.failed ??= outcome;
    return undefined;
  }
}

function join(parts: readonly Uint8Array[], job: Job, { schemaCheck, operator }: LogSplitter): UpstreamOutcome {
  const id = job.call.clientId ?? job.call.id ?? "null";
  const head = Buffer.from(`{"jsonrpc":"2.0","id":${id},"result":[`);
  const body = Buffer.concat([head, ...parts.flatMap((part, at) => (at === 0 ? [part] : [COMMA, part])), END]);
  const start = head.length - 1;
  return {
    ok: true,
    status: 200,
    contentType: "application/json",
    body,
    schemaCheck,
    operator,
    isError: false,
    idAt: { start: ID_AT, end: ID_AT + Buffer.byteLength(id) },
    resultAt: { start, end: body.length - 1 },
  };
}

const COMMA = Buffer.from(",");
const END = Buffer.from("]}");
const ID_AT = '{"jsonrpc":"2.0","id":'.length;

/** True for a question that {@link splitLogs} can take apart. */
export function isLogQuery({ call }: Job): boolean {
  return call.method === "eth_getLogs" && call.rpcType === "json_rpc";
}

/**
 * Asks for logs: the whole range where suppliers take it, otherwise halves, and halves of halves, and joins their lists
 * in order. A question that needs more than `maxParts` gets what a supplier said of the whole.
 */
export async function splitLogs(job: Job, tools: LogSplittingTools): Promise<UpstreamOutcome> {
  const rules = job.context.rules.logs;
  const tip = tools.tip(job);
  const range = logRange(job.call.params, tip);
  const { maxBlocks, maxParts } = rules;
  const planned =
    range && maxBlocks && range.to - range.from >= maxBlocks ? slices(range, maxBlocks, maxParts) : undefined;
  const whole = planned === undefined ? await tools.ask(job) : undefined;
  if (whole !== undefined && (range === undefined || !wasTooMuch(whole))) return whole;
  if (range === undefined) return tools.ask(job);
  const parts = new LogSplitter(job, tools, maxParts, tip);
  const lists = await parts.askAll(planned ?? halves(range, tip));
  tools.metrics.count(relaySplitLogsTotal, {
    service: job.context.service.id,
    result: lists === undefined ? "failed" : "joined",
  });
  if (lists !== undefined) return join(lists, job, parts);
  // The parts' errors have ids of ours; the whole's has the client's.
  if (parts.failed?.ok === false && whole?.ok !== true) return parts.failed;
  return whole ?? tools.ask(job);
}
