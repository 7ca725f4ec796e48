import type { ErrorCode, ServiceId } from "@turnpike/base";
import type { FreeRequest, PaidRequest, Relayed, RpcType } from "@turnpike/protocol";

/** Who is to blame when an attempt fails. */
export type Blame = "client" | "supplier" | "chain" | "wire" | "us";

/** No good answer was had. For a paid request nothing may be charged. */
export interface RelayFailure {
  readonly ok: false;
  /** NO_SUPPLIERS, SUPPLIERS_UNREACHABLE, SUPPLIERS_FAILED, DEADLINE_EXCEEDED, ANSWER_TOO_LARGE or SHUTTING_DOWN. */
  readonly code: ErrorCode;
  readonly attempts: number;
}

/** What became of a request: its answer, or why there is none. */
export type RelayOutcome = Relayed | RelayFailure;

/** How a supplier stands. `open`: its breaker keeps calls away; `probation`: it gets few, until it has shown itself. */
export type BreakerState = "closed" | "open" | "probation";

/** What is known of one supplier's way of speaking. */
export interface SupplierView {
  readonly operator: string;
  readonly rpcType: RpcType;
  /** Host of its URL; nothing that may hold a key. */
  readonly host: string;
  /** 0 (worst) to 100. */
  readonly score: number;
  readonly breaker: BreakerState;
  /** An operator of this gateway has taken it out of service. */
  readonly isDrained: boolean;
  readonly isHealthy: boolean;
  readonly isWrongChain: boolean;
  /** Smoothed; 0 while nothing is known. */
  readonly latencyMs: number;
  readonly heightBlocks: number | undefined;
}

/** What is known of one service. */
export interface ServiceView {
  readonly id: ServiceId;
  /** Newest block that its suppliers together vouch for. */
  readonly tipBlocks: number | undefined;
  /** Newest block that cannot be undone. */
  readonly finalBlocks: number | undefined;
  readonly suppliers: readonly SupplierView[];
}

/** Parts of the relay that an operator can turn off while it runs. */
export type RelayFlag = "cache" | "hedging" | "cross_validation" | "log_splitting";

/** What an operator sees of a relay, and may change while it runs. */
export interface RelayControl {
  /** All services with suppliers, or one; empty when there is none of this id. */
  inspect(id?: ServiceId): readonly ServiceView[];
  /** Takes an operator's suppliers out of a service, or puts them back. False: there are none. */
  setDrained(id: ServiceId, operator: string, isDrained: boolean): boolean;
  /** Starts the scores and breakers of an operator's suppliers anew. False: there are none. */
  resetScore(id: ServiceId, operator: string): boolean;
  flags(): Readonly<Record<RelayFlag, boolean>>;
  setFlag(flag: RelayFlag, isOn: boolean): void;
  /** Drops all kept answers, or those of one service. */
  clearCache(id?: ServiceId): void;
}

/** Chooses suppliers, sends, and checks what comes back. */
export interface Relay extends AsyncDisposable {
  send(request: PaidRequest | FreeRequest, signal?: AbortSignal): Promise<RelayOutcome>;
  /**
   * Relays the calls of one client's batch; all of one service. The results stand in the order of the requests. Calls
   * go upstream in one batch where that is right, and by themselves where it is not.
   */
  sendBatch(requests: readonly FreeRequest[], signal?: AbortSignal): Promise<readonly RelayOutcome[]>;
  /** Delivers a JSON-RPC notification, once at most. Resolves when that is done or has failed, without a result. */
  notify(request: FreeRequest, signal?: AbortSignal): Promise<void>;
  /** Ids that have at least one supplier configured. */
  served(): readonly ServiceId[];
  /** Operations that the catalogue declares and no supplier of the service has, as far as is known. */
  missingMethods(id: ServiceId): ReadonlySet<string>;
  /** False when no supplier could get a call of this kind: none is configured, or each is drained or of another chain. */
  hasSupplier(id: ServiceId, rpcType: RpcType): boolean;
  /** What is missing before a service can answer; empty when at least one supplier is healthy. Undefined: not served. */
  missing(id: ServiceId): readonly string[] | undefined;
}
