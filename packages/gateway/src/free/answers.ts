import { type Answer, preflightAnswer } from "../http/answer.ts";
import { codeAnswer } from "../http/rpc-answer.ts";
import type { CallVerdict } from "../keys/call-quotas.ts";

const NO_STORE = ["Cache-Control", "no-store"];

/** Some ids that are no part of the free relay are sold. */
export const NOT_FREE = "The free relay has no network of this id.";

/** The answer to calls that the limits or the key refuse. */
export function refusalAnswer(id: string, verdict: CallVerdict & { readonly ok: false }): Answer {
  const { code, message, retryAfterSeconds, headers } = verdict;
  const wait = retryAfterSeconds === undefined ? [] : ["Retry-After", String(Math.max(1, retryAfterSeconds))];
  return codeAnswer(id, code, { message, headers: [...wait, ...headers] });
}

/** The same answer with further headers. */
export function withHeaders(answer: Answer, headers: readonly string[]): Answer {
  return headers.length === 0 ? answer : { ...answer, headers: [...(answer.headers ?? []), ...headers] };
}

/** Nothing to say: the answer to notifications (JSON-RPC 2.0 §4.1). */
export const SILENCE: Answer = { status: 204, result: "ok", contentType: undefined, body: "", headers: NO_STORE };

const HEADER_NAMES = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+(?:[ \t]*,[ \t]*[A-Za-z0-9!#$%&'*+.^_`|~-]+)*$/;

/** Answers the preflight of a page of any origin: clients of the chains send headers of their own, and all may. */
export function freePreflight(verbs: string, wanted: string | undefined): Answer {
  const isList = wanted !== undefined && wanted.length <= 1_024 && HEADER_NAMES.test(wanted);
  return preflightAnswer(verbs, isList ? wanted : "Content-Type, Target-Service-Id");
}
