import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { silentLog } from "@turnpike/base";
import {
  createClient,
  memoryJournal,
  newPrivateKey,
  type Signer,
  type SpendJournal,
  signerFromKey,
} from "@turnpike/client";
import { virtualClock } from "@turnpike/testkit";
import { createMcpServer, GatewayDocuments, McpSession } from "../src/index.ts";
import type { ConnectionModules } from "../src/server.ts";

/** A transaction of the stand-in's receipts. */
export const HASH = `0x${"ab".repeat(32)}`;

/** One paid request that arrived. */
export interface PaidRequest {
  readonly service: string;
  readonly body: unknown;
  readonly payment: string;
}

/** A stand-in gateway whose behaviour a test bends while it runs. It settles nothing. */
export interface StandInGateway extends AsyncDisposable {
  readonly url: string;
  /** Units of the token, of 10^-6 USD. */
  amount: string;
  /** Answer of the supplier. */
  data: (request: PaidRequest) => unknown;
  /** Answers a paid request instead of the stand-in; true when it did. */
  onPaid: ((request: PaidRequest, response: ServerResponse) => boolean) | undefined;
  /** Answers a request for a document instead of the stand-in; true when it did. */
  onDocument: ((path: string, response: ServerResponse) => boolean) | undefined;
  /** Answers a request without payment instead of the stand-in. */
  onAsked: ((response: ServerResponse) => void) | undefined;
  readonly paid: PaidRequest[];
  /** Paths of all requests. */
  readonly paths: string[];
}

const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64");

function answer(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

/** An entry of the stand-in's list. */
export const service = (id: string, more: Record<string, unknown>): Record<string, unknown> => ({
  id,
  name: id,
  description: "",
  category: "chains",
  tags: [],
  price: { amount: "0.005", currency: "USD" },
  serves: true,
  paid: true,
  free: false,
  maxBodyBytes: 16_384,
  example: { method: "eth_blockNumber", params: [] },
  methods: ["eth_blockNumber", "eth_getBalance"],
  ...more,
});

const SERVICES = [
  service("eth", {
    name: "Ethereum",
    description: "Reads of the Ethereum mainnet.",
    tags: ["evm"],
    free: true,
    relayUrl: "http://eth.relay.example",
  }),
  service("base", { name: "Base", description: "Reads of an EVM rollup.", tags: ["evm"], serves: false }),
  service("search", {
    name: "Web search",
    description: "Searches the web.",
    category: "search",
    methods: ["POST /"],
    example: { query: "how are payments settled" },
  }),
  service("digest", { category: "tools", methods: ["POST /"] }),
  service("node", { name: "Node", methods: ["status", "GET /status", "GET /blocks/{height}", "POST /simulate"] }),
  service("unlisted", { name: "Without a list", methods: undefined }),
  service("free-only", { paid: false, relayUrl: "http://free-only.relay.example" }),
];

const OPENAPI = {
  openapi: "3.0.3",
  paths: {
    "/v1/eth": {
      post: {
        requestBody: { content: { "application/json": { schema: { $ref: "#/components/schemas/Call" } } } },
        responses: {
          "200": {
            content: {
              "application/json": {
                schema: { type: "object", properties: { data: { $ref: "#/components/schemas/Loop" } } },
              },
            },
          },
        },
      },
    },
    "/v1/digest": {
      post: {
        requestBody: {
          content: {
            "application/json": {
              schema: {
                type: "object",
                required: ["text"],
                properties: { text: { type: "string" }, size: { type: "integer" }, parts: { type: "array" } },
                additionalProperties: false,
              },
            },
          },
        },
      },
    },
  },
  components: {
    schemas: {
      Call: {
        type: "object",
        required: ["method"],
        properties: { method: { type: "string", enum: ["eth_blockNumber", "eth_getBalance"] }, params: {} },
      },
      Loop: { type: "object", properties: { next: { $ref: "#/components/schemas/Loop" } } },
    },
  },
};

/** A receipt of success, as the header that carries it. */
export const receipt = (change: Record<string, unknown> = {}): Record<string, string> => ({
  "payment-response": base64({
    success: true,
    transaction: HASH,
    network: "eip155:84532",
    extensions: { settlement: { id: "stl_1", status: "settled" } },
    ...change,
  }),
});

/** Starts a {@link StandInGateway}. */
export async function startStandInGateway(): Promise<StandInGateway> {
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = request.url ?? "";
    gateway.paths.push(path);
    const body = await text(request);
    if (path.endsWith(".json") && gateway.onDocument?.(path, response) === true) return;
    if (path === "/services.json") return answer(response, 200, SERVICES);
    if (path === "/openapi.json") return answer(response, 200, OPENAPI);
    const payment = request.headers["payment-signature"];
    if (typeof payment !== "string") {
      if (gateway.onAsked !== undefined) {
        gateway.onAsked(response);
        return;
      }
      const terms = {
        x402Version: 2,
        error: "Payment required",
        resource: { url: `http://stand-in${path}`, description: "d", mimeType: "application/json" },
        accepts: [
          {
            scheme: "exact",
            network: "eip155:84532",
            amount: gateway.amount,
            asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
            payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
            maxTimeoutSeconds: 60,
            extra: { name: "USDC", version: "2" },
          },
        ],
      };
      return answer(response, 402, terms, { "payment-required": base64(terms) });
    }
    const paid = { service: path.slice("/v1/".length), body: body === "" ? undefined : JSON.parse(body), payment };
    gateway.paid.push(paid);
    if (gateway.onPaid?.(paid, response) === true) return;
    const portal = { provenance: "third-party-supplier", serviceId: paid.service, schemaCheck: "passed" };
    answer(response, 200, { portal, data: gateway.data(paid) }, receipt());
  };
  const server = createServer((request, response) => void serve(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const gateway: StandInGateway = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    amount: "5000",
    data: () => ({ jsonrpc: "2.0", id: 1, result: "0x10" }),
    onPaid: undefined,
    onDocument: undefined,
    onAsked: undefined,
    paid: [],
    paths: [],
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
  return gateway;
}

/** Ends a paid request as a settlement that is under way. */
export function pending(response: ServerResponse): boolean {
  const body = {
    code: "SETTLEMENT_PENDING",
    message: "The payment is being settled.",
    requestId: "r",
    retryable: true,
  };
  answer(response, 503, body, { "retry-after": "1" });
  return true;
}

/** A signer that counts how often it was asked. */
export function countingSigner(): Signer & { count: number; readonly key: string } {
  const key = newPrivateKey();
  const signer = signerFromKey(key);
  return {
    key,
    count: 0,
    address: signer.address,
    signTypedData(message) {
      this.count += 1;
      return signer.signTypedData(message);
    },
  };
}

/** Parts of {@link connected} that a test changes. */
export interface Bend {
  readonly perCallUsd?: string;
  readonly perSessionMicroUsd?: bigint;
  readonly totalUsd?: string;
  readonly journal?: SpendJournal;
  readonly signer?: ReturnType<typeof countingSigner>;
  readonly maxDataCharacters?: number;
  readonly modules?: Partial<ConnectionModules>;
  /** 0 by default: a signed request is sent once. */
  readonly retryForMs?: number;
  /** Called before the server's messages are sent; what it returns is awaited first. */
  readonly holds?: (message: object) => Promise<void> | undefined;
}

/** The text of all blocks of a result. */
export function said(result: { readonly content?: unknown }): string {
  const blocks = Array.isArray(result.content) ? (result.content as { readonly text?: string }[]) : [];
  return blocks.map((block) => block.text ?? "").join("\n");
}

/** Facts that a failed tool returns to a program. */
export interface ToldError {
  readonly code: string;
  readonly retryable: boolean;
  readonly payment: { readonly state: string; readonly usd?: string; readonly payment_id?: string };
  readonly third_party?: { readonly text: string };
}

/** Reads {@link ToldError} of a result. */
export function errorOf(result: { readonly _meta?: unknown }): ToldError {
  return (result._meta as Record<string, ToldError>)["turnpike/error"] as ToldError;
}

/** The number of open payments that `get_spending` tells. */
export function openCount(result: { readonly structuredContent?: unknown }): number {
  return (result.structuredContent as { open_payment_count: number }).open_payment_count;
}

/** A server on a stand-in gateway, with the official client connected to it. */
export async function connected(gateway: StandInGateway, bend: Bend = {}) {
  const signer = bend.signer ?? countingSigner();
  const journal = bend.journal ?? memoryJournal();
  const session = new McpSession(
    { perCallMicroUsd: 50_000n, perSessionMicroUsd: bend.perSessionMicroUsd ?? 1_000_000n },
    { journal },
  );
  const budget = {
    perCallUsd: bend.perCallUsd ?? "0.05",
    ...(bend.totalUsd === undefined ? {} : { totalUsd: bend.totalUsd }),
  };
  const make = (one: SpendJournal) =>
    createClient(
      { gateway: gateway.url, signer, budget, journal: one, retryForMs: bend.retryForMs ?? 0, maxParsedValues: 0 },
      { sleep: () => Promise.resolve() },
    );
  const server = createMcpServer(
    {
      gateway: gateway.url,
      version: "0.0.0",
      buyer: signer.address,
      ...(bend.maxDataCharacters === undefined ? {} : { maxDataCharacters: bend.maxDataCharacters }),
    },
    {
      client: make,
      session,
      documents: new GatewayDocuments({ gateway: gateway.url }, { clock: virtualClock() }),
      log: silentLog,
      // A message in memory is received as it is sent.
      sinkOf: () => ({ expect: () => (onFlushed) => onFlushed() }),
      ...bend.modules,
    },
  );
  const [here, there] = InMemoryTransport.createLinkedPair();
  const client = new Client({ name: "test", version: "0" });
  const send = there.send.bind(there);
  there.send = async (message, options) => {
    await bend.holds?.(message);
    await send(message, options);
  };
  await server.connect(there as never);
  await client.connect(here);
  return {
    client,
    signer,
    session,
    journal,
    tool: (name: string, args: Record<string, unknown> = {}) => client.callTool({ name, arguments: args }),
    async [Symbol.asyncDispose]() {
      await client.close();
      await server.close();
    },
  };
}
