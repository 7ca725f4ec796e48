import {
  type Bus,
  type BusListener,
  BusListeners,
  type Clock,
  isRecord,
  type Log,
  MAX_BUS_MESSAGE_BYTES,
  type Metrics,
  systemClock,
} from "@turnpike/base";
import { gatewayBusMessagesTotal, gatewayBusUp } from "../metrics/gateway-metrics.ts";
import {
  CONNECT_TIMEOUT_MS,
  createRedisClient,
  destroyRedisClient,
  ReconnectLoop,
  type RedisClient,
  within,
} from "./redis-connection.ts";

interface RedisBusModules {
  readonly log: Log;
  readonly metrics: Metrics;
  /** For how long ago the process received its own heartbeat; the machine's by default. */
  readonly clock?: Pick<Clock, "monotonicMs">;
}

interface RedisBusOptions {
  /** `redis://` or `rediss://`. */
  readonly url: string;
  /** Start of the channel's name. */
  readonly keyPrefix: string;
  /** Id of this process. */
  readonly id: string;
  /** Processes of one group have another bus between them, and ignore each other's messages here. Undefined: none. */
  readonly group?: string;
  /** Longest time for a heartbeat to come back to this process. */
  readonly timeoutMs: number;
}

const HEARTBEAT_MS = 2_000;
/** Messages that may wait for Redis; more are dropped. */
const MAX_WAITING = 1_000;
/** A message with its envelope. */
const MAX_TEXT = MAX_BUS_MESSAGE_BYTES + 2_048;
const MAX_ID = 128;

/** Two clients: one that subscribes cannot publish. */
interface Connection {
  readonly publisher: RedisClient;
  readonly subscriber: RedisClient;
  /** When the last heartbeat came back, in monotonic milliseconds. */
  heartbeatMs: number;
  waiting: number;
}

interface Envelope {
  readonly from: string;
  readonly group: string | undefined;
  readonly channel: string;
  readonly message: unknown;
}

function readEnvelope(text: string): Envelope | undefined {
  if (text.length > MAX_TEXT) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (!isRecord(value) || typeof value.from !== "string" || typeof value.channel !== "string") return undefined;
    if (value.from.length > MAX_ID || value.channel.length > MAX_ID) return undefined;
    const group = typeof value.group === "string" ? value.group : undefined;
    return { from: value.from, group, channel: value.channel, message: value.message };
  } catch {
    return undefined;
  }
}

/**
 * A {@link Bus} through one Redis (5 or newer). It connects in the background; while Redis is away, messages are dropped and
 * counted without waiting. The process receives its own heartbeats, so that a Redis that hangs is detected.
 */
export class RedisBus implements Bus, AsyncDisposable {
  readonly id: string;
  readonly #opts: RedisBusOptions;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #topic: string;
  readonly #listeners: BusListeners;
  readonly #loop: ReconnectLoop;
  readonly #heartbeats: NodeJS.Timeout;
  #connection: Connection | undefined;

  constructor(opts: RedisBusOptions, modules: RedisBusModules) {
    const { log, metrics, clock = systemClock } = modules;
    this.id = opts.id;
    this.#opts = opts;
    this.#log = log;
    this.#metrics = metrics;
    this.#clock = clock;
    this.#topic = `${opts.keyPrefix}:bus`;
    this.#listeners = new BusListeners((error) => log.error({ error: String(error) }, "a message could not be used"));
    metrics.set(gatewayBusUp, 0);
    this.#loop = new ReconnectLoop(() => this.#connect());
    this.#heartbeats = setInterval(() => this.#heartbeat(), HEARTBEAT_MS);
    this.#heartbeats.unref();
  }

  /** False while nothing is sent or received. */
  isUp(): boolean {
    return this.#connection !== undefined;
  }

  publish(channel: string, message: unknown): void {
    const { id, group } = this.#opts;
    const from = { from: id, ...(group === undefined ? {} : { group }) };
    const text = JSON.stringify({ ...from, channel, message });
    const fits = text.length <= MAX_TEXT;
    const connection = this.#connection;
    if (connection === undefined || connection.waiting >= MAX_WAITING || !fits) {
      this.#metrics.count(gatewayBusMessagesTotal, { outcome: "dropped" });
      if (!fits) this.#log.error({ channel }, "a message to other processes is too large");
      return;
    }
    this.#metrics.count(gatewayBusMessagesTotal, { outcome: "sent" });
    this.#send(connection, text);
  }

  subscribe(channel: string, listener: BusListener): () => void {
    return this.#listeners.subscribe(channel, listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#heartbeats);
    const stopped = this.#loop.stop();
    if (this.#connection !== undefined) this.#onLost(this.#connection);
    await stopped;
  }

  async #connect(): Promise<boolean> {
    const client = (): Promise<RedisClient> => createRedisClient(this.#opts.url, "turnpike-bus", MAX_WAITING);
    const [publisher, subscriber] = await Promise.all([client(), client()]);
    const connection: Connection = { publisher, subscriber, heartbeatMs: this.#clock.monotonicMs(), waiting: 0 };
    for (const each of [publisher, subscriber]) {
      each.on("error", () => this.#onLost(connection));
      each.on("end", () => this.#onLost(connection));
    }
    const opening = (async () => {
      await Promise.all([publisher.connect(), subscriber.connect()]);
      await subscriber.subscribe(this.#topic, (text) => this.#receive(connection, text));
      return true;
    })().catch(() => undefined);
    if ((await within(opening, CONNECT_TIMEOUT_MS)) === undefined || this.#loop.isStopped) {
      destroy(connection);
      this.#log.debug({}, "Redis cannot be reached");
      return false;
    }
    connection.heartbeatMs = this.#clock.monotonicMs();
    this.#connection = connection;
    this.#loop.resetBackoff();
    this.#metrics.set(gatewayBusUp, 1);
    this.#log.info({}, "connected to Redis: messages to other processes are sent");
    return true;
  }

  #onLost(connection: Connection): void {
    if (connection !== this.#connection) return;
    this.#connection = undefined;
    this.#metrics.set(gatewayBusUp, 0);
    if (!this.#loop.isStopped)
      this.#log.warn({}, "the connection to Redis is lost: messages to other processes are dropped");
    destroy(connection);
    this.#loop.onLost();
  }

  #receive(connection: Connection, text: string): void {
    const envelope = readEnvelope(text);
    if (envelope === undefined) return;
    const { from, group, channel, message } = envelope;
    if (from === this.id) {
      connection.heartbeatMs = this.#clock.monotonicMs();
      return;
    }
    if (group !== undefined && group === this.#opts.group) return;
    if (this.#listeners.deliver(channel, message, from))
      this.#metrics.count(gatewayBusMessagesTotal, { outcome: "received" });
  }

  #send(connection: Connection, text: string): void {
    connection.waiting++;
    connection.publisher.sendCommand(["PUBLISH", this.#topic, text]).then(
      () => {
        connection.waiting--;
      },
      () => {
        connection.waiting--;
        this.#onLost(connection);
      },
    );
  }

  #heartbeat(): void {
    const connection = this.#connection;
    if (connection === undefined) return;
    // What has arrived is read before it is judged: that this process was busy is not Redis' fault.
    setImmediate(() => {
      const ageMs = this.#clock.monotonicMs() - connection.heartbeatMs;
      if (ageMs > HEARTBEAT_MS * 2 + this.#opts.timeoutMs) this.#onLost(connection);
      else if (connection === this.#connection) {
        this.#send(connection, JSON.stringify({ from: this.id, channel: "", message: 0 }));
      }
    });
  }
}

function destroy({ publisher, subscriber }: Connection): void {
  destroyRedisClient(publisher);
  destroyRedisClient(subscriber);
}
