import { AppError } from "@turnpike/base";
import { createMessage, service } from "@turnpike/proto";
import type { Context } from "../../state/context.ts";
import { isHeight } from "../../state/heights.ts";
import { type Module, moduleGenesis } from "../../state/module.ts";
import type { ParamMessageOptions } from "../shared/messages.ts";
import { computeUnitsFault, serviceFault, serviceIdFault } from "../shared/services.ts";
import { serviceMessages } from "./messages.ts";
import { DEFAULT_SERVICE_PARAMS, serviceParamsFault } from "./params.ts";
import { SERVICE_QUERIES } from "./queries.ts";
import {
  computeUnitsHistory,
  difficulties,
  getServiceParams,
  SERVICE_MODULE,
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

function init(ctx: Context, state: service.GenesisState): undefined {
  const { params = DEFAULT_SERVICE_PARAMS, serviceList, relayMiningDifficultyList } = state;
  const fault = serviceParamsFault(params);
  if (fault !== undefined) throw invalid(fault.text);
  serviceParams.set(ctx, undefined, params);
  for (const listed of serviceList) {
    const wrong = serviceFault(listed)?.text ?? (services.has(ctx, listed.id) ? "listed twice" : undefined);
    if (wrong !== undefined) throw invalid(`service ${listed.id}: ${wrong}`);
    services.set(ctx, listed.id, listed);
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

// As on the real chain, a genesis carries each service's difficulty but not the history of difficulties.
function exportState(ctx: Context): service.GenesisState {
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

/** The module of services, their compute units and their difficulties. Its blocks begin and end without a step of its own. */
export function serviceModule(opts: ParamMessageOptions): Module {
  return {
    name: SERVICE_MODULE,
    messages: serviceMessages(opts),
    queries: SERVICE_QUERIES,
    genesis: moduleGenesis(service.GenesisStateSchema, { init, export: exportState }),
  };
}
