import { isRecord } from "@turnpike/base";
import { readQuantity } from "./head-chain.ts";

/** What distinguishes one log event from another. */
export interface LogFacts {
  readonly blockNumber: number;
  readonly blockHash: string;
  readonly logIndex: number;
  readonly isRemoved: boolean;
}

/** Bounds of a {@link DeliveredLogs}. */
export interface DeliveredLogsOptions {
  readonly keptBlocks: number;
  readonly maxEntries: number;
  readonly maxBytes: number;
}

/** Bounds that suit one subscription. */
const DEFAULT_DELIVERED_LOGS: DeliveredLogsOptions = { keptBlocks: 128, maxEntries: 20_000, maxBytes: 8 * 1_048_576 };

interface Entry {
  readonly facts: LogFacts;
  readonly raw: string;
}

/** Reads a log event; undefined when it is none. */
export function readLog(value: unknown): LogFacts | undefined {
  if (!isRecord(value)) return undefined;
  const blockNumber = readQuantity(value.blockNumber);
  const logIndex = readQuantity(value.logIndex);
  const { blockHash } = value;
  if (blockNumber === undefined || logIndex === undefined || typeof blockHash !== "string") return undefined;
  return { blockNumber, blockHash, logIndex, isRemoved: value.removed === true };
}

/** The log events that one subscription delivered lately, so that none is delivered twice. */
export class DeliveredLogs {
  readonly #options: DeliveredLogsOptions;
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;
  #floor = -1;
  #highest = -1;

  constructor(options: DeliveredLogsOptions = DEFAULT_DELIVERED_LOGS) {
    this.#options = options;
  }

  /** Blocks up to this one were dropped: their events could not be distinguished from new ones. */
  get floorBlock(): number {
    return this.#floor;
  }

  /** True when the event was not delivered before; it then counts as delivered. */
  accept(facts: LogFacts, raw: string): boolean {
    const key = `${facts.blockHash}:${facts.logIndex}`;
    const known = this.#entries.get(key);
    if (known !== undefined && known.facts.isRemoved === facts.isRemoved) return false;
    if (known !== undefined) this.#remove(key, known);
    this.#entries.set(key, { facts, raw });
    this.#bytes += raw.length;
    this.#highest = Math.max(this.#highest, facts.blockNumber);
    this.#prune();
    return true;
  }

  /** The delivered events of blocks that are no longer in the chain, as events that take them back, newest first. */
  takeBack(orphaned: ReadonlySet<string>): readonly { readonly facts: LogFacts; readonly raw: string }[] {
    const found: { readonly facts: LogFacts; readonly raw: string }[] = [];
    for (const { facts, raw } of this.#entries.values()) {
      if (facts.isRemoved || !orphaned.has(facts.blockHash)) continue;
      const value = JSON.parse(raw) as Readonly<Record<string, unknown>>;
      found.push({ facts: { ...facts, isRemoved: true }, raw: JSON.stringify({ ...value, removed: true }) });
    }
    return found.reverse();
  }

  #remove(key: string, entry: Entry): void {
    this.#entries.delete(key);
    this.#bytes -= entry.raw.length;
  }

  #prune(): void {
    const { keptBlocks, maxEntries, maxBytes } = this.#options;
    for (const [key, entry] of this.#entries) {
      const isOver = this.#entries.size > maxEntries || this.#bytes > maxBytes;
      const isOld = entry.facts.blockNumber <= this.#highest - keptBlocks;
      if (!isOver && !isOld) return;
      this.#remove(key, entry);
      this.#floor = Math.max(this.#floor, entry.facts.blockNumber);
    }
  }
}
