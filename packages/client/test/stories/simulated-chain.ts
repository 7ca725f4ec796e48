import type { Chance } from "@turnpike/testkit/chance";
import type { ChainTransfer, SignedPayment } from "@turnpike/testkit/hostile-seller";
import type { SimulatedTime } from "./simulated-time.ts";

export const CHAIN_ID = 84_532;
const BLOCK_SECONDS = 2;
/** `authorizationState(address,bytes32)` of EIP-3009. */
const AUTHORIZATION_STATE = "0xe94a0102";
const BLOCK_HASH = `0x${"ab".repeat(32)}`;
/** A day: further than any payment of a story is valid. */
const FAR_SECONDS = 86_400;

/** A transfer and the time of its block. */
export interface SimulatedTransfer extends ChainTransfer {
  readonly blockSeconds: number;
}

/** The token's chain, with a clock of its own: an authorization moves its amount once, while it is valid (EIP-3009). */
export class SimulatedChain {
  readonly transfers: SimulatedTransfer[] = [];
  readonly #time: SimulatedTime;
  readonly #offsetMs: number;
  /** Called after each transfer. */
  onTransfer: (transfer: SimulatedTransfer) => void = () => {};

  constructor(offsetMs: number, time: SimulatedTime) {
    this.#time = time;
    this.#offsetMs = offsetMs;
  }

  /** Time of the newest block, in seconds since the Unix epoch. */
  nowSeconds(): number {
    const seconds = Math.floor((this.#time.nowMs + this.#offsetMs) / 1_000);
    return seconds - (seconds % BLOCK_SECONDS);
  }

  transferOf(nonce: string): SimulatedTransfer | undefined {
    return this.transfers.find(({ payment }) => payment.nonce.toLowerCase() === nonce.toLowerCase());
  }

  /** True when a transfer can never be made with it any more. */
  isOver({ nonce, validBefore }: Pick<SignedPayment, "nonce" | "validBefore">): boolean {
    return this.transferOf(nonce) !== undefined || validBefore <= this.nowSeconds();
  }

  /** Transfers in the next block. Returns the earlier transfer where there is one; undefined outside the window. */
  trySettle(payment: SignedPayment): SimulatedTransfer | undefined {
    const earlier = this.transferOf(payment.nonce);
    if (earlier !== undefined) return earlier;
    const blockSeconds = this.nowSeconds() + BLOCK_SECONDS;
    if (payment.validBefore <= blockSeconds || validAfterOf(payment) >= blockSeconds) return undefined;
    const transaction = `0x${(this.transfers.length + 1).toString(16).padStart(64, "a")}`;
    const transfer = { payment, transaction, blockSeconds };
    this.transfers.push(transfer);
    this.onTransfer(transfer);
    return transfer;
  }

  /** @throws Error outside the payment's window. */
  settle(payment: SignedPayment): ChainTransfer {
    const transfer = this.trySettle(payment);
    if (transfer === undefined) throw new Error("the authorization is not valid now");
    return transfer;
  }

  isUsed(nonce: string): boolean {
    return this.transferOf(nonce) !== undefined;
  }

  chargedUnits(): bigint {
    return this.transfers.reduce((sum, { payment }) => sum + payment.units, 0n);
  }
}

interface PaymentJson {
  readonly accepted: { readonly network: string; readonly asset: string };
  readonly payload: { readonly authorization: Readonly<Record<string, string>>; readonly signature: string };
}

const jsonOf = (header: string): PaymentJson =>
  JSON.parse(Buffer.from(header, "base64").toString("utf8")) as PaymentJson;

function validAfterOf({ header }: SignedPayment): number {
  return Number(jsonOf(header).payload.authorization.validAfter);
}

/** The signature in a payment's header. */
export function signatureOf(header: string): string {
  return jsonOf(header).payload.signature;
}

/** Behaviour of a node: it answers by its own view of the chain, or not at all, or with a lie. */
export type NodeTruth =
  | "honest"
  | "silent"
  | "fails"
  | "says-unused"
  | "says-used"
  | "says-unused-later"
  | "other-chain";

/** Lies; all else is honest, or no answer. */
export const NODE_LIES = ["says-unused", "says-used", "says-unused-later", "other-chain"] as const;

export interface SimulatedNodeModules {
  readonly chain: SimulatedChain;
  readonly chance: Chance;
}

/** A node of the chain: behind its newest block by some time, and for a while on a fork without the newest transfers. */
export class SimulatedNode {
  truth: NodeTruth = "honest";
  lagSeconds = 0;
  /** Nonces that it called used before they were. */
  readonly falselyUsed = new Set<string>();
  readonly #chain: SimulatedChain;
  readonly #chance: Chance;
  /** Time from a transfer until this node's fork has it, by its nonce. */
  readonly #forks = new Map<string, number>();

  constructor({ chain, chance }: SimulatedNodeModules) {
    this.#chain = chain;
    this.#chance = chance;
  }

  /** Result of a JSON-RPC request; undefined is an error. */
  resultOf(method: string, params: readonly unknown[]): unknown {
    if (this.truth === "fails") return undefined;
    if (method === "eth_chainId") return `0x${(this.truth === "other-chain" ? 1 : CHAIN_ID).toString(16)}`;
    if (method === "eth_getBlockByNumber") return this.#newestBlock();
    if (method !== "eth_call") return undefined;
    const [call, block] = params as [{ readonly data: string }, string];
    if (!call.data.startsWith(AUTHORIZATION_STATE)) return undefined;
    const isUsed = this.#isUsed(`0x${call.data.slice(74, 138)}`, Number(block) * BLOCK_SECONDS);
    return `0x${(isUsed ? "1" : "0").padStart(64, "0")}`;
  }

  #newestBlock(): unknown {
    const seconds = this.#chain.nowSeconds() - this.lagSeconds + (this.truth === "says-unused-later" ? FAR_SECONDS : 0);
    const number = `0x${Math.floor(seconds / BLOCK_SECONDS).toString(16)}`;
    const timestamp = `0x${seconds.toString(16)}`;
    return { number, hash: BLOCK_HASH, parentHash: BLOCK_HASH, transactions: [], timestamp };
  }

  /** State at a block. A fork is shorter than the minute after which the client looks. */
  #isUsed(nonce: string, blockSeconds: number): boolean {
    const transfer = this.#chain.transferOf(nonce);
    if (this.truth === "says-used") {
      if (transfer === undefined) this.falselyUsed.add(nonce.toLowerCase());
      return true;
    }
    if (this.truth === "says-unused" || this.truth === "says-unused-later") return false;
    if (transfer === undefined) return false;
    const forkSeconds = this.#forks.get(nonce) ?? (this.#chance.often(0.2) ? this.#chance.below(50) : 0);
    this.#forks.set(nonce, forkSeconds);
    return transfer.blockSeconds + forkSeconds <= blockSeconds;
  }
}
