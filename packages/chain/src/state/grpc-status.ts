import { failPlain, type TxFault } from "./outcome.ts";

/** gRPC status codes that the chain gives, by the name that Go prints. */
export const GRPC_STATUS = {
  Unknown: 2,
  InvalidArgument: 3,
  DeadlineExceeded: 4,
  NotFound: 5,
  AlreadyExists: 6,
  PermissionDenied: 7,
  ResourceExhausted: 8,
  FailedPrecondition: 9,
  Unimplemented: 12,
  Internal: 13,
  Unavailable: 14,
} as const;

/** Name of a status. */
export type GrpcStatusName = keyof typeof GRPC_STATUS;

/** Why a query is not answered. */
export interface QueryRefusal {
  readonly ok: false;
  readonly status: number;
  readonly text: string;
}

/** A query that is not answered. */
export function refuse(status: GrpcStatusName, text: string): QueryRefusal {
  return { ok: false, status: GRPC_STATUS[status], text };
}

/** A message's fault that its handler gave as a gRPC status: code 1, codespace `undefined` (recorded, surprise 18). */
export function failStatus(status: GrpcStatusName, text: string): { readonly ok: false; readonly fault: TxFault } {
  return failPlain(`rpc error: code = ${status} desc = ${text}`);
}
