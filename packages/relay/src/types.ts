import type { ErrorCode, ServiceId } from "@turnpike/base";
import type { FreeRequest, PaidRequest, Relayed } from "@turnpike/protocol";

/** Who is to blame when an attempt fails. */
export type Blame = "client" | "supplier" | "chain" | "wire";

/** No good answer was had. For a paid request nothing may be charged. */
export interface RelayFailure {
  readonly ok: false;
  /** NO_SUPPLIERS, SUPPLIERS_UNREACHABLE, SUPPLIERS_FAILED, DEADLINE_EXCEEDED, ANSWER_TOO_LARGE or SHUTTING_DOWN. */
  readonly code: ErrorCode;
  readonly attempts: number;
}

/** Result of a relay. */
export type RelayResult = ({ readonly ok: true } & { readonly relayed: Relayed }) | RelayFailure;

/** Chooses suppliers, sends, and checks what comes back. */
export interface Relay extends AsyncDisposable {
  send(request: PaidRequest | FreeRequest, signal?: AbortSignal): Promise<RelayResult>;
  /**
   * Relays the calls of one client's batch; all of one service. The results stand in the order of the requests. Calls
   * go upstream in one batch where that is right, and by themselves where it is not.
   */
  sendBatch(requests: readonly FreeRequest[], signal?: AbortSignal): Promise<readonly RelayResult[]>;
  /** Delivers a JSON-RPC notification, once at most. Resolves when that is done or has failed; nobody is told. */
  notify(request: FreeRequest, signal?: AbortSignal): Promise<void>;
  /** Ids that have at least one supplier configured. */
  served(): readonly ServiceId[];
  /** What is missing before a service can answer; empty when at least one supplier is healthy. Undefined: not served. */
  missing(id: ServiceId): readonly string[] | undefined;
}
