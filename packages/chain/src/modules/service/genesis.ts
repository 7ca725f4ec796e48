import { AppError } from "@turnpike/base";
import { createMessage, service } from "@turnpike/proto";
import type { Context } from "../../state/context.ts";
import { messageType } from "../../state/genesis-types.ts";
import { isHeight } from "../../state/heights.ts";
import { genesisList, moduleGenesis } from "../../state/module.ts";
import { parsedRecord } from "../../state/parsed.ts";
import { computeUnitsFault, serviceFault, serviceIdFault } from "../shared/services.ts";
import { DEFAULT_SERVICE_PARAMS, serviceParamsFault } from "./params.ts";
import {
  computeUnitsHistory,
  difficulties,
  difficultyHistory,
  getServiceParams,
  serviceParams,
  services,
} from "./state.ts";

const TARGET_BYTES = 32;

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the service module is not valid: ${why}.` });

function difficultyFault({ serviceId, targetHash }: service.RelayMiningDifficulty): string | undefined {
  // Settlement divides by it.
  const isTarget = targetHash.length === TARGET_BYTES && targetHash.some((byte) => byte !== 0);
  return serviceIdFault(serviceId)?.text ?? (isTarget ? undefined : "no target of 32 bytes over zero");
}

function difficultyUpdateFault({
  effectiveHeight,
  difficulty,
}: service.RelayMiningDifficultyUpdate): string | undefined {
  const fault =
    (difficulty === undefined ? "no difficulty" : difficultyFault(difficulty)) ??
    (isHeight(effectiveHeight) ? undefined : "a height that no block has");
  return fault === undefined ? undefined : `the difficulty of ${difficulty?.serviceId} at ${effectiveHeight}: ${fault}`;
}

function addDifficultyHistory(ctx: Context, updates: readonly service.RelayMiningDifficultyUpdate[]): undefined {
  for (const { effectiveHeight, difficulty } of updates) {
    if (difficulty === undefined) continue;
    const key = [difficulty.serviceId, effectiveHeight] as const;
    if (difficultyHistory.has(ctx, key)) throw invalid(`the difficulty of ${key.join(" at ")}: listed twice`);
    difficultyHistory.set(ctx, key, difficulty);
  }
}

function* exportDifficultyHistory(ctx: Context): Generator<service.RelayMiningDifficultyUpdate> {
  for (const [[, effectiveHeight], difficulty] of difficultyHistory.entries(ctx)) {
    yield createMessage(service.RelayMiningDifficultyUpdateSchema, { effectiveHeight, difficulty });
  }
}

function initServices(ctx: Context, state: service.GenesisState): undefined {
  const { params = DEFAULT_SERVICE_PARAMS, serviceList, relayMiningDifficultyList } = state;
  const fault = serviceParamsFault(params);
  if (fault !== undefined) throw invalid(fault.text);
  serviceParams.set(ctx, undefined, params);
  for (const listed of serviceList) {
    const wrong = serviceFault(listed)?.text ?? (services.has(ctx, listed.id) ? "listed twice" : undefined);
    if (wrong !== undefined) throw invalid(`service ${listed.id}: ${wrong}`);
    services.set(ctx, listed.id, parsedRecord(listed));
  }
  for (const listed of relayMiningDifficultyList) {
    const { serviceId } = listed;
    const wrong = difficultyFault(listed) ?? (difficulties.has(ctx, serviceId) ? "listed twice" : undefined);
    if (wrong !== undefined) throw invalid(`the difficulty of ${serviceId}: ${wrong}`);
    difficulties.set(ctx, serviceId, listed);
  }
  for (const { effectiveHeight, serviceId, computeUnitsPerRelay } of state.computeUnitsPerRelayHistory) {
    const wrong =
      serviceIdFault(serviceId)?.text ??
      computeUnitsFault(computeUnitsPerRelay)?.text ??
      (isHeight(effectiveHeight) ? undefined : "a height that no block has");
    if (wrong !== undefined) throw invalid(`the compute units of ${serviceId}: ${wrong}`);
    computeUnitsHistory.set(ctx, [serviceId, effectiveHeight], computeUnitsPerRelay);
  }
}

function exportServices(ctx: Context): service.GenesisState {
  return createMessage(service.GenesisStateSchema, {
    params: getServiceParams(ctx),
    serviceList: [...services.entries(ctx)].map(([, listed]) => listed),
    relayMiningDifficultyList: [...difficulties.entries(ctx)].map(([, listed]) => listed),
    computeUnitsPerRelayHistory: [...computeUnitsHistory.entries(ctx)].map(
      ([[serviceId, effectiveHeight], computeUnitsPerRelay]) =>
        createMessage(service.ServiceComputeUnitsPerRelayUpdateSchema, {
          effectiveHeight,
          serviceId,
          computeUnitsPerRelay,
        }),
    ),
  });
}

/**
 * Genesis of services: that of the real chain, and as `relay_mining_difficulty_history` the difficulties by height that open
 * claims are priced by, for which the real chain's has no field.
 */
export const SERVICE_GENESIS = moduleGenesis(service.GenesisStateSchema, {
  init: initServices,
  export: exportServices,
  lists: [
    genesisList(
      "relay_mining_difficulty_history",
      messageType(service.RelayMiningDifficultyUpdateSchema, difficultyUpdateFault),
      { init: addDifficultyHistory, export: exportDifficultyHistory },
    ),
  ],
});
