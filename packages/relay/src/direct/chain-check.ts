import { jsonMemberSpans, skipJsonSpace } from "@turnpike/base";
import type { GoodAnswer } from "../answer.ts";
import { isEmptyResult } from "../cache/policy.ts";
import { historyKindOf, neededHeights } from "../chain-view/archive.ts";
import { replaceSpan } from "../members.ts";
import { type FoundAnswer, foundOf } from "./found.ts";
import { isAboutHead, type Job } from "./job.ts";
import type { AttemptResult, Target } from "./target.ts";

type Good = Extract<AttemptResult, { kind: "good" }>;

/** Longer members are not read when only a height is looked for. */
const MAX_MEMBER_BYTES = 2_048;

/** The result with its short members only: a block's height without its transactions. */
function shallowResult({ result, resultAt, body }: GoodAnswer): unknown {
  if (result !== undefined) return result;
  if (resultAt === undefined) return undefined;
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const textOf = (start: number, end: number): string => bytes.toString("utf8", start, end);
  try {
    if (resultAt.end - resultAt.start <= MAX_MEMBER_BYTES) {
      return JSON.parse(textOf(resultAt.start, resultAt.end)) as unknown;
    }
    const members = jsonMemberSpans(bytes, skipJsonSpace(bytes, resultAt.start))?.members ?? [];
    const short = members.filter(({ start, end }) => end - start <= MAX_MEMBER_BYTES);
    return Object.fromEntries(short.map(({ key, start, end }) => [key, JSON.parse(textOf(start, end)) as unknown]));
  } catch {
    return undefined;
  }
}

/** True when no member was left out of {@link shallowResult}. */
function isReadWhole({ result, resultAt }: GoodAnswer): boolean {
  return result !== undefined || (resultAt !== undefined && resultAt.end - resultAt.start <= MAX_MEMBER_BYTES);
}

/**
 * Holds a good answer against what is known of the chain: a height that goes back behind what clients were shown, or
 * cannot be true, a newest block without a height, and "nothing" from a supplier that is below the block it was asked about, are no answers.
 */
export function checkAgainstChain(target: Target, job: Job, result: Good, nowMs: number): AttemptResult {
  const { traits, refs, set, call } = job;
  const { good } = result;
  if (good.isError || good.stream !== undefined || traits === undefined) return result;
  const { view, archive } = set.memory;
  if (
    traits.tipOf !== undefined &&
    isAboutHead(job) &&
    refs?.some((ref) => !("tag" in ref && ref.tag === "latest")) !== true
  ) {
    const height = traits.tipOf(shallowResult(good));
    if (height !== undefined) return checkTip(target, job, result, height, nowMs);
    if (isReadWhole(good)) {
      return { kind: "bad", blame: "supplier", reason: "schema", stale: staleOf(target, result) };
    }
  }
  if (refs === undefined) return result;
  const tip = view.newest(nowMs);
  const needed = tip === undefined ? undefined : neededHeights(refs, tip);
  if (needed === undefined) return result;
  const isEmpty = good.resultAt === undefined ? isNothing(good.result) : isEmptyResult(good.body, good.resultAt);
  if (isEmpty && refs.some((ref) => "height" in ref) && view.isBeyond(target.operator, needed.highestBlocks, nowMs)) {
    return { kind: "bad", blame: "chain", reason: "state_unavailable", stale: staleOf(target, result) };
  }
  if (!isEmpty) archive.had(target.operator, historyKindOf(call.operation), needed.lowestBlocks, tip, nowMs);
  return result;
}

/** Learns from a failure which heights a supplier does not have. */
export function learnFromFailure(target: Target, { refs, set, call }: Job, nowMs: number): void {
  const tip = set.memory.view.newest(nowMs);
  const needed = tip === undefined || refs === undefined ? undefined : neededHeights(refs, tip);
  if (needed === undefined) return;
  set.memory.archive.lacked(target.operator, historyKindOf(call.operation), needed.lowestBlocks, tip, nowMs);
}

function isNothing(result: unknown): boolean {
  return result === null || (Array.isArray(result) && result.length === 0);
}

function staleOf(target: Target, { good, status, contentType }: Good, tipBlocks?: number): FoundAnswer {
  const found = foundOf(good, status, contentType, target.operator);
  return tipBlocks === undefined ? found : { ...found, tipBlocks };
}

const HEX = /^"0x[0-9a-fA-F]{1,14}"$/;
const DECIMAL = /^[0-9]{1,15}$/;

function checkTip(target: Target, { set }: Job, result: Good, height: number, nowMs: number): AttemptResult {
  const { view } = set.memory;
  const { operator } = target;
  view.reported(operator, height, nowMs);
  // 0 is what a node says that has just begun.
  const isBehind = view.isBehind(operator, nowMs) || (height === 0 && (view.tip(nowMs) ?? 0) > 0);
  if (!isBehind && view.mayServe(height, nowMs)) {
    view.wasServed(height, nowMs);
    return result;
  }
  const served = view.served(nowMs);
  if (served !== undefined && height < served && !isBehind) {
    const raised = raise(result, served);
    if (raised !== undefined) return raised;
  }
  const isTooHigh = !isBehind && (served === undefined || height > served);
  if (isTooHigh) return { kind: "bad", blame: "supplier", reason: "behind" };
  return {
    kind: "bad",
    blame: isBehind ? "supplier" : "chain",
    reason: "behind",
    stale: staleOf(target, result, height),
  };
}

/**
 * A supplier that is a block or two behind need not be asked again for a bare height: the chain has the one that clients
 * were shown, so that is the answer. Undefined where the result is more than a height.
 */
function raise(result: Good, served: number): Good | undefined {
  const { good } = result;
  const { body, resultAt, idAt } = good;
  if (resultAt === undefined || resultAt.end - resultAt.start > 20) return undefined;
  const raw = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString(
    "latin1",
    resultAt.start,
    resultAt.end,
  );
  const text = HEX.test(raw) ? `"0x${served.toString(16)}"` : DECIMAL.test(raw) ? String(served) : undefined;
  if (text === undefined) return undefined;
  const grown = text.length - raw.length;
  const shift = idAt !== undefined && idAt.start > resultAt.start ? grown : 0;
  return {
    ...result,
    good: {
      ...good,
      body: replaceSpan(body, resultAt, text),
      resultAt: { start: resultAt.start, end: resultAt.end + grown },
      ...(idAt === undefined ? {} : { idAt: { start: idAt.start + shift, end: idAt.end + shift } }),
    },
  };
}
