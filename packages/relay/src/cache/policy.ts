import { asBuffer, skipJsonSpace } from "@turnpike/base";
import type { BlockRef, CacheRule } from "../families/method-traits.ts";
import type { MemberSpan } from "../members.ts";

/** Under which rule an answer is kept; a label of metrics. */
export type RuleName = "forever" | "head" | "block" | "found";

/** What an answer is about, known before it is there. */
export interface Subject {
  readonly rule: RuleName;
  /** It is true while the newest block stays the newest. */
  readonly isHead: boolean;
  /** It is true while the final block stays the final one. */
  readonly isFinalTag: boolean;
  /** Highest block that it is about; -1 for none, infinite where only the answer says. */
  readonly heightBlocks: number;
  /** It is about several blocks: a supplier that does not have the last one may have left out what it does not have. */
  readonly isRange?: boolean;
  /** Reads the height from the result. */
  readonly heightOf?: (result: unknown) => number | undefined;
}

/** Why a kept answer will be true for some time. */
export type Life = "final" | "unfinal" | "head" | "tag";

/** What was known of the chain when a call was sent, and when its answer came. */
export interface ChainFacts {
  readonly newestBlocks: number | undefined;
  /** When the call was sent. */
  readonly finalBlocks: number | undefined;
  /** The height that the answering operator said last. */
  readonly operatorBlocks: number | undefined;
}

const FOREVER: Subject = { rule: "forever", isHead: false, isFinalTag: false, heightBlocks: -1 };
const HEAD: Subject = { rule: "head", isHead: true, isFinalTag: false, heightBlocks: Number.POSITIVE_INFINITY };

/** About the newest block alone, as most reads are. */
const LATEST: Subject = { rule: "block", isHead: true, isFinalTag: false, heightBlocks: -1, isRange: false };

function subjectOfBlocks(refs: readonly BlockRef[] | undefined): Subject | undefined {
  const [first] = refs ?? [];
  if (refs === undefined || first === undefined) return undefined;
  if (refs.length === 1 && "tag" in first && first.tag === "latest") return LATEST;
  let isHead = false;
  let isFinalTag = false;
  let heightBlocks = -1;
  for (const ref of refs) {
    if ("hash" in ref) heightBlocks = Number.POSITIVE_INFINITY;
    else if ("height" in ref) {
      if (!Number.isSafeInteger(ref.height) || ref.height < 0) return undefined;
      heightBlocks = Math.max(heightBlocks, ref.height);
    } else if (ref.tag === "pending") return undefined;
    else if (ref.tag === "earliest") heightBlocks = Math.max(heightBlocks, 0);
    else if (ref.tag === "latest") isHead = true;
    else {
      isFinalTag = true;
      // `safe` moves with neither of the two that are known: both have to stand still.
      if (ref.tag === "safe") isHead = true;
    }
  }
  return { rule: "block", isHead, isFinalTag, heightBlocks, isRange: refs.length > 1 };
}

/** What the answer to a call is about, by its method's rule and the blocks that it names; undefined when it is never kept. */
export function subjectOf(rule: CacheRule, refs: readonly BlockRef[] | undefined): Subject | undefined {
  switch (rule.by) {
    case "never":
      return undefined;
    case "forever":
      return FOREVER;
    case "head":
      return HEAD;
    case "block":
      return subjectOfBlocks(refs);
    case "found":
      return {
        rule: "found",
        isHead: false,
        isFinalTag: false,
        heightBlocks: Number.POSITIVE_INFINITY,
        heightOf: (result) => rule.heightOf(result),
      };
  }
}

/**
 * How long an answer lives; undefined: it is not kept. Heights above the newest block are not kept. Nothing found
 * (`null`, `[]`, `{}`, `""`, `"0x"`) is kept below finality only, from an operator that is known to have those blocks; what
 * was found in a range of them, too, is not kept as final from another.
 */
export function lifeOf(subject: Subject, facts: ChainFacts, isEmpty: boolean): Life | undefined {
  const { newestBlocks, finalBlocks, operatorBlocks } = facts;
  const { heightBlocks, isHead, isFinalTag } = subject;
  if (subject.rule === "forever") return isEmpty ? undefined : "final";
  if (newestBlocks === undefined) return undefined;
  if (Number.isFinite(heightBlocks) && heightBlocks > newestBlocks) return undefined;
  if (isHead) return isEmpty ? undefined : "head";
  if (isFinalTag) return isEmpty || finalBlocks === undefined ? undefined : "tag";
  const isFinal = finalBlocks !== undefined && heightBlocks <= finalBlocks;
  if (!isFinal) return isEmpty ? undefined : "unfinal";
  const isWhole = !isEmpty && subject.isRange !== true;
  return isWhole || (operatorBlocks !== undefined && operatorBlocks >= heightBlocks) ? "final" : undefined;
}

const QUOTE = 0x22;
const LONGEST_EMPTY_TEXT = '"0x"'.length;

const EMPTIES: ReadonlySet<string> = new Set(["null", "[]", "{}", '""', '"0x"']);

/** True for a result that says that there is nothing. */
export function isEmptyResult(body: Uint8Array, at: MemberSpan): boolean {
  const bytes = asBuffer(body);
  const start = skipJsonSpace(bytes, at.start);
  if (at.end - start > 16) return false;
  // Most small results are a text that says something.
  if (bytes[start] === QUOTE && at.end - start > LONGEST_EMPTY_TEXT && bytes[at.end - 1] === QUOTE) return false;
  return EMPTIES.has(bytes.toString("latin1", start, at.end).replaceAll(/[ \t\r\n]/g, ""));
}
