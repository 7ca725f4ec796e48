import type { Operation, Service } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import { isEmptyResult } from "../cache/policy.ts";
import type { MethodTraits } from "../families/method-traits.ts";
import type { UpstreamOutcome } from "../upstream-answer.ts";
import type { Job } from "./job.ts";

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
 * True for a call after which what is known of the newest block may be too old: one that may have written, or that told
 * its client of something new. Clients poll filters all the time, and mostly learn nothing.
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
