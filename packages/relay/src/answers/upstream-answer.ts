import type { BackendCall, SchemaCheck } from "@turnpike/protocol";
import type { FailureReason } from "../families/family.ts";
import { findMembers, type MemberSpan, replaceSpan } from "../members.ts";
import { headerOf, type UpstreamResponse } from "../transport/transport.ts";
import type { Blame, RelayFailure } from "../types.ts";

/** One answer of a supplier: read and checked once, and the same value from there on until it is relayed. */
export interface UpstreamAnswer {
  readonly ok: true;
  readonly status: number;
  readonly contentType: string;
  /** The bytes that are passed on: the supplier's, but for the id where the client's own was kept back. */
  readonly body: Uint8Array;
  readonly schemaCheck: SchemaCheck;
  readonly operator: string;
  /** True for an error that is fixed by the request and the chain's state, or that is a last resort. */
  readonly isError: boolean;
  /** Parsed `result` of JSON-RPC, or the parsed body. Undefined where it was not parsed. */
  readonly result?: unknown;
  /** JSON-RPC: where id and result stand in `body`, where that is known. */
  readonly idAt?: MemberSpan | undefined;
  readonly resultAt?: MemberSpan | undefined;
  /** The bytes of a large answer, passed on while they arrive; `body` is empty then. */
  readonly stream?: AsyncIterable<Uint8Array> | undefined;
  /** `Eth-Consensus-Version`: of which fork a binary answer of the consensus layer is. */
  readonly consensusVersion?: string | undefined;
  /** Set on what the client gets because no supplier had anything better: an error, or an answer from behind. */
  readonly lastResort?: FailureReason | undefined;
  /** Of an answer from behind: the height that it states as the newest. */
  readonly tipBlocks?: number | undefined;
}

/** An attempt that brought no answer: the next supplier is asked. */
export interface FailedAttempt {
  readonly ok: false;
  readonly blame: Blame;
  readonly reason: FailureReason;
  /** True when nothing of the call was sent: even a write may go to another supplier. */
  readonly isNotSent?: boolean;
  /**
   * What a client may get when no supplier has anything better: a well-formed error, which is never sold, or an answer
   * from behind. Its `lastResort` is this attempt's reason.
   */
  readonly fallback?: UpstreamAnswer;
}

/** How one attempt ended. */
export type AttemptResult = UpstreamAnswer | FailedAttempt;

/** What became of a call, before it is bound to its request. A failure says for what reasons its attempts failed. */
export type UpstreamOutcome = UpstreamAnswer | (RelayFailure & { readonly reasons?: readonly FailureReason[] });

/** What was read in a response. */
export interface ReadAnswer {
  readonly body: Uint8Array;
  readonly schemaCheck: SchemaCheck;
  readonly isError: boolean;
  readonly result?: unknown;
  readonly idAt?: MemberSpan;
  readonly resultAt?: MemberSpan;
  readonly stream?: AsyncIterable<Uint8Array> | undefined;
  readonly consensusVersion?: string | undefined;
  readonly lastResort?: FailureReason;
}

/** Where an answer came from, and what it answers. */
export interface AnswerSource {
  readonly call: BackendCall;
  readonly response: UpstreamResponse;
  readonly operator: string;
}

/**
 * The answer that was read in a response. A JSON-RPC answer has status 200 and a JSON type, whatever it came with. All
 * members are there, so that all answers are alike to the engine.
 */
export function createAnswer({ call, response, operator }: AnswerSource, read: ReadAnswer): UpstreamAnswer {
  const isRpc = call.id !== undefined;
  const { body, schemaCheck, isError, result, idAt, resultAt, stream, consensusVersion, lastResort } = read;
  return {
    ok: true,
    status: isRpc ? 200 : response.status,
    contentType: isRpc ? "application/json" : headerOf(response, "content-type"),
    body,
    schemaCheck,
    operator,
    isError,
    result,
    idAt,
    resultAt,
    stream,
    consensusVersion,
    lastResort,
    tipBlocks: undefined,
  };
}

/** A failed attempt without anything to show for it. */
export function failedAttempt(blame: Blame, reason: FailureReason): FailedAttempt {
  return { ok: false, blame, reason };
}

/** The same answer with another caller's id; undefined when that cannot be made. */
export function withOwnId(answer: UpstreamAnswer, id: string): UpstreamAnswer | undefined {
  const { body, resultAt, stream } = answer;
  if (stream !== undefined) return undefined;
  const idAt = answer.idAt ?? findMembers(body)?.get("id");
  if (idAt === undefined) return undefined;
  const grown = Buffer.byteLength(id) - (idAt.end - idAt.start);
  const own = replaceSpan(body, idAt, id);
  const shift = resultAt !== undefined && resultAt.start > idAt.start ? grown : 0;
  return {
    ...answer,
    body: own,
    idAt: { start: idAt.start, end: idAt.end + grown },
    ...(resultAt === undefined ? {} : { resultAt: { start: resultAt.start + shift, end: resultAt.end + shift } }),
  };
}

/** True when a supplier said that the call was too much for it. */
export function wasTooMuch(outcome: UpstreamOutcome): boolean {
  if (outcome.ok) return outcome.lastResort === "too_much";
  return outcome.reasons?.includes("too_much") === true;
}
