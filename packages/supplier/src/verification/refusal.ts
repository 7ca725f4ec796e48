/** Why a relay was not served, for metrics and logs. Each is counted. */
export type RefusalReason =
  | "malformed"
  | "no_supplier_address"
  | "implausible_heights"
  | "unknown_supplier"
  | "unknown_service"
  | "unknown_application"
  | "session_mismatch"
  | "not_in_session"
  | "session_expired"
  | "session_ahead"
  | "session_sealed"
  | "ring_key_missing"
  | "bad_signature"
  | "replayed"
  | "over_limit"
  | "rate_limited"
  | "too_large"
  | "overloaded"
  | "no_backend"
  | "backend_down"
  | "backend_unreachable"
  | "backend_timeout"
  | "backend_error"
  | "answer_too_large"
  | "chain_unreachable"
  | "log_failed";

/**
 * A relay that is refused. Status and text are those of the network's relay miner: gateways match the texts (interop: a
 * relay over HTTP).
 */
export interface Refusal {
  readonly reason: RefusalReason;
  readonly status: number;
  /** The `error` of the JSON body. */
  readonly error: string;
  /** A further member of the body: the service that is unavailable. */
  readonly service?: string;
}

const refusal = (reason: RefusalReason, status: number, error: string): Refusal => ({ reason, status, error });

/** The refusals, by what is wrong. */
export const REFUSALS = {
  malformed: refusal("malformed", 400, "invalid relay request: body must be a valid RelayRequest protobuf"),
  noSupplierAddress: refusal("no_supplier_address", 400, "missing supplier operator address in relay request"),
  implausibleHeights: refusal("implausible_heights", 400, "implausible session heights"),
  unknownSupplier: (address: string): Refusal =>
    refusal("unknown_supplier", 503, `supplier ${address} not registered with any miner`),
  unknownService: (id: string): Refusal => refusal("unknown_service", 404, `unknown service: ${id}`),
  /** @param text the chain's own */
  chainRefused: (reason: "unknown_application" | "session_ahead", text: string): Refusal =>
    refusal(reason, 403, `relay validation failed: ${text}`),
  sessionMismatch: (expected: string, got: string): Refusal =>
    refusal(
      "session_mismatch",
      403,
      `relay validation failed: session ID mismatch, expected: ${expected}, got: ${got}`,
    ),
  headerMismatch: refusal("session_mismatch", 403, "relay validation failed: session header mismatch"),
  notInSession: (address: string): Refusal =>
    refusal("not_in_session", 403, `relay validation failed: supplier does not belong to session: ${address}`),
  sessionExpired: (endHeight: bigint, height: bigint): Refusal =>
    refusal(
      "session_expired",
      403,
      `relay validation failed: session expired, session end height: ${endHeight}, current height: ${height} (grace period elapsed)`,
    ),
  sessionSealed: (endHeight: bigint): Refusal =>
    refusal("session_sealed", 403, `relay validation failed: session expired, session end height: ${endHeight}`),
  ringKeyMissing: (text: string): Refusal =>
    refusal("ring_key_missing", 403, `relay validation failed: ring signature verification failed: ${text}`),
  badSignature: (fault: string): Refusal =>
    refusal("bad_signature", 403, `relay validation failed: ring signature verification failed: ${fault}`),
  missingSignature: refusal(
    "bad_signature",
    403,
    "relay validation failed: basic validation failed: missing application signature in relay request",
  ),
  replayed: refusal("replayed", 403, "relay validation failed: this relay request was served before"),
  overLimit: refusal("over_limit", 429, "session relay limit reached: claimable portion fully consumed"),
  rateLimited: refusal("rate_limited", 429, "offchain rate limit hit by relayer proxy"),
  tooLarge: refusal("too_large", 413, "request body too large"),
  overloaded: refusal("overloaded", 503, "service temporarily unavailable"),
  unavailable: (
    reason: "no_backend" | "backend_down" | "chain_unreachable" | "log_failed",
    service: string,
  ): Refusal => ({
    reason,
    status: 503,
    error: "service temporarily unavailable",
    service,
  }),
  backendUnreachable: refusal("backend_unreachable", 502, "backend error"),
  backendTimeout: refusal("backend_timeout", 502, "backend error"),
  answerTooLarge: refusal("answer_too_large", 502, "backend error"),
  backendError: (status: number): Refusal => refusal("backend_error", status, "backend service error"),
} as const;

/** The body of a refusal. */
export function refusalBody({ error, service }: Refusal): string {
  return JSON.stringify(service === undefined ? { error } : { error, service });
}
