import { AppError, asBuffer, isRecord, type Metrics } from "@turnpike/base";
import type { UpstreamAnswer, UpstreamOutcome } from "../answers/upstream-answer.ts";
import { relayCrossChecksTotal } from "../metrics.ts";
import type { SendPurpose } from "../transport/transport.ts";
import { isAboutHead, type Job } from "./job.ts";
import type { RetryOptions } from "./retrying-request.ts";

export interface CrossCheckTools {
  readonly metrics: Metrics;
  /** Operators that are likely to answer. */
  operators(job: Job): number;
  request(job: Job, options: RetryOptions): Promise<UpstreamOutcome>;
  /** A majority contradicts this operator's answer. */
  contradicted(job: Job, operator: string): void;
  /** Operators contradict each other without a majority. */
  disagreed(job: Job, operators: readonly string[]): void;
}

/** How many must agree on the answer to a job; 1 when its answers cannot be compared. */
export function requiredAnswers({ call, traits, isFree, isOnce, context }: Job, isOn: boolean): number {
  if (!isOn || isOnce || traits?.kind !== "read" || !traits.isComparable) return 1;
  const { crossCheck } = context.rules;
  const { method = call.operation } = call;
  const own = Object.hasOwn(crossCheck.methods, method) ? crossCheck.methods[method] : undefined;
  return own ?? (isFree ? crossCheck.free : crossCheck.sold);
}

/** Deepest value that is compared. */
const MAX_DEPTH = 64;

/**
 * Whether two results say the same. Nodes leave fields out or add some, and spell hex in either case: what both state
 * has to be equal.
 */
export function agree(a: unknown, b: unknown, depth = 0): boolean {
  if (a === b) return true;
  if (depth > MAX_DEPTH) return false;
  if (typeof a === "string" && typeof b === "string") {
    return a.startsWith("0x") && b.startsWith("0x") && a.toLowerCase() === b.toLowerCase();
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((one, at) => agree(one, b[at], depth + 1));
  }
  if (!isRecord(a) || !isRecord(b)) return false;
  const shared = Object.keys(a).filter((key) => Object.hasOwn(b, key));
  const isEmpty = Object.keys(a).length === 0 || Object.keys(b).length === 0;
  if (shared.length === 0) return isEmpty && Object.keys(a).length === Object.keys(b).length;
  return shared.every((key) => agree(a[key], b[key], depth + 1));
}

interface Opinion {
  readonly answer: UpstreamAnswer;
  readonly result: unknown;
}

function readResult({ result, resultAt, body, isError }: UpstreamAnswer): unknown {
  if (result !== undefined || isError) return result;
  try {
    const bytes = asBuffer(body);
    return JSON.parse(bytes.toString("utf8", resultAt?.start ?? 0, resultAt?.end ?? bytes.length)) as unknown;
  } catch {
    return undefined;
  }
}

/** Both errors are the same kind of answer: nodes word them differently. */
function sameOpinion(a: Opinion, b: Opinion): boolean {
  return a.answer.isError || b.answer.isError ? a.answer.isError && b.answer.isError : agree(a.result, b.result);
}

/**
 * Asks several operators, and returns the answer that enough of them agree on. A minority is reported as contradicted.
 * Answers about the newest block may differ because one supplier is a block ahead: that is no contradiction.
 */
export async function crossCheck(job: Job, required: number, tools: CrossCheckTools): Promise<UpstreamOutcome> {
  const service = job.context.service.id;
  const { strict } = job.context.rules.crossCheck;
  const count = (result: string): void => tools.metrics.count(relayCrossChecksTotal, { service, result });
  const available = tools.operators(job);
  if (available < required) {
    count("too_few");
    return strict ? disagreement(0) : tools.request(job, {});
  }
  const asked = new Set<string>();
  const groups: Opinion[][] = [];
  let attempts = 0;
  let failure: UpstreamOutcome | undefined;
  const ask = async (purpose: SendPurpose): Promise<void> => {
    const outcome = await tools.request(job, { purpose, asked, freshOnly: true });
    attempts += outcome.ok ? 1 : outcome.attempts;
    if (!outcome.ok || outcome.lastResort !== undefined) {
      failure ??= outcome;
      return;
    }
    const opinion = { answer: outcome, result: readResult(outcome) };
    const group = groups.find(([first]) => first !== undefined && sameOpinion(first, opinion));
    if (group === undefined) groups.push([opinion]);
    else group.push(opinion);
  };
  await Promise.all(Array.from({ length: required }, (_, at) => ask(at === 0 ? "client" : "comparison")));
  const largest = (): Opinion[] => groups.reduce((best, group) => (group.length > best.length ? group : best), []);
  while (largest().length < required && asked.size < available && failure === undefined) await ask("comparison");
  const best = largest();
  const [first] = best;
  if (first === undefined) {
    if (failure?.ok === false) return { ...failure, attempts };
    return failure === undefined || strict ? disagreement(attempts) : failure;
  }
  if (best.length >= required) {
    count("agreed");
    const isMajority = groups.length > 1 && !isAboutHead(job);
    for (const group of isMajority ? groups : []) {
      if (group !== best) for (const { answer } of group) tools.contradicted(job, answer.operator);
    }
    return fullest(best);
  }
  if (groups.length === 1 || isAboutHead(job)) {
    // No contradiction: fewer answered than were asked, or one of them has a newer block.
    count("unconfirmed");
    return strict ? disagreement(attempts) : (newest(job, groups) ?? first.answer);
  }
  const known = groups.filter(([one]) => one !== undefined && !isNothing(one));
  if (known.length === 1 && job.traits?.cache.by === "found") {
    // One operator has it, another does not have it yet.
    count("unconfirmed");
    return strict ? disagreement(attempts) : (known[0]?.[0]?.answer ?? first.answer);
  }
  count("disagreed");
  tools.disagreed(job, [...new Set(groups.flat().map(({ answer }) => answer.operator))].toSorted());
  return disagreement(attempts);
}

/** Those who agree may each leave fields out: the answer with the most in it. */
function fullest(group: readonly Opinion[]): UpstreamAnswer {
  const [first, ...others] = group.map(({ answer }) => answer);
  if (first === undefined) throw new AppError("INTERNAL", { message: "No group of equal answers." });
  return others.reduce((best, one) => (one.body.length > best.body.length ? one : best), first);
}

function isNothing({ result, answer }: Opinion): boolean {
  return answer.isError || result === null;
}

/** The answer that states the highest newest block, where answers state one. */
function newest(job: Job, groups: readonly Opinion[][]): UpstreamAnswer | undefined {
  let best: { readonly answer: UpstreamAnswer; readonly height: number } | undefined;
  for (const { answer, result } of groups.flat()) {
    const height = job.traits?.tipOf?.(result);
    if (height !== undefined && (best === undefined || height > best.height)) best = { answer, height };
  }
  return best?.answer;
}

const disagreement = (attempts: number): UpstreamOutcome => ({ ok: false, code: "SUPPLIERS_DISAGREE", attempts });
