import type { SeenBlock } from "../families/family.ts";

/** Bounds of a {@link BlockRing}. */
export interface BlockRingOptions {
  /** Heights that are kept. */
  readonly keptBlocks: number;
  /** An operator's vote counts for so long. */
  readonly maxAgeMs: number;
}

interface Vote {
  readonly hash: string;
  readonly atMs: number;
}

interface Slot {
  /** Hash of the block that counts as the chain's. */
  hash: string;
  readonly votes: Map<string, Vote>;
}

interface TokenBucket {
  tokens: number;
  atMs: number;
}

const MAX_HASH_CHARS = 128;
const MAX_OPERATORS = 64;
const MAX_CHANGES = 16;
const CHANGE_REFILL_MS = 5_000;

/**
 * Hashes of the newest blocks by votes: each operator has one vote a height, and a block is also a vote for its parent.
 * Another hash replaces a height's when more operators vote for it than for the one before, two at least, or when there is
 * only one operator. The votes of one that changes them again and again do not count for a while, so that it cannot decide
 * between honest operators at will.
 */
export class BlockRing {
  readonly #options: BlockRingOptions;
  readonly #slots = new Map<number, Slot>();
  readonly #changes = new Map<string, TokenBucket>();

  constructor(options: BlockRingOptions) {
    this.#options = options;
  }

  /** Heights whose hash is known. */
  get size(): number {
    return this.#slots.size;
  }

  /** Hash of the chain's block at a height. */
  hashAt(heightBlocks: number): string | undefined {
    return this.#slots.get(heightBlocks)?.hash;
  }

  /**
   * An operator showed a block. Returns the lowest height that another block has taken over by it, and whether the block
   * below that one is known to be still the chain's; undefined where nothing changed.
   */
  saw(
    operator: string,
    block: SeenBlock,
    operators: number,
    nowMs: number,
  ): { readonly heightBlocks: number; readonly isFork: boolean } | undefined {
    const { heightBlocks, hash, parentHash } = block;
    if (hash.length > MAX_HASH_CHARS || (parentHash?.length ?? 0) > MAX_HASH_CHARS) return undefined;
    const below = heightBlocks - 1;
    const changedBelow =
      parentHash !== undefined && below >= 0 && this.#vote(operator, below, parentHash, operators, nowMs);
    const changed = this.#vote(operator, heightBlocks, hash, operators, nowMs);
    this.#prune();
    if (changedBelow) return { heightBlocks: below, isFork: false };
    if (!changed) return undefined;
    return { heightBlocks, isFork: parentHash !== undefined && this.hashAt(below) === parentHash };
  }

  /** Drops heights outside of these. */
  keep(fromBlocks: number, toBlocks: number): void {
    for (const height of this.#slots.keys()) {
      if (height < fromBlocks || height > toBlocks) this.#slots.delete(height);
    }
  }

  #vote(operator: string, height: number, hash: string, operators: number, nowMs: number): boolean {
    const slot = this.#slots.get(height);
    if (slot === undefined) {
      this.#slots.set(height, { hash, votes: new Map([[operator, { hash, atMs: nowMs }]]) });
      return false;
    }
    const before = slot.votes.get(operator);
    if (before === undefined && slot.votes.size >= MAX_OPERATORS) return false;
    if (before !== undefined && before.hash !== hash && operators > 1 && !this.#mayChange(operator, nowMs)) {
      slot.votes.delete(operator);
      return false;
    }
    slot.votes.set(operator, { hash, atMs: nowMs });
    if (hash === slot.hash) return false;
    let rival = 0;
    let standing = 0;
    for (const vote of slot.votes.values()) {
      if (nowMs - vote.atMs > this.#options.maxAgeMs) continue;
      if (vote.hash === hash) rival++;
      else if (vote.hash === slot.hash) standing++;
    }
    if (operators > 1 && (rival < 2 || rival <= standing)) return false;
    slot.hash = hash;
    return true;
  }

  #mayChange(operator: string, nowMs: number): boolean {
    const known = this.#changes.get(operator) ?? { tokens: MAX_CHANGES, atMs: nowMs };
    if (!this.#changes.has(operator)) {
      if (this.#changes.size >= MAX_OPERATORS) return false;
      this.#changes.set(operator, known);
    }
    known.tokens = Math.min(MAX_CHANGES, known.tokens + (nowMs - known.atMs) / CHANGE_REFILL_MS);
    known.atMs = nowMs;
    if (known.tokens < 1) return false;
    known.tokens--;
    return true;
  }

  #prune(): void {
    const { keptBlocks } = this.#options;
    if (this.#slots.size <= keptBlocks * 2) return;
    const heights = [...this.#slots.keys()].sort((a, b) => a - b);
    for (const height of heights.slice(0, heights.length - keptBlocks)) this.#slots.delete(height);
  }
}
