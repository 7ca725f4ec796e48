import { createMessage, service } from "@turnpike/proto";
import { nextSessionStartHeight, type RelayDifficulty, updateDifficulty } from "@turnpike/protocol";
import { slashEndedTextCodec } from "../../state/codecs.ts";
import type { Context } from "../../state/context.ts";
import { emit } from "../../state/typed-event.ts";
import { getSharedParams } from "../shared/state.ts";
import { difficulties, difficultyHistory, getServiceParams } from "./state.ts";

const toMessage = (difficulty: RelayDifficulty): service.RelayMiningDifficulty =>
  createMessage(service.RelayMiningDifficultySchema, difficulty);

function hasHistory(ctx: Context, serviceId: string): boolean {
  for (const _ of difficultyHistory.entries(ctx, { within: slashEndedTextCodec.encode(serviceId) })) return true;
  return false;
}

/**
 * Moves the difficulties of the services that were settled in this block, in the order of their ids, with one event each.
 * @param settledRelays relays of all claims settled in this block, expired ones left out, by service
 */
export function updateDifficulties(ctx: Context, settledRelays: ReadonlyMap<string, bigint>): void {
  const currentHeight = ctx.block.heightBlocks;
  const nextStart = nextSessionStartHeight(getSharedParams(ctx), currentHeight);
  const { targetNumRelays } = getServiceParams(ctx);
  const inOrder = [...settledRelays].sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  for (const [serviceId, numRelays] of inOrder) {
    const { current, history, event } = updateDifficulty({
      serviceId,
      numRelays,
      previous: difficulties.get(ctx, serviceId),
      hasHistory: hasHistory(ctx, serviceId),
      targetNumRelays,
      currentHeight,
      nextSessionStartHeight: nextStart,
    });
    for (const { effectiveHeight, difficulty } of history) {
      difficultyHistory.set(ctx, [serviceId, effectiveHeight], toMessage(difficulty));
    }
    difficulties.set(ctx, serviceId, toMessage(current));
    emit(ctx, service.EventRelayMiningDifficultyUpdatedSchema, event.value);
  }
}
