import { AppError } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { createMessage, session } from "@turnpike/proto";
import { type Codec, messageCodec, noKey, pairCodec, rawCodec, textCodec, uint64Codec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { updateBytes } from "../../state/update-bytes.ts";

/** Name of the module, and of its part of the state. */
export const SESSION_MODULE = "session";

const module = SESSION_MODULE;

/** A supplier that a session draws: its key among the configurations of the service. */
export interface Candidate {
  /** Operator address in bytes of text. */
  readonly operator: Bytes;
  readonly activationHeight: bigint;
}

const HEIGHT_BYTES = 8;
/** A text is of any length, and has no zero byte. */
const END_OF_TEXT = Uint8Array.of(0);

/** What was drawn for a session. */
export interface DrawnSession {
  /** The most suppliers that a session had when it was drawn. */
  readonly limit: bigint;
  /** In the session's order. */
  readonly suppliers: readonly Candidate[];
}

const drawnCodec: Codec<DrawnSession> = {
  encode: ({ limit, suppliers }) =>
    Buffer.concat([
      uint64Codec.encode(limit),
      ...suppliers.flatMap(({ operator, activationHeight }) => [
        uint64Codec.encode(activationHeight),
        operator,
        END_OF_TEXT,
      ]),
    ]),
  decode(bytes) {
    const suppliers: Candidate[] = [];
    const limit = uint64Codec.decode(bytes.subarray(0, HEIGHT_BYTES));
    for (let at = HEIGHT_BYTES; at < bytes.length; ) {
      const text = at + HEIGHT_BYTES;
      const end = bytes.indexOf(0, text);
      if (end < 0) throw new AppError("CHAIN_STORE_DAMAGED", { detail: { damaged: "a drawn session" } });
      const activationHeight = uint64Codec.decode(bytes.subarray(at, text));
      suppliers.push({ operator: Uint8Array.from(bytes.subarray(text, end)), activationHeight });
      at = end + 1;
    }
    return { limit, suppliers };
  },
};

/** The parameters as they are now. */
export const sessionParams = new Collection({
  module,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: messageCodec(session.ParamsSchema),
  stored: { prefixBytes: "p_session".length },
});
/** Parameters by the height from which they hold. */
export const sessionParamsHistory = new Collection({
  module,
  prefix: Uint8Array.of(1),
  key: uint64Codec,
  value: messageCodec(session.ParamsSchema),
  stored: {
    prefixBytes: "session_params_history/".length,
    valueBytes: (height, value) => updateBytes(height, value.length),
  },
});
/** Hash of each block, 32 bytes, by height: what sessions and proofs are drawn by. Written at the block's end. */
export const blockHashes = new Collection({
  module,
  prefix: Uint8Array.of(2),
  key: uint64Codec,
  value: rawCodec,
  stored: {
    prefixBytes: "BlockHash/height/".length,
    keyBytes: (height) => `${height}/`.length,
  },
});

/** Drawn sessions in the encoding of an earlier build. They are drawn again when they are needed, so blocks remove them. */
export const formerDrawnSessions = new Collection({
  module,
  prefix: Uint8Array.of(3),
  key: pairCodec(uint64Codec, textCodec),
  value: rawCodec,
});

/**
 * Suppliers of sessions that were asked for while a block ran, by first height and id: the keys of their configurations
 * for the session's service, in the session's order. A session is claimed and proven by many; it is drawn once.
 */
export const drawnSessions = new Collection({
  module,
  prefix: Uint8Array.of(12),
  key: pairCodec(uint64Codec, textCodec),
  value: drawnCodec,
});

/** The parameters as they are now. */
export function getSessionParams(ctx: Context): session.Params {
  return sessionParams.get(ctx, undefined) ?? createMessage(session.ParamsSchema);
}

/**
 * The parameters that hold at a height: the newest entry of the history that is not later, else the oldest one, else
 * today's. The oldest is what the first change took the place of. The real chain takes today's there: its first change
 * draws the sessions under way anew, and who is drawn no longer can neither claim nor prove.
 */
export function getSessionParamsAt(ctx: Context, height: bigint): session.Params {
  if (height >= 0n) {
    const to = uint64Codec.encode(height + 1n);
    for (const [, params] of sessionParamsHistory.entries(ctx, { to, reverse: true })) return params;
  }
  for (const [, params] of sessionParamsHistory.entries(ctx)) return params;
  return getSessionParams(ctx);
}

/** Hash of the block at a height; empty for one before the chain began or not there yet. */
export function getBlockHash(ctx: Context, height: bigint): Bytes {
  if (height === ctx.block.heightBlocks && ctx.block.hash.length > 0) return ctx.block.hash;
  return height < 0n ? new Uint8Array(0) : (blockHashes.get(ctx, height) ?? new Uint8Array(0));
}

/** Notes the hash of the block that is being run. */
export function keepBlockHash(ctx: Context): void {
  if (ctx.block.hash.length === 0) throw new AppError("CHAIN_INVARIANT", { detail: { missing: "the block's hash" } });
  blockHashes.set(ctx, ctx.block.heightBlocks, ctx.block.hash);
}
