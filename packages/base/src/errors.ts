/**
 * One registry row for every error that a user can meet. A row sets the HTTP status, the JSON-RPC code, whether the
 * same request may be sent again, and the sentence that is safe to show. `docs/errors.md` is generated from it.
 * A code is never reused for another meaning: retired codes move to {@link RETIRED_CODES}.
 */
export interface ErrorRow {
  /** HTTP status of an answer that carries this code. */
  readonly http: number;
  /** JSON-RPC 2.0 error code where the answer is a JSON-RPC object. */
  readonly rpc: number;
  /** True when the identical request may succeed later. */
  readonly retryable: boolean;
  /** What went wrong, without internals. */
  readonly message: string;
  /** What to do next. */
  readonly advice: string;
}

const row = (http: number, rpc: number, retryable: boolean, message: string, advice: string): ErrorRow => ({
  http,
  rpc,
  retryable,
  message,
  advice,
});

/** Every error code of the product. Keys are the wire value of `code`. */
export const ERRORS = {
  // the request
  MALFORMED_REQUEST: row(400, -32600, false, "The request is malformed.", "Compare the request with /openapi.json."),
  INVALID_JSON: row(400, -32700, false, "The body is not valid JSON.", "Send one JSON document in UTF-8."),
  BODY_REQUIRED: row(400, -32600, false, "This call needs a JSON body.", "Send a JSON object with a `method`."),
  BATCH_NOT_SOLD: row(400, -32600, false, "A paid call is one call, not a batch.", "Send each call by itself."),
  DUPLICATE_KEY: row(400, -32600, false, "The body repeats a key.", "Send each key once."),
  METHOD_NOT_ALLOWED: row(
    400,
    -32601,
    false,
    "This method is not offered on this route.",
    "See the methods of the service in /services.json; only reads are offered.",
  ),
  INVALID_PARAMS: row(400, -32602, false, "The parameters do not fit the method.", "See the method's schema."),
  BAD_PATH: row(400, -32600, false, "The path is malformed.", "Send a path without dot segments or encoded slashes."),
  VALIDATION_FAILED: row(422, -32602, false, "The query is not valid.", "Fix the fields that `detail` names."),
  NOT_FOUND: row(404, -32601, false, "There is nothing at this address.", "See /services.json for what is offered."),
  UNKNOWN_SERVICE: row(404, -32601, false, "No service has this id.", "See /services.json for the ids."),
  HOST_NOT_ALLOWED: row(
    403,
    -32600,
    false,
    "Requests for this Host are not served here.",
    "Use localhost or an IP address, or name the host in the configuration: `allowedHosts`.",
  ),
  ORIGIN_NOT_ALLOWED: row(
    403,
    -32600,
    false,
    "Pages of this Origin may not call here.",
    "Call from a program, or name the page's host in the configuration: `allowedHosts`.",
  ),
  VERB_NOT_ALLOWED: row(405, -32600, false, "This address does not take that verb.", "See the `Allow` header."),
  BODY_TOO_LARGE: row(413, -32600, false, "The body is too large.", "Send a smaller body."),
  HEADERS_TOO_LARGE: row(431, -32600, false, "The request's head is too large.", "Send fewer or shorter headers."),
  UNSUPPORTED_MEDIA_TYPE: row(
    415,
    -32600,
    false,
    "The body is encoded, or no JSON.",
    "Send JSON with Content-Type: application/json and without Content-Encoding.",
  ),
  REQUEST_TIMEOUT: row(408, -32600, true, "The request did not arrive in time.", "Send the whole request at once."),
  RATE_LIMITED: row(429, -32005, true, "Too many requests.", "Wait as long as `Retry-After` says."),
  API_KEY_UNKNOWN: row(
    401,
    -32401,
    false,
    "No application has this key.",
    "Send the application's key, or no key at all: the relay is free without one.",
  ),
  API_KEYS_UNAVAILABLE: row(
    503,
    -32503,
    true,
    "Keys cannot be checked at the moment.",
    "Send the request again later.",
  ),
  // the payment
  PAYMENT_REQUIRED: row(402, -32402, false, "Payment required", "Sign one of `accepts` and send it again."),
  PAYMENT_MALFORMED: row(
    400,
    -32402,
    false,
    "The PAYMENT-SIGNATURE header is malformed.",
    "Send base64 of one x402 version 2 payment payload.",
  ),
  PAYMENT_OPTION_UNKNOWN: row(
    402,
    -32402,
    false,
    "The accepted option is not one that is offered.",
    "Copy one entry of `accepts` unchanged.",
  ),
  PAYMENT_RECEIVER_MISMATCH: row(402, -32402, false, "The payment is to another receiver.", "Sign for `payTo`."),
  PAYMENT_VALUE_MISMATCH: row(402, -32402, false, "The payment is not of the price.", "Sign for exactly `amount`."),
  PAYMENT_NOT_YET_VALID: row(402, -32402, true, "The payment is not valid yet.", "Set `validAfter` in the past."),
  PAYMENT_EXPIRED: row(402, -32402, false, "The payment expires too soon.", "Sign again, with the full time-out."),
  PAYMENT_SIGNATURE_INVALID: row(402, -32402, false, "The signature is not the payer's.", "Sign again."),
  PAYMENT_NONCE_USED: row(402, -32402, false, "This authorization is used or cancelled.", "Sign with a new nonce."),
  PAYMENT_INSUFFICIENT_FUNDS: row(
    402,
    -32402,
    false,
    "The payer's balance does not cover this payment and those in flight.",
    "Add funds, or wait for payments in flight.",
  ),
  PAYMENT_SIMULATION_FAILED: row(402, -32402, false, "The token refuses this payment.", "Check the payer's account."),
  PAYMENT_FACTORY_NOT_ALLOWED: row(
    402,
    -32402,
    false,
    "The wallet's factory is not on the allow-list.",
    "Deploy the wallet first, or pay from another.",
  ),
  PAYMENT_SETTLEMENT_FAILED: row(
    402,
    -32402,
    false,
    "The payment could not be settled; nothing was charged.",
    "Sign a new payment.",
  ),
  PAYMENT_PAYER_BLOCKED: row(
    403,
    -32403,
    false,
    "Payments of this account are not taken here.",
    "Pay from another account, or ask the operator.",
  ),
  PAYMENT_RATE_LIMITED: row(
    429,
    -32005,
    true,
    "Too many payments of this client or payer ended without paying, or are under way.",
    "Wait as long as `Retry-After` says, then send the identical request with the same signature; never sign a new one.",
  ),
  PAYMENT_CONFLICT: row(
    409,
    -32409,
    false,
    "This payment was made for another request, or its response is not kept for it any more.",
    "Sign a new payment only for a new call; ask the operator about one that was paid and not answered.",
  ),
  PAYMENT_IDENTIFIER_CONFLICT: row(
    409,
    -32409,
    false,
    "This payment identifier was used for another request, or its response is not kept for it any more.",
    "Use a new identifier.",
  ),
  SETTLEMENT_PENDING: row(
    503,
    -32503,
    true,
    "The payment is being settled.",
    "Send the identical request with the same signature again; never sign a new one.",
  ),
  SETTLEMENT_UNAVAILABLE: row(
    503,
    -32503,
    true,
    "Payments cannot be checked at the moment; nothing was charged.",
    "Send the identical request again later.",
  ),
  SETTLEMENT_UNPROFITABLE: row(
    503,
    -32503,
    true,
    "Settling this payment costs more than its price at the moment; nothing was charged.",
    "Send the identical request with the same signature again later, or pay on another network of the terms.",
  ),
  PAYMENT_IN_PROGRESS: row(
    503,
    -32503,
    true,
    "This payment is being worked on.",
    "Send the identical request with the same signature again.",
  ),
  PAYMENT_OWED: row(
    410,
    -32410,
    false,
    "This payment is on the chain although no answer was given for it.",
    "Ask the operator for a refund, with the settlement id; the operator's ledger has it as owed.",
  ),
  PAYMENT_WINDOW_TOO_LONG: row(
    402,
    -32402,
    false,
    "The payment is valid for longer than what was asked.",
    "Sign with `validBefore` at most `maxTimeoutSeconds` from now.",
  ),
  // the upstream
  SERVICE_UNAVAILABLE: row(
    503,
    -32503,
    true,
    "The service is not currently available; nothing was charged.",
    "Send the identical request with the same signature again, or later.",
  ),
  NO_SUPPLIERS: row(503, -32503, true, "No supplier serves this service now.", "Try again later."),
  SUPPLIERS_UNREACHABLE: row(502, -32502, true, "No supplier could be reached.", "Try again."),
  SUPPLIERS_FAILED: row(502, -32502, true, "No supplier gave a good answer.", "Try again."),
  SUPPLIERS_DISAGREE: row(502, -32502, true, "Suppliers give different answers.", "Try again."),
  // Silent is unreachable to who asks (spec §7 has no 504); the JSON-RPC code distinguishes the two.
  DEADLINE_EXCEEDED: row(502, -32504, true, "No answer came in time.", "Try again, or ask for less."),
  ANSWER_TOO_LARGE: row(503, -32503, false, "The answer is larger than what is sold.", "Ask for less at once."),
  ANSWER_UNREADABLE: row(
    502,
    -32502,
    true,
    "The answer cannot be read.",
    "Present the same payment again: it gets the stored answer and is not charged again.",
  ),
  OVERLOADED: row(503, -32503, true, "The gateway is at its limit.", "Wait as long as `Retry-After` says."),
  // ours
  NOT_READY: row(503, -32503, true, "Not ready yet.", "See what `missing` names."),
  SHUTTING_DOWN: row(503, -32503, true, "The gateway is stopping.", "Send the request again."),
  INTERNAL: row(500, -32603, true, "Something failed on our side.", "Try again; report the request id."),
  // the admin API
  SELLER_KEY_UNKNOWN: row(
    401,
    -32600,
    false,
    "The key is not a seller's of this facilitator.",
    "Send Authorization: Bearer <key> with the key that the operator gave you.",
  ),
  UNAUTHORIZED: row(401, -32600, false, "The admin token is missing or wrong.", "Send Authorization: Bearer <token>."),
  ADMIN_NOT_FOUND: row(
    404,
    -32601,
    false,
    "There is no such service, operator, flag or admin route.",
    "See npx turnpike relay suppliers, and npx turnpike relay flags.",
  ),
  RELOAD_REFUSED: row(
    409,
    -32603,
    false,
    "The configuration was refused; the old one stays in effect.",
    "Fix what `faults` names, or restart where it says so.",
  ),
  ADMIN_UNREACHABLE: row(
    503,
    -32503,
    true,
    "The gateway's admin API cannot be reached.",
    "Set admin.port and a token and start the gateway, or name its address with --admin.",
  ),
  // the command and its configuration
  CONFIG_INVALID: row(500, -32603, false, "The configuration is not valid.", "Fix the paths that are named."),
  USAGE: row(500, -32603, false, "The command was called wrongly.", "See --help."),
  PORT_IN_USE: row(500, -32603, false, "A port is in use.", "End the program that holds it, or set another port."),
  DEPENDENCY_MISSING: row(500, -32603, false, "A program that is needed is missing.", "Install it as described."),
  ALREADY_RUNNING: row(
    500,
    -32603,
    false,
    "turnpike up is already running in this folder.",
    "Buy from the one that runs, or stop it first.",
  ),
  SUPPLIER_STATUS_UNREACHABLE: row(
    503,
    -32503,
    true,
    "The supplier's status could not be asked.",
    "Start it with npx turnpike supplier start, and set supplier.metrics.port in its configuration.",
  ),
  GATEWAY_UNREACHABLE: row(
    500,
    -32603,
    true,
    "The gateway cannot be reached.",
    "Start one with npm start and wait for its `ready`, or name another with --gateway.",
  ),
  DATA_FOLDER: row(500, -32603, false, "The data folder cannot be used.", "Use --fresh to start over."),
  PART_FAILED: row(500, -32603, true, "A part did not start.", "Fix what its log names, or use --fresh to start over."),
  CHAIN_MISMATCH: row(
    500,
    -32603,
    false,
    "The chain or token is not the configured one.",
    "Correct what the message names.",
  ),
  LEDGER_FENCED: row(500, -32603, true, "Another process holds this relayer key.", "Wait for its lease to end."),
  LEDGER_UNAVAILABLE: row(503, -32503, true, "The ledger cannot be reached.", "Try again later."),
  LEDGER_SCHEMA: row(
    500,
    -32603,
    false,
    "The ledger's tables are not those of this version.",
    "Run `npx turnpike db migrate`; tables that are newer need a newer Turnpike.",
  ),
  PORTAL_DB_UNAVAILABLE: row(503, -32503, true, "The management database cannot be reached.", "Try again later."),
  PORTAL_DB_SCHEMA: row(
    500,
    -32603,
    false,
    "The management tables are not those of this version.",
    "Run `npx turnpike db migrate`; tables that are newer need a newer Turnpike.",
  ),
  SEARCH_UNAVAILABLE: row(503, -32503, true, "No search engine answered.", "Send the request again later."),
  SEARCH_ENGINE_FAILED: row(503, -32503, true, "A search engine gave no answer.", "Try again later."),
  SEARCH_INDEX: row(
    500,
    -32603,
    false,
    "The search index cannot be read.",
    "Remove its file and run `npx turnpike search index` again.",
  ),
  SEARCH_INDEX_BUSY: row(503, -32503, true, "Another process is writing the search index.", "Wait until it has ended."),
  SOURCE_REFUSED: row(500, -32603, false, "This source cannot be indexed.", "Check its address, and `search.crawl`."),
  BUDGET_SPENT: row(
    500,
    -32603,
    false,
    "The budget does not cover this call; nothing was signed.",
    "Raise the budget, or start a new session.",
  ),
  SPEND_CAP: row(500, -32603, false, "The price is over the spending cap; nothing was signed.", "Raise the cap."),
  SPEND_JOURNAL: row(
    500,
    -32603,
    false,
    "The spend journal cannot be used; nothing was signed.",
    "Fix what the message names, or name another file; what the old one holds is then not counted.",
  ),
  HEIGHT_UNAVAILABLE: row(
    404,
    -32004,
    false,
    "The state of this height is not here.",
    "Ask for a height that is kept, or ask a node that prunes nothing.",
  ),
  CHAIN_HOME: row(
    500,
    -32603,
    false,
    "The folder of the chain's node cannot be used.",
    "Fix what the message names, or name another folder with --home.",
  ),
  CHAIN_STORE: row(
    500,
    -32603,
    false,
    "The chain's store cannot be used.",
    "Name an empty folder or one of this program, or fix what the message names.",
  ),
  CHAIN_STORE_BUSY: row(
    500,
    -32603,
    false,
    "The chain's store is in use by another process.",
    "Stop that process, or name another folder.",
  ),
  CHAIN_STORE_DAMAGED: row(
    500,
    -32603,
    false,
    "The chain's store is damaged.",
    "Restore the folder from a copy; under CometBFT join again by state sync, or remove it and let the blocks be replayed.",
  ),
  CHAIN_SIGNED: row(
    500,
    -32603,
    false,
    "The node's key has signed this height already.",
    "Put the newest store back, or do what the message names.",
  ),
  CHAIN_CLOCK: row(
    503,
    -32503,
    true,
    "The machine's clock has jumped ahead; no block is made.",
    "Set the clock right; if the new time is right, start the node again.",
  ),
  CHAIN_ENGINE_LIMIT: row(
    500,
    -32603,
    false,
    "A transaction reached a limit of this node's JavaScript engine or machine; the node stops before it disagrees with others.",
    "Give the node the memory, the Node release and the options of the others, start it again, and report the block's height.",
  ),
  CHAIN_INVARIANT: row(
    500,
    -32603,
    false,
    "The chain's state breaks a rule that every block keeps; the node stops before it makes it worse.",
    "Run `npx turnpike chain verify --home <folder>`, keep the folder, and report what the message names.",
  ),
  CHAIN_UPGRADE: row(
    500,
    -32603,
    false,
    "The chain upgrades at this block to rules that this program does not know; the node stops before it runs the block.",
    "Install the version that the plan's `info` names and start it on the same folder; `npx turnpike chain rules` shows what a program has and a chain needs.",
  ),
  CHAIN_RULES: row(
    500,
    -32603,
    false,
    "The chain's state was made by rules that this program does not know.",
    "Install the version that made it, or a later one; `npx turnpike chain rules` shows the rules that a program has.",
  ),
  CHAIN_STORE_FULL: row(
    500,
    -32603,
    true,
    "There is no room for the chain's store, or its disk fails.",
    "Make room on the disk; the newest block that was committed is whole, and the next is made when there is room.",
  ),
  EVIDENCE_FOLDER: row(
    500,
    -32603,
    false,
    "The folder of the supplier's evidence cannot be used.",
    "Name a folder on a local disk that this user may write, or correct what the message names.",
  ),
  EVIDENCE_DAMAGED: row(
    500,
    -32603,
    false,
    "The evidence of a session is damaged.",
    "Check the disk; other sessions are claimed all the same.",
  ),
  OPERATOR_KEY_HELD: row(
    500,
    -32603,
    false,
    "Another process holds this supplier's operator key.",
    "Stop the process that the message names; two that claim for one key would undo each other's claims.",
  ),
  CHAIN_UNREACHABLE: row(
    503,
    -32503,
    true,
    "The relay protocol's chain cannot be reached.",
    "Start it with npm start or `npx turnpike chain start`, or name another node with --node.",
  ),
  CHAIN_QUERY_FAILED: row(500, -32603, false, "The chain refused the query.", "Fix what the message names."),
  TX_FAILED: row(500, -32603, false, "The chain refused the transaction.", "Fix what the message names."),
  TX_UNKNOWN: row(
    504,
    -32504,
    true,
    "Whether the transaction is in a block is not known.",
    "Ask for its hash before you send it again.",
  ),
  FACILITATOR_MISBEHAVED: row(503, -32503, true, "The facilitator gave an answer that is not true.", "Try later."),
} as const satisfies Record<string, ErrorRow>;

/** A key of {@link ERRORS}. */
export type ErrorCode = keyof typeof ERRORS;

/** Codes that existed once; they must never be given out again. */
export const RETIRED_CODES: readonly string[] = ["ANSWER_EXPIRED"];

/** The row of a code. */
export function errorRow(code: ErrorCode): ErrorRow {
  return ERRORS[code];
}

/** What {@link AppError} takes beside its code. */
export interface AppErrorDetail {
  /** Replaces the row's sentence. Must be safe to show to anybody. */
  readonly message?: string;
  /** Replaces the row's advice on the command line, where more is known. */
  readonly advice?: string;
  /** Structured facts for logs; never shown to a client. */
  readonly detail?: Readonly<Record<string, unknown>>;
  /** What caused it. */
  readonly cause?: unknown;
}

/** The one error class. Expected outcomes are values; this is thrown for faults and at the edge of a stage. */
export class AppError extends Error {
  override readonly name = "AppError";
  readonly code: ErrorCode;
  /** Undefined: the row's. */
  readonly advice: string | undefined;
  readonly detail: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, options: AppErrorDetail = {}) {
    super(options.message ?? ERRORS[code].message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.advice = options.advice;
    this.detail = options.detail ?? {};
  }
}

/** An error that others' words explain: they are no part of its message, and are shown as theirs. */
export class QuotedError extends AppError {
  readonly thirdParty: string | undefined;

  constructor(code: ErrorCode, message: string, thirdParty: string | undefined, cause?: unknown) {
    super(code, { message, cause });
    this.thirdParty = thirdParty;
  }
}

/** True for an {@link AppError}, also for one with this code. */
export function isAppError(error: unknown, code?: ErrorCode): error is AppError {
  return error instanceof AppError && (code === undefined || error.code === code);
}

/**
 * `code` of whatever was thrown: `ENOENT` of Node, SQLSTATE of PostgreSQL, a number of LMDB. Undefined where it has none that
 * is text or a number.
 */
export function thrownCode(error: unknown): string | number | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  const { code } = error;
  return typeof code === "string" || typeof code === "number" ? code : undefined;
}

/** The `code` field of a log line about a failure: the code of an {@link AppError}, else the name of the error's class. */
export function failureCode(error: unknown): string {
  if (isAppError(error)) return error.code;
  return error instanceof Error ? error.name : "unknown";
}

/** Fields of a log line about a fault of ours: its class, code, detail and stack, never a request's content. */
export function faultFields(error: unknown): Readonly<Record<string, unknown>> {
  if (isAppError(error)) return { code: error.code, ...error.detail, stack: error.stack };
  return error instanceof Error ? { error: error.name, stack: error.stack } : { error: typeof error };
}

/** The body of every JSON error that is not JSON-RPC, 402 or 422. */
export interface ErrorBody {
  readonly code: ErrorCode;
  readonly message: string;
  readonly requestId: string;
  readonly retryable: boolean;
}

/** Builds the error body for a code; `message` replaces the row's sentence, and the advice is always appended. */
export function errorBody(code: ErrorCode, requestId: string, message?: string): ErrorBody {
  const { retryable, advice, message: safe } = ERRORS[code];
  return { code, message: `${message ?? safe} ${advice}`, requestId, retryable };
}
