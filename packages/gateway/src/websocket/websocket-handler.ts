import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { clientKey, type Metrics, type Random, type RequestId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { SocketDialect, Subscriptions } from "@turnpike/relay";
import { type WebSocket, WebSocketServer } from "ws";
import { refusalAnswer } from "../free/answers.ts";
import type { RpcItem } from "../free/jsonrpc.ts";
import type { Answer } from "../http/answer.ts";
import { InFlightTracker } from "../http/in-flight-tracker.ts";
import type { RequestObserver } from "../http/request-observer.ts";
import { codeAnswer, codeError } from "../http/rpc-answer.ts";
import type { ConsumeEvents, ConsumeQuota } from "../keys/call-quotas.ts";
import { presentedKey } from "../keys/presented.ts";
import { type CallersInFlight, callerOf, TOO_MANY_AT_ONCE } from "../limits/callers-in-flight.ts";
import {
  gatewayRequestsTotal,
  gatewayWebsocketClosedTotal,
  gatewayWebsocketEventsTotal,
  gatewayWebsocketMessagesTotal,
  gatewayWebsocketSubscriptions,
} from "../metrics/gateway-metrics.ts";
import type { WebSocketCounts } from "./counts.ts";
import { createCometFrames, createEvmFrames } from "./frames.ts";
import { cometLocal, evmLocal } from "./methods.ts";
import type { WebSocketLimits } from "./options.ts";
import { PairedConnection } from "./paired-connection.ts";
import { joinTexts, type Reply } from "./reply.ts";
import { SessionSet } from "./session-set.ts";
import { dialectOf, refuseUpgrade, type UpgradeFault, UpgradeRouter, type UpgradeTarget } from "./upgrade.ts";
import type { WebSocketCalls } from "./websocket-calls.ts";
import { type SessionClient, type SessionParts, WebSocketSession } from "./websocket-session.ts";

interface WebSocketHandlerOptions {
  readonly relayDomain: string;
  /** Most header lines of an upgrade. */
  readonly maxHeaders: number;
  readonly limits: WebSocketLimits;
}

/** A WebSocket outlives the configuration that it was opened under: functions return what is in effect now. */
interface WebSocketHandlerModules {
  readonly services: Iterable<Service>;
  readonly subscriptions: Subscriptions;
  readonly relayCalls: WebSocketCalls["relay"];
  readonly consumeQuota: ConsumeQuota;
  readonly consumeEvents: ConsumeEvents;
  readonly inFlight: CallersInFlight;
  /** Longest time that an unanswered call counts as in flight. */
  readonly callTimeoutMs: () => number;
  /** True when upgrades may carry keys of applications. */
  readonly takesKeys: boolean;
  readonly clientIp: (req: IncomingMessage) => string;
  readonly requestId: (req?: IncomingMessage) => RequestId;
  readonly random: Random;
  readonly metrics: Metrics;
  readonly counts: WebSocketCounts;
  readonly observer: Pick<RequestObserver, "onUpgrade">;
}

/** A message may come in so many pieces that they have this many bytes on average: a piece costs as much by itself. */
const MIN_PIECE_BYTES = 256;
const MIN_PIECES = 1_024;

/** An upgrade request that has passed the checks. */
interface Upgrade {
  readonly req: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
  readonly target: UpgradeTarget;
  readonly service: Service;
  readonly clientIp: string;
}

/** Handles WebSockets of the free relay: `wss://{id}.<relayDomain>` and `{gateway}/relay/{id}`. */
export class WebSocketHandler {
  readonly #limits: WebSocketLimits;
  readonly #modules: WebSocketHandlerModules;
  readonly #router: UpgradeRouter;
  readonly #server: WebSocketServer;
  readonly #sessions: SessionSet;
  readonly #upgrades = new InFlightTracker();
  readonly #connecting = new AbortController();
  readonly #evmFrame = createEvmFrames();
  readonly #cometFrame = createCometFrames();
  #isClosing = false;

  constructor(opts: WebSocketHandlerOptions, modules: WebSocketHandlerModules) {
    const { limits } = opts;
    this.#limits = limits;
    this.#modules = modules;
    this.#router = new UpgradeRouter({ ...opts, takesKeys: modules.takesKeys }, modules.services);
    this.#sessions = new SessionSet(limits, modules);
    const maxPieces = Math.max(MIN_PIECES, Math.ceil(limits.maxMessageBytes / MIN_PIECE_BYTES));
    this.#server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: limits.maxMessageBytes,
      maxFragments: maxPieces,
      maxBufferedChunks: maxPieces,
    });
  }

  /** True for an upgrade to WebSocket on a relay host or below `/relay/`: all others are ordinary requests. */
  wants(req: IncomingMessage): boolean {
    const isUpgrade = req.method === "GET" && req.headers.upgrade?.toLowerCase() === "websocket";
    return isUpgrade && this.#router.targetOf(req) !== undefined;
  }

  /** Upgrades a request, or refuses it with a JSON-RPC error. */
  handleUpgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => socket.destroy());
    const { clientIp: clientIpOf, counts } = this.#modules;
    const target = this.#router.targetOf(req);
    const fault: UpgradeFault | undefined = target === undefined ? { code: "NOT_FOUND" } : this.#faultOf(req, target);
    const service = target?.service;
    if (fault !== undefined || target === undefined || service === undefined) {
      const { code, ...change } = fault ?? { code: "NOT_FOUND" as const };
      this.#refuse(req, socket, service, codeAnswer("null", code, change));
      return;
    }
    const clientIp = clientIpOf(req);
    const release = counts.acquire(clientKey(clientIp), this.#limits.maxPerClient);
    if (release === undefined) {
      const message = "This client has as many WebSockets as it may have.";
      this.#refuse(req, socket, service, codeAnswer("null", "RATE_LIMITED", { message }));
      return;
    }
    socket.once("close", release);
    const upgrading = this.#upgrade({ req, socket, head, target, service, clientIp }).catch(() => {
      this.#refuse(req, socket, service, codeAnswer("null", "INTERNAL"));
    });
    this.#upgrades.track(upgrading);
  }

  /** Refuses upgrades, lets messages that are being processed be answered within the time, and closes all by the reason. */
  async close(timeoutMs: number, reason: "stopping" | "reloaded" = "stopping"): Promise<void> {
    if (this.#isClosing) return;
    // New upgrades go to another handler, so those that are on their way here need not be refused.
    if (reason === "reloaded") await this.#upgrades.drained(timeoutMs);
    this.#isClosing = true;
    this.#connecting.abort();
    await this.#sessions.close(timeoutMs, reason);
  }

  #faultOf(req: IncomingMessage, target: UpgradeTarget): UpgradeFault | undefined {
    const { subscriptions, counts } = this.#modules;
    const offers = ({ id }: Service): boolean => subscriptions.offers(id);
    const fault = this.#router.faultOf(req, target, offers);
    if (fault !== undefined) return fault;
    if (this.#isClosing) return { code: "SHUTTING_DOWN" };
    if (target.service !== undefined && !offers(target.service)) return { code: "NO_SUPPLIERS" };
    return counts.open >= this.#limits.max ? { code: "OVERLOADED" } : undefined;
  }

  #refuse(req: IncomingMessage, socket: Duplex, service: Service | undefined, answer: Answer): void {
    const { requestId: requestIdOf, metrics, observer } = this.#modules;
    const label = service?.id ?? "unknown";
    const { status, result, body } = answer;
    const requestId = requestIdOf(req);
    metrics.count(gatewayRequestsTotal, { door: "free", service: label, status: String(status), result });
    refuseUpgrade(socket, answer, requestId);
    observer.onUpgrade(req, requestId, label, { status, result, bytes: body.length });
  }

  /** The part of an upgrade that takes time: its quota, and a supplier's WebSocket where each client has its own. */
  async #upgrade(upgrade: Upgrade): Promise<void> {
    const { req, socket, head, target, service, clientIp } = upgrade;
    const { consumeQuota, takesKeys, inFlight, subscriptions } = this.#modules;
    const refuse = (answer: Answer): void => this.#refuse(req, socket, service, answer);
    const key = takesKeys ? presentedKey(req, target.key) : undefined;
    const caller = callerOf(key, clientIp);
    const verdict = await consumeQuota({ key, clientIp, serviceId: service.id, items: 1 });
    if (!verdict.ok) {
      refuse(refusalAnswer("null", verdict));
      return;
    }
    const dialect = dialectOf(service, target.path) ?? "evm";
    let paired: PairedConnection | undefined;
    if (dialect === "pair") {
      const { maxQueuedBytes } = this.#limits;
      paired = new PairedConnection({ service, maxQueuedBytes }, { acquire: () => inFlight.acquire(caller) });
      if (!(await paired.open(subscriptions, this.#connecting.signal))) {
        refuse(codeAnswer("null", this.#isClosing ? "SHUTTING_DOWN" : "SUPPLIERS_UNREACHABLE"));
        return;
      }
    }
    if (socket.destroyed || this.#isClosing) {
      paired?.close();
      if (this.#isClosing) refuse(codeAnswer("null", "SHUTTING_DOWN"));
      return;
    }
    let isUpgraded = false;
    this.#server.handleUpgrade(req, socket, head, (opened) => {
      isUpgraded = true;
      this.#begin(opened, upgrade, { service, clientIp, key, paired }, dialect);
    });
    // ws does not call back for an upgrade that it refuses, or whose client has left.
    if (!isUpgraded) paired?.close();
  }

  #begin(opened: WebSocket, { req, socket }: Upgrade, client: SessionClient, dialect: SocketDialect): void {
    const { observer, requestId } = this.#modules;
    const { service, paired } = client;
    const session = new WebSocketSession(opened, client, this.#partsOf(client, dialect));
    if (paired !== undefined) paired.client = session;
    observer.onUpgrade(req, requestId(req), service.id, { status: 101, result: "ok", bytes: 0 });
    this.#sessions.add(session, opened, socket);
    if (paired?.isOpen === false) session.drop("supplier");
  }

  #partsOf({ service, clientIp, key, paired }: SessionClient, dialect: SocketDialect): SessionParts {
    const { consumeQuota, inFlight, relayCalls, subscriptions, random, metrics, counts } = this.#modules;
    const label = { service: service.id };
    const caller = callerOf(key, clientIp);
    const callingSocket = { service, dialect: dialect === "comet" ? "comet" : "evm", client: caller } as const;
    return {
      limits: this.#limits,
      frame: dialect === "comet" ? this.#cometFrame : this.#evmFrame,
      consumeQuota: (items) => consumeQuota({ key, clientIp, serviceId: service.id, items }),
      async relay(items, isBatch) {
        const reply = await inFlight.run(caller, () => relayCalls(callingSocket, items, isBatch));
        return reply ?? tooManyAtOnce(items, isBatch);
      },
      answerLocally(session, item, afterReply, isBatch) {
        if (paired !== undefined) return paired.send(item, isBatch);
        return dialect === "comet"
          ? cometLocal(session, item, afterReply)
          : evmLocal(session, item, afterReply, random);
      },
      subscribe: (topic, listener) => subscriptions.subscribe(service.id, topic, listener),
      onReply: (result) => metrics.count(gatewayWebsocketMessagesTotal, { ...label, result }),
      onEvent: () => metrics.count(gatewayWebsocketEventsTotal, label),
      onSubscriptions: (change) => counts.add(gatewayWebsocketSubscriptions, service.id, change),
      onClosed(reason) {
        metrics.count(gatewayWebsocketClosedTotal, { ...label, reason });
        paired?.close();
      },
    };
  }
}

/** An error for each call of a message whose client has too many in flight. */
function tooManyAtOnce(items: readonly RpcItem[], isBatch: boolean): Reply {
  const calls = items.filter((item) => item.kind !== "notification");
  const texts = calls.map(({ id }) => codeError(id, "RATE_LIMITED", TOO_MANY_AT_ONCE));
  return { body: joinTexts(texts, isBatch), result: "RATE_LIMITED" };
}
