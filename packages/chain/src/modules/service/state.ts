import { createMessage, service, shared } from "@turnpike/proto";
import { difficultyOfUnusedService, type RelayDifficulty } from "@turnpike/protocol";
import { messageCodec, noKey, pairCodec, slashEndedTextCodec, uint64Codec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { type Parsed, recordCodec } from "../../state/parsed.ts";
import { updateBytes, varintBytes } from "../../state/update-bytes.ts";
import { MAX_SERVICE_ID_BYTES } from "../shared/services.ts";

/** Name of the module, and of its part of the state. */
export const SERVICE_MODULE = "service";

const module = SERVICE_MODULE;

// The real chain's `ServiceComputeUnitsPerRelayUpdate`: height, service and units.
const unitsUpdateBytes = (serviceId: string, height: bigint, units: bigint): number =>
  1 + varintBytes(height) + 2 + serviceId.length + (units === 0n ? 0 : 1 + varintBytes(units));

/** The parameters. */
export const serviceParams = new Collection({
  module,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: messageCodec(service.ParamsSchema),
  stored: { prefixBytes: "p_service".length },
});
/** Services by id, their cards included. */
export const services = new Collection({
  module,
  prefix: Uint8Array.of(1),
  key: slashEndedTextCodec,
  value: recordCodec(shared.ServiceSchema),
  stored: { prefixBytes: "Service/id/".length },
});
/** Each service's newest difficulty, which may hold from the next session on only. */
export const difficulties = new Collection({
  module,
  prefix: Uint8Array.of(2),
  key: slashEndedTextCodec,
  value: messageCodec(service.RelayMiningDifficultySchema),
  stored: { prefixBytes: "RelayMiningDifficulty/value/".length },
});
/** Difficulties by service and the height from which they hold. */
export const difficultyHistory = new Collection({
  module,
  prefix: Uint8Array.of(3),
  key: pairCodec(slashEndedTextCodec, uint64Codec),
  value: messageCodec(service.RelayMiningDifficultySchema),
  stored: {
    prefixBytes: "RelayMiningDifficulty/history/".length,
    valueBytes: ([, height], value) => updateBytes(height, value.length),
  },
});
/** Compute units of a relay by service and the height from which they hold. */
export const computeUnitsHistory = new Collection({
  module,
  prefix: Uint8Array.of(4),
  key: pairCodec(slashEndedTextCodec, uint64Codec),
  value: uint64Codec,
  stored: {
    prefixBytes: "ServiceComputeUnitsPerRelay/history/".length,
    valueBytes: ([serviceId, height], value) => unitsUpdateBytes(serviceId, height, uint64Codec.decode(value)),
  },
});

/** The parameters. */
export function getServiceParams(ctx: Context): service.Params {
  return serviceParams.get(ctx, undefined) ?? createMessage(service.ParamsSchema);
}

/** A service; undefined when there is none. */
export function getService(ctx: Context, serviceId: string): Parsed<shared.Service> | undefined {
  return serviceId.length > MAX_SERVICE_ID_BYTES ? undefined : services.get(ctx, serviceId);
}

/**
 * Compute units of one relay at a height: the newest entry of the history that is not later, else the service's own;
 * undefined when there is no such service.
 */
export function getComputeUnitsPerRelayAt(ctx: Context, serviceId: string, height: bigint): bigint | undefined {
  const within = slashEndedTextCodec.encode(serviceId);
  if (height >= 0n) {
    const to = computeUnitsHistory.keyBytes([serviceId, height + 1n]);
    for (const [, units] of computeUnitsHistory.entries(ctx, { within, to, reverse: true })) return units;
  }
  return getService(ctx, serviceId)?.computeUnitsPerRelay;
}

/** The difficulty that holds at a height; a service without one has the base. */
export function getDifficultyAt(ctx: Context, serviceId: string, height: bigint): RelayDifficulty {
  const within = slashEndedTextCodec.encode(serviceId);
  if (height >= 0n) {
    const to = difficultyHistory.keyBytes([serviceId, height + 1n]);
    for (const [, found] of difficultyHistory.entries(ctx, { within, to, reverse: true })) return found;
  }
  return difficultyOfUnusedService(serviceId, getServiceParams(ctx).targetNumRelays, 0n);
}
