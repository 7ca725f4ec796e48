import { AppError, isAppError, isEngineLimit } from "@turnpike/base";
import { addEvents, type ChainEvent, type Context, chainEvent } from "./context.ts";
import { boundedText } from "./outcome.ts";
import { Overlay } from "./overlay.ts";

/** Kinds of parts. */
export const PART_KINDS = [
  "begin_block",
  "end_block",
  "settlement",
  "proof",
  "difficulty",
  "unbonding",
  "transfer",
  "undelegation",
  "pruning",
] as const;

/** Part of the begin or end of a block that succeeds or fails alone: a claim's settlement, an account's unbonding. */
export interface BlockPart {
  readonly part: (typeof PART_KINDS)[number];
  /** The one that it is about, such as an address. */
  readonly item: string;
}

/** Type of the event that reports a part that failed; its attributes are `part`, `item` and `reason`. */
export const BLOCK_PART_FAILED = "block_part_failed";

/** A part that failed, and the reason. */
export interface FailedPart {
  readonly part: string;
  readonly item: string;
  readonly reason: string;
}

/** The parts that failed, by the events of a block. */
export function failedParts(events: readonly ChainEvent[]): FailedPart[] {
  return events.flatMap(({ type, attributes }) => {
    if (type !== BLOCK_PART_FAILED) return [];
    const { part = "", item = "", reason = "" } = Object.fromEntries(attributes.map(({ key, value }) => [key, value]));
    return [{ part, item, reason }];
  });
}

/** Outcome of a part: a value, or the reason that nothing of it was written. */
export type PartOutcome<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly reason: string };

/** Errors that come from the node and not from what it computes: it stops, or it would keep what others do not have. */
const STOPPING: ReadonlySet<string> = new Set([
  "CHAIN_STORE",
  "CHAIN_STORE_BUSY",
  "CHAIN_STORE_DAMAGED",
  "CHAIN_STORE_FULL",
  "CHAIN_INVARIANT",
  "CHAIN_ENGINE_LIMIT",
  "CHAIN_RULES",
  "CHAIN_UPGRADE",
]);

/** True for an error after which a node must not go on, whatever it was doing. */
export function stopsNode(error: unknown): boolean {
  return isAppError(error) && STOPPING.has(error.code);
}

function stoppingError(error: unknown, ctx: Context, { part, item }: BlockPart): AppError | undefined {
  const detail = { heightBlocks: ctx.block.heightBlocks.toString(), part, item };
  if (isEngineLimit(error)) return new AppError("CHAIN_ENGINE_LIMIT", { cause: error, detail });
  if (!isAppError(error) || !stopsNode(error)) return undefined;
  return new AppError(error.code, { cause: error, message: error.message, detail: { ...error.detail, ...detail } });
}

function reasonOf(error: unknown): string {
  if (!isAppError(error)) return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return `${error.code} ${JSON.stringify(error.detail)}`;
}

/**
 * Runs a part of a block on a branch of the state, which is written whole, with its events, or dropped whole. A part that
 * throws ends itself and not the block: every node computes the same fault.
 * @throws AppError that stops the node, with the height and the item: its store, a failed invariant, a limit of its machine
 */
export function attemptPart<T>(ctx: Context, part: BlockPart, run: (branch: Context) => T): PartOutcome<T> {
  const state = new Overlay(ctx.state);
  const events: ChainEvent[] = [];
  let value: T;
  try {
    value = run({ ...ctx, state, events });
  } catch (error) {
    const stopping = stoppingError(error, ctx, part);
    if (stopping !== undefined) throw stopping;
    return { ok: false, reason: boundedText(reasonOf(error)) };
  }
  state.commitTo(ctx.state);
  addEvents(ctx, events);
  return { ok: true, value };
}

/** As {@link attemptPart}; a part that fails is reported by an event. */
export function runPart<T>(ctx: Context, part: BlockPart, run: (branch: Context) => T): PartOutcome<T> {
  const outcome = attemptPart(ctx, part, run);
  if (!outcome.ok) ctx.events.push(chainEvent(BLOCK_PART_FAILED, { ...part, reason: outcome.reason }));
  return outcome;
}
