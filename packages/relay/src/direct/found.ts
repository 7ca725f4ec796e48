import type { SchemaCheck } from "@turnpike/protocol";
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
  readonly idAt?: MemberSpan;
  readonly resultAt?: MemberSpan;
  /** The bytes of a large answer, passed on while they arrive; `body` is empty then. */
  readonly stream?: AsyncIterable<Uint8Array>;
  /** `Eth-Consensus-Version`: of which fork a binary answer of the consensus layer is. */
  readonly consensusVersion?: string;
  /** Set on what the client gets because nobody had anything better: an error, or an answer from behind. */
  readonly lastResort?: FailureReason;
}

/** What became of a call. A failure says for what reasons its attempts failed. */
export type Finding =
  | { readonly ok: true; readonly found: FoundAnswer }
  | (RelayFailure & { readonly reasons?: readonly FailureReason[] });

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

/** True when an attempt failed because the call was too much for the supplier. */
export function wasTooMuch(finding: Finding): boolean {
  const isMuch = (reason: FailureReason): boolean => reason === "too_much" || reason === "too_large";
  if (finding.ok) return finding.found.lastResort !== undefined && isMuch(finding.found.lastResort);
  return finding.reasons?.some(isMuch) === true;
}
