import type { Address, NetworkId } from "@turnpike/base";

/** A service as the gateway's `/services.json` lists it. */
export interface ListedService {
  readonly id: string;
  /** False when nothing answers for it now. */
  readonly serves: boolean;
  /** False for one that is only on the free relay. */
  readonly paid: boolean;
  /** Address of the free relay; undefined where it is not on it. */
  readonly relayUrl: string | undefined;
  /** A body that it takes. */
  readonly example: unknown;
  /** Methods, and paths with their verb, that are sold; empty where the list does not say. */
  readonly methods: readonly string[];
  /** Listed price of a call in US dollars, rounded up to a millionth; undefined where there is none. */
  readonly priceUsd: string | undefined;
}

/** Signer of payments: an account of viem, or anything with the same two members. */
export interface Signer {
  readonly address: Address;
  signTypedData(message: {
    domain: Record<string, unknown>;
    types: Record<string, unknown>;
    primaryType: string;
    message: Record<string, unknown>;
  }): Promise<`0x${string}`>;
}

/**
 * A dollar stablecoin that may be paid in, beside those that the reference client knows. Its decimals and its name are read
 * from its chain, so a node of it has to be named.
 */
export interface DollarAsset {
  readonly network: string;
  readonly asset: string;
  /** Decimal places, as a check: a token that has others on its chain is not paid in. */
  readonly decimals?: number;
}

/**
 * Limits of a client's spending. Enforced before anything is signed, over all calls at once. Amounts are decimals such as
 * `"0.05"`: no sign, no exponent.
 */
export interface Budget {
  /** Maximum cost of one call, in US dollars: `"0.05"`. */
  readonly perCallUsd: string;
  /** Maximum cost of all calls of one journal together; without it there is no such bound. */
  readonly totalUsd?: string;
}

export interface ClientOptions {
  /** Base URL of the gateway, without a slash at its end. */
  readonly gateway: string;
  readonly signer: Signer;
  readonly budget: Budget;
  /** Where payments are written down before they are sent; by default in memory, so that a crash loses them. */
  readonly journal?: SpendJournal;
  /**
   * JSON-RPC URLs of nodes of the chains that are paid on, each asked for its chain: they show that a payment was not taken
   * and no longer can be. Only when all of them agree its price is returned to the budget, and its request signed for anew.
   * One of them has to be of the network that is paid on, else nothing is signed. Not nodes of the gateway. Without nodes
   * time alone decides when something new is signed, and no price is returned.
   */
  readonly rpcUrls?: readonly string[];
  /**
   * CAIP-2 ids of the networks that may be paid on, such as `eip155:8453`. By default the test networks that this client
   * knows: a main network has to be named.
   */
  readonly networks?: readonly string[];
  /** Further assets to pay in. */
  readonly assets?: readonly DollarAsset[];
  /** Time for one request; 90,000 by default. */
  readonly requestTimeoutMs?: number;
  /** Maximum size of a bought answer after decompression; 64 MiB by default. A larger one cannot be read. */
  readonly maxAnswerBytes?: number;
  /** Maximum number of values of an answer that is parsed; of one with more there is the text alone. Unbounded by default. */
  readonly maxParsedValues?: number;
  /** Time for which a signed request is sent again while its outcome is unknown; 120,000 by default. */
  readonly retryForMs?: number;
}

/** Bounds and behaviour of one call. */
export interface CallOptions {
  /**
   * A tighter cap for this call: it never widens the budget. By default the price that this client quoted for the same
   * request, where it did.
   */
  readonly maxPriceUsd?: string;
  /** A PAYMENT-SIGNATURE of an earlier try: it is presented again, and nothing new is signed. */
  readonly payment?: string;
  /**
   * True: what was charged stays presentable until {@link Client.acknowledge} is called, in this process or the next: the
   * identical call presents it again and gets the stored answer. By default it is acknowledged as `call` resolves: the code
   * behind its `await` runs before the journal's file says so, up to its first own wait for the disk or the network.
   */
  readonly keepUntilAcknowledged?: boolean;
  readonly signal?: AbortSignal;
}

/** A payment that was signed and whose outcome is not known. Only the same one may be presented again. */
export interface OpenPayment {
  readonly service: string;
  /** Lower-case hex SHA-256 of gateway, service and body: what the payment was signed for. */
  readonly requestHash: string;
  readonly usd: string;
  readonly payment: string;
  /** When it was signed, ISO 8601. */
  readonly signedAt: string;
}

/** A payment that counts in a journal's sums. */
export interface CountedPayment {
  readonly requestHash: string;
  readonly usd: string;
  /** `open` has no known outcome; `held` has one that its caller may not have; `charged`: it was charged, and its caller has the result. */
  readonly state: "open" | "held" | "charged";
}

/** Sums spent so far. Open payments count as spent until their outcome is known. */
export interface Spending {
  readonly chargedUsd: string;
  readonly openUsd: string;
  readonly remainingUsd: string | undefined;
  readonly calls: number;
}

/**
 * Outcome of a signed payment.
 * `charged`: it was taken, by a receipt that fits, or as the caller was informed; it stays spent.
 * `unacknowledged`: the same, and its caller has not acknowledged the result so far: the same request presents it again.
 * `claimed`: the gateway says that it was taken, and handed out no answer. It counts as charged.
 * `uncharged`: the gateway refused it for good. `unserved`: the gateway took nothing now, and the same payment may be
 * presented again.
 * The last three are only what the gateway says: they stay spent until their {@link SpendEnd} is known, and the same
 * request presents the same payment again; where nothing was signed they are given back at once.
 * `open`: not known. It stays spent until it is presented again, or its {@link SpendEnd} is known.
 */
export type SpendOutcome = "charged" | "unacknowledged" | "claimed" | "uncharged" | "unserved" | "open";

/**
 * Final end of a signed payment. `void`: the chain shows, after its window, that the authorization was not
 * used, so that it never can be; only this gives its price back.
 */
export type SpendEnd = "charged" | "void";

/** A payment whose window has closed, and whose end is not known: the chain can show it. */
export interface ExpiredPayment {
  readonly payment: string;
  readonly requestHash: string;
  /** Writes down what the chain shows. Never rejects: what could not be written is asked again after a restart. */
  end(end: SpendEnd): Promise<void>;
}

/** A payment of an earlier try that is taken up again. */
export interface ResumedPayment {
  readonly open: OpenPayment;
  /** Outcome that its newest try showed. */
  readonly outcome: Exclude<SpendOutcome, "charged" | "unacknowledged">;
  /** True where the chain showed that it was taken, so that its caller is informed first. */
  readonly isUsed: boolean;
  /** True where an earlier call ended as charged, and its caller did not acknowledge that. */
  readonly isCharged: boolean;
  /** Receipt of success that was shown for it, and stays one whatever the gateway says later. */
  readonly receipt: PurchaseReceipt | undefined;
  readonly reservation: SpendReservation;
}

/** One call's place in the budget. */
export interface SpendReservation {
  /**
   * Writes down that this signed payment is going to be sent, for the first time or again; durable before it resolves,
   * and only then is it sent.
   * @throws AppError SPEND_JOURNAL when it cannot be written: the payment must not be sent, and the reservation is ended.
   */
  signed(payment: string): Promise<void>;
  /** Keeps a receipt of success that fits the payment, for later tries. Never rejects. */
  shown(receipt: PurchaseReceipt): Promise<void>;
  /** Resolves once it is known for good what became of the payment, by whichever call; never where that stays unknown. */
  readonly ended: Promise<SpendEnd>;
  /**
   * Reports the outcome, once, with the receipt of what was bought; a later call does nothing. Returns the id of the result where it is
   * `unacknowledged`. Never rejects: what could not be written counts as open.
   */
  end(outcome: SpendOutcome, receipt?: PurchaseReceipt): Promise<string | undefined>;
}

/**
 * Adds up what is spent, and remembers what was signed. All amounts are US dollars in micro-units (10^-6), rounded up.
 * One journal may serve many clients at once.
 */
export interface SpendJournal extends AsyncDisposable {
  /**
   * Takes a call's price out of the budget, before anything else of this process can.
   * @throws AppError BUDGET_SPENT when less is left; SPEND_JOURNAL when it cannot be written down (nothing was signed).
   */
  reserve(call: {
    readonly service: string;
    readonly requestHash: string;
    readonly microUsd: bigint;
    readonly totalMicroUsd: bigint | undefined;
  }): Promise<SpendReservation>;
  /**
   * Waits until no other call of this journal is buying this request: a second signature while the first may land is a
   * second debit. Disposal lets the next one go. Rejects with the signal's reason on an abort.
   */
  lock(requestHash: string, signal: AbortSignal | undefined): Promise<Disposable>;
  /** The same where no call is buying it now; undefined otherwise. */
  tryLock(requestHash: string): Disposable | undefined;
  /**
   * Takes up a payment of an earlier try again: the oldest one for this request that was not both refused and expired, or
   * the one that is given. Undefined when there is none, or a call of this process is presenting it.
   */
  resume(requestHash: string, payment?: string): ResumedPayment | undefined;
  /**
   * Ends the payment of an `unacknowledged` result, where that is the newest such result of it: it is presented no more. Does nothing for
   * any other. Never rejects.
   */
  acknowledge(resultId: string): Promise<void>;
  /** The record of a payment that counts already; of those that were charged, only the newest 10,000 are remembered. */
  counted(payment: string): CountedPayment | undefined;
  /** Signed payments without a known outcome, those that are being presented among them; oldest first. */
  open(): readonly OpenPayment[];
  /** Signed payments that can no longer be taken and have no known end, oldest first. */
  expired(): readonly ExpiredPayment[];
  /** Number of payments that a call may still present again. */
  pendingCount(): number;
  /** `chargedMicroUsd` and `openMicroUsd` are sums; `calls` counts what was signed. */
  sums(): { readonly chargedMicroUsd: bigint; readonly openMicroUsd: bigint; readonly calls: number };
}

/** Price of a call, by the option that would be signed. */
export interface Price {
  readonly network: NetworkId;
  readonly asset: Address;
  readonly payTo: Address;
  /** In the asset's smallest unit. */
  readonly amount: bigint;
  readonly decimals: number;
  /** In US dollars, with the asset's decimals. */
  readonly usd: string;
  /** Validity of the signature. */
  readonly maxTimeoutSeconds: number;
}

/**
 * A receipt that the gateway sent in PAYMENT-RESPONSE. Each field that it has fits the payment; `errorReason` alone is free text.
 */
export interface PurchaseReceipt {
  readonly success: boolean;
  readonly transaction: string;
  readonly network: string;
  readonly payer: string | undefined;
  readonly payTo: string | undefined;
  /** In the token's smallest unit. */
  readonly amount: string | undefined;
  readonly asset: string | undefined;
  readonly errorReason: string | undefined;
  /** Id for `GET /settlements/{id}`. */
  readonly settlementId: string | undefined;
}

/** A receipt that does not fit the payment, or contradicts one that does: words of the gateway, and no fact. */
export interface ClaimedReceipt extends PurchaseReceipt {
  /** What does not fit, as a clause; values of the gateway are in it as JSON. */
  readonly misfit: string;
}

/** State of a call's payment. `unsigned`: none was signed, or none was sent. */
export type PurchaseState = "unsigned" | Exclude<SpendOutcome, "claimed" | "unacknowledged">;

/** A payment that is going to be sent. */
export interface SignedCall {
  /** The PAYMENT-SIGNATURE header. With it the answer can be fetched. */
  readonly payment: string;
  /** In US dollars; undefined for a payment that was given and is not in the journal. */
  readonly usd: string | undefined;
  /** True for a payment of an earlier try. */
  readonly isResumed: boolean;
}

/** Result of a call. Whatever the answer is, the members beside it are of a bounded size and depth. */
export type PurchaseResult =
  | {
      readonly kind: "bought";
      readonly state: "charged";
      /** Charged, in US dollars; undefined for a payment that was given and is not in the journal. */
      readonly usd: string | undefined;
      /**
       * `{portal, data}`, as parsed JSON: at most 2,504 levels deep. Its numbers are doubles, and of members with one key it has the last.
       * Undefined where the answer has more values than are parsed.
       */
      readonly envelope: unknown;
      /** The JSON of `envelope` as it was sent, with each number and each member. Undefined for a status without a body. */
      readonly answerText: string | undefined;
      readonly receipt: PurchaseReceipt;
      /** Undefined when an earlier payment was presented again. */
      readonly price: Price | undefined;
      readonly payment: string;
      /** True when an earlier payment was presented again: the answer is that of the earlier call, and nothing new was signed. */
      readonly isResumed: boolean;
      /** Id of this result, for {@link Client.acknowledge}; undefined where nothing is to be acknowledged. */
      readonly resultId: string | undefined;
    }
  /** The route answered without asking for payment. */
  | {
      readonly kind: "free";
      readonly state: "unsigned";
      readonly status: number;
      /** As parsed JSON; undefined where it cannot be read, or has more values than are parsed. */
      readonly answer: unknown;
      /** The JSON of `answer` as it was sent; undefined where it cannot be read. */
      readonly answerText: string | undefined;
    }
  | {
      readonly kind: "refused";
      readonly state: PurchaseState;
      /** Amount that was signed, in US dollars; undefined where nothing was, or it is not known. */
      readonly usd: string | undefined;
      readonly status: number;
      /** Code of the gateway's error; where it sent terms again the cause that it names, else `PAYMENT_REQUIRED`. */
      readonly code: string;
      readonly message: string;
      /** Author of `message`: words of a gateway are to be quoted. */
      readonly messageOf: "client" | "gateway";
      /** Consequence for the money, in a sentence: nothing was signed, nothing was charged, or what may have been. */
      readonly charge: string;
      /** True when the same request, with the same payment where there is one, may succeed later. */
      readonly retryable: boolean;
      /** True when it is not known whether the payment was taken: only the same payment may be presented again. */
      readonly open: boolean;
      /** The first receipt of success that was shown for the payment, in this call or an earlier one; else that of this answer where it fits. */
      readonly receipt: PurchaseReceipt | undefined;
      /** Receipt of this answer that does not fit. */
      readonly claimedReceipt: ClaimedReceipt | undefined;
      readonly price: Price | undefined;
      /** The signed payment, to present it again; undefined when nothing was signed. */
      readonly payment: string | undefined;
      /** Id of this result, for {@link Client.acknowledge}; undefined where nothing is to be acknowledged. */
      readonly resultId: string | undefined;
    };

/** Result of a quote: the terms, the option that would be signed, and whether it is within the cap. */
export interface Quote {
  /** The 402's JSON. */
  readonly terms: unknown;
  readonly price: Price;
  readonly withinCap: boolean;
}

/**
 * The buyer's side of the gateway. `service` is the id, with an appended path and query where the service has such:
 * `eth`, `osmosis/status`. `request` is the body: a string is sent as it stands, anything else as JSON; undefined
 * sends a GET. Disposal ends what nodes are still asked for; the journal is its caller's.
 */
export interface Client extends AsyncDisposable {
  /**
   * Asks what a call costs. Signs nothing.
   * @throws AppError PAYMENT_OPTION_UNKNOWN when no offered option can be paid; GATEWAY_UNREACHABLE; the gateway's own
   * code where it gives no terms, INTERNAL where it has none.
   */
  quote(service: string, request?: unknown, options?: CallOptions): Promise<Quote>;
  /**
   * Buys one call: asks, checks the price against the budget, signs once, and sends until the outcome is known. A
   * payment of an earlier try for the same request is presented first, and nothing new is signed while that one can still be
   * taken, or may have been and the nodes do not all show that it was not. Identical calls on one journal go one after the
   * other, each with a payment of its own. An abort rejects before the signature; after it the result is an open refusal.
   * @throws AppError SPEND_CAP, BUDGET_SPENT, SPEND_JOURNAL, PAYMENT_OPTION_UNKNOWN, USAGE; GATEWAY_UNREACHABLE when the
   * gateway cannot be reached; INTERNAL when the signer refuses. In all of them nothing was signed, or what was signed
   * was not sent.
   */
  call(service: string, request?: unknown, options?: CallOptions): Promise<PurchaseResult>;
  /**
   * Says that the result of a call with `keepUntilAcknowledged` has reached the one it is for, by its `resultId`. Resolves when the
   * journal has it. Never rejects: a payment whose newest result is not acknowledged is presented once more.
   */
  acknowledge(resultId: string): Promise<void>;
  /** Services that the gateway offers; undefined when it has no list. @throws AppError GATEWAY_UNREACHABLE. */
  services(): Promise<readonly ListedService[] | undefined>;
  spending(): Spending;
  openPayments(): readonly OpenPayment[];
}

/** Each has a default. */
export interface ClientModules {
  /** Sends requests; the runtime's own by default, as the reference client does. */
  readonly fetch?: typeof globalThis.fetch;
  /** Waits; for tests. */
  readonly sleep?: (ms: number, signal: AbortSignal | undefined) => Promise<void>;
  /** Monotonic milliseconds; for tests. */
  readonly monotonicMs?: () => number;
  /** Milliseconds since the Unix epoch; for tests. */
  readonly nowMs?: () => number;
  /** Called when a payment is in the journal, before it is sent. */
  readonly onSigned?: (signed: SignedCall) => void;
  /** Called before each time a signed request is sent again. */
  readonly onRetry?: (reason: string, waitMs: number) => void;
}
