import {
  type Bus,
  type BusListener,
  BusListeners,
  isRecord,
  type Log,
  MAX_BUS_MESSAGE_BYTES,
  type Metrics,
} from "@turnpike/base";
import { gatewayBusMessagesTotal } from "../metrics/gateway-metrics.ts";

/**
 * One end of a channel between two processes of this machine. Messages are JSON values, arrive in order or not at all, and
 * are checked by their reader.
 */
export interface Port {
  /** False when it could not be sent: the other end is gone, or too much waits. Never throws. */
  send(message: unknown): boolean;
  /** Listens to what comes; the result ends it. */
  subscribe(listener: (message: unknown) => void): () => void;
}

const TO = "bus";

/** A {@link Bus} of a worker: its port leads to the primary, which passes messages on to the other workers. */
export class WorkerBus implements Bus {
  readonly id: string;
  readonly #modules: { readonly port: Port; readonly log: Log; readonly metrics: Metrics };
  readonly #listeners: BusListeners;

  constructor(
    opts: { readonly id: string },
    modules: { readonly port: Port; readonly log: Log; readonly metrics: Metrics },
  ) {
    const { port, log, metrics } = modules;
    this.id = opts.id;
    this.#modules = modules;
    this.#listeners = new BusListeners((error) => log.error({ error: String(error) }, "a message could not be used"));
    port.subscribe((message) => {
      if (!isRecord(message) || message.to !== TO) return;
      const { channel, from } = message;
      if (typeof channel !== "string" || typeof from !== "string") return;
      if (this.#listeners.deliver(channel, message.message, from))
        metrics.count(gatewayBusMessagesTotal, { outcome: "received" });
    });
  }

  publish(channel: string, message: unknown): void {
    const { port, log, metrics } = this.#modules;
    const fits = JSON.stringify(message).length <= MAX_BUS_MESSAGE_BYTES;
    if (!fits) log.error({ channel }, "a message to other processes is too large");
    const isSent = fits && port.send({ to: TO, channel, message, from: this.id });
    metrics.count(gatewayBusMessagesTotal, { outcome: isSent ? "sent" : "dropped" });
  }

  subscribe(channel: string, listener: BusListener): () => void {
    return this.#listeners.subscribe(channel, listener);
  }
}

/** In the primary: passes one worker's message to all others. A message that is not of a bus is ignored. */
export function passOn(message: unknown, others: Iterable<Port>): void {
  if (!isRecord(message) || message.to !== TO) return;
  for (const port of others) port.send(message);
}
