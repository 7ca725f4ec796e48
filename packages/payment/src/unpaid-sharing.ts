import { type Bus, isRecord } from "@turnpike/base";
import type { SharedTokens } from "./unpaid-limit.ts";

/** Which limit tokens belong to. */
export type UnpaidLimitName = "client" | "payer";

/** Shares the tokens of payments that do not pay with other machines. */
export interface UnpaidSharing extends AsyncDisposable {
  limit(name: UnpaidLimitName): SharedTokens;
}

/** Options of {@link createUnpaidSharing}. */
export interface UnpaidSharingOptions {
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
 * Sends what each limit spent and earned once a second. The bus may lose messages: the others then let a client have more
 * than they should, or less until its tokens come back by time. Each machine has its whole limits, and the changes of all.
 */
export function createUnpaidSharing(opts: UnpaidSharingOptions, modules: { readonly bus: Bus }): UnpaidSharing {
  const { bus } = modules;
  const waiting = new Map<string, number>();
  const appliers = new Map<string, (key: string, tokens: number) => void>();
  let timer: NodeJS.Timeout | undefined;

  const flush = (): void => {
    timer = undefined;
    const changes = [...waiting];
    waiting.clear();
    for (let at = 0; at < changes.length; at += MAX_IN_MESSAGE) {
      bus.publish(CHANNEL, { group: opts.group, changes: changes.slice(at, at + MAX_IN_MESSAGE) });
    }
  };

  const unsubscribe = bus.subscribe(CHANNEL, (message) => {
    if (!isRecord(message) || message.group === opts.group || !Array.isArray(message.changes)) return;
    for (const change of message.changes.slice(0, MAX_IN_MESSAGE) as readonly unknown[]) {
      if (!Array.isArray(change)) continue;
      const [name, tokens] = change as readonly unknown[];
      if (typeof name !== "string" || name.length > MAX_KEY || typeof tokens !== "number") continue;
      if (!Number.isFinite(tokens)) continue;
      const space = name.indexOf(" ");
      const bounded = Math.max(-MAX_TOKENS, Math.min(MAX_TOKENS, tokens));
      appliers.get(name.slice(0, space))?.(name.slice(space + 1), bounded / opts.workers);
    }
  });

  return {
    limit: (limit) => ({
      changed(key, tokens) {
        const name = `${limit} ${key}`;
        if (!waiting.has(name) && waiting.size >= MAX_WAITING) return;
        waiting.set(name, (waiting.get(name) ?? 0) + tokens);
        timer ??= setTimeout(flush, EVERY_MS).unref();
      },
      subscribe: (apply) => void appliers.set(limit, apply),
    }),
    async [Symbol.asyncDispose]() {
      clearTimeout(timer);
      unsubscribe();
    },
  };
}
