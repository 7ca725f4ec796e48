import {
  AppError,
  bytesToHex,
  bytesToHex0x,
  isRecord,
  parseJson,
  type SettlementId,
  sameAddress,
  trimEndOf,
  utf8ToBytes,
} from "@turnpike/base";
import { sha256 } from "@turnpike/crypto";
import { type Dispatcher, Pool } from "undici";
import type { PaymentRecord } from "../types.ts";
import type { RemoteNetwork } from "./options.ts";

/** Standing of a facilitator. `denied`: it answers, and does not know the seller's key. */
export type FacilitatorStanding = "alive" | "silent" | "denied";

/** What a facilitator answered. Nothing in it is trusted: `transaction` is only a place to look at first. */
export type FacilitatorAnswer =
  | { readonly kind: "yes" | "pending" | "no"; readonly transaction: `0x${string}` | undefined }
  /**
   * `denied`: refused by its status, as an unknown seller's key is. `late`: it took the request, and has not answered in time:
   * it may be settling. Else not an x402 settle response, too large, or no connection.
   */
  | { readonly kind: "denied" | "late" | "absurd" | "none"; readonly transaction: undefined };

const HASH = /^0x[0-9a-fA-F]{64}$/;
/** Answers to a request whose key is not known. */
const DENIED: ReadonlySet<number> = new Set([401, 403]);
/** Time to connect: well below that of a request, so that a time-out of the request is that of its answer. */
const CONNECT_TIMEOUT_MS = 5_000;
/** Time for a look at a facilitator, which has nothing to settle. */
const STANDING_TIMEOUT_MS = 10_000;
const JSON_LIMITS = { maxDepth: 16, maxNodes: 2_000 };

/** Where a facilitator is, and bounds of one request to it. */
export interface FacilitatorClientOptions {
  readonly url: string;
  /** Sent as `Authorization: Bearer`. */
  readonly sellerKey?: string | undefined;
  readonly timeoutMs: number;
  readonly maxAnswerBytes: number;
  readonly maxConnections: number;
}

/** Asks a facilitator over HTTP. */
export class FacilitatorClient implements AsyncDisposable {
  readonly #opts: FacilitatorClientOptions;
  readonly #networks: ReadonlyMap<string, RemoteNetwork>;
  readonly #pool: Pool;
  /** A connection of its own: settle requests that wait must not make the facilitator look silent. */
  readonly #standingPool: Pool;
  readonly #settlePath: string;
  readonly #verifyPath: string;
  readonly #supportedPath: string;
  readonly #headers: Readonly<Record<string, string>>;

  /** @throws AppError CONFIG_INVALID when the URL is not http or https. */
  constructor(opts: FacilitatorClientOptions, networks: ReadonlyMap<string, RemoteNetwork>) {
    const url = URL.parse(opts.url);
    if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
      throw new AppError("CONFIG_INVALID", { message: "The facilitator's URL is not http or https." });
    }
    this.#opts = opts;
    this.#networks = networks;
    const connect = { timeout: Math.min(CONNECT_TIMEOUT_MS, opts.timeoutMs / 2) };
    this.#pool = new Pool(url.origin, { connections: opts.maxConnections, connect });
    this.#standingPool = new Pool(url.origin, { connections: 1, connect: { timeout: CONNECT_TIMEOUT_MS } });
    const base = trimEndOf(url.pathname, "/");
    this.#settlePath = `${base}/settle${url.search}`;
    this.#verifyPath = `${base}/verify${url.search}`;
    this.#supportedPath = `${base}/supported${url.search}`;
    const { sellerKey } = opts;
    this.#headers = {
      "content-type": "application/json",
      accept: "application/json",
      ...(sellerKey === undefined ? {} : { authorization: `Bearer ${sellerKey}` }),
    };
  }

  /** Never throws, and never takes longer than its time-out. */
  async settle(payment: PaymentRecord, signal: AbortSignal): Promise<FacilitatorAnswer> {
    const network = this.#networks.get(payment.key.network);
    if (network === undefined) return { kind: "none", transaction: undefined };
    const limit = AbortSignal.any([signal, AbortSignal.timeout(this.#opts.timeoutMs)]);
    try {
      const response = await this.#pool.request({
        path: this.#settlePath,
        method: "POST",
        headers: { ...this.#headers, "idempotency-key": retryKey(payment.id) },
        body: JSON.stringify(settleRequest(payment, network)),
        signal: limit,
      });
      const body = await readBody(response, this.#opts.maxAnswerBytes);
      return DENIED.has(response.statusCode) ? { kind: "denied", transaction: undefined } : readAnswer(body);
    } catch (error) {
      const kind = error instanceof RangeError ? "absurd" : limit.aborted ? "late" : "none";
      return { kind, transaction: undefined };
    }
  }

  /** True when requests have a seller's key. */
  get hasKey(): boolean {
    return this.#headers.authorization !== undefined;
  }

  /** By `GET /supported` and a `POST /verify` of nothing. Never throws, and never takes longer than ten seconds. */
  async standing(signal: AbortSignal): Promise<FacilitatorStanding> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(STANDING_TIMEOUT_MS)]);
    try {
      const response = await this.#standingPool.request({ path: this.#supportedPath, method: "GET", signal: limit });
      const body = await readBody(response, this.#opts.maxAnswerBytes);
      const parsed = parseJson(body, JSON_LIMITS);
      if (response.statusCode !== 200 || !parsed.ok || !isRecord(parsed.value)) return "silent";
      return (await this.#isDenied(limit)) ? "denied" : "alive";
    } catch {
      return "silent";
    }
  }

  async #isDenied(signal: AbortSignal): Promise<boolean> {
    const request = { path: this.#verifyPath, method: "POST", headers: this.#headers, body: "{}", signal } as const;
    const response = await this.#standingPool.request(request);
    await readBody(response, this.#opts.maxAnswerBytes);
    return DENIED.has(response.statusCode);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#pool.destroy(), this.#standingPool.destroy()]);
  }
}

/** The x402 v2 settle request of a recorded payment; the payload is built again from what was verified. */
export function settleRequest(payment: PaymentRecord, network: RemoteNetwork): Readonly<Record<string, unknown>> {
  const { key, payTo, value, validAfter, validBefore, signature } = payment;
  const asset = network.assets.find(({ address }) => sameAddress(address, key.asset));
  if (asset === undefined) throw new AppError("INTERNAL", { detail: { asset: key.asset } });
  const requirements = {
    scheme: "exact",
    network: key.network,
    amount: value.toString(),
    asset: asset.address,
    payTo,
    maxTimeoutSeconds: asset.maxTimeoutSeconds,
    extra: { name: asset.name, version: asset.version },
  };
  const authorization = {
    from: key.from,
    to: payTo,
    value: value.toString(),
    validAfter: validAfter.toString(),
    validBefore: validBefore.toString(),
    nonce: key.nonce,
  };
  return {
    x402Version: 2,
    paymentPayload: {
      x402Version: 2,
      accepted: requirements,
      payload: { signature: bytesToHex0x(signature), authorization },
    },
    paymentRequirements: requirements,
  };
}

/**
 * The `Idempotency-Key` of a claim's settle requests: the same after a lost answer, after a restart and in every process of
 * the ledger, which may all ask for it; another one for each claim.
 */
function retryKey(id: SettlementId): string {
  return bytesToHex(sha256(utf8ToBytes(`settle ${id}`)));
}

function readAnswer(body: Uint8Array): FacilitatorAnswer {
  const parsed = parseJson(body, JSON_LIMITS);
  const value = parsed.ok ? parsed.value : undefined;
  // An error in its own words, as ours has when it is not ready: it answers, and is asked again.
  const isError = isRecord(value) && typeof value.code === "string" && typeof value.message === "string";
  if (isError && value.success === undefined) return { kind: "no", transaction: undefined };
  if (!isRecord(value) || typeof value.success !== "boolean") return { kind: "absurd", transaction: undefined };
  const named = value.transaction;
  const transaction =
    typeof named === "string" && HASH.test(named) ? (named.toLowerCase() as `0x${string}`) : undefined;
  if (value.success) return { kind: "yes", transaction };
  return { kind: value.errorReason === "settlement_pending" ? "pending" : "no", transaction };
}

async function readBody(response: Dispatcher.ResponseData, maxBytes: number): Promise<Uint8Array> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of response.body as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > maxBytes) throw new RangeError("answer too large");
    parts.push(part);
  }
  return Buffer.concat(parts);
}
