import type { SchemaCheck } from "@turnpike/protocol";
import type { GoodAnswer } from "../answer.ts";
import type { FailureReason } from "../families/family.ts";
import { findMembers, type MemberSpan, replaceSpan } from "../members.ts";
import type { RelayFailure } from "../types.ts";

/** An answer to a call, before it is bound to the request that asked for it. */
export interface FoundAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: Uint8Array;
  readonly schemaCheck: SchemaCheck;
  readonly operator: string;
  /** True for an error. */
  readonly isError: boolean;
  /** Parsed result, where it was parsed. */
  readonly result?: unknown;
  /** JSON-RPC: where id and result stand in `body`, where that is known. */
  readonly idAt?: MemberSpan | undefined;
  readonly resultAt?: MemberSpan | undefined;
  /** The bytes of a large answer, passed on while they arrive; `body` is empty then. */
  readonly stream?: AsyncIterable<Uint8Array> | undefined;
  /** `Eth-Consensus-Version`: of which fork a binary answer of the consensus layer is. */
  readonly consensusVersion?: string | undefined;
  /** Set on what the client gets because nobody had anything better: an error, or an answer from behind. */
  readonly lastResort?: FailureReason;
  /** Of an answer from behind: the height that it states as the newest. */
  readonly tipBlocks?: number;
}

/** What became of a call. A failure says for what reasons its attempts failed. */
export type Finding =
  | { readonly ok: true; readonly found: FoundAnswer }
  | (RelayFailure & { readonly reasons?: readonly FailureReason[] });

/** A good answer as a found one. All members are there, so that all found answers are alike to the engine. */
export function foundOf(good: GoodAnswer, status: number, contentType: string, operator: string): FoundAnswer {
  const { body, schemaCheck, isError, result, idAt, resultAt, stream, consensusVersion } = good;
  return {
    status,
    contentType,
    body,
    schemaCheck,
    operator,
    isError,
    result,
    idAt,
    resultAt,
    stream,
    consensusVersion,
  };
}

/** The same answer for another asker, by its own id; undefined when that cannot be made. */
export function withOwnId(found: FoundAnswer, id: string): FoundAnswer | undefined {
  const { body, resultAt, stream } = found;
  if (stream !== undefined) return undefined;
  const idAt = found.idAt ?? findMembers(body)?.get("id");
  if (idAt === undefined) return undefined;
  const grown = Buffer.byteLength(id) - (idAt.end - idAt.start);
  const own = replaceSpan(body, idAt, id);
  const shift = resultAt !== undefined && resultAt.start > idAt.start ? grown : 0;
  return {
    ...found,
    body: own,
    idAt: { start: idAt.start, end: idAt.end + grown },
    ...(resultAt === undefined ? {} : { resultAt: { start: resultAt.start + shift, end: resultAt.end + shift } }),
  };
}

/** True when a supplier said that the call was too much for it. */
export function wasTooMuch(finding: Finding): boolean {
  if (finding.ok) return finding.found.lastResort === "too_much";
  return finding.reasons?.includes("too_much") === true;
}
