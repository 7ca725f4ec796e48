import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, type Metrics, noMetrics, silentLog, systemClock } from "@turnpike/base";
import { ChainClient, ChainHead, PocketQueries } from "@turnpike/chain-client";
import { cosmosVerify, SigningThreads } from "@turnpike/crypto";
import type { FastListenerCounts } from "@turnpike/http1";
import {
  decodeHttpResponsePayload,
  decodeRelayResponse,
  relayResponseDigest,
  type SessionHeader,
} from "@turnpike/protocol";
import {
  chainParty,
  jsonRpcPayload,
  signRelayRequest,
  startTestChain,
  type TestChain,
  type TestChainOptions,
} from "@turnpike/testkit/chain";
import type { RelayStore } from "../src/evidence/relay-store.ts";
import type { AppendResult, BegunRelay, InFlight, ServedBefore } from "../src/evidence/types.ts";
import type { SessionWork } from "../src/metering/budget-reader.ts";
import { ThreadedRelayCrypto } from "../src/serving/relay-crypto.ts";
import { supplierRelaysRefusedTotal } from "../src/serving-metrics.ts";
import { type ServeRelaysOptions, serveRelays } from "../src/supplier.ts";

/** In the place of a relay log: keeps the relays, and refuses as the test says. */
export class MemoryStore {
  readonly relays: Uint8Array[] = [];
  /** Relays that were begun and have not ended. */
  inFlight = 0;
  answer: AppendResult = "mined";
  isSealed = false;
  /** What rejects, as no store should. */
  fault: "begin" | "append" | undefined;
  /** A relay is in the log only when this has resolved. */
  appending: Promise<void> = Promise.resolve();

  begin(): Promise<BegunRelay> {
    if (this.fault === "begin") return Promise.reject(new TypeError("begin"));
    if (this.isSealed) return Promise.resolve({ ok: false, fault: "sealed", text: "sealed" });
    this.inFlight++;
    const relay: InFlight = {
      append: async (bytes) => {
        if (this.fault === "append") throw new TypeError("append");
        await this.appending;
        if (this.answer === "mined") this.relays.push(bytes);
        return this.answer;
      },
      [Symbol.dispose]: () => void this.inFlight--,
    };
    return Promise.resolve({ ok: true, relay });
  }

  workOf(): Promise<readonly SessionWork[]> {
    return Promise.resolve([]);
  }

  servedBefore(): Promise<ServedBefore> {
    return Promise.resolve({ relays: 0n, requests: [] });
  }
}

/** A back-end that answers as the test says. */
export async function startBackEnd(listener: RequestListener): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A back-end that counts its requests, and answers each of them differently, or all with `answer`. */
export async function startCounting(answer?: string) {
  let asked = 0;
  const backEnd = await startBackEnd((_, response) => {
    asked++;
    response.end(answer ?? `{"asked":${asked}}`);
  });
  return { ...backEnd, [Symbol.asyncDispose]: backEnd[Symbol.asyncDispose], asked: () => asked };
}

/** Reads a whole request. */
export async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text;
}

/** The two ways into a relay server: requests without these fields are plain, requests with them are not. */
const WAYS = {
  plain: {},
  full: { te: "trailers" },
} as const satisfies Readonly<Record<string, Readonly<Record<string, string>>>>;

/** A way into a relay server. */
export type Way = keyof typeof WAYS;

/** Its fields as lines, for clients that write requests by themselves. */
export const linesOf = (way: Way): string =>
  Object.entries(WAYS[way])
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("");

/** A relay as a raw client writes it, one character a byte. */
export function rawRelay(bytes: Uint8Array, way: Way, more = ""): string {
  const head = `POST / HTTP/1.1\r\nHost: x\r\nRpc-Type: 3\r\n${linesOf(way)}${more}Content-Length: ${bytes.length}\r\n\r\n`;
  return head + Buffer.from(bytes).toString("latin1");
}

type Services = ServeRelaysOptions["services"];

/** The service `eth` over a back-end, with other bounds where the test says so. */
export const ethService = (url: string, more: Partial<Services[string]> = {}): Services => ({
  eth: {
    backEnds: { json_rpc: { url } },
    defaultRpcType: "json_rpc",
    timeoutMs: 30_000,
    maxAnswerBytes: 1_048_576,
    maxConcurrent: 100,
    ...more,
  },
});

/** A relay is 10 POKT. Of 100 POKT, a third may be claimed in a session, less what is minted on top: three relays. */
export const THREE_RELAYS = {
  applications: { app: { service: "eth", gateways: ["gateway"], stakeUpokt: 100_000_000n } },
  shared: { computeUnitsToTokensMultiplier: 100_000_000_000n },
};

/** A signed response, or a signed part of a stream. */
export interface SignedAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly isSigned: boolean;
}

/** Reads a RelayResponse, and checks the operator's signature. */
export function signedAnswer(bytes: Uint8Array): SignedAnswer {
  const response = decodeRelayResponse(bytes) ?? assert.fail("no RelayResponse");
  const inner = decodeHttpResponsePayload(response.payload) ?? assert.fail("no response in it");
  return {
    status: inner.statusCode,
    contentType: inner.headers.find(([name]) => name === "Content-Type")?.[1][0] ?? "",
    body: Buffer.from(inner.body).toString("utf8"),
    isSigned: cosmosVerify(relayResponseDigest(response), response.signature, chainParty("supplier").publicKey),
  };
}

/** What a supplier answered. */
export interface Answer {
  readonly status: number;
  readonly contentType: string;
  readonly bytes: Uint8Array;
  readonly text: string;
}

/** Chain, supplier and an application that asks it. */
export interface ServingRig extends AsyncDisposable {
  readonly chain: TestChain;
  readonly store: MemoryStore;
  /** Reasons of relays that were refused, as they were counted. */
  readonly refused: readonly string[];
  readonly url: string;
  /** Connections and plain requests so far. */
  readonly counts: FastListenerCounts;
  readonly header: SessionHeader;
  /** The header of the session at the newest height. */
  renew(): Promise<SessionHeader>;
  /** A RelayRequest, signed by the gateway as a member of the application's ring. */
  sign(
    payload: Uint8Array,
    more?: { readonly header?: SessionHeader; readonly signer?: string; readonly supplier?: string },
  ): Uint8Array;
  /** Sends a request whose response is read by the test. */
  open(bytes: Uint8Array, headers?: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<Response>;
  /** Sends a request and reads the response. */
  send(bytes: Uint8Array, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  /** Sends a JSON-RPC call and reads the signed answer. */
  call(body: string): Promise<SignedAnswer>;
}

const OPERATOR = chainParty("supplier").address;

/** Starts a {@link ServingRig} over a back-end. */
export async function servingRig(
  backEndUrl: string,
  more: {
    readonly chain?: TestChainOptions;
    readonly options?: Partial<ServeRelaysOptions>;
    readonly wsUrl?: string;
    /** That {@link ServingRig.open} takes; plain by default. */
    readonly way?: Way;
    /** Of the relay server. */
    readonly clock?: Clock;
  } = {},
): Promise<ServingRig> {
  await using stack = new AsyncDisposableStack();
  const chain = stack.use(await startTestChain(more.chain ?? {}));
  await chain.reach(2n);
  const client = stack.use(new ChainClient({ url: chain.rpcUrl }, { clock: systemClock }));
  const head = stack.use(new ChainHead({ url: chain.rpcUrl }, { clock: systemClock }));
  await head.waitFor(2n);
  const queries = new PocketQueries({}, { client, clock: systemClock });
  const store = new MemoryStore();
  const refused: string[] = [];
  const metrics: Metrics = {
    ...noMetrics,
    count(spec, labels) {
      if (spec === supplierRelaysRefusedTotal) refused.push(String(labels?.reason));
    },
  };
  const threads = stack.use(new SigningThreads({ threads: 0 }));
  const crypto = stack.use(new ThreadedRelayCrypto(threads, new Map([[OPERATOR, chainParty("supplier").privateKey]])));
  const backEnds = {
    json_rpc: { url: backEndUrl, headers: { "X-Api-Key": "secret" } },
    rest: { url: `${backEndUrl}/rest` },
    ...(more.wsUrl === undefined ? {} : { websocket: { url: more.wsUrl } }),
  };
  const served = stack.use(
    await serveRelays(
      {
        host: "127.0.0.1",
        operators: [{ address: OPERATOR, port: 0 }],
        services: ethService(backEndUrl, { backEnds }),
        maxRequestBytes: 1_048_576,
        maxConcurrentRelays: 100,
        maxConnections: 1_000,
        requestTimeoutMs: 30_000,
        drainTimeoutMs: 10_000,
        inflationMillionths: 100_000n,
        unsettledPercent: 10,
        ...more.options,
      },
      {
        queries,
        head,
        crypto,
        store: store as unknown as RelayStore,
        clock: more.clock ?? systemClock,
        metrics,
        log: silentLog,
      },
    ),
  );
  const url = `http://127.0.0.1:${served.ports.get(OPERATOR)}`;
  const headerNow = async (): Promise<SessionHeader> => {
    const found = await queries.session(chainParty("app").address, "eth", chain.heightBlocks);
    if (!found.ok || found.value.header === undefined) throw new Error("no session");
    const { $typeName: _, ...header } = found.value.header;
    return header;
  };
  let header = await headerNow();
  const sign: ServingRig["sign"] = (payload, options = {}) => {
    const { supplier: supplierOperatorAddress = OPERATOR, signer = "gateway" } = options;
    return signRelayRequest(options.header ?? header, payload, { supplierOperatorAddress, signer });
  };
  const open: ServingRig["open"] = (bytes, headers = {}, signal) =>
    fetch(url, {
      method: "POST",
      body: Buffer.from(bytes),
      headers: { "rpc-type": "3", ...WAYS[more.way ?? "plain"], ...headers },
      ...(signal === undefined ? {} : { signal }),
    });
  const send: ServingRig["send"] = async (bytes, headers) => {
    const answer = await open(bytes, headers);
    const all = new Uint8Array(await answer.arrayBuffer());
    const contentType = answer.headers.get("content-type") ?? "";
    return { status: answer.status, contentType, bytes: all, text: Buffer.from(all).toString("utf8") };
  };
  const owned = stack.move();
  return {
    chain,
    store,
    refused,
    url,
    counts: served.counts.get(OPERATOR) ?? assert.fail(),
    get header() {
      return header;
    },
    async renew() {
      await head.waitFor(chain.heightBlocks);
      header = await headerNow();
      return header;
    },
    sign,
    open,
    send,
    call: async (body) => signedAnswer((await send(sign(jsonRpcPayload(body)))).bytes),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
