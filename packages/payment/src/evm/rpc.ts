import { AppError, FaultLogThrottle, hostOf, isAppError, isRecord, type Log, type Metrics } from "@turnpike/base";
import { type Dispatcher, Pool } from "undici";
import { decodeQuantity } from "./abi.ts";
import { settlementRpcCallsTotal, settlementRpcFailoversTotal, settlementRpcSeconds } from "./metrics.ts";

/** One JSON-RPC call. */
export interface RpcCall {
  readonly method: string;
  readonly params: readonly unknown[];
}

/** What the node answered: a JSON-RPC error is an answer, not a fault. */
export type RpcReply =
  | { readonly ok: true; readonly result: unknown }
  | { readonly ok: false; readonly code: number; readonly message: string; readonly data?: unknown };

/** One node by itself, for reads that no payment waits for. */
export interface EvmNode {
  /** Its host, which a second URL of that host has a number behind: for logs, metrics and the ledger. */
  readonly name: string;
  /**
   * Several calls in one exchange with this node and no other. What it refuses or limits is a reply, and nothing that
   * fails here changes how others ask it. Throws as {@link EvmRpc.call} does.
   */
  batch(calls: readonly RpcCall[], signal?: AbortSignal): Promise<readonly RpcReply[]>;
}

/** A settlement chain's node, or several of which the first that works is asked. */
export interface EvmRpc extends AsyncDisposable {
  /** Each node by itself, in order of preference. */
  readonly nodes: readonly EvmNode[];
  /** Host of the first URL, for logs. */
  readonly host: string;
  /**
   * One call. @throws AppError SETTLEMENT_UNAVAILABLE when no node answered (detail `foundChainId` when all are of
   * another chain); the signal's reason when it fired.
   */
  call(method: string, params: readonly unknown[], signal?: AbortSignal): Promise<RpcReply>;
  /** Several calls in one exchange, replies in their order. Throws as `call` does; never returns a part. */
  batch(calls: readonly RpcCall[], signal?: AbortSignal): Promise<readonly RpcReply[]>;
}

/** Nodes of a settlement chain, and bounds of what they are asked. */
export interface EvmRpcOptions {
  /** In order of preference. */
  readonly urls: readonly string[];
  /** Longest time for one exchange with one node. */
  readonly timeoutMs: number;
  /** Most calls in one exchange; 100 by default. Larger batches are cut. */
  readonly maxBatch?: number;
  /** Most bytes of one answer; 8 MiB by default. */
  readonly maxResponseBytes?: number;
  /** Most connections to one node; 16 by default. */
  readonly maxConnections?: number;
  /** How long a node that failed on the wire is asked last; batches that a node refused rest {@link BATCH_RESTS} times as long. 5,000 by default. */
  readonly restMs?: number;
  /**
   * Chain that every node must be of: each is asked before it is used, and again after it could not be reached. Without
   * one nothing is compared.
   */
  readonly expectedChainId?: number;
}

/** How long a node of another chain is left alone before it is asked again. */
const FOREIGN_REST_MS = 60_000;
const DEFAULT_REST_MS = 5_000;
/** How often the rest of a node that failed, until batches that a node refused are tried again: it may have been a bad moment. */
const BATCH_RESTS = 12;

/**
 * JSON-RPC over HTTP to a settlement chain, with failover. A failed exchange is repeated at the next node, whatever the
 * method: all calls are reads, but for `eth_sendRawTransaction`, and the same raw transaction twice is one transaction.
 * Nothing of a URL but its host leaves this module: paths and queries hold API keys.
 */
export class EvmRpcClient implements EvmRpc {
  readonly nodes: readonly EvmNode[];
  readonly host: string;
  readonly #nodes: readonly HttpNode[];
  readonly #maxBatch: number;
  readonly #restMs: number;
  readonly #log: Log;
  readonly #metrics: Metrics;

  /** @throws AppError CONFIG_INVALID when there is no URL, or one is not http or https. */
  constructor(opts: EvmRpcOptions, modules: { readonly log: Log; readonly metrics: Metrics }) {
    this.#log = modules.log;
    this.#metrics = modules.metrics;
    this.#maxBatch = Math.max(1, opts.maxBatch ?? 100);
    this.#restMs = opts.restMs ?? DEFAULT_REST_MS;
    this.#nodes = opts.urls.map((url) => new HttpNode(url, opts, modules));
    const [first] = this.#nodes;
    if (first === undefined) throw new AppError("CONFIG_INVALID", { message: "A network needs at least one RPC URL." });
    this.host = first.host;
    this.nodes = this.#nodes.map((node, at) => {
      const earlier = this.#nodes.slice(0, at).filter(({ host }) => host === node.host).length;
      return {
        name: earlier === 0 ? node.host : `${node.host}#${earlier + 1}`,
        batch: async (calls, signal) => {
          this.#count(calls);
          await node.requireChain(signal);
          return node.ask(calls, signal, true);
        },
      };
    });
  }

  async call(method: string, params: readonly unknown[], signal?: AbortSignal): Promise<RpcReply> {
    this.#metrics.count(settlementRpcCallsTotal, { method });
    return (await this.#askAny([{ method, params }], signal))[0] ?? never();
  }

  async batch(calls: readonly RpcCall[], signal?: AbortSignal): Promise<readonly RpcReply[]> {
    this.#count(calls);
    const parts: Promise<readonly RpcReply[]>[] = [];
    for (let at = 0; at < calls.length; at += this.#maxBatch) {
      parts.push(this.#askAny(calls.slice(at, at + this.#maxBatch), signal));
    }
    return (await Promise.all(parts)).flat();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#nodes.map((node) => node.close()));
  }

  #count(calls: readonly RpcCall[]): void {
    for (const { method } of calls) this.#metrics.count(settlementRpcCallsTotal, { method });
  }

  /** Asks the nodes in turn until one answers; those that failed a short time ago come last. */
  async #askAny(calls: readonly RpcCall[], signal?: AbortSignal): Promise<readonly RpcReply[]> {
    const nowMs = performance.now();
    const nodes = this.#nodes;
    const order = [...nodes.filter((n) => n.restUntilMs <= nowMs), ...nodes.filter((n) => n.restUntilMs > nowMs)];
    let last: unknown;
    for (const [at, node] of order.entries()) {
      signal?.throwIfAborted();
      if (at > 0) this.#metrics.count(settlementRpcFailoversTotal, { host: node.host });
      try {
        await node.requireChain(signal);
        const replies = await node.ask(calls, signal);
        node.restUntilMs = 0;
        if (node.faults.onRecovery()) this.#log.info({ host: node.host }, "settlement node works again");
        return replies;
      } catch (error) {
        if (signal?.aborted === true || !isAppError(error, "SETTLEMENT_UNAVAILABLE")) throw error;
        // A call fails for a wrong chain only when there is no other node: one that is down may be the right one.
        if (last === undefined || !isForeign(error)) last = error;
        node.restUntilMs = performance.now() + this.#restMs;
        if (isForeign(error)) continue;
        node.recheckChain();
        if (node.faults.onFailure()) this.#log.warn({ ...error.detail }, "settlement node failed");
      }
    }
    throw last;
  }
}

/** One node: its connections, and what is known of it. */
class HttpNode {
  readonly host: string;
  readonly faults = new FaultLogThrottle();
  /** Monotonic milliseconds until which others are asked first. */
  restUntilMs = 0;
  readonly #pool: Pool;
  readonly #path: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #timeoutMs: number;
  readonly #maxResponseBytes: number;
  readonly #expectedChainId: number | undefined;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #batchRestMs: number;
  /** Monotonic milliseconds until which calls are sent one by one, since it refused a batch. */
  #singlyUntilMs = 0;
  #refusesBatches = false;
  /** The comparison of its chain, while it runs and after it went well; undefined when it has to be made. */
  #sameChain: Promise<void> | undefined;
  /** Until when it is known to be of another chain, and of which. */
  #foreign: { readonly chainId: string; readonly untilMs: number } | undefined;

  constructor(text: string, opts: EvmRpcOptions, modules: { readonly log: Log; readonly metrics: Metrics }) {
    const url = URL.parse(text);
    if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
      throw new AppError("CONFIG_INVALID", { message: `The RPC URL at ${hostOf(text)} is not http or https.` });
    }
    const credentials = `${decoded(url.username, text)}:${decoded(url.password, text)}`;
    this.host = url.host;
    this.#pool = new Pool(url.origin, {
      connections: opts.maxConnections ?? 16,
      connect: { timeout: opts.timeoutMs },
    });
    this.#path = `${url.pathname}${url.search}`;
    this.#headers = {
      "content-type": "application/json",
      ...(credentials === ":" ? {} : { authorization: `Basic ${Buffer.from(credentials).toString("base64")}` }),
    };
    this.#timeoutMs = opts.timeoutMs;
    this.#batchRestMs = (opts.restMs ?? DEFAULT_REST_MS) * BATCH_RESTS;
    this.#maxResponseBytes = opts.maxResponseBytes ?? 8 * 1024 * 1024;
    this.#expectedChainId = opts.expectedChainId;
    this.#log = modules.log;
    this.#metrics = modules.metrics;
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  /** Throws SETTLEMENT_UNAVAILABLE unless the node is of the expected chain. */
  async requireChain(signal: AbortSignal | undefined): Promise<void> {
    const expected = this.#expectedChainId;
    if (expected === undefined) return;
    if (this.#foreign !== undefined && this.#foreign.untilMs > performance.now())
      throw foreign(this.host, this.#foreign.chainId);
    // One comparison for all that wait, so none of them may end it for the others.
    this.#sameChain ??= this.#compareChain(expected).catch((error: unknown) => {
      this.#sameChain = undefined;
      throw error;
    });
    await this.#sameChain;
    signal?.throwIfAborted();
  }

  /** It could not be reached: another node may be behind its URL when it is back. */
  recheckChain(): void {
    this.#sameChain = undefined;
  }

  /**
   * Several calls in one exchange, or one by one where the node refuses batches. `isAlone`: no other node is asked instead,
   * so that a limit is a reply.
   */
  async ask(calls: readonly RpcCall[], signal?: AbortSignal, isAlone = false): Promise<readonly RpcReply[]> {
    const read = isAlone ? readReply : readUnlimited;
    const [only] = calls;
    if (calls.length === 1 && only !== undefined) {
      return [read(await this.#exchange(encodeCall(only, 0), signal), 0, this.host)];
    }
    const askEach = (): Promise<RpcReply[]> =>
      Promise.all(calls.map(async (call) => (await this.ask([call], signal, isAlone))[0] ?? never()));
    if (performance.now() < this.#singlyUntilMs) return askEach();
    const answer = await this.#exchange(`[${calls.map(encodeCall).join(",")}]`, signal);
    if (!Array.isArray(answer)) {
      // A node that refuses batches answers with one error object.
      read(answer, undefined, this.host);
      if (!isAlone) {
        if (!this.#refusesBatches) {
          this.#log.warn({ host: this.host }, "node refuses JSON-RPC batches: calls are sent one by one");
        }
        this.#refusesBatches = true;
        this.#singlyUntilMs = performance.now() + this.#batchRestMs;
      }
      return askEach();
    }
    if (!isAlone) this.#refusesBatches = false;
    const byId = new Map<unknown, unknown>();
    for (const item of answer) if (isRecord(item)) byId.set(item.id, item);
    return calls.map((_, id) => read(byId.get(id), id, this.host));
  }

  async #compareChain(expected: number): Promise<void> {
    const { host } = this;
    const [reply] = await this.ask([{ method: "eth_chainId", params: [] }]);
    const found = reply?.ok === true ? decodeQuantity(reply.result) : undefined;
    if (found === undefined) throw unavailable(host, "says no chain id");
    if (found === BigInt(expected)) {
      this.#foreign = undefined;
      return;
    }
    const chainId = found.toString();
    this.#foreign = { chainId, untilMs: performance.now() + FOREIGN_REST_MS };
    this.#log.error({ host, expected, found: chainId }, "settlement node of another chain: not used");
    throw foreign(host, chainId);
  }

  async #exchange(body: string, signal: AbortSignal | undefined): Promise<unknown> {
    const started = performance.now();
    let outcome = "wire";
    try {
      const answer = await this.#post(body, signal);
      outcome = isRecord(answer) && "error" in answer ? "error" : "ok";
      return answer;
    } finally {
      this.#metrics.observe(settlementRpcSeconds, (performance.now() - started) / 1_000, { host: this.host, outcome });
    }
  }

  /** Sends one body and reads one JSON answer. */
  async #post(body: string, signal: AbortSignal | undefined): Promise<unknown> {
    const controller = new AbortController();
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      controller.abort();
    }, this.#timeoutMs);
    const onAbort = (): void => controller.abort();
    if (signal?.aborted === true) controller.abort();
    else signal?.addEventListener("abort", onAbort, { once: true });
    try {
      const response = await this.#pool.request({
        path: this.#path,
        method: "POST",
        headers: this.#headers,
        body,
        signal: controller.signal,
      });
      const text = await readText(response, this.#maxResponseBytes);
      // Some nodes give JSON-RPC errors the status 400; every other refusal is about the node, not about the call.
      if (response.statusCode !== 200 && response.statusCode !== 400) {
        throw unavailable(this.host, `status ${response.statusCode}`);
      }
      return JSON.parse(text) as unknown;
    } catch (error) {
      signal?.throwIfAborted();
      if (isAppError(error)) throw error;
      // The error's own message may name the URL, so only its kind is kept.
      throw unavailable(this.host, timedOut ? "time-out" : reasonOf(error));
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    }
  }
}

/** A part of a URL as it is meant. @throws AppError CONFIG_INVALID when its escapes are no UTF-8. */
function decoded(part: string, url: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new AppError("CONFIG_INVALID", {
      message: `The RPC URL at ${hostOf(url)} has a user or password whose % escapes are no UTF-8; write a % as %25.`,
    });
  }
}

async function readText(response: Dispatcher.ResponseData, maxBytes: number): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of response.body as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > maxBytes) throw new RangeError("answer too large");
    parts.push(part);
  }
  return (parts.length === 1 ? (parts[0] ?? never()) : Buffer.concat(parts)).toString("utf8");
}

function encodeCall(call: RpcCall, id: number): string {
  return `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(call.method)},"params":${JSON.stringify(call.params)}}`;
}

/** As {@link readReply}. A node that limits or is overloaded says so with -32005 or -32016: another one may answer. */
function readUnlimited(value: unknown, id: number | undefined, host: string): RpcReply {
  const reply = readReply(value, id, host);
  if (!reply.ok && (reply.code === -32005 || reply.code === -32016 || reply.code === 429)) {
    throw unavailable(host, `limited (${reply.code})`);
  }
  return reply;
}

function readReply(value: unknown, id: number | undefined, host: string): RpcReply {
  if (!isRecord(value)) throw unavailable(host, "answer is not JSON-RPC");
  const error = value.error;
  if (isRecord(error) && typeof error.code === "number") {
    const message = typeof error.message === "string" ? error.message : "";
    return { ok: false, code: error.code, message, ...("data" in error ? { data: error.data } : {}) };
  }
  if (id === undefined || value.id !== id || !("result" in value)) throw unavailable(host, "answer is not JSON-RPC");
  return { ok: true, result: value.result };
}

function unavailable(host: string, reason: string): AppError {
  return new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host, reason } });
}

function foreign(host: string, foundChainId: string): AppError {
  return new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host, reason: "another chain", foundChainId } });
}

function isForeign(error: unknown): boolean {
  return isAppError(error) && error.detail.foundChainId !== undefined;
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  if (error instanceof SyntaxError) return "answer is not JSON";
  if (error instanceof RangeError) return "answer too large";
  const code = (error as { code?: unknown }).code;
  return typeof code === "string" ? code : error.name;
}

function never(): never {
  throw new AppError("INTERNAL");
}
