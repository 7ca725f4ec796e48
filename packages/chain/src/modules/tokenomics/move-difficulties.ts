import type { Settlement } from "@turnpike/protocol";
import { runPart } from "../../state/block-parts.ts";
import { firstOf } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { updateDifficulties } from "../service/difficulties.ts";
import { dueDifficulties, endUnderWay, relaysOfPart } from "./state.ts";

/**
 * Maximum number of difficulties that a block moves, with an event each. More than claims that it settles, so that the next blocks
 * finish those of one end of sessions while the next one is settled.
 */
export const MAX_DIFFICULTIES_PER_BLOCK = 4_096;
/** Maximum bytes of the events of those difficulties: a service's id has at most 42 characters, all else are numbers and hashes. */
export const MAX_DIFFICULTY_BYTES: number = MAX_DIFFICULTIES_PER_BLOCK * 1_024;

/** Settled relays by service. */
export type SettledRelays = Map<string, bigint>;

/** Adds relays to those of their services; sums wrap as the real chain's do. */
export function addRelays(relays: SettledRelays, settled: Settlement["settledRelays"]): void {
  for (const { serviceId, numRelays } of settled) {
    relays.set(serviceId, BigInt.asUintN(64, (relays.get(serviceId) ?? 0n) + numRelays));
  }
}

function addToPart(ctx: Context, relays: SettledRelays): void {
  for (const [serviceId, numRelays] of relays) {
    const before = relaysOfPart.get(ctx, serviceId) ?? 0n;
    relaysOfPart.set(ctx, serviceId, BigInt.asUintN(64, before + numRelays));
  }
}

function move(ctx: Context, relays: SettledRelays): void {
  if (relays.size === 0) return;
  runPart(ctx, { part: "difficulty", item: `${relays.size} services` }, (branch) => updateDifficulties(branch, relays));
}

/** Moves the first difficulties that earlier blocks left, those of one settlement after those of another. */
function moveDue(ctx: Context): void {
  const due = firstOf(dueDifficulties.entries(ctx), MAX_DIFFICULTIES_PER_BLOCK);
  const settlements = new Map<bigint, SettledRelays>();
  for (const [key, numRelays] of due) {
    const [settledHeight, serviceId] = key;
    dueDifficulties.remove(ctx, key);
    const relays: SettledRelays = settlements.get(settledHeight) ?? new Map<string, bigint>();
    settlements.set(settledHeight, relays.set(serviceId, numRelays));
  }
  for (const relays of settlements.values()) move(ctx, relays);
}

/**
 * Moves difficulties once for all sessions that end together: as often as they are settled, and by the sum of their relays. Until
 * the last of them is settled the sums are stored; those above the maximum of a block move in the next ones.
 * @param relays those that this block settled
 * @param unfinishedEnd end of which sessions wait for the next block; undefined when none do
 */
export function moveDifficulties(ctx: Context, relays: SettledRelays, unfinishedEnd: bigint | undefined): void {
  if (unfinishedEnd !== undefined) {
    endUnderWay.set(ctx, undefined, unfinishedEnd);
    addToPart(ctx, relays);
    moveDue(ctx);
    return;
  }
  if (endUnderWay.has(ctx, undefined)) endUnderWay.remove(ctx, undefined);
  const sums: SettledRelays = new Map(relaysOfPart.entries(ctx));
  for (const serviceId of sums.keys()) relaysOfPart.remove(ctx, serviceId);
  addRelays(
    sums,
    Array.from(relays, ([serviceId, numRelays]) => ({ serviceId, numRelays })),
  );
  if (sums.size <= MAX_DIFFICULTIES_PER_BLOCK && firstOf(dueDifficulties.entries(ctx), 1).length === 0) {
    move(ctx, sums);
    return;
  }
  for (const [serviceId, numRelays] of sums) dueDifficulties.set(ctx, [ctx.block.heightBlocks, serviceId], numRelays);
  moveDue(ctx);
}
