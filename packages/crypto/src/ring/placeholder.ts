import { bytesToHex } from "@turnpike/base";

/**
 * Public key that stands beside an application's own in the ring when it has no gateway: a ring needs two members. Its
 * private key is no secret: it is made from the text `placeholder_ring_key_for_apps_without_gateways`.
 */
export const PLACEHOLDER_RING_KEY: Uint8Array = Uint8Array.from(
  Buffer.from("021066f293709356a33e9c13017867586baf52513e845bc4335233a15ed1e00baf", "hex"),
);

/**
 * The canonical ring of these compressed keys: sorted by their bytes, each once, and with the placeholder when there is
 * only one. The chain asks for no order; ours has one so that equal sets make equal rings.
 */
export function canonicalRing(keys: readonly Uint8Array[]): Uint8Array[] {
  const unique = new Map(keys.map((key) => [bytesToHex(key), key]));
  if (unique.size === 1) unique.set(bytesToHex(PLACEHOLDER_RING_KEY), PLACEHOLDER_RING_KEY);
  return [...unique.values()].sort((a, b) => Buffer.compare(a, b));
}
