import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { AppError, type ErrorCode } from "@turnpike/base";
import {
  createClient,
  type DollarAsset,
  memoryJournal,
  newPrivateKey,
  type Signer,
  type SpendJournal,
  signerFromKey,
} from "../src/index.ts";
import { readPayment } from "../src/payment-header.ts";

export const USDC = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
export const PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
export const BODY = '{"method":"eth_blockNumber"}';
export const HASH = `0x${"ab".repeat(32)}`;

export const option = (change: Record<string, unknown> = {}) => ({
  scheme: "exact",
  network: "eip155:84532",
  amount: "5000",
  asset: USDC,
  payTo: PAY_TO,
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
  ...change,
});

const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64");

interface Seen {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly payment: string | undefined;
}

export type Answerer = (seen: Seen, response: ServerResponse, paidRequests: number) => void;

export const answerJson = (
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void => {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
};

/** Account that signed a payment. */
const payerOf = (payment: string | undefined): string => readPayment(payment ?? "")?.from ?? "";

/** Sells, with a receipt that a test may change. */
export const soldWith =
  (change: Record<string, unknown>, status = 200): Answerer =>
  (seen, response) => {
    const receipt = {
      success: true,
      transaction: HASH,
      network: "eip155:84532",
      payer: payerOf(seen.payment),
      extensions: { settlement: { id: "stl_1", status: "settled" } },
      ...change,
    };
    const body = {
      portal: { provenance: "third-party-supplier", serviceId: "eth", schemaCheck: "passed" },
      data: { result: "0x1" },
    };
    answerJson(response, status, body, { "payment-response": base64(receipt) });
  };

export const sold = soldWith({});

export const pending: Answerer = (_, response) => {
  answerJson(
    response,
    503,
    { code: "SETTLEMENT_PENDING", message: "The payment is being settled.", requestId: "r", retryable: true },
    {
      "retry-after": "1",
      "payment-response": base64({
        success: false,
        errorReason: "settlement_pending",
        transaction: HASH,
        network: "eip155:84532",
      }),
    },
  );
};

/** A stand-in gateway: it asks for payment, and answers paid requests as the test says. It settles nothing. */
export async function standInGateway(paid: Answerer, accepts: readonly unknown[] = [option()]) {
  const seen: Seen[] = [];
  const read = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let body = "";
    for await (const part of request) body += String(part);
    const header = request.headers["payment-signature"];
    const payment = typeof header === "string" ? header : undefined;
    seen.push({ method: request.method ?? "", path: request.url ?? "", body, payment });
    if (payment !== undefined) {
      paid(seen.at(-1) as Seen, response, seen.filter((one) => one.payment !== undefined).length);
      return;
    }
    const terms = {
      x402Version: 2,
      error: "Payment required",
      resource: { url: `http://stand-in${request.url}`, description: "d", mimeType: "application/json" },
      accepts,
    };
    answerJson(response, 402, terms, { "payment-required": base64(terms) });
  };
  const server = createServer((request, response) => void read(request, response));
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    gateway: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    payments: () => seen.flatMap(({ payment }) => payment ?? []),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

/** A node of a chain that stands still: it says what the test wants of every authorization. */
export interface StandInNode extends AsyncDisposable {
  readonly url: string;
  chainId: number;
  /** Time of the newest block, in seconds since the Unix epoch. */
  timeSeconds: number;
  /** Result of `eth_call`; undefined is an error. */
  state: string | undefined;
  /** The token that it describes; undefined is an error. */
  token: { readonly decimals: number; readonly name: string } | undefined;
}

/** Calls of a token's description, by selector. */
const DECIMALS = "0x313ce567";
const NAME = "0x06fdde03";

const word = (value: number): string => value.toString(16).padStart(64, "0");

/** Result of an `eth_call` on a {@link StandInNode}. */
function callResult({ token, state }: StandInNode, data: string): string | undefined {
  if (data === DECIMALS) return token && `0x${word(token.decimals)}`;
  if (data !== NAME) return state;
  const text = Buffer.from(token?.name ?? "").toString("hex");
  return token && `0x${word(32)}${word(token.name.length)}${text.padEnd(64, "0")}`;
}

/** An ABI-encoded bool. */
export const UNUSED = `0x${"00".repeat(32)}`;
export const USED = `0x${"00".repeat(31)}01`;

/** A {@link StandInNode} of the chain that {@link option} names, on which nothing was used, at the far end of time. */
export async function standInNode(): Promise<StandInNode> {
  const block = { number: "0x10", hash: HASH, transactions: [] };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let body = "";
    for await (const part of request) body += String(part);
    const { id, method, params } = JSON.parse(body) as { id: number; method: string; params?: { data?: string }[] };
    const results: Record<string, unknown> = {
      eth_chainId: `0x${node.chainId.toString(16)}`,
      eth_getBlockByNumber: { ...block, timestamp: `0x${node.timeSeconds.toString(16)}` },
      eth_call: callResult(node, params?.[0]?.data ?? ""),
    };
    const result = results[method];
    const error = { code: -32000, message: "header not found" };
    answerJson(response, 200, { jsonrpc: "2.0", id, ...(result === undefined ? { error } : { result }) });
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const node: StandInNode = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    chainId: 84_532,
    timeSeconds: 9_999_999_999,
    state: UNUSED,
    token: undefined,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
  return node;
}

/** A signer that counts how often it was asked. */
export function countingSigner(): Signer & { readonly count: () => number } {
  const signer = signerFromKey(newPrivateKey());
  let count = 0;
  return {
    address: signer.address,
    signTypedData(message) {
      count++;
      return signer.signTypedData(message);
    },
    count: () => count,
  };
}

/** Parts of a {@link testClient} that a test changes. */
export interface TestClientOptions {
  readonly maxPriceUsd?: string;
  readonly totalUsd?: string;
  readonly retryForMs?: number;
  readonly maxParsedValues?: number;
  readonly rpcUrls?: readonly string[];
  readonly networks?: readonly string[];
  readonly assets?: readonly DollarAsset[];
  readonly journal?: SpendJournal;
}

/** A client whose waits take no time but move its clock. */
export function testClient(gateway: string, signer: Signer, opts: TestClientOptions = {}) {
  const { maxPriceUsd = "0.05", totalUsd, ...more } = opts;
  const waits: number[] = [];
  let now = 0;
  let nowMs = Date.now();
  const clock = { nowMs: () => nowMs, monotonicMs: () => now };
  const journal = opts.journal ?? memoryJournal({ clock });
  const budget = { perCallUsd: maxPriceUsd, ...(totalUsd === undefined ? {} : { totalUsd }) };
  const client = createClient(
    { gateway, signer, budget, ...more, journal },
    {
      ...clock,
      sleep: async (ms) => {
        waits.push(ms);
        now += ms;
      },
    },
  );
  return {
    client,
    waits,
    /** The client's time since the Unix epoch, which stands still. */
    nowMs: () => nowMs,
    /** Lets time pass, for what is signed and written down. */
    later: (ms: number): void => {
      now += ms;
      nowMs += ms;
    },
  };
}

/** For `assert.rejects`: an error of this code; where nothing was signed its message must say so. */
export const refusesWith =
  (code: ErrorCode, said: RegExp = /./) =>
  (error: unknown) =>
    error instanceof AppError && error.code === code && said.test(error.message);
