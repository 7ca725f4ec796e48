import { type Bus, BusListeners, isRecord, type Log, MAX_BUS_MESSAGE_BYTES, type Metrics } from "@turnpike/base";
import { busMessages } from "../metrics/gateway-metrics.ts";
import type { Port } from "./port.ts";

const TO = "bus";

/** A {@link Bus} of a worker: its port leads to the primary, which passes messages on to the other workers. */
export function createWorkerBus(
  opts: { readonly id: string },
  modules: { readonly port: Port; readonly log: Log; readonly metrics: Metrics },
): Bus {
  const { port, log, metrics } = modules;
  const listeners = new BusListeners((error) => log.error({ error: String(error) }, "a message could not be used"));
  port.subscribe((message) => {
    if (!isRecord(message) || message.to !== TO) return;
    const { channel, from } = message;
    if (typeof channel !== "string" || typeof from !== "string") return;
    if (listeners.deliver(channel, message.message, from)) metrics.count(busMessages, { outcome: "received" });
  });
  return {
    id: opts.id,
    publish(channel, message) {
      const fits = JSON.stringify(message).length <= MAX_BUS_MESSAGE_BYTES;
      if (!fits) log.error({ channel }, "a message to other processes is too large");
      const isSent = fits && port.send({ to: TO, channel, message, from: opts.id });
      metrics.count(busMessages, { outcome: isSent ? "sent" : "dropped" });
    },
    subscribe: (channel, listener) => listeners.subscribe(channel, listener),
  };
}

/** In the primary: passes what one worker says to all others. What is no message of a bus is left alone. */
export function passOn(message: unknown, others: Iterable<Port>): void {
  if (!isRecord(message) || message.to !== TO) return;
  for (const port of others) port.send(message);
}
