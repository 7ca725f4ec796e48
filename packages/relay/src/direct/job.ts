import type { Operation } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import type { MethodTraits } from "../families/method-traits.ts";
import type { SupplierSet } from "./supplier-set.ts";

/** One call on its way to an answer. */
export interface Job {
  readonly set: SupplierSet;
  readonly call: BackendCall;
  /** As the catalogue declares it. */
  readonly operation: Operation | undefined;
  /** What the family knows of its method. */
  readonly traits: MethodTraits | undefined;
  readonly isFree: boolean;
  /** It may write, or is about a filter: it is sent once. */
  readonly isOnce: boolean;
  /** Its asker takes a large answer while it arrives. */
  readonly mayStream: boolean;
  /** Monotonic milliseconds. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
}
