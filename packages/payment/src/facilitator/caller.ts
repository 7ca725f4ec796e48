import { bytesToHex, utf8ToBytes } from "@turnpike/base";
import { sha256 } from "@turnpike/crypto";
import type { RequestEnd } from "./result-lease.ts";
import type { Seller } from "./sellers.ts";

/** The sender of a settle request. */
export interface SettleCaller {
  /** Its address or /64, or its seller, for the limits. */
  readonly client: string;
  /** The seller whose key it has. */
  readonly seller?: Seller | undefined;
  /** The request's `Idempotency-Key`. */
  readonly key?: string | undefined;
  readonly end?: RequestEnd;
}

/** The request that a payment is claimed for: the success of its settlement is that caller's alone. */
export interface CallerBinding {
  /** The request hash of its claim. */
  readonly digest: Uint8Array;
  /**
   * True when only the caller itself can repeat the request, so that each repetition may have the result. Else copies look
   * the same: a seller passes on what its buyer sends, however often that comes.
   */
  readonly mayRepeat: boolean;
}

/** As many characters as others take: a UUID has 36. */
const KEY = /^[\x21-\x7e]{1,255}$/;

/** True for an `Idempotency-Key` that can be used: one value of 1 to 255 visible ASCII characters. */
export function isRetryKey(key: string): boolean {
  return KEY.test(key);
}

/**
 * The binding of a settle request. The buyer chooses `identifier`, the payment identifier in the payload, so that its
 * copies have it too: it distinguishes the seller from third parties, who see what is on the chain, and no more.
 */
export function bindingOf(
  { client, seller, key }: SettleCaller,
  identifier: string | undefined,
  body: Uint8Array,
): CallerBinding {
  if (key !== undefined) {
    const digest = seller === undefined ? digestOf("key", key) : digestOf("seller key", seller.name, key);
    return { digest, mayRepeat: true };
  }
  if (identifier === undefined) return { digest: digestOf("client", client), mayRepeat: false };
  return { digest: digestOf("identifier", identifier, bytesToHex(sha256(body))), mayRepeat: false };
}

function digestOf(...parts: readonly string[]): Uint8Array {
  return sha256(utf8ToBytes(JSON.stringify(parts)));
}
