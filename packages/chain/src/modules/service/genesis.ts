import { AppError, isRecord } from "@turnpike/base";
import { createMessage, fromApiJson, service, toApiJson } from "@turnpike/proto";
import type { Context } from "../../state/context.ts";
import { isHeight } from "../../state/heights.ts";
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

const DIFFICULTY_HISTORY = "relay_mining_difficulty_history";
const TARGET_BYTES = 32;

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the service module is not valid: ${why}.` });

function difficultyFault({ serviceId, targetHash }: service.RelayMiningDifficulty): string | undefined {
  // Settlement divides by it.
  const isTarget = targetHash.length === TARGET_BYTES && targetHash.some((byte) => byte !== 0);
  return serviceIdFault(serviceId)?.text ?? (isTarget ? undefined : "no target of 32 bytes over zero");
}

function addDifficultyHistory(ctx: Context, list: unknown): void {
  if (!Array.isArray(list)) throw invalid(`${DIFFICULTY_HISTORY} is no list`);
  for (const item of list as readonly unknown[]) {
    const read = fromApiJson(service.RelayMiningDifficultyUpdateSchema, item);
    if (!read.ok) throw invalid(`an entry of ${DIFFICULTY_HISTORY}: ${read.fault}`);
    const { effectiveHeight, difficulty } = read.message;
    const { serviceId = "" } = difficulty ?? {};
    const wrong =
      (difficulty === undefined ? "no difficulty" : difficultyFault(difficulty)) ??
      (isHeight(effectiveHeight) ? undefined : "a height that no block has") ??
      (difficultyHistory.has(ctx, [serviceId, effectiveHeight]) ? "listed twice" : undefined);
    if (difficulty === undefined || wrong !== undefined) {
      throw invalid(`the difficulty of ${serviceId} at ${effectiveHeight}: ${wrong}`);
    }
    difficultyHistory.set(ctx, [serviceId, effectiveHeight], difficulty);
  }
}

/**
 * Fills the state from a genesis: that of the real chain, and as `relay_mining_difficulty_history` the difficulties by height
 * that open claims are priced by, for which the real chain's has no field.
 * @throws AppError CONFIG_INVALID
 */
export function initServices(ctx: Context, json: unknown): undefined {
  const { [DIFFICULTY_HISTORY]: history = [], ...rest } = isRecord(json) ? json : {};
  const read = fromApiJson(service.GenesisStateSchema, isRecord(json) ? rest : (json ?? {}));
  if (!read.ok) throw invalid(read.fault);
  const { params = DEFAULT_SERVICE_PARAMS, serviceList, relayMiningDifficultyList } = read.message;
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
  addDifficultyHistory(ctx, history);
  for (const { effectiveHeight, serviceId, computeUnitsPerRelay } of read.message.computeUnitsPerRelayHistory) {
    const wrong =
      serviceIdFault(serviceId)?.text ??
      computeUnitsFault(computeUnitsPerRelay)?.text ??
      (isHeight(effectiveHeight) ? undefined : "a height that no block has");
    if (wrong !== undefined) throw invalid(`the compute units of ${serviceId}: ${wrong}`);
    computeUnitsHistory.set(ctx, [serviceId, effectiveHeight], computeUnitsPerRelay);
  }
}

/** What {@link initServices} makes the same state of. */
export function exportServices(ctx: Context): Record<string, unknown> {
  const state = createMessage(service.GenesisStateSchema, {
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
  const history = [...difficultyHistory.entries(ctx)].map(([[, effectiveHeight], difficulty]) =>
    toApiJson(
      service.RelayMiningDifficultyUpdateSchema,
      createMessage(service.RelayMiningDifficultyUpdateSchema, { effectiveHeight, difficulty }),
    ),
  );
  const json = toApiJson(service.GenesisStateSchema, state) as Record<string, unknown>;
  return history.length === 0 ? json : { ...json, [DIFFICULTY_HISTORY]: history };
}
