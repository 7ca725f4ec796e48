import { AppError } from "@turnpike/base";
import { createPublicClient, http, parseAbi } from "viem";
import type { PaymentFacts } from "./payment-header.ts";

/** State on a chain of an authorization whose window has closed: it was used or cancelled, or never can be used. */
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
/** Time for a node to say which chain it is of. */
const CHAIN_TIMEOUT_MS = 2_000;
const TOKEN = parseAbi(["function authorizationState(address authorizer, bytes32 nonce) view returns (bool)"]);

const isHex = (text: string): text is `0x${string}` => text.startsWith("0x");

/** Network of a node; undefined for one that does not answer. */
async function networkOf(rpcUrl: string): Promise<string | undefined> {
  const fetchOptions = { signal: AbortSignal.timeout(CHAIN_TIMEOUT_MS) };
  const node = createPublicClient({ transport: http(rpcUrl, { fetchOptions, retryCount: 0 }) });
  return node.getChainId().then(
    (chainId) => `eip155:${chainId}`,
    () => undefined,
  );
}

/** The networks of the nodes that a client names, each read until it is the one of a payment: an answer may be of a wrong backend. */
export class NodeNetworks {
  readonly #rpcUrls: readonly string[];
  readonly #networks = new Map<string, string>();

  constructor(rpcUrls: readonly string[]) {
    this.#rpcUrls = rpcUrls;
  }

  /**
   * Holds that a node may show what becomes of a payment on this network. Where all are of other chains none ever would, and
   * a payment that is refused would be presented for good. One that does not answer may be of it.
   * @throws AppError CONFIG_INVALID; nothing was signed.
   */
  async assertMayShow(network: string): Promise<void> {
    if (this.#rpcUrls.length === 0) return;
    const networks = await Promise.all(this.#rpcUrls.map((rpcUrl) => this.#networkOf(rpcUrl, network)));
    if (networks.some((one) => one === undefined || one === network)) return;
    const named = [...new Set(networks)].join(", ");
    const message = `None of the nodes is of ${network}, on which the payment would be: they are of ${named}; nothing was signed.`;
    throw new AppError("CONFIG_INVALID", { message, advice: `Name a node of ${network}, or none.` });
  }

  async #networkOf(rpcUrl: string, ofPayment: string): Promise<string | undefined> {
    if (this.#networks.get(rpcUrl) === ofPayment) return ofPayment;
    const network = await networkOf(rpcUrl);
    if (network === ofPayment) this.#networks.set(rpcUrl, network);
    return network;
  }
}

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
