/** Longest time for a connection to be opened and prepared. */
export const CONNECT_TIMEOUT_MS = 1_000;
const BACKOFF_MS = { min: 100, max: 2_000 };

/** A client that does not reconnect by itself; see {@link ReconnectLoop}. More than `maxQueue` commands at once fail. */
export async function createRedisClient(url: string, name: string, maxQueue: number) {
  // Hundreds of modules, which a process without Redis does not need.
  const { createClient } = await import("@redis/client");
  return createClient({
    url,
    RESP: 2,
    name,
    disableClientInfo: true,
    disableOfflineQueue: true,
    commandsQueueMaxLength: maxQueue,
    maintNotifications: "disabled",
    socket: { connectTimeout: CONNECT_TIMEOUT_MS, reconnectStrategy: false, noDelay: true },
  });
}

/** A client as {@link createRedisClient} makes it. */
export type RedisClient = Awaited<ReturnType<typeof createRedisClient>>;

/** Closes a client's connection at once. */
export function destroyRedisClient(client: RedisClient): void {
  try {
    if (client.isOpen) client.destroy();
  } catch {
    // It has closed itself.
  }
}

/**
 * Resolves with undefined when the time is over first. What has arrived is read before that: that this process was busy is
 * not the server's fault.
 */
export async function within<T>(work: Promise<T>, timeoutMs: number): Promise<T | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(setImmediate, timeoutMs, resolve, undefined);
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Connects in the background, again and again with a backoff, until it is stopped. */
export class ReconnectLoop {
  readonly #connect: () => Promise<boolean>;
  readonly #ended: Promise<void>;
  #backoffMs = BACKOFF_MS.min;
  #isStopped = false;
  #wake: () => void = () => {};

  /** `connect` resolves with true when it is connected. */
  constructor(connect: () => Promise<boolean>) {
    this.#connect = connect;
    this.#ended = this.#run();
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** To be called when the connection is known to work: the next pause is a short one. */
  resetBackoff(): void {
    this.#backoffMs = BACKOFF_MS.min;
  }

  /** To be called when the connection is lost. */
  onLost(): void {
    this.#wake();
  }

  /** Resolves when no attempt is under way; there will be no others. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#wake();
    await this.#ended;
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      const lost = Promise.withResolvers<void>();
      this.#wake = lost.resolve;
      if (await this.#connect()) await lost.promise;
      if (this.#isStopped) return;
      const stopped = Promise.withResolvers<void>();
      this.#wake = stopped.resolve;
      await within(stopped.promise, this.#backoffMs);
      this.#backoffMs = Math.min(this.#backoffMs * 2, BACKOFF_MS.max);
    }
  }
}
