import { isRecord } from "@turnpike/base";

/** A block's header as an event carries it. */
export interface Head {
  readonly number: number;
  readonly hash: string;
  readonly parentHash: string;
  /** JSON text of the header. */
  readonly raw: string;
}

/** Where missing blocks come from; undefined when they cannot be had. */
export interface HeadSource {
  byNumber(number: number): Promise<Head | undefined>;
  byHash(hash: string): Promise<Head | undefined>;
}

/** What a head means to a chain that is known up to some block. */
export type HeadNews =
  | { readonly kind: "known" }
  /** Blocks to deliver, oldest first. `orphaned`: hashes of delivered blocks that they replace. */
  | { readonly kind: "new"; readonly heads: readonly Head[]; readonly orphaned: readonly string[] }
  /** The blocks between cannot be had from this source. */
  | { readonly kind: "failed" }
  /** There are more blocks between than may be fetched. */
  | { readonly kind: "missed" };

/** Members of a block that its header event does not have (geth's `newHeads`). */
const BODY_MEMBERS = new Set(["transactions", "uncles", "withdrawals", "size", "totalDifficulty"]);
const QUANTITY = /^0x[0-9a-f]{1,13}$/i;
/** Heights whose hashes are kept. */
const KEPT_BLOCKS = 512;
const FETCHES_AT_ONCE = 16;

/** A hexadecimal quantity; undefined when it is none. */
export function readQuantity(value: unknown): number | undefined {
  return typeof value === "string" && QUANTITY.test(value) ? Number(value) : undefined;
}

/** Reads a header event or a block. `raw` is its text; without it one is made, of the header's members alone. */
export function readHead(value: unknown, raw?: string): Head | undefined {
  if (!isRecord(value)) return undefined;
  const number = readQuantity(value.number);
  const { hash, parentHash } = value;
  if (number === undefined || typeof hash !== "string" || typeof parentHash !== "string") return undefined;
  const text =
    raw ?? JSON.stringify(Object.fromEntries(Object.entries(value).filter(([key]) => !BODY_MEMBERS.has(key))));
  return { number, hash, parentHash, raw: text };
}

/** The delivered blocks of one chain: what follows them, what is missing, what was replaced. */
export class HeadChain {
  readonly #maxReplayBlocks: number;
  /** Delivered blocks in order of delivery. */
  readonly #numbers = new Map<string, number>();
  #last: { readonly number: number; readonly hash: string } | undefined;
  /** Height at which it began: blocks before it are neither known nor replayed. */
  #floor = Number.NEGATIVE_INFINITY;

  constructor(maxReplayBlocks: number) {
    this.#maxReplayBlocks = maxReplayBlocks;
  }

  /** Height of the block that was delivered last. */
  get lastNumber(): number | undefined {
    return this.#last?.number;
  }

  has(hash: string): boolean {
    return this.#numbers.has(hash);
  }

  /** Starts anew at a block, which counts as delivered. */
  seed(head: Head): void {
    this.#numbers.clear();
    this.#numbers.set(head.hash, head.number);
    this.#last = head;
    this.#floor = head.number;
  }

  /** What a head means, without delivering it; a gap before it is filled from the source. */
  async resolve(head: Head, source: HeadSource): Promise<HeadNews> {
    const quick = this.resolveNow(head);
    if (quick !== undefined) return quick;
    const last = this.#last?.number ?? head.number;
    const gap = head.number - last;
    if (gap > this.#maxReplayBlocks) return { kind: "missed" };
    const fetched = new Map<string, Head>();
    for (let from = last + 1; from < head.number; from += FETCHES_AT_ONCE) {
      const count = Math.min(FETCHES_AT_ONCE, head.number - from);
      const numbers = Array.from({ length: count }, (_, at) => from + at);
      for (const found of await Promise.all(numbers.map((number) => source.byNumber(number)))) {
        if (found !== undefined) fetched.set(found.hash, found);
      }
    }
    const heads = [head];
    for (let next = head; next.number > this.#floor && !this.has(next.parentHash); ) {
      if (heads.length > Math.max(gap, 0) + KEPT_BLOCKS) return { kind: "missed" };
      const parent = fetched.get(next.parentHash) ?? (await source.byHash(next.parentHash));
      if (parent === undefined || parent.hash !== next.parentHash || parent.number !== next.number - 1) {
        return { kind: "failed" };
      }
      heads.push(parent);
      next = parent;
    }
    return this.#news(heads.reverse());
  }

  /** {@link resolve} where nothing has to be fetched; undefined where something has. */
  resolveNow(head: Head): HeadNews | undefined {
    if (this.has(head.hash)) return { kind: "known" };
    // A late event, or the part of another branch that is from before the beginning.
    if (head.number < this.#floor) return { kind: "known" };
    if (this.#last === undefined || head.number === this.#floor || this.has(head.parentHash)) return this.#news([head]);
    // A supplier far behind, on a part of the chain that is no longer kept.
    if (head.number <= this.#last.number - KEPT_BLOCKS) return { kind: "known" };
    return undefined;
  }

  #news(heads: readonly Head[]): HeadNews {
    const from = heads[0]?.number ?? 0;
    const isPlain = from > (this.#last?.number ?? -1);
    const orphaned = isPlain ? [] : [...this.#numbers].filter(([, number]) => number >= from).map(([hash]) => hash);
    return { kind: "new", heads, orphaned };
  }

  /** Marks news as delivered. */
  deliver(news: HeadNews): void {
    if (news.kind !== "new") return;
    // A block that comes back after a reorganisation is news again.
    for (const hash of news.orphaned) this.#numbers.delete(hash);
    for (const head of news.heads) {
      this.#numbers.set(head.hash, head.number);
      this.#last = head;
    }
    for (const hash of this.#numbers.keys()) {
      if (this.#numbers.size <= KEPT_BLOCKS) break;
      this.#numbers.delete(hash);
    }
  }
}
