/** Called with one message. It came from outside: the listener checks it first, as its sender may be of another version. */
export type BusListener = (message: unknown, from: string) => void;

/**
 * Messages between the processes of one deployment. A message reaches each of the others at most once, in no order, and
 * may be lost: what must not be lost is said again. A sender does not receive its own messages.
 */
export interface Bus {
  /** Id of this process; another one after each start. */
  readonly id: string;
  /** Sends to the others. `message` is a JSON value; one that is larger than {@link MAX_BUS_MESSAGE_BYTES} is dropped. Never throws or waits. */
  publish(channel: string, message: unknown): void;
  /** Listens to a channel; the result ends it. */
  subscribe(channel: string, listener: BusListener): () => void;
}

/** Longest message as JSON text. Senders make several of what is larger. */
export const MAX_BUS_MESSAGE_BYTES = 65_536;

/** The bus of a process that is alone. */
export const noBus: Bus = { id: "alone", publish() {}, subscribe: () => () => {} };

/** Who listens to what, for those who make a {@link Bus}. */
export class BusListeners {
  readonly #channels = new Map<string, Set<BusListener>>();
  readonly #onFault: (error: unknown) => void;

  /** `onFault` gets what a listener throws: a message must not end the process that it came to. */
  constructor(onFault: (error: unknown) => void) {
    this.#onFault = onFault;
  }

  subscribe(channel: string, listener: BusListener): () => void {
    const listeners = this.#channels.get(channel) ?? new Set();
    this.#channels.set(channel, listeners);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
  }

  /** True when somebody listens. */
  deliver(channel: string, message: unknown, from: string): boolean {
    const listeners = this.#channels.get(channel);
    if (listeners === undefined || listeners.size === 0) return false;
    for (const listener of listeners) {
      try {
        listener(message, from);
      } catch (error) {
        this.#onFault(error);
      }
    }
    return true;
  }
}

/** One bus over several, which lead to different processes. Its id is that of the first one. */
export function joinBuses(first: Bus, ...others: readonly Bus[]): Bus {
  if (others.length === 0) return first;
  const all = [first, ...others];
  return {
    id: first.id,
    publish(channel, message) {
      for (const bus of all) bus.publish(channel, message);
    },
    subscribe(channel, listener) {
      const ends = all.map((bus) => bus.subscribe(channel, listener));
      return () => {
        for (const end of ends) end();
      };
    },
  };
}
