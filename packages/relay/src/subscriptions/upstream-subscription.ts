import { hash } from "node:crypto";
import { DeliveredLogs } from "./delivered-logs.ts";
import type { EndReason, SubscribeResult, SubscriptionListener, Topic } from "./types.ts";

const KEPT_DIGESTS = 512;

/** One subscription at a supplier, and its listeners. */
export class UpstreamSubscription {
  readonly topic: Topic;
  /** With each listener the height at which it joined; what is replayed from before is not for it. */
  readonly listeners = new Map<SubscriptionListener, number>();
  readonly logs: DeliveredLogs | undefined;
  readonly #digests = new Map<string, number>();
  /** True once a supplier has taken the subscription: from then on it is moved to the next one. */
  isActive = false;
  /** Logs: events up to this height are from before the subscription. */
  sinceBlock = -1;
  ready: Promise<Exclude<SubscribeResult, { ok: true }> | undefined> = Promise.resolve(undefined);

  constructor(topic: Topic) {
    this.topic = topic;
    this.logs = topic.replay === "logs" ? new DeliveredLogs() : undefined;
  }

  /** Sends one event to all listeners; with a height, to those that had joined before it. */
  emit(raw: string, height?: number): void {
    const event = { raw };
    for (const [listener, joined] of this.listeners) {
      if (height === undefined || height > joined) listener.event(event);
    }
  }

  /** False for an event that came over an earlier socket too: the new supplier is a little behind. */
  isFresh(raw: string, generation: number): boolean {
    const digest = hash("sha1", raw, "base64");
    const known = this.#digests.get(digest);
    this.#digests.delete(digest);
    this.#digests.set(digest, generation);
    if (this.#digests.size > KEPT_DIGESTS) {
      for (const oldest of this.#digests.keys()) {
        this.#digests.delete(oldest);
        break;
      }
    }
    return known === undefined || known === generation;
  }

  /** Ends it for all listeners. */
  end(reason: EndReason): void {
    const listeners = [...this.listeners.keys()];
    this.listeners.clear();
    for (const listener of listeners) listener.ended(reason);
  }
}
