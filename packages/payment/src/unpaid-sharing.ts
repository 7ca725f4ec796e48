import { type Bus, isRecord } from "@turnpike/base";
import type { SharedTokens } from "./unpaid-limit.ts";

/** Which limit tokens belong to. */
type UnpaidLimitName = "client" | "payer";

interface UnpaidSharingOptions {
  /** Processes with one name have split the limits between them, and do not share. */
  readonly group: string;
  /** Workers among which this machine's limits are split. */
  readonly workers: number;
}

const CHANNEL = "unpaid";
const EVERY_MS = 1_000;
/** Keys that wait to be sent; what more of them changes within a second stays with this process. */
const MAX_WAITING = 10_000;
/** Changes in one message, which stay below the bus's longest. */
const MAX_IN_MESSAGE = 400;
const MAX_KEY = 128;
/** Most that one message changes of a key. */
const MAX_TOKENS = 10_000;

/**
 * Shares the tokens of payments that do not pay with other machines: sends what each limit spent and earned once a
 * second. The bus may lose messages: the others then let a client have more than they should, or less until its tokens
 * come back by time. Each machine has its whole limits, and the changes of all.
 */
export class UnpaidSharing implements Disposable {
  readonly #opts: UnpaidSharingOptions;
  readonly #bus: Bus;
  readonly #unsubscribe: () => void;
  readonly #waiting = new Map<string, number>();
  readonly #appliers = new Map<string, (key: string, tokens: number) => void>();
  #timer: NodeJS.Timeout | undefined;

  constructor(opts: UnpaidSharingOptions, modules: { readonly bus: Bus }) {
    this.#opts = opts;
    this.#bus = modules.bus;
    this.#unsubscribe = modules.bus.subscribe(CHANNEL, (message) => this.#receive(message));
  }

  limit(limit: UnpaidLimitName): SharedTokens {
    return {
      changed: (key, tokens) => this.#changed(`${limit} ${key}`, tokens),
      subscribe: (apply) => void this.#appliers.set(limit, apply),
    };
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#unsubscribe();
  }

  #changed(name: string, tokens: number): void {
    if (!this.#waiting.has(name) && this.#waiting.size >= MAX_WAITING) return;
    this.#waiting.set(name, (this.#waiting.get(name) ?? 0) + tokens);
    this.#timer ??= setTimeout(() => this.#flush(), EVERY_MS).unref();
  }

  #flush(): void {
    this.#timer = undefined;
    const changes = [...this.#waiting];
    this.#waiting.clear();
    for (let at = 0; at < changes.length; at += MAX_IN_MESSAGE) {
      this.#bus.publish(CHANNEL, { group: this.#opts.group, changes: changes.slice(at, at + MAX_IN_MESSAGE) });
    }
  }

  #receive(message: unknown): void {
    if (!isRecord(message) || message.group === this.#opts.group || !Array.isArray(message.changes)) return;
    for (const change of message.changes.slice(0, MAX_IN_MESSAGE) as readonly unknown[]) {
      if (!Array.isArray(change)) continue;
      const [name, tokens] = change as readonly unknown[];
      if (typeof name !== "string" || name.length > MAX_KEY || typeof tokens !== "number") continue;
      if (!Number.isFinite(tokens)) continue;
      const space = name.indexOf(" ");
      const bounded = Math.max(-MAX_TOKENS, Math.min(MAX_TOKENS, tokens));
      this.#appliers.get(name.slice(0, space))?.(name.slice(space + 1), bounded / this.#opts.workers);
    }
  }
}
