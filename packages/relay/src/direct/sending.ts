import type { Operation, Service } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import type { FoundAnswer } from "./found.ts";
import type { FailedAttempt } from "./target.ts";

/** Filter calls, and calls that the catalogue does not declare and that are no reads by their name: they may write. */
export function isSentOnce(call: BackendCall, operation: Operation | undefined): boolean {
  return operation === undefined ? call.isRead !== true : operation.filter !== undefined;
}

/** True for a call that may go upstream with others: it may be sent again, and needs no certain supplier. */
export function mayBatch(call: BackendCall, service: Service): boolean {
  const isRpc = call.rpcType === "json_rpc" || call.rpcType === "comet_bft";
  return isRpc && call.id !== undefined && !isSentOnce(call, service.operations.get(call.operation));
}

/** An error that the client gets when nobody has anything better. */
export function errorOf(call: BackendCall, failed: FailedAttempt, body: Uint8Array, operator: string): FoundAnswer {
  const isRpc = call.id !== undefined;
  return {
    status: isRpc ? 200 : (failed.status ?? 502),
    contentType: isRpc ? "application/json" : (failed.contentType ?? "application/json"),
    body,
    schemaCheck: "unchecked",
    operator,
    isError: true,
    lastResort: failed.reason,
  };
}

/** Takes out of the list what is not wanted. */
export function removeWhere<T>(list: T[], isUnwanted: (item: T) => boolean): void {
  for (let i = list.length - 1; i >= 0; i--) {
    const item = list[i];
    if (item !== undefined && isUnwanted(item)) list.splice(i, 1);
  }
}
