import { asBuffer, jsonMemberSpans, jsonText, skipJsonSpace } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";
import {
  type AttemptResult,
  type FailedAttempt,
  failedAttempt,
  type UpstreamAnswer,
} from "../answers/upstream-answer.ts";
import { isEmptyResult } from "../cache/policy.ts";
import { historyKindOf, neededHeights } from "../chain-view/archive.ts";
import type { FailureReason } from "../families/family.ts";
import type { BlockRef, MethodTraits } from "../families/method-traits.ts";
import { type MemberSpan, replaceSpan } from "../members.ts";
import type { Blame } from "../types.ts";
import { isAboutHead, type Job } from "./job.ts";
import { methodKey } from "./service-context.ts";
import type { Target } from "./target.ts";

/** Longer values are not parsed when only a height is looked for. */
const MAX_MEMBER_BYTES = 2_048;

/** Where the result stands: of a call without an id, which is one by path, it is the whole body. */
function resultSpan({ resultAt, body }: UpstreamAnswer, { id }: BackendCall): MemberSpan | undefined {
  return resultAt ?? (id === undefined ? { start: 0, end: body.length } : undefined);
}

/**
 * A value without what is long in it: members of a long object are read at their first use, any other long value
 * is an empty object. So a block's height is found without its transactions.
 */
function readShallow(bytes: Buffer, text: string, { start, end }: MemberSpan): unknown {
  if (end - start <= MAX_MEMBER_BYTES) return JSON.parse(bytes.toString("utf8", start, end)) as unknown;
  const value = {};
  for (const member of jsonMemberSpans(text, skipJsonSpace(text, start))?.members ?? []) {
    const get = (): unknown => readShallow(bytes, text, member);
    Object.defineProperty(value, member.key, { get, configurable: true });
  }
  return value;
}

/** The height that an answer states as the newest; undefined when it states none that can be read. */
function statedTip(traits: MethodTraits, answer: UpstreamAnswer, call: BackendCall): number | undefined {
  const { result, body } = answer;
  const span = resultSpan(answer, call);
  if (result !== undefined || span === undefined) return traits.tipOf?.(result);
  const bytes = asBuffer(body);
  try {
    return traits.tipOf?.(readShallow(bytes, span.end - span.start > MAX_MEMBER_BYTES ? jsonText(bytes) : "", span));
  } catch {
    return undefined;
  }
}

/** True when an answer is parsed, or so short that all of it is. */
function isReadWhole(answer: UpstreamAnswer, call: BackendCall): boolean {
  const span = resultSpan(answer, call);
  return answer.result !== undefined || (span !== undefined && span.end - span.start <= MAX_MEMBER_BYTES);
}

/** True for a call that names no block but the newest. */
function isAboutNewest({ traits, refs }: Job): boolean {
  if (refs === undefined) return traits?.cache.by !== "block";
  return refs.every((ref) => "tag" in ref && ref.tag === "latest");
}

/** True for a reference to a block of a fixed height, which a supplier may not have. Hashes are at an unknown height. */
function isFixedHeight(ref: BlockRef): boolean {
  return "height" in ref || ("tag" in ref && ref.tag === "earliest");
}

/**
 * Holds a good answer against what is known of the chain: a height that goes back behind what clients were shown, or
 * cannot be true, a newest block without a height, and "nothing" from a supplier that is below the block it was asked
 * about, or a list that ends above its blocks, are no answers.
 */
export function checkAgainstChain(target: Target, job: Job, answer: UpstreamAnswer, nowMs: number): AttemptResult {
  const { traits, refs, context, call } = job;
  if (answer.isError || answer.stream !== undefined || traits === undefined) return answer;
  const { view, archive } = context.memory;
  if (traits.tipOf !== undefined && isAboutHead(job) && isAboutNewest(job)) {
    const height = statedTip(traits, answer, call);
    if (height !== undefined) return checkTip(target, job, answer, height, nowMs);
    if (isReadWhole(answer, call)) return failedBehind("supplier", "schema", answer);
  }
  // Hashes, and tags that move with the tip, show nothing of a supplier's history; their result may be empty.
  if (refs === undefined || !refs.some(isFixedHeight)) return answer;
  const tip = view.newest(nowMs);
  const needed = tip === undefined ? undefined : neededHeights(refs, tip);
  if (needed === undefined) return answer;
  const span = resultSpan(answer, call);
  const isEmpty =
    span === undefined || answer.result !== undefined ? isNothing(answer.result) : isEmptyResult(answer.body, span);
  const named = refs.flatMap((ref) => ("height" in ref ? [ref.height] : []));
  // A list over a range ends where its supplier's blocks end, and does not say so; another supplier may have the rest.
  const highestBlocks = isEmpty ? needed.highestBlocks : Math.max(...named);
  const mayBeCut = refs.length > 1 && view.isReached(highestBlocks, nowMs);
  if ((isEmpty || mayBeCut) && named.length > 0 && view.isBeyond(target.operator, highestBlocks, nowMs)) {
    return failedBehind("chain", "state_unavailable", answer);
  }
  if (!isEmpty) archive.had(target.operator, historyKindOf(methodKey(call)), needed.lowestBlocks, tip, nowMs);
  return answer;
}

/** Learns from a failure which heights a supplier does not have. */
export function learnFromFailure(target: Target, { refs, context, call }: Job, nowMs: number): void {
  const tip = context.memory.view.newest(nowMs);
  const needed = tip === undefined || refs === undefined ? undefined : neededHeights(refs, tip);
  if (needed === undefined) return;
  context.memory.archive.lacked(target.operator, historyKindOf(methodKey(call)), needed.lowestBlocks, tip, nowMs);
}

/** The same for a parsed result as `isEmptyResult` for one that is not. */
function isNothing(result: unknown): boolean {
  if (typeof result === "object") return result === null || Object.keys(result).length === 0;
  return result === "" || result === "0x";
}

/** A failed attempt whose answer is kept for when no supplier has a newer one. */
function failedBehind(blame: Blame, reason: FailureReason, answer: UpstreamAnswer, tipBlocks?: number): FailedAttempt {
  return { ok: false, blame, reason, fallback: { ...answer, lastResort: reason, tipBlocks } };
}

const HEX = /^"0x[0-9a-fA-F]{1,14}"$/;
const DECIMAL = /^[0-9]{1,15}$/;

function checkTip(
  target: Target,
  { context }: Job,
  answer: UpstreamAnswer,
  height: number,
  nowMs: number,
): AttemptResult {
  const { view } = context.memory;
  const { operator } = target;
  view.reported(operator, height, nowMs);
  // A height of fewer than a quorum is shown to a client only when no other supplier can be asked.
  if (view.isOpen(nowMs)) return failedBehind("chain", "behind", answer, height);
  // 0 is what a node says that has just begun.
  const isBehind = view.isBehind(operator, nowMs) || (height === 0 && (view.tip(nowMs) ?? 0) > 0);
  if (!isBehind && view.mayServe(height, nowMs)) {
    view.wasServed(height, nowMs);
    return answer;
  }
  const served = view.served(nowMs);
  if (served !== undefined && height < served && !isBehind) {
    const raised = raise(answer, served);
    if (raised !== undefined) return raised;
  }
  const isTooHigh = served === undefined || height > served;
  if (isTooHigh && !isBehind) return failedAttempt("supplier", "behind");
  const blame = isBehind ? "supplier" : "chain";
  // Further behind than the service allows is no answer, also when the others are away. A lone supplier's chain began anew.
  const isLone = context.all().every((one) => one.operator === operator);
  if (isBehind && !isLone) return failedAttempt(blame, "behind");
  return failedBehind(blame, "behind", answer, height);
}

/**
 * A supplier that is a block or two behind need not be asked again for a bare height: the chain has the one that clients
 * were shown, so that is the answer. Undefined where the result is more than a height.
 */
function raise(answer: UpstreamAnswer, served: number): UpstreamAnswer | undefined {
  const { body, resultAt, idAt } = answer;
  if (resultAt === undefined || resultAt.end - resultAt.start > 20) return undefined;
  const raw = asBuffer(body).toString("latin1", resultAt.start, resultAt.end);
  const text = HEX.test(raw) ? `"0x${served.toString(16)}"` : DECIMAL.test(raw) ? String(served) : undefined;
  if (text === undefined) return undefined;
  const grown = text.length - raw.length;
  const shift = idAt !== undefined && idAt.start > resultAt.start ? grown : 0;
  return {
    ...answer,
    body: replaceSpan(body, resultAt, text),
    resultAt: { start: resultAt.start, end: resultAt.end + grown },
    idAt: idAt === undefined ? undefined : { start: idAt.start + shift, end: idAt.end + shift },
  };
}
