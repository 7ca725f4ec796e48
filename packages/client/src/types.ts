import type { Address, NetworkId } from "@turnpike/base";

/** Who signs: an account of viem, or anything with the same two members. */
export interface Signer {
  readonly address: Address;
  signTypedData(message: {
    domain: Record<string, unknown>;
    types: Record<string, unknown>;
    primaryType: string;
    message: Record<string, unknown>;
  }): Promise<`0x${string}`>;
}

/** A dollar stablecoin that may be paid in, beside those that the reference client knows. */
export interface DollarAsset {
  readonly network: string;
  readonly asset: string;
  /** Decimal places. */
  readonly decimals: number;
}

/** Options of `createClient`. */
export interface ClientOptions {
  /** Base URL of the gateway, without a slash at its end. */
  readonly gateway: string;
  /** Most that one call may cost, in US dollars: `"0.05"`. */
  readonly maxPriceUsd: string;
  /** Further assets to pay in. */
  readonly assets?: readonly DollarAsset[];
  /** Time for one request; 90,000 by default. */
  readonly requestTimeoutMs?: number;
  /** How long a signed request is sent again while its outcome is unknown; 120,000 by default. */
  readonly retryForMs?: number;
}

/** One call. */
export interface Purchase {
  /** Id of the service, with an appended path and query where the service has such: `eth`, `osmosis/status`. */
  readonly service: string;
  /** JSON text; undefined sends a GET. */
  readonly body: string | undefined;
  /** A PAYMENT-SIGNATURE of an earlier try: it is presented again, and nothing new is signed. */
  readonly payment?: string;
  readonly signal?: AbortSignal;
}

/** What a call costs, by the option that would be signed. */
export interface Price {
  readonly network: NetworkId;
  readonly asset: Address;
  readonly payTo: Address;
  /** In the asset's smallest unit. */
  readonly amount: bigint;
  readonly decimals: number;
  /** In US dollars, with the asset's decimals. */
  readonly usd: string;
  /** How long the signature is valid. */
  readonly maxTimeoutSeconds: number;
}

/** A receipt as the gateway sent it in PAYMENT-RESPONSE. */
export interface PurchaseReceipt {
  readonly success: boolean;
  readonly transaction: string;
  readonly network: string;
  readonly payer: string | undefined;
  readonly errorReason: string | undefined;
  /** Id for `GET /settlements/{id}`. */
  readonly settlementId: string | undefined;
}

/** How a call ended. */
export type PurchaseResult =
  | {
      readonly kind: "bought";
      /** `{portal, data}`, as parsed JSON. */
      readonly envelope: unknown;
      readonly receipt: PurchaseReceipt;
      /** Undefined when an earlier payment was presented again. */
      readonly price: Price | undefined;
      readonly payment: string;
    }
  /** The route answered without asking for payment. */
  | { readonly kind: "free"; readonly status: number; readonly answer: unknown }
  | {
      readonly kind: "refused";
      readonly status: number;
      /** Code of the gateway's error; where it sent terms again the cause that it names, else `PAYMENT_REQUIRED`. */
      readonly code: string;
      readonly message: string;
      /** True when the same request, with the same payment where there is one, may succeed later. */
      readonly retryable: boolean;
      /** True when it is not known whether the payment was taken: only the same payment may be presented again. */
      readonly open: boolean;
      readonly receipt: PurchaseReceipt | undefined;
      readonly price: Price | undefined;
      /** What was signed, to present it again; undefined when nothing was signed. */
      readonly payment: string | undefined;
    };

/** Result of a quote: the terms, the option that would be signed, and whether it is within the cap. */
export interface Quote {
  /** The 402's JSON. */
  readonly terms: unknown;
  readonly price: Price;
  readonly withinCap: boolean;
}

/** The buyer's side of the gateway. */
export interface Client {
  /**
   * Asks what a call costs. Signs nothing.
   * @throws AppError PAYMENT_OPTION_UNKNOWN when no offered option can be paid; GATEWAY_UNREACHABLE; the gateway's own
   * code where it gives no terms, INTERNAL where it has none.
   */
  quote(purchase: Purchase): Promise<Quote>;
  /**
   * Buys one call: asks, checks the price against the cap, signs once, and sends until the outcome is known.
   * @throws AppError SPEND_CAP (nothing was signed), PAYMENT_OPTION_UNKNOWN (the same), GATEWAY_UNREACHABLE when the
   * gateway cannot be reached before anything was signed.
   */
  call(purchase: Purchase): Promise<PurchaseResult>;
}

/** What `createClient` works with. */
export interface ClientModules {
  readonly signer: Signer;
  /** Sends requests; the runtime's own by default, as the reference client does. */
  readonly fetch?: typeof globalThis.fetch;
  /** Waits; for tests. */
  readonly sleep?: (ms: number, signal: AbortSignal | undefined) => Promise<void>;
  /** Monotonic milliseconds; for tests. */
  readonly monotonicMs?: () => number;
  /** Told before each time a signed request is sent again. */
  readonly onRetry?: (reason: string, waitMs: number) => void;
}
