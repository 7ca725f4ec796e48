import type { SettlementEvent } from "./events.ts";
import type { Operation, SettlementChanges } from "./types.ts";

/** One thing that settlement does, in its place. */
export type SettlementStep =
  | { readonly kind: "operation"; readonly operation: Operation }
  | { readonly kind: "event"; readonly event: SettlementEvent };

/** What a settlement comes to. Carrying out the operations and writing the changes is the caller's. */
export interface Settlement {
  /** Operations and events together, in the order of the chain: bank events of an operation come where it stands. */
  readonly steps: readonly SettlementStep[];
  /** The operations of `steps`. */
  readonly operations: readonly Operation[];
  /** The events of `steps`. */
  readonly events: readonly SettlementEvent[];
  readonly changes: SettlementChanges;
  /** Relays of the settled claims by service, sorted by service: what difficulties are updated with. */
  readonly settledRelays: readonly { readonly serviceId: string; readonly numRelays: bigint }[];
  readonly numSettled: number;
  readonly numExpired: number;
  readonly numDiscarded: number;
}
