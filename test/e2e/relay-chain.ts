import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { Clock, RequestId, ServiceId, SettlementId } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { mintPaid, mintParsed, type PaidRequest } from "@turnpike/protocol";
import { parsePaid, type RelayOutcome } from "@turnpike/relay";
import { eventually } from "@turnpike/testkit";
import { type NodeCall, type RelayRig, rpc, send, startNode, type TestNode } from "./relay-rig.ts";

/** A hex quantity. */
export const hex = (value: number): string => `0x${value.toString(16)}`;

/** A stand-in for a node of an EVM's chain, whose height a test moves. */
export interface ChainNode extends TestNode {
  height: number;
  /** A hex digit that its hashes begin with: nodes of one chain have the same. */
  fork: string;
  /** True: calls get no answer. Each is in `hung`. */
  isHanging: boolean;
  /** What it says in place of the usual: text of a result, or of the members after the id; undefined: the usual. */
  say: ((call: NodeCall) => string | undefined) | undefined;
  /** Awaited before each answer to a probe. */
  beforeProbe: (() => Promise<void>) | undefined;
  /** Called as such a call arrives: a test may let time pass then. */
  onHang: ((calls: readonly NodeCall[]) => void) | undefined;
  /** Resolves when the connection of a call that got no answer is closed. */
  readonly hung: Promise<void>[];
  /** Answers those that hang. */
  release(): void;
  /** Calls of one method. */
  count(method: string): number;
}

/** A block as a node shows it. */
export function blockAt(height: number, fork = "b"): Readonly<Record<string, unknown>> {
  const hash = (of: number): string => `0x${of.toString(16).padStart(64, fork)}`;
  return { number: hex(height), hash: hash(height), parentHash: hash(height - 1) };
}

/** Its newest block that is final is so far behind its newest. */
const FINAL_DEPTH = 64;

/** Starts a {@link ChainNode}. */
export async function startChain(height = 1_000): Promise<ChainNode> {
  const state: Pick<ChainNode, "height" | "fork" | "isHanging" | "beforeProbe" | "onHang" | "say" | "hung"> = {
    height,
    fork: "b",
    isHanging: false,
    beforeProbe: undefined,
    onHang: undefined,
    say: undefined,
    hung: [],
  };
  const usual = ({ method, params }: NodeCall): string => {
    const [first] = params;
    if (method === "eth_blockNumber") return `"${hex(state.height)}"`;
    if (method === "eth_chainId") return '"0x1"';
    if (method !== "eth_getBlockByNumber") return '"0x5"';
    const at = first === "latest" ? state.height : Number(first);
    return at > state.height ? "null" : JSON.stringify(blockAt(at, state.fork));
  };
  const waiting: (() => void)[] = [];
  const show = (call: NodeCall): string => {
    const answer = state.say?.(call) ?? usual(call);
    return `{"jsonrpc":"2.0","id":${call.id}${answer.startsWith(",") ? answer : `,"result":${answer}`}}`;
  };
  const hang = (res: ServerResponse, body: string, calls: readonly NodeCall[]): void => {
    state.hung.push(once(res, "close").then(() => undefined));
    waiting.push(() => res.end(body.startsWith("[") ? `[${calls.map(show).join(",")}]` : calls.map(show).join("")));
    state.onHang?.(calls);
  };
  const release = (): void => {
    for (const answer of waiting.splice(0)) answer();
  };
  const node = await startNode({
    get heightHex() {
      return hex(state.height);
    },
    get finalHex() {
      return hex(Math.max(0, state.height - FINAL_DEPTH));
    },
    get fork() {
      return state.fork;
    },
    answer: (call) => state.say?.(call) ?? usual(call),
    beforeProbe: () => state.beforeProbe?.(),
    get respond() {
      // Absent: the answers above.
      return (state.isHanging ? hang : undefined) as typeof hang;
    },
  });
  return Object.defineProperties(Object.assign(state, { release, count: (method: string) => countOf(node, method) }), {
    url: { value: node.url },
    bodies: { value: node.bodies },
    calls: { value: node.calls },
    [Symbol.asyncDispose]: { value: () => node[Symbol.asyncDispose]() },
  }) as ChainNode;
}

function countOf({ calls }: TestNode, method: string): number {
  return calls.filter((call) => call.method === method).length;
}

/** What a client reads of an answer. */
export interface RpcReply {
  readonly id: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}

/** Sends one call; `params` is JSON text. */
export async function call(rig: RelayRig, method: string, params = "[]", id = "7"): Promise<RpcReply> {
  const { text } = await send(rig, rpc(id, method, params));
  return JSON.parse(text) as RpcReply;
}

/** Sends a batch of raw calls. */
export async function callAll(rig: RelayRig, calls: readonly string[]): Promise<readonly RpcReply[]> {
  const { text } = await send(rig, `[${calls.join(",")}]`);
  return JSON.parse(text) as readonly RpcReply[];
}

const { services } = createCatalogue({});

/** A call of `eth` that was paid for. */
function sold(clock: Clock, method: string, params: readonly unknown[], timeoutMs: number): PaidRequest {
  const serviceId = "eth" as ServiceId;
  const service = services.get(serviceId);
  assert.ok(service !== undefined);
  const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }));
  const parsed = parsePaid(service, { verb: "POST", appendedPath: "", query: "", body });
  assert.ok(parsed.ok, JSON.stringify(parsed));
  return mintPaid({
    settlementId: "s" as SettlementId,
    request: mintParsed({
      requestId: "r" as RequestId,
      client: "c",
      serviceId,
      call: parsed.call,
      requestHash: Buffer.alloc(32),
    }),
    deadlineMs: clock.monotonicMs() + timeoutMs,
  });
}

/** Relays a call of `eth` that was paid for. */
export function sell(
  { relay, clock }: RelayRig,
  method: string,
  params: readonly unknown[],
  timeoutMs = 3_000,
): Promise<RelayOutcome> {
  return relay.send(sold(clock, method, params, timeoutMs));
}

/** A result as text: the answer, or the code. */
export function shown(result: RelayOutcome): string {
  if (!result.ok) return result.code;
  const reply = JSON.parse(Buffer.from(result.body).toString()) as RpcReply;
  return JSON.stringify(reply.result ?? reply.error);
}

/** A value of a metric with these labels, summed over the others. */
export async function metricOf(rig: RelayRig, name: string, labels: string): Promise<number> {
  const lines = (await rig.metrics())
    .split("\n")
    .filter((line) => line.startsWith(`${name}{`) && line.includes(labels));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

/** Lets time pass once a supplier has answered well after this call: those that hang are left behind, and no other. */
export async function passAfterAnswer(rig: RelayRig, ms: number): Promise<void> {
  const answered = (): Promise<number> => metricOf(rig, "turnpike_relay_attempts_total", 'outcome="good"');
  const before = await answered();
  await eventually("a supplier has answered", async () => (await answered()) > before);
  rig.clock.advance(ms);
}
