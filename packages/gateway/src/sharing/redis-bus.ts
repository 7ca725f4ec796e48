import {
  type Bus,
  BusListeners,
  type Clock,
  isRecord,
  type Log,
  MAX_BUS_MESSAGE_BYTES,
  type Metrics,
  systemClock,
} from "@turnpike/base";
import { busMessages, busUp } from "../metrics/gateway-metrics.ts";

/** Modules of {@link createRedisBus}. */
export interface RedisBusModules {
  readonly log: Log;
  readonly metrics: Metrics;
  /** Measures how long ago its own beat was heard; the machine's by default. */
  readonly clock?: Pick<Clock, "monotonicMs">;
}

/** Options of {@link createRedisBus}. */
export interface RedisBusOptions {
  /** `redis://` or `rediss://`. */
  readonly url: string;
  /** Start of the channel's name. */
  readonly keyPrefix: string;
  /** Id of this process. */
  readonly id: string;
  /** Processes of one group have another bus between them, and do not hear each other through this one. Undefined: none. */
  readonly group?: string;
  /** Longest time for a message to this process itself, by which it knows that it hears. */
  readonly timeoutMs: number;
}

/** A {@link Bus} over one Redis. */
export interface RedisBus extends Bus, AsyncDisposable {
  /** False while nothing is sent or heard. */
  isUp(): boolean;
}

const CONNECT_TIMEOUT_MS = 1_000;
const BACKOFF_MS = { least: 100, most: 2_000 };
const BEAT_EVERY_MS = 2_000;
/** Messages that may wait for Redis; more are dropped. */
const MAX_WAITING = 1_000;
/** A message, its sender and what stands around them. */
const MAX_TEXT = MAX_BUS_MESSAGE_BYTES + 2_048;
const MAX_ID = 128;

const newClient = async (url: string) => {
  // Hundreds of modules, which a process without Redis does not need.
  const { createClient } = await import("@redis/client");
  return createClient({
    url,
    RESP: 2,
    name: "turnpike-bus",
    disableClientInfo: true,
    disableOfflineQueue: true,
    commandsQueueMaxLength: MAX_WAITING,
    maintNotifications: "disabled",
    socket: { connectTimeout: CONNECT_TIMEOUT_MS, reconnectStrategy: false, noDelay: true },
  });
};
type Client = Awaited<ReturnType<typeof newClient>>;

/** One pair of connections: a connection that listens cannot speak. */
interface Link {
  readonly speaker: Client;
  readonly listener: Client;
  beatMs: number;
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
 * Sends messages through Redis (5 or newer). It connects in the background and for ever; while Redis is away, messages are
 * dropped and counted, and nobody waits. It hears its own beats, so that a Redis that hangs is found out.
 */
export function createRedisBus(opts: RedisBusOptions, modules: RedisBusModules): RedisBus {
  const { log, metrics, clock = systemClock } = modules;
  const topic = `${opts.keyPrefix}:bus`;
  const ended = new AbortController();
  const listeners = new BusListeners((error) => log.error({ error: String(error) }, "a message could not be used"));
  let link: Link | undefined;
  let wake: () => void = () => {};

  const giveUp = (from: Link): void => {
    if (from !== link) return;
    link = undefined;
    metrics.set(busUp, 0);
    if (!ended.signal.aborted) log.warn({}, "Redis is away; processes share nothing through it meanwhile");
    destroy(from);
    wake();
  };

  const hear = (to: Link, text: string): void => {
    const envelope = readEnvelope(text);
    if (envelope === undefined) return;
    const { from, group, channel, message } = envelope;
    if (from === opts.id) {
      to.beatMs = clock.monotonicMs();
      return;
    }
    if (group !== undefined && group === opts.group) return;
    if (listeners.deliver(channel, message, from)) metrics.count(busMessages, { outcome: "received" });
  };

  const send = (to: Link, text: string): void => {
    to.waiting++;
    to.speaker.sendCommand(["PUBLISH", topic, text]).then(
      () => {
        to.waiting--;
      },
      () => {
        to.waiting--;
        giveUp(to);
      },
    );
  };

  const publish = (channel: string, message: unknown): void => {
    const from = { from: opts.id, ...(opts.group === undefined ? {} : { group: opts.group }) };
    const text = JSON.stringify({ ...from, channel, message });
    const fits = text.length <= MAX_TEXT;
    if (link === undefined || link.waiting >= MAX_WAITING || !fits) {
      metrics.count(busMessages, { outcome: "dropped" });
      if (!fits) log.error({ channel }, "a message to other processes is too large");
      return;
    }
    metrics.count(busMessages, { outcome: "sent" });
    send(link, text);
  };

  const connect = async (): Promise<void> => {
    const [speaker, listener] = await Promise.all([newClient(opts.url), newClient(opts.url)]);
    const fresh: Link = {
      speaker,
      listener,
      beatMs: clock.monotonicMs(),
      waiting: 0,
    };
    for (const client of [fresh.speaker, fresh.listener]) {
      client.on("error", () => giveUp(fresh));
      client.on("end", () => giveUp(fresh));
    }
    const opening = (async () => {
      await Promise.all([fresh.speaker.connect(), fresh.listener.connect()]);
      await fresh.listener.subscribe(topic, (text) => hear(fresh, text));
      return true;
    })().catch(() => undefined);
    if ((await within(opening, CONNECT_TIMEOUT_MS)) === undefined || ended.signal.aborted) {
      destroy(fresh);
      log.debug({}, "Redis cannot be reached");
      return;
    }
    fresh.beatMs = clock.monotonicMs();
    link = fresh;
    metrics.set(busUp, 1);
    log.info({}, "hears other processes through Redis");
  };

  const keepConnected = async (): Promise<void> => {
    let backoffMs = BACKOFF_MS.least;
    while (!ended.signal.aborted) {
      const lost = Promise.withResolvers<void>();
      wake = lost.resolve;
      await connect();
      if (link !== undefined) {
        backoffMs = BACKOFF_MS.least;
        await lost.promise;
      }
      if (ended.signal.aborted) return;
      const rest = Promise.withResolvers<void>();
      wake = rest.resolve;
      await within(rest.promise, backoffMs);
      backoffMs = Math.min(backoffMs * 2, BACKOFF_MS.most);
    }
  };

  metrics.set(busUp, 0);
  const keeping = keepConnected();
  const beating = setInterval(() => {
    const now = link;
    if (now === undefined) return;
    // What has arrived is read before it is judged: that this process was busy is not Redis' fault.
    setImmediate(() => {
      if (clock.monotonicMs() - now.beatMs > BEAT_EVERY_MS * 2 + opts.timeoutMs) giveUp(now);
      else if (now === link) send(now, JSON.stringify({ from: opts.id, channel: "", message: 0 }));
    });
  }, BEAT_EVERY_MS);
  beating.unref();

  return {
    id: opts.id,
    publish,
    subscribe: (channel, listener) => listeners.subscribe(channel, listener),
    isUp: () => link !== undefined,
    async [Symbol.asyncDispose]() {
      ended.abort();
      clearInterval(beating);
      if (link !== undefined) giveUp(link);
      wake();
      await keeping;
    },
  };
}

function destroy({ speaker, listener }: Link): void {
  for (const client of [speaker, listener]) {
    try {
      if (client.isOpen) client.destroy();
    } catch {
      // It has closed itself.
    }
  }
}

async function within<T>(work: Promise<T>, timeoutMs: number): Promise<T | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(resolve, timeoutMs, undefined);
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
