import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { clientKey, type ErrorCode, type Metrics, type Random, type RequestId } from "@turnpike/base";
import type { FamilyId, Service } from "@turnpike/catalogue";
import type { PairedSocket, SocketDialect, Subscriptions } from "@turnpike/relay";
import { type WebSocket, WebSocketServer } from "ws";
import { NOT_FREE, refusalAnswer } from "../free/answers.ts";
import type { RpcItem } from "../free/jsonrpc.ts";
import type { Answer } from "../http/answer.ts";
import { headFault } from "../http/request.ts";
import type { RequestObserver } from "../http/request-observer.ts";
import { codeAnswer, codeError } from "../http/rpc-answer.ts";
import { hostName, parseTarget, type Target } from "../http/target.ts";
import type { ConsumeEvents, ConsumeQuota } from "../keys/consume-quota.ts";
import { presentedKey, relayPlace } from "../keys/presented.ts";
import { callerOf } from "../limits/caller.ts";
import { type CallersInFlight, TOO_MANY_AT_ONCE } from "../limits/callers-in-flight.ts";
import {
  requestsTotal,
  webSocketClosed,
  webSocketConnections,
  webSocketEvents,
  webSocketMessages,
  webSocketSubscriptions,
} from "../metrics/gateway-metrics.ts";
import type { SocketCalls } from "./calls.ts";
import type { SocketCounts } from "./counts.ts";
import { createCometFrames, createEvmFrames } from "./frames.ts";
import { cometLocal, evmLocal } from "./methods.ts";
import type { WebSocketLimits } from "./options.ts";
import { pairLocal } from "./pair.ts";
import { PairedCalls } from "./paired-calls.ts";
import { refuseUpgrade } from "./refuse.ts";
import { joined, type Reply, Session, type SessionParts } from "./session.ts";

/** Options of {@link createWebSocketDoor}. */
export interface WebSocketDoorOptions {
  readonly relayDomain: string;
  /** Most header lines of an upgrade. */
  readonly maxHeaders: number;
  readonly limits: WebSocketLimits;
}

/** What {@link createWebSocketDoor} works with. */
export interface WebSocketDoorModules {
  readonly services: Iterable<Service>;
  readonly subscriptions: Subscriptions;
  readonly calls: SocketCalls;
  readonly take: ConsumeQuota;
  readonly consumeEvents: ConsumeEvents;
  readonly inFlight: CallersInFlight;
  /** Longest time that an unanswered call counts as in flight. */
  readonly callTimeoutMs: () => number;
  /** True when upgrades may carry keys of applications. */
  readonly takesKeys: boolean;
  /** Address of the client. */
  readonly clientIp: (req: IncomingMessage) => string;
  readonly requestId: (req?: IncomingMessage) => RequestId;
  readonly random: Random;
  readonly metrics: Metrics;
  readonly counts: SocketCounts;
  readonly observer: Pick<RequestObserver, "onUpgrade">;
}

/** The free relay's door for WebSockets. */
export interface WebSocketDoor {
  /** True for an upgrade to WebSocket on a relay host or below `/relay/`: all others are ordinary requests. */
  wants(req: IncomingMessage): boolean;
  /** Takes an upgrade, or refuses it with a JSON-RPC error. */
  handleUpgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Refuses upgrades, lets messages that are worked on be answered within the time, and closes all by the reason. */
  close(timeoutMs: number, reason?: "stopping" | "reloaded"): Promise<void>;
}

/** Where an upgrade leads. */
interface Place {
  readonly target: Target;
  readonly service: Service | undefined;
  /** Raw path after the service. */
  readonly path: string;
  /** Of an application, as it stood in the path. */
  readonly key?: string | undefined;
}

type Refused = { readonly code: ErrorCode; readonly message?: string; readonly headers?: readonly string[] };

const KEY = /^[+/0-9A-Za-z]{22}==$/;
/** Families whose nodes have WebSockets. */
const CAPABLE: ReadonlySet<FamilyId> = new Set(["evm", "cosmos", "solana", "sui"]);
const PING_TICKS = 30;
/** So many events of a client without a key are counted at the next tick, fewer within a round of pings. */
const EVENTS_AT_ONCE = 100;
/** A message may come in so many pieces that they have this many bytes on average: a piece costs as much by itself. */
const MIN_PIECE_BYTES = 256;
const MIN_PIECES = 1_024;
/** RFC 6455 §4.1: names that are tokens, each only once. */
const PROTOCOL = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const EVM_PATHS = new Set(["", "/", "/ws"]);

/** How the WebSocket at a path of a service is spoken to; undefined where there is none. */
function dialectOf(service: Service, path: string): SocketDialect | undefined {
  const { families } = service;
  if (families.includes("cosmos") && (path === "/websocket" || (!families.includes("evm") && path.length < 2))) {
    return "comet";
  }
  if (families.includes("evm")) return EVM_PATHS.has(path) ? "evm" : undefined;
  return path.length < 2 && !families.includes("cosmos") ? "pair" : undefined;
}

/** True for a `Sec-WebSocket-Protocol` that can be read. */
function isProtocols(header: string): boolean {
  const names = header.split(",").map((name) => name.replace(/^[ \t]+|[ \t]+$/g, ""));
  return names.every((name) => PROTOCOL.test(name)) && new Set(names).size === names.length;
}

/** The door of the free relay for WebSockets: `wss://{id}.<relayDomain>` and `{gateway}/relay/{id}`. */
export function createWebSocketDoor(opts: WebSocketDoorOptions, modules: WebSocketDoorModules): WebSocketDoor {
  const { subscriptions, calls, metrics, random, counts, inFlight } = modules;
  const { byClient } = counts;
  const { limits, maxHeaders } = opts;
  const suffix = `.${opts.relayDomain.toLowerCase()}`;
  const services = new Map<string, Service>();
  for (const service of modules.services) {
    if (service.free && service.families.length > 0) services.set(service.id, service);
  }
  const evmFrame = createEvmFrames();
  const cometFrame = createCometFrames();
  const maxPieces = Math.max(MIN_PIECES, Math.ceil(limits.maxMessageBytes / MIN_PIECE_BYTES));
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: limits.maxMessageBytes,
    maxFragments: maxPieces,
    maxBufferedChunks: maxPieces,
  });
  const sessions = new Set<Session>();
  const upgrades = new Set<Promise<void>>();
  /** Keys of applications. */
  const keys = new WeakMap<Session, string>();
  /** Calls in flight of those that have a supplier's WebSocket of their own. */
  const pairs = new WeakMap<Session, PairedCalls>();
  const groups: Set<Session>[] = Array.from({ length: PING_TICKS }, () => new Set());
  let tick = 0;
  let nextGroup = 0;
  let isClosing = false;
  let emptied: (() => void) | undefined;
  const opening = new AbortController();

  const tickMs = limits.pingIntervalMs / PING_TICKS;
  const maxMessageTicks = Math.ceil(limits.messageTimeoutMs / tickMs);

  /** Sessions that must end so that the others together hold no more than the total: those that hold the most. */
  const tooMany = (bytesOf: (session: Session) => number): Session[] => {
    let bytes = 0;
    for (const session of sessions) bytes += bytesOf(session);
    if (bytes <= limits.maxTotalQueuedBytes) return [];
    const found: Session[] = [];
    for (const session of [...sessions].sort((a, b) => bytesOf(b) - bytesOf(a))) {
      if (bytes <= limits.maxTotalQueuedBytes) break;
      bytes -= bytesOf(session);
      found.push(session);
    }
    return found;
  };

  /** Counts a session's events; when what they count against is used, or its key is gone, it ends. */
  const countEvents = async (session: Session): Promise<void> => {
    const items = session.drainEvents();
    if (items === 0) return;
    const key = keys.get(session);
    const { clientIp, service } = session;
    const areWithin = await modules.consumeEvents({ key, clientIp, serviceId: service.id, items });
    if (!areWithin) session.drop(key === undefined ? "limit" : "quota");
  };

  const timer = setInterval(() => {
    const group = groups[tick % PING_TICKS];
    for (const session of group ?? []) session.ping();
    tick++;
    for (const session of sessions) {
      session.checkAge(maxMessageTicks);
      pairs.get(session)?.tick(Math.ceil(modules.callTimeoutMs() / tickMs));
      // Of a client without a key they may count in a store that processes share: not for each block of each client.
      const isDue = keys.has(session) || session.events >= EVENTS_AT_ONCE || group?.has(session) === true;
      if (isDue) void countEvents(session);
    }
    for (const session of tooMany((one) => one.queuedBytes)) session.drop("slow");
    for (const session of tooMany((one) => one.unfinishedBytes)) session.terminate("unfinished");
  }, tickMs);
  timer.unref();

  const placeOf = (req: IncomingMessage): Place | undefined => {
    const target = parseTarget(req.url ?? "");
    if (target === undefined) return undefined;
    const host = hostName(target.authority ?? req.headers.host ?? "");
    if (host.endsWith(suffix)) {
      return { target, service: services.get(host.slice(0, -suffix.length)), path: target.path };
    }
    const place = relayPlace(target.path, modules.takesKeys);
    return place === undefined ? undefined : { ...place, target, service: services.get(place.id) };
  };

  const faultOf = (req: IncomingMessage, { target, service, path }: Place): Refused | undefined => {
    const code = headFault({ req, target }, maxHeaders);
    if (code !== undefined) return { code };
    if (service === undefined) return { code: "UNKNOWN_SERVICE", message: NOT_FREE };
    const version = req.headers["sec-websocket-version"];
    if (!KEY.test(req.headers["sec-websocket-key"] ?? "") || (version !== "13" && version !== "8")) {
      const headers = ["Sec-WebSocket-Version", "13, 8"];
      return { code: "MALFORMED_REQUEST", message: "This is no upgrade to a WebSocket.", headers };
    }
    const protocols = req.headers["sec-websocket-protocol"];
    if (protocols !== undefined && !isProtocols(protocols)) {
      return { code: "MALFORMED_REQUEST", message: "`Sec-WebSocket-Protocol` cannot be read." };
    }
    const offers = subscriptions.offers(service.id);
    if (!offers && !service.families.some((family) => CAPABLE.has(family))) {
      return { code: "MALFORMED_REQUEST", message: "This service has no WebSocket." };
    }
    if (dialectOf(service, path) === undefined) return { code: "NOT_FOUND" };
    if (isClosing) return { code: "SHUTTING_DOWN" };
    if (!offers) return { code: "NO_SUPPLIERS" };
    return counts.taken >= limits.maxWebSockets ? { code: "OVERLOADED" } : undefined;
  };

  const refuse = (req: IncomingMessage, socket: Duplex, place: Place | undefined, answer: Answer): void => {
    const service = place?.service?.id ?? "unknown";
    const { status, result, body } = answer;
    const requestId = modules.requestId(req);
    metrics.count(requestsTotal, { door: "free", service, status: String(status), result });
    refuseUpgrade(socket, answer, requestId);
    modules.observer.onUpgrade(req, requestId, service, { status, result, bytes: body.length });
  };

  const partsOf = (
    service: Service,
    take: SessionParts["take"],
    dialect: SocketDialect,
    pair: PairSlot,
    client: string,
  ): SessionParts => {
    const label = { service: service.id };
    return {
      limits,
      frame: dialect === "comet" ? cometFrame : evmFrame,
      take,
      async relay(items, isBatch) {
        const spoken = dialect === "comet" ? "comet" : "evm";
        const reply = await inFlight.run(client, () => calls({ service, dialect: spoken, client }, items, isBatch));
        return reply ?? refusedReply(items, isBatch);
      },
      local: (session, item, after, isBatch) => {
        if (dialect === "comet") return cometLocal(session, item, after);
        if (dialect === "evm") return evmLocal(session, item, after, random);
        const { paired, calls } = pair;
        const { maxQueuedBytes } = limits;
        return paired && pairLocal(session, item, isBatch, { service, paired, calls, maxQueuedBytes });
      },
      subscribe: (topic, listener) => subscriptions.subscribe(service.id, topic, listener),
      message: (result) => metrics.count(webSocketMessages, { ...label, result }),
      sent: (events) => metrics.count(webSocketEvents, label, events),
      subscriptions: (by) => counts.add(webSocketSubscriptions, service.id, by),
      closed: (reason) => {
        metrics.count(webSocketClosed, { ...label, reason });
        pair.calls.end();
        pair.paired?.close();
      },
    };
  };

  const begin = (socket: WebSocket, wire: Duplex, session: Session): void => {
    const group = groups[nextGroup++ % PING_TICKS];
    sessions.add(session);
    group?.add(session);
    counts.add(webSocketConnections, session.service.id, 1);
    socket.on("message", (data: Buffer) => session.receive(data));
    wire.on("data", (chunk: Buffer) => session.see(chunk));
    socket.on("pong", () => {
      session.isAlive = true;
    });
    // A fault of the protocol is answered by a close frame of its own; an error without listener would end the process.
    socket.on("error", () => {});
    socket.on("close", () => {
      session.gone();
      void countEvents(session);
      sessions.delete(session);
      group?.delete(session);
      counts.add(webSocketConnections, session.service.id, -1);
      if (sessions.size === 0) emptied?.();
    });
  };

  /** After the checks: what takes time, with the place already taken. */
  const upgrade = async (
    req: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    place: Place & { readonly service: Service },
    clientIp: string,
  ): Promise<void> => {
    const { service, path } = place;
    const dialect = dialectOf(service, path) ?? "evm";
    const key = modules.takesKeys ? presentedKey(req, place.key) : undefined;
    const caller = callerOf(key, clientIp);
    const take: SessionParts["take"] = (items) => modules.take({ key, clientIp, serviceId: service.id, items });
    const verdict = await take(1);
    if (!verdict.ok) {
      refuse(req, socket, place, refusalAnswer("null", verdict));
      return;
    }
    const pairCalls = new PairedCalls(() => inFlight.acquire(caller));
    const pair: PairSlot = { paired: undefined, session: undefined, calls: pairCalls };
    if (dialect === "pair") {
      const handlers = {
        message: (bytes: Buffer) => pair.session?.forward(bytes, !pairCalls.answered(bytes)),
        lost: () => {
          pair.paired = undefined;
          pair.session?.drop("supplier");
        },
      };
      pair.paired = await subscriptions.pair(service.id, handlers, opening.signal);
      if (pair.paired === undefined) {
        refuse(req, socket, place, codeAnswer("null", isClosing ? "SHUTTING_DOWN" : "SUPPLIERS_UNREACHABLE"));
        return;
      }
    }
    if (socket.destroyed || isClosing) {
      pair.paired?.close();
      if (isClosing) refuse(req, socket, place, codeAnswer("null", "SHUTTING_DOWN"));
      return;
    }
    let isTaken = false;
    server.handleUpgrade(req, socket, head, (opened) => {
      isTaken = true;
      const session = new Session(opened, service, clientIp, partsOf(service, take, dialect, pair, caller));
      if (key !== undefined) keys.set(session, key);
      if (dialect === "pair") pairs.set(session, pairCalls);
      pair.session = session;
      modules.observer.onUpgrade(req, modules.requestId(req), service.id, { status: 101, result: "ok", bytes: 0 });
      begin(opened, socket, session);
      if (dialect === "pair" && pair.paired === undefined) session.drop("supplier");
    });
    // An upgrade that ws refuses, or whose client has left, is not called back.
    if (!isTaken) pair.paired?.close();
  };

  return {
    wants: (req) =>
      req.method === "GET" && req.headers.upgrade?.toLowerCase() === "websocket" && placeOf(req) !== undefined,

    handleUpgrade(req, socket, head) {
      socket.on("error", () => socket.destroy());
      const place = placeOf(req);
      const fault: Refused | undefined = place === undefined ? { code: "NOT_FOUND" } : faultOf(req, place);
      const service = place?.service;
      if (fault !== undefined || place === undefined || service === undefined) {
        const { code, ...change } = fault ?? { code: "NOT_FOUND" as const };
        refuse(req, socket, place, codeAnswer("null", code, change));
        return;
      }
      const clientIp = modules.clientIp(req);
      const client = clientKey(clientIp);
      const own = (byClient.get(client) ?? 0) + 1;
      if (own > limits.maxWebSocketsPerClient) {
        const message = "This client has as many WebSockets as it may have.";
        refuse(req, socket, place, codeAnswer("null", "RATE_LIMITED", { message }));
        return;
      }
      byClient.set(client, own);
      counts.taken++;
      socket.once("close", () => {
        counts.taken--;
        const left = (byClient.get(client) ?? 1) - 1;
        if (left === 0) byClient.delete(client);
        else byClient.set(client, left);
      });
      const upgrading = upgrade(req, socket, head, { ...place, service }, clientIp).catch(() => {
        refuse(req, socket, place, codeAnswer("null", "INTERNAL"));
      });
      upgrades.add(upgrading);
      void upgrading.finally(() => upgrades.delete(upgrading));
    },

    async close(timeoutMs, reason = "stopping") {
      if (isClosing) return;
      // New upgrades go to another door, so those that are on their way here need not be refused.
      if (reason === "reloaded") await within(Promise.all(upgrades), timeoutMs);
      isClosing = true;
      clearInterval(timer);
      opening.abort();
      for (const session of sessions) session.pause();
      await within(Promise.all([...sessions].map((session) => session.settled())), timeoutMs);
      const gone = new Promise<void>((resolve) => {
        emptied = resolve;
      });
      for (const session of sessions) session.drop(reason);
      if (sessions.size > 0) await within(gone, limits.closeTimeoutMs + 500);
    },
  };
}

/** What each call of a message gets when its client has too many under way. */
function refusedReply(items: readonly RpcItem[], isBatch: boolean): Reply {
  const calls = items.filter((item) => item.kind !== "notification");
  const texts = calls.map(({ id }) => codeError(id, "RATE_LIMITED", TOO_MANY_AT_ONCE));
  return { body: joined(texts, isBatch), result: "RATE_LIMITED" };
}

interface PairSlot {
  paired: PairedSocket | undefined;
  session: Session | undefined;
  readonly calls: PairedCalls;
}

async function within(work: Promise<unknown>, timeoutMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, timeoutMs);
  await Promise.race([work, promise]);
  clearTimeout(timer);
}
