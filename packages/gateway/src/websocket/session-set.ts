import type { Duplex } from "node:stream";
import type { WebSocket } from "ws";
import { InFlightTracker } from "../http/in-flight-tracker.ts";
import type { ConsumeEvents } from "../keys/call-quotas.ts";
import { gatewayWebsocketConnections } from "../metrics/gateway-metrics.ts";
import type { WebSocketCounts } from "./counts.ts";
import type { WebSocketLimits } from "./options.ts";
import type { WebSocketSession } from "./websocket-session.ts";

/** Rounds of checks between two pings of a client. Its clients are spread over them, so that not all are pinged at once. */
const PING_TICKS = 30;
/** So many events of a client without a key are counted at the next tick, fewer within a round of pings. */
const EVENTS_AT_ONCE = 100;

interface SessionSetModules {
  readonly consumeEvents: ConsumeEvents;
  /** Longest time that an unanswered call counts as in flight. */
  readonly callTimeoutMs: () => number;
  readonly counts: WebSocketCounts;
}

/**
 * The open WebSockets. A timer pings them, counts their events, and ends those that are silent, slow, over their quota, or
 * hold the most when all of them together hold too much.
 */
export class SessionSet {
  readonly #limits: WebSocketLimits;
  readonly #modules: SessionSetModules;
  readonly #sessions = new Set<WebSocketSession>();
  readonly #open = new InFlightTracker();
  readonly #pingGroups: readonly Set<WebSocketSession>[] = Array.from({ length: PING_TICKS }, () => new Set());
  readonly #tickMs: number;
  readonly #timer: NodeJS.Timeout;
  #tick = 0;
  #nextGroup = 0;

  constructor(limits: WebSocketLimits, modules: SessionSetModules) {
    this.#limits = limits;
    this.#modules = modules;
    this.#tickMs = limits.pingIntervalMs / PING_TICKS;
    this.#timer = setInterval(() => this.#onTick(), this.#tickMs);
    this.#timer.unref();
  }

  /** Serves a session until its socket closes. `stream` is what the socket reads from. */
  add(session: WebSocketSession, socket: WebSocket, stream: Duplex): void {
    const { counts } = this.#modules;
    const group = this.#pingGroups[this.#nextGroup++ % PING_TICKS];
    this.#sessions.add(session);
    this.#open.begin();
    group?.add(session);
    counts.add(gatewayWebsocketConnections, session.client.service.id, 1);
    socket.on("message", (data: Buffer) => session.receive(data));
    stream.on("data", (chunk: Buffer) => session.readChunk(chunk));
    socket.on("pong", () => {
      session.isAlive = true;
    });
    // A fault of the protocol is answered by a close frame of its own; an error without listener would end the process.
    socket.on("error", () => {});
    socket.on("close", () => {
      session.onSocketClosed();
      void this.#countEvents(session);
      this.#sessions.delete(session);
      group?.delete(session);
      counts.add(gatewayWebsocketConnections, session.client.service.id, -1);
      this.#open.end();
    });
  }

  /** Answers the messages that are being processed within the time, then closes all for the reason. */
  async close(timeoutMs: number, reason: "stopping" | "reloaded"): Promise<void> {
    clearInterval(this.#timer);
    for (const session of this.#sessions) session.pause();
    await within(Promise.all([...this.#sessions].map((session) => session.settled())), timeoutMs);
    for (const session of this.#sessions) session.drop(reason);
    await this.#open.drained(this.#limits.closeTimeoutMs + 500);
  }

  #onTick(): void {
    const group = this.#pingGroups[this.#tick % PING_TICKS];
    for (const session of group ?? []) session.ping();
    this.#tick++;
    const maxMessageTicks = Math.ceil(this.#limits.messageTimeoutMs / this.#tickMs);
    const maxCallTicks = Math.ceil(this.#modules.callTimeoutMs() / this.#tickMs);
    for (const session of this.#sessions) {
      session.checkAge(maxMessageTicks);
      const { key, paired } = session.client;
      paired?.tick(maxCallTicks);
      // Of a client without a key they may count in a store that processes share: not for each block of each client.
      const isDue = key !== undefined || session.events >= EVENTS_AT_ONCE || group?.has(session) === true;
      if (isDue) void this.#countEvents(session);
    }
    for (const session of this.#overTotal((one) => one.queuedBytes)) session.drop("slow");
    for (const session of this.#overTotal((one) => one.unfinishedBytes)) session.terminate("unfinished");
  }

  /** Counts a session's events; when the quota or limit is used up, or its key is deleted, it ends. */
  async #countEvents(session: WebSocketSession): Promise<void> {
    const items = session.drainEvents();
    if (items === 0) return;
    const { key, clientIp, service } = session.client;
    const areWithin = await this.#modules.consumeEvents({ key, clientIp, serviceId: service.id, items });
    if (!areWithin) session.drop(key === undefined ? "limit" : "quota");
  }

  /** The sessions that hold the most, so many that the others together hold no more than the total. */
  #overTotal(bytesOf: (session: WebSocketSession) => number): WebSocketSession[] {
    const { maxTotalQueuedBytes } = this.#limits;
    let bytes = 0;
    for (const session of this.#sessions) bytes += bytesOf(session);
    if (bytes <= maxTotalQueuedBytes) return [];
    const over: WebSocketSession[] = [];
    for (const session of [...this.#sessions].sort((a, b) => bytesOf(b) - bytesOf(a))) {
      if (bytes <= maxTotalQueuedBytes) break;
      bytes -= bytesOf(session);
      over.push(session);
    }
    return over;
  }
}

async function within(work: Promise<unknown>, timeoutMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, timeoutMs);
  await Promise.race([work, promise]);
  clearTimeout(timer);
}
