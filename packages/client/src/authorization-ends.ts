import { createPublicClient, http, parseAbi } from "viem";
import type { PaymentFacts } from "./payment-header.ts";

/** What a chain shows of an authorization whose window has closed: it was used or cancelled, or never can be used. */
export type AuthorizationEnd = "used" | "unused";

/**
 * Chain time after the window's end at which an authorization is looked at: no short re-organisation brings it back, and
 * a node that lags shows nothing yet.
 */
const SETTLED_SECONDS = 60n;
/** Most authorizations that one node is asked for at once. */
const MAX_AT_ONCE = 50;
const TOKEN = parseAbi(["function authorizationState(address authorizer, bytes32 nonce) view returns (bool)"]);

const isHex = (text: string): text is `0x${string}` => text.startsWith("0x");

/**
 * Reads what became of authorizations, each at a block of its own chain after its window. What no node shows is missing
 * in the result; a node that fails, or has not answered when `signal` ends, shows nothing. Never rejects.
 */
export async function readAuthorizationEnds<Payment extends { readonly facts: PaymentFacts }>(
  payments: readonly Payment[],
  rpcUrls: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<Payment, AuthorizationEnd>> {
  const ends = new Map<Payment, AuthorizationEnd>();
  await Promise.all(
    rpcUrls
      .map(async (rpcUrl) => {
        const node = createPublicClient({ transport: http(rpcUrl, { fetchOptions: { signal }, retryCount: 0 }) });
        const [chainId, block] = await Promise.all([node.getChainId(), node.getBlock({ blockTag: "latest" })]);
        const closed = payments.filter(
          ({ facts }) =>
            facts.network === `eip155:${chainId}` && facts.validBefore + SETTLED_SECONDS <= block.timestamp,
        );
        await Promise.allSettled(
          closed.slice(0, MAX_AT_ONCE).map(async (payment) => {
            const { asset, from, nonce } = payment.facts;
            if (!isHex(asset) || !isHex(from) || !isHex(nonce)) return;
            const isUsed = await node.readContract({
              address: asset,
              abi: TOKEN,
              functionName: "authorizationState",
              args: [from, nonce],
              blockNumber: block.number,
            });
            // Of two nodes that disagree, the one that saw the use is right.
            if (ends.get(payment) !== "used") ends.set(payment, isUsed ? "used" : "unused");
          }),
        );
      })
      .map((reading) => reading.catch(() => {})),
  );
  return ends;
}
