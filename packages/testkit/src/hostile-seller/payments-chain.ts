import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** A signed payment, as its header states it. */
export interface SignedPayment {
  /** The header's value, byte for byte. */
  readonly header: string;
  readonly network: string;
  readonly asset: string;
  readonly from: string;
  readonly to: string;
  /** In the asset's smallest unit. */
  readonly units: bigint;
  readonly nonce: string;
  /** Seconds since the Unix epoch. */
  readonly validBefore: number;
}

/** A transfer on the chain. */
export interface ChainTransfer {
  readonly payment: SignedPayment;
  readonly transaction: string;
}

/** Reads a payment of the scheme `exact`. Signatures are not checked: a test's buyer is the code under test. */
export function readSignedPayment(header: string): SignedPayment {
  const payload = JSON.parse(Buffer.from(header, "base64").toString("utf8")) as {
    readonly accepted: { readonly network: string; readonly asset: string };
    readonly payload: { readonly authorization: Readonly<Record<string, string>> };
  };
  const { network, asset } = payload.accepted;
  const { from = "", to = "", value = "0", nonce = "", validBefore = "0" } = payload.payload.authorization;
  return { header, network, asset, from, to, units: BigInt(value), nonce, validBefore: Number(validBefore) };
}

/** A stand-in for the token's chain: each authorization moves its amount once, whatever the seller says about it. */
export class PaymentsChain {
  readonly transfers: ChainTransfer[] = [];

  /** Moves the payment's amount, once; later calls return the first transfer. */
  settle(payment: SignedPayment): ChainTransfer {
    const earlier = this.transfers.find((transfer) => transfer.payment.nonce === payment.nonce);
    if (earlier !== undefined) return earlier;
    const transfer = { payment, transaction: `0x${(this.transfers.length + 1).toString(16).padStart(64, "a")}` };
    this.transfers.push(transfer);
    return transfer;
  }

  isUsed(nonce: string): boolean {
    return this.transfers.some(({ payment }) => payment.nonce.toLowerCase() === nonce.toLowerCase());
  }

  /** Sum of all transfers, in the asset's smallest unit. */
  chargedUnits(): bigint {
    return this.transfers.reduce((sum, { payment }) => sum + payment.units, 0n);
  }
}

/** State of an authorization by a node: the chain's own, a lie, or no answer at all. */
export type NodeTruth = "honest" | "says-used" | "says-unused" | "silent";

/** A node of a {@link PaymentsChain}, as an RPC URL leads to it. */
export interface ChainNode extends AsyncDisposable {
  readonly url: string;
  truth: NodeTruth;
  /** Chain id, as `eth_chainId` reports it. */
  chainId: number;
  /** Time of the newest block, in seconds since the Unix epoch. */
  nowSeconds: () => number;
  /** Methods that were requested. */
  readonly methods: string[];
}

/** `authorizationState(address,bytes32)` of EIP-3009. */
const AUTHORIZATION_STATE = "0xe94a0102";

const word = (value: bigint): string => `0x${value.toString(16).padStart(64, "0")}`;

/** Starts a node of `chain`, honest and of the network `eip155:84532` at first. */
export async function startChainNode(chain: PaymentsChain): Promise<ChainNode> {
  const stateOf = (data: string): string => {
    const isUsed = node.truth === "honest" ? chain.isUsed(`0x${data.slice(74, 138)}`) : node.truth === "says-used";
    return word(isUsed ? 1n : 0n);
  };
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { id, method, params } = JSON.parse(await text(request)) as {
      readonly id: unknown;
      readonly method: string;
      readonly params: readonly { readonly data?: string; readonly input?: string }[];
    };
    node.methods.push(method);
    if (node.truth === "silent") return;
    const data = params?.[0]?.data ?? params?.[0]?.input ?? "";
    const hash = `0x${"ab".repeat(32)}`;
    const results: Readonly<Record<string, unknown>> = {
      eth_chainId: `0x${node.chainId.toString(16)}`,
      eth_blockNumber: "0x10",
      eth_getBlockByNumber: {
        number: "0x10",
        hash,
        parentHash: hash,
        transactions: [],
        timestamp: `0x${Math.floor(node.nowSeconds()).toString(16)}`,
      },
      eth_call: data.startsWith(AUTHORIZATION_STATE) ? stateOf(data) : word(1_000_000_000n),
    };
    const result = results[method];
    const outcome = result === undefined ? { error: { code: -32_601, message: "method not found" } } : { result };
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ jsonrpc: "2.0", id, ...outcome }));
  };
  const server = createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const node: ChainNode = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    truth: "honest",
    chainId: 84_532,
    nowSeconds: () => Date.now() / 1_000,
    methods: [],
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
  return node;
}
