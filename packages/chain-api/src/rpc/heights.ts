import type { BlockReads } from "@turnpike/chain-node";

/** A height, or why it cannot be asked for. */
export type HeightChoice =
  | { readonly ok: true; readonly heightBlocks: bigint }
  | { readonly ok: false; readonly fault: string };

/** The height that is asked for, the newest by default; texts are CometBFT's. */
export function chooseHeight(blocks: BlockReads, latest: bigint, asked: bigint | undefined): HeightChoice {
  if (asked === undefined) return { ok: true, heightBlocks: latest };
  if (asked <= 0n) return { ok: false, fault: `height must be greater than 0, but got ${asked}` };
  if (asked > latest) {
    return {
      ok: false,
      fault: `height ${asked} must be less than or equal to the current blockchain height ${latest}`,
    };
  }
  const base = blocks.baseHeightBlocks();
  if (asked < base) return { ok: false, fault: `height ${asked} is not available, lowest height is ${base}` };
  return { ok: true, heightBlocks: asked };
}

/** Items on a page by default. */
const DEFAULT_PER_PAGE = 30;
const MOST_PER_PAGE = 100;

/** Items on a page: 30 by default, at most 100. */
export function pageSize(perPage: bigint | undefined): number {
  if (perPage === undefined || perPage < 1n) return DEFAULT_PER_PAGE;
  return perPage > BigInt(MOST_PER_PAGE) ? MOST_PER_PAGE : Number(perPage);
}

/** How many items stand before a page; 0 for a page that cannot be. */
export function skipOf(page: bigint | undefined, size: number): number {
  if (page === undefined || page < 1n || page > BigInt(Number.MAX_SAFE_INTEGER) / BigInt(size)) return 0;
  return (Number(page) - 1) * size;
}

/** Why there is no such page of so many items; undefined: there is. */
export function pageFault(page: bigint | undefined, size: number, total: number): string | undefined {
  if (page === undefined) return undefined;
  const pages = Math.max(1, Math.ceil(total / size));
  return page < 1n || page > BigInt(pages) ? `page should be within [1, ${pages}] range, given ${page}` : undefined;
}
