/** Which block a call is about. `latest` also stands for a call that names none. */
export type BlockRef =
  | { readonly tag: "latest" | "pending" | "safe" | "finalized" | "earliest" }
  | { readonly height: number }
  | { readonly hash: string };

/**
 * How long an answer stays true.
 * - `never`: it depends on the supplier, the moment, or a filter.
 * - `forever`: it depends on the call alone, and on which chain this is (`eth_chainId`, `web3_sha3`).
 * - `head`: it is about the newest block, so it is true until there is another.
 * - `block`: it is about the block, or the range of blocks, that the call names.
 * - `found`: it is about a thing that is named by its hash; once the block that holds it is final, it stays. Nothing
 *   found (`null`) is not kept.
 */
export type CacheRule =
  | { readonly by: "never" }
  | { readonly by: "forever" }
  | { readonly by: "head" }
  /** Undefined when the parameters cannot be read: then nothing is kept. The answer is about all of them. */
  | { readonly by: "block"; blocks(params: unknown): readonly BlockRef[] | undefined }
  /** Height of the block that a result stands in; undefined while it stands in none. `result` is parsed JSON. */
  | { readonly by: "found"; heightOf(result: unknown): number | undefined };

/**
 * What a family knows of a method. `read` may be sent again, hedged and compared; a `write` is sent once; a `filter` call
 * goes to the supplier that holds the filter; a `subscription` needs a WebSocket.
 */
export interface MethodTraits {
  readonly kind: "read" | "write" | "filter" | "subscription";
  readonly cache: CacheRule;
  /** True when right suppliers give the same bytes of meaning to the same call, so that answers can be compared. */
  readonly isComparable: boolean;
  /** The height that the answer itself states as the chain's newest, as `eth_blockNumber` does; undefined for most. */
  tipOf?(result: unknown): number | undefined;
}
