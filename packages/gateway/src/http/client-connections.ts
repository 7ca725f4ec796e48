import type { Socket } from "node:net";
import { clientKey, createProxyCheck } from "@turnpike/base";

/** How many connections one client may have open, and which addresses are no client. */
export interface ClientConnectionLimits {
  /** Open connections of one client; more are closed at once. */
  readonly maxConnectionsPerClient: number;
  /** Proxies, which connect for many clients. */
  readonly trustedProxies: readonly string[];
}

/** Counts open connections by client, so that none takes the room of all others. A trusted proxy is not counted. */
export class ClientConnections {
  readonly #open = new Map<string, number>();
  /** Connections that are counted: one is seen again when it passes from one listener to another. */
  readonly #admitted = new WeakSet<Socket>();
  #limits: ClientConnectionLimits;
  #isProxy: (address: string) => boolean;

  constructor(limits: ClientConnectionLimits) {
    this.#limits = limits;
    this.#isProxy = createProxyCheck(limits.trustedProxies);
  }

  /** Open connections that one client may have. */
  get maxPerClient(): number {
    return this.#limits.maxConnectionsPerClient;
  }

  /** Puts other bounds into effect; connections that are open stay open. */
  setLimits(limits: ClientConnectionLimits): void {
    this.#limits = limits;
    this.#isProxy = createProxyCheck(limits.trustedProxies);
  }

  /**
   * Counts a connection until it closes, and once, however often it is asked about. False, with nothing counted, when
   * its client has as many as it may.
   */
  admit(socket: Socket): boolean {
    if (this.#admitted.has(socket)) return true;
    const address = socket.remoteAddress ?? "";
    if (this.#isProxy(address)) return true;
    const key = clientKey(address);
    const open = this.#open.get(key) ?? 0;
    if (open >= this.#limits.maxConnectionsPerClient) return false;
    this.#admitted.add(socket);
    this.#open.set(key, open + 1);
    socket.once("close", () => {
      const left = (this.#open.get(key) ?? 1) - 1;
      if (left > 0) this.#open.set(key, left);
      else this.#open.delete(key);
    });
    return true;
  }
}
