import type { Span } from "@turnpike/base";
import type { Operation, Service } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import type { UpstreamOutcome } from "../answers/upstream-answer.ts";
import { isEmptyResult } from "../cache/policy.ts";
import type { MethodTraits } from "../families/method-traits.ts";
import type { ServiceContext, SupplierQuery } from "./service-context.ts";

/** One call on its way to an answer. */
export interface Job extends SupplierQuery {
  readonly context: ServiceContext;
  /** As the catalogue declares it. */
  readonly operation: Operation | undefined;
  /** What the family knows of its method. */
  readonly traits: MethodTraits | undefined;
  readonly isFree: boolean;
  /** It may write, or is about a filter: it is sent once. */
  readonly isOnce: boolean;
  /** Its client accepts a large answer while it arrives. */
  readonly mayStream: boolean;
  /** Monotonic milliseconds. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
  /** The request's span, where it is traced. */
  readonly span: Span | undefined;
}

/** True for a job whose answer may change with the next block. */
export function isAboutHead({ traits, refs }: Pick<Job, "traits" | "refs">): boolean {
  if (traits === undefined) return false;
  const { by } = traits.cache;
  if (by === "head") return true;
  if (by === "block") return refs?.some((ref) => "tag" in ref && ref.tag !== "earliest") ?? true;
  return by === "never" && traits.tipOf !== undefined;
}

/**
 * True for what is no read by its family's table: writes, filter calls, and unknown methods. What the catalogue
 * declares is a read where the table does not say otherwise, and always by an operator's declaration. Of a service without a
 * family nothing is asked twice, not even what an operator declares: its answers cannot be compared.
 */
export function isSentOnce(
  service: Service,
  call: BackendCall,
  operation: Operation | undefined,
  traits: MethodTraits | undefined,
): boolean {
  if (service.families.length === 0 || operation?.filter !== undefined) return true;
  if (operation?.read === true) return false;
  if (traits !== undefined) return traits.kind !== "read";
  return operation === undefined && call.isRead !== true;
}

/**
 * True for a call after which the known newest block may be too old: one that may have written, or a filter that returned
 * something new. Clients poll filters all the time, and mostly get nothing.
 */
export function mayHaveNews({ isOnce, filter }: Job, outcome: UpstreamOutcome | undefined): boolean {
  if (!isOnce) return false;
  if (filter === undefined) return true;
  if (outcome?.ok !== true) return false;
  const { body, resultAt } = outcome;
  return resultAt !== undefined && body[resultAt.start] === 0x5b && !isEmptyResult(body, resultAt);
}

/** True for a call that may go upstream with others: it may be sent again, and needs no certain supplier. */
export function mayBatch({ call, isOnce }: Job): boolean {
  const isRpc = call.rpcType === "json_rpc" || call.rpcType === "comet_bft";
  return isRpc && call.id !== undefined && !isOnce;
}
