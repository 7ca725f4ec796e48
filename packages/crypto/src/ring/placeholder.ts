import { bytesToHex } from "@turnpike/base";

/**
 * Public key that the real chain also accepts in the ring of an application without gateways. Its private key is public: it
 * is made from the text `placeholder_ring_key_for_apps_without_gateways`. No ring of ours has it.
 */
export const PLACEHOLDER_RING_KEY: Uint8Array = Uint8Array.from(
  Buffer.from("021066f293709356a33e9c13017867586baf52513e845bc4335233a15ed1e00baf", "hex"),
);

/**
 * The canonical ring of these compressed keys: sorted by their bytes, each once; one that is alone twice, as a ring needs two
 * members. The chain asks for no order; ours has one so that equal sets make equal rings.
 */
export function canonicalRing(keys: readonly Uint8Array[]): Uint8Array[] {
  const unique = new Map(keys.map((key) => [bytesToHex(key), key]));
  const sorted = [...unique.values()].sort((a, b) => Buffer.compare(a, b));
  return sorted.length === 1 ? [...sorted, ...sorted] : sorted;
}
