import { isRecord } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { findMembers } from "../members.ts";
import { readQuantity } from "./head-chain.ts";
import type { Topic } from "./types.ts";
import { rawOf, type UpstreamMessage, type UpstreamSocket } from "./upstream-socket.ts";

/** An event of a supplier, and the subscription that it belongs to. */
export interface UpstreamEvent {
  readonly handle: string;
  readonly value: unknown;
  readonly raw: string;
}

/** The supplier has ended a subscription by itself; its socket may stay open. */
export interface Cancellation {
  readonly cancelled: string;
}

/** How an upstream subscription was answered. */
export type Subscribed =
  | { readonly kind: "ok"; readonly handle: string }
  | { readonly kind: "error"; readonly raw: string }
  | { readonly kind: "lost" };

const DECIMAL = /^[0-9]{1,15}$/;

/** How a family subscribes. */
export interface Dialect {
  readonly id: "evm" | "comet";
  /** Whether the supplier serves the service's chain. */
  verify(socket: UpstreamSocket, service: Service): Promise<"right" | "wrong" | "failed">;
  subscribe(socket: UpstreamSocket, topic: Topic): Promise<Subscribed>;
  unsubscribe(socket: UpstreamSocket, topic: Topic, handle: string): void;
  /** Undefined for a message that is neither, so that nothing is taken for an event that has no result. */
  event(message: UpstreamMessage): UpstreamEvent | Cancellation | undefined;
  /** The newest block that the supplier has; undefined when it does not say. */
  height(socket: UpstreamSocket): Promise<number | undefined>;
}

/** `eth_subscribe` of geth: https://geth.ethereum.org/docs/interacting-with-geth/rpc/pubsub. */
export const evmDialect: Dialect = {
  id: "evm",
  async verify(socket, service) {
    if (service.evmChainId === undefined) return "right";
    const answer = await socket.call("eth_chainId", "[]");
    if (answer.kind !== "result" || typeof answer.value !== "string") return "failed";
    return Number(answer.value) === service.evmChainId ? "right" : "wrong";
  },
  async subscribe(socket, topic) {
    const answer = await socket.call("eth_subscribe", topic.params);
    if (answer.kind === "error") return { kind: "error", raw: answer.raw };
    return answer.kind === "result" && typeof answer.value === "string"
      ? { kind: "ok", handle: answer.value }
      : { kind: "lost" };
  },
  unsubscribe(socket, _topic, handle) {
    void socket.call("eth_unsubscribe", JSON.stringify([handle]));
  },
  event(message) {
    const { method, params } = message.value;
    if (method !== "eth_subscription" || !isRecord(params) || typeof params.subscription !== "string") return undefined;
    const handle = params.subscription;
    if (params.error !== undefined && params.error !== null) return { cancelled: handle };
    const raw = memberText(message, "params", "result");
    return raw === undefined ? undefined : { handle, value: params.result, raw };
  },
  async height(socket) {
    const answer = await socket.call("eth_blockNumber", "[]");
    return answer.kind === "result" ? readQuantity(answer.value) : undefined;
  },
};

/** `subscribe` of CometBFT: https://docs.cometbft.com/v0.38/core/subscription. Events repeat the id of the call. */
export const cometDialect: Dialect = {
  id: "comet",
  async verify(socket, service) {
    // A network with two families names its Cosmos chain in no fixed form.
    if (service.chainId === undefined || service.families.length > 1) return "right";
    const answer = await socket.call("status", "{}");
    if (answer.kind !== "result" || !isRecord(answer.value) || !isRecord(answer.value.node_info)) return "failed";
    return answer.value.node_info.network === service.chainId ? "right" : "wrong";
  },
  async subscribe(socket, topic) {
    const handle = String(socket.nextId);
    const answer = await socket.call("subscribe", topic.params);
    if (answer.kind === "error") return { kind: "error", raw: answer.raw };
    return answer.kind === "result" ? { kind: "ok", handle } : { kind: "lost" };
  },
  unsubscribe(socket, topic) {
    void socket.call("unsubscribe", topic.params);
  },
  event(message) {
    const { id, result, error } = message.value;
    if (typeof id !== "number" && typeof id !== "string") return undefined;
    // Before 0.34 the id had this suffix.
    const handle = String(id).replace(/#event$/, "");
    if (error !== undefined && error !== null) return { cancelled: handle };
    const raw = rawOf(message, "result");
    return raw === undefined ? undefined : { handle, value: result, raw };
  },
  async height(socket) {
    const answer = await socket.call("status", "{}");
    if (answer.kind !== "result" || !isRecord(answer.value) || !isRecord(answer.value.sync_info)) return undefined;
    const { latest_block_height: height } = answer.value.sync_info;
    return typeof height === "string" && DECIMAL.test(height) ? Number(height) : undefined;
  },
};

/** The text of a member of a member, cut out of the message's own bytes. */
function memberText(message: UpstreamMessage, outer: string, inner: string): string | undefined {
  const span = message.members.get(outer);
  if (span === undefined) return undefined;
  const bytes = message.bytes.subarray(span.start, span.end);
  const found = findMembers(bytes)?.get(inner);
  return found === undefined ? undefined : bytes.toString("utf8", found.start, found.end);
}
