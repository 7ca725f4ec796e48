import { createPublicClient, http, parseAbi } from "viem";
import type { PaymentFacts } from "./payment-header.ts";

/** What a chain shows of an authorization whose window has closed: it was used or cancelled, or never can be used. */
export type AuthorizationEnd = "used" | "unused";

/** Answer of one node about one authorization; a node of another chain abstains. */
type Vote = AuthorizationEnd | "abstains";

/**
 * Chain time after the window's end at which an authorization is looked at: no short re-organisation brings it back, and
 * a node that lags shows nothing yet.
 */
const SETTLED_SECONDS = 60n;
/** Maximum authorizations that one node is asked for at once. */
const MAX_AT_ONCE = 50;
const TOKEN = parseAbi(["function authorizationState(address authorizer, bytes32 nonce) view returns (bool)"]);

const isHex = (text: string): text is `0x${string}` => text.startsWith("0x");

async function votesOf<Payment extends { readonly facts: PaymentFacts }>(
  rpcUrl: string,
  payments: readonly Payment[],
  signal: AbortSignal,
): Promise<ReadonlyMap<Payment, Vote>> {
  const votes = new Map<Payment, Vote>();
  const node = createPublicClient({ transport: http(rpcUrl, { fetchOptions: { signal }, retryCount: 0 }) });
  const [chainId, block] = await Promise.all([node.getChainId(), node.getBlock({ blockTag: "latest" })]);
  const ofChain = payments.filter((payment) => {
    const isOfChain = payment.facts.network === `eip155:${chainId}`;
    if (!isOfChain) votes.set(payment, "abstains");
    return isOfChain;
  });
  const closed = ofChain.filter(({ facts }) => facts.validBefore + SETTLED_SECONDS <= block.timestamp);
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
      votes.set(payment, isUsed ? "used" : "unused");
    }),
  );
  return votes;
}

/**
 * Reads what became of authorizations, each at a block of its own chain after its window. `unused` needs the consent of
 * every node that is named, at least one of them of the payment's chain: a node that fails, lags, or has not answered when
 * `signal` ends, consents to nothing. Of nodes that disagree, the one that saw the use is right. What is not shown is
 * missing in the result. Never rejects.
 */
export async function readAuthorizationEnds<Payment extends { readonly facts: PaymentFacts }>(
  payments: readonly Payment[],
  rpcUrls: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<Payment, AuthorizationEnd>> {
  const silent: ReadonlyMap<Payment, Vote> = new Map();
  const nodes = await Promise.all(rpcUrls.map((rpcUrl) => votesOf(rpcUrl, payments, signal).catch(() => silent)));
  const ends = new Map<Payment, AuthorizationEnd>();
  for (const payment of payments) {
    const votes = nodes.map((node) => node.get(payment)).filter((vote) => vote !== "abstains");
    if (votes.includes("used")) ends.set(payment, "used");
    else if (votes.length > 0 && votes.every((vote) => vote === "unused")) ends.set(payment, "unused");
  }
  return ends;
}
