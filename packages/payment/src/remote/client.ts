import { AppError, bytesToHex0x, isRecord, parseJson, sameAddress } from "@turnpike/base";
import { type Dispatcher, Pool } from "undici";
import type { PaymentRecord } from "../types.ts";
import type { RemoteNetwork } from "./options.ts";

/** What a facilitator said. Nothing in it is believed: `transaction` is only a place to look at first. */
export type FacilitatorAnswer =
  | { readonly kind: "yes" | "pending" | "no"; readonly transaction: `0x${string}` | undefined }
  /** Not an x402 settle response, too large, too late, or no answer. */
  | { readonly kind: "absurd" | "none"; readonly transaction: undefined };

/** Asks a facilitator over HTTP. */
export interface FacilitatorClient extends AsyncDisposable {
  /** Never throws, and never takes longer than its time-out. */
  settle(payment: PaymentRecord, signal: AbortSignal): Promise<FacilitatorAnswer>;
  /** True when `GET /supported` is answered with JSON. Never throws, and never takes longer than its time-out. */
  alive(signal: AbortSignal): Promise<boolean>;
}

const HASH = /^0x[0-9a-fA-F]{64}$/;

/** @throws AppError CONFIG_INVALID when the URL is not http or https. */
export function createFacilitatorClient(
  opts: {
    readonly url: string;
    readonly timeoutMs: number;
    readonly maxAnswerBytes: number;
    readonly maxConnections: number;
  },
  networks: ReadonlyMap<string, RemoteNetwork>,
): FacilitatorClient {
  const url = URL.parse(opts.url);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new AppError("CONFIG_INVALID", { message: "The facilitator's URL is not http or https." });
  }
  const pool = new Pool(url.origin, { connections: opts.maxConnections, connect: { timeout: opts.timeoutMs } });
  const pathOf = (name: string): string => `${url.pathname.replace(/\/+$/, "")}/${name}${url.search}`;
  const path = pathOf("settle");

  return {
    async settle(payment, signal) {
      const network = networks.get(payment.key.network);
      if (network === undefined) return { kind: "none", transaction: undefined };
      const limit = AbortSignal.any([signal, AbortSignal.timeout(opts.timeoutMs)]);
      try {
        const response = await pool.request({
          path,
          method: "POST",
          headers: { "content-type": "application/json", accept: "application/json" },
          body: JSON.stringify(settleRequest(payment, network)),
          signal: limit,
        });
        return readAnswer(await readBody(response, opts.maxAnswerBytes));
      } catch (error) {
        return { kind: error instanceof RangeError ? "absurd" : "none", transaction: undefined };
      }
    },
    async alive(signal) {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(opts.timeoutMs)]);
      try {
        const response = await pool.request({ path: pathOf("supported"), method: "GET", signal: limit });
        const body = await readBody(response, opts.maxAnswerBytes);
        const parsed = parseJson(body, { maxDepth: 16, maxNodes: 2_000 });
        return response.statusCode === 200 && parsed.ok && isRecord(parsed.value);
      } catch {
        return false;
      }
    },
    [Symbol.asyncDispose]: () => pool.destroy(),
  };
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
    maxTimeoutSeconds: asset.maxTimeoutSeconds ?? network.maxTimeoutSeconds,
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

function readAnswer(body: Uint8Array): FacilitatorAnswer {
  const parsed = parseJson(body, { maxDepth: 16, maxNodes: 2_000 });
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
