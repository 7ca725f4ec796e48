import { AppError, concatBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import type { shared } from "@turnpike/proto";
import { isSessionEnd } from "@turnpike/protocol";
import { type Codec, uint64Codec } from "../../state/codecs.ts";
import { type Collection, firstOf } from "../../state/collection.ts";
import { type Context, unmetered } from "../../state/context.ts";
import { MAX_UNBONDING_BYTES, withinEventBytes } from "../../state/event-bytes.ts";
import { addressType, heightType, recordType, type ValueOf } from "../../state/genesis-types.ts";
import { type GenesisList, genesisList } from "../../state/module.ts";
import { settlementHeightAt } from "./settlement-heights.ts";
import { getSharedParams, getSharedParamsAt, sharedParamsHistory } from "./state.ts";

/**
 * Maximum number of items of a queue that a block handles, whether they leave or wait for a claim. A full block's transactions can
 * begin some 7,000; the bytes of their events bound it, too.
 */
const MAX_ENDS_PER_BLOCK = 5_000;

/** Key of an item: the last height of the session in which its unbonding or transfer began, and its address. */
export type QueueKey = readonly [since: bigint, address: string];

/** Point that a block reached in the items of a session's end, which the next blocks finish. */
export interface UnfinishedEnd {
  readonly sessionEndHeight: bigint;
  /** Bytes of the last key that was handled; empty before the first. */
  readonly lastKey: Bytes;
}

const HEIGHT_BYTES = 8;

/** A height and the bytes of a key behind it. */
export const unfinishedEndCodec: Codec<UnfinishedEnd> = {
  encode: ({ sessionEndHeight, lastKey }) => concatBytes(uint64Codec.encode(sessionEndHeight), lastKey),
  decode: (bytes) => ({
    sessionEndHeight: uint64Codec.decode(bytes.subarray(0, HEIGHT_BYTES)),
    lastKey: Uint8Array.from(bytes.subarray(HEIGHT_BYTES)),
  }),
};

/** An item whose time has come. */
export interface DueItem {
  readonly address: string;
  /** Height from which its session's parameters let it go. */
  readonly endHeight: bigint;
  /** End of the session with which it goes; a later block may be the one that finishes this end. */
  readonly sessionEndHeight: bigint;
}

export interface SessionEndQueueOptions {
  readonly entries: Collection<QueueKey, unknown>;
  readonly unfinished: Collection<undefined, UnfinishedEnd>;
  /** Index by address alone, as earlier versions wrote it. */
  readonly former: Collection<string, unknown>;
  /** Writes the entries of an item that {@link former} has, if its record has any. */
  readonly enter: (ctx: Context, address: string) => void;
  /** Height from which an item goes, by the parameters at the end of its session. */
  readonly endHeight: (params: shared.Params, since: bigint) => bigint;
  /** True when an item stays until its last session is settled, too. */
  readonly waitsForSettlement: boolean;
}

const UNFINISHED_END = recordType({
  session_end_height: heightType,
  since_height: heightType,
  address: addressType,
});

/**
 * Stakes that go, or move, at a session's end: all that began with the oldest session first, by address within one. A block reads
 * those alone that are due, and the next blocks go on behind the last one: an item that fails, or waits for a claim, delays no
 * other, and is retried at the next session's end. In the real chain's order, by address, a block's maximum would let the lowest
 * addresses go before all others, however often they come back.
 */
export class SessionEndQueue {
  readonly #options: SessionEndQueueOptions;

  constructor(options: SessionEndQueueOptions) {
    this.#options = options;
  }

  /** At a session's end, and in the blocks after it as long as items of it remain, gives those that are due to a function. */
  run(ctx: Context, end: (item: DueItem) => void): void {
    this.#enterFormer(ctx);
    const { entries, unfinished } = this.#options;
    const height = ctx.block.heightBlocks;
    const before = unfinished.get(ctx, undefined);
    const sessionEndHeight = isSessionEnd(getSharedParams(ctx), height) ? height : before?.sessionEndHeight;
    if (sessionEndHeight === undefined) return;
    // Collected before anything is written: what ends changes the entries.
    const due = firstOf(this.#due(ctx, sessionEndHeight, before?.lastKey), MAX_ENDS_PER_BLOCK + 1);
    let handled = 0;
    for (const item of withinEventBytes(ctx, due.slice(0, MAX_ENDS_PER_BLOCK), MAX_UNBONDING_BYTES)) {
      handled++;
      end({ address: item.key[1], endHeight: item.endHeight, sessionEndHeight });
    }
    const last = due[handled - 1];
    if (handled < due.length && last !== undefined) {
      unfinished.set(ctx, undefined, { sessionEndHeight, lastKey: entries.keyBytes(last.key) });
    } else if (before !== undefined) unfinished.remove(ctx, undefined);
  }

  /** Items that are due, behind a key: sessions under the same parameters end in their order, so that one that is not due ends them. */
  *#due(
    ctx: Context,
    sessionEndHeight: bigint,
    lastKey: Bytes = new Uint8Array(0),
  ): Generator<{ readonly key: QueueKey; readonly endHeight: bigint }> {
    const { entries, waitsForSettlement } = this.#options;
    const to = uint64Codec.encode(sessionEndHeight + 1n);
    let from: Bytes | undefined = lastKey.length === 0 ? lastKey : concatBytes(lastKey, Uint8Array.of(0));
    while (from !== undefined) {
      const since = firstOf(entries.entries(ctx, { from, to }), 1)[0]?.[0][0];
      if (since === undefined) return;
      const endHeight = this.#options.endHeight(getSharedParamsAt(ctx, since), since);
      const settlementHeight = waitsForSettlement ? settlementHeightAt(ctx, since) : 0n;
      if (endHeight > sessionEndHeight || settlementHeight > sessionEndHeight) {
        from = nextParams(ctx, since);
        continue;
      }
      for (const [key] of entries.entries(ctx, { within: uint64Codec.encode(since), from })) yield { key, endHeight };
      from = uint64Codec.encode(since + 1n);
    }
  }

  #enterFormer(ctx: Context): void {
    const { former, enter } = this.#options;
    const free = unmetered(ctx);
    for (const [address] of firstOf(former.entries(free), MAX_ENDS_PER_BLOCK)) {
      former.remove(free, address);
      enter(free, address);
    }
  }

  /** List of a genesis that says how far blocks came in a session's end; it has at most one entry. */
  genesisList(field: string): GenesisList {
    const { entries, unfinished } = this.#options;
    type Entry = ValueOf<typeof UNFINISHED_END>;
    return genesisList(field, UNFINISHED_END, {
      init(ctx, list: readonly Entry[]): undefined {
        const [entry, ...more] = list;
        if (more.length > 0) {
          throw new AppError("CONFIG_INVALID", {
            message: `The genesis is not valid: ${field} has more than one entry.`,
          });
        }
        // A chain that begins anew at block 1 counts other blocks than the exported one.
        if (entry === undefined || entry.session_end_height > ctx.block.heightBlocks) return;
        const lastKey = entries.keyBytes([entry.since_height, entry.address]);
        unfinished.set(ctx, undefined, { sessionEndHeight: entry.session_end_height, lastKey });
      },
      *export(ctx): Generator<Entry> {
        const end = unfinished.get(ctx, undefined);
        // Only an earlier version wrote one without a key, for one block.
        if (end === undefined || end.lastKey.length === 0) return;
        const [[since, address]] = entries.decode(end.lastKey, new Uint8Array(0));
        yield { session_end_height: end.sessionEndHeight, since_height: since, address };
      },
    });
  }
}

/** First key of the sessions under the parameters after those of a height; undefined when there are none. */
function nextParams(ctx: Context, height: bigint): Bytes | undefined {
  const later = sharedParamsHistory.entries(ctx, { from: uint64Codec.encode(height + 1n) });
  const next = firstOf(later, 1)[0]?.[0];
  return next === undefined ? undefined : uint64Codec.encode(next);
}
