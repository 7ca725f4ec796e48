import { AppError } from "@turnpike/base";
import { createMessage, shared, supplier } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { addressType } from "../../state/genesis-types.ts";
import { isHeight } from "../../state/heights.ts";
import { genesisList, type Module, moduleGenesis } from "../../state/module.ts";
import { parsedRecord } from "../../state/parsed.ts";
import { coinAmount, STAKE_DENOM } from "../../state/stakes.ts";
import { poolFault } from "../bank/pools.ts";
import { activateConfigs, pruneConfigs, unbondSuppliers } from "./blocks.ts";
import { type SupplierOptions, supplierMessages } from "./messages.ts";
import { supplierParamsFault } from "./params.ts";
import { SUPPLIER_QUERIES } from "./queries.ts";
import { serviceConfigsFault } from "./service-configs.ts";
import { supplierStakeFault } from "./stake.ts";
import {
  DEFAULT_SUPPLIER_PARAMS,
  getDehydratedSupplier,
  getSupplier,
  getSupplierParams,
  neverServed,
  SUPPLIER_MODULE,
  setSupplier,
  supplierParams,
  suppliers,
} from "./state.ts";
import { UNFINISHED_LISTS } from "./unfinished-genesis.ts";

const FIRST_HEIGHT = 1n;

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the suppliers is not valid: ${why}.` });

function historyFault({ operatorAddress, serviceConfigHistory }: shared.Supplier): string | undefined {
  const seen = new Set<string>();
  for (const update of serviceConfigHistory) {
    const { service, activationHeight, deactivationHeight } = update;
    const at = `${service?.serviceId ?? ""}/${activationHeight}`;
    if (update.operatorAddress !== operatorAddress) return "its history has another operator";
    if (service === undefined || !isHeight(activationHeight) || !isHeight(deactivationHeight))
      return `its history of ${at}`;
    if (seen.has(at)) return `its history has ${at} twice`;
    seen.add(at);
    const fault = serviceConfigsFault([service]);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

// With a history the services are what of it holds, and two configurations of one service may (see newestOfEach).
function servicesFault(found: shared.Supplier): string | undefined {
  if (found.serviceConfigHistory.length === 0) return serviceConfigsFault(found.services);
  const faults = found.services.map((service) => serviceConfigsFault([service]));
  return faults.find((fault) => fault !== undefined) ?? historyFault(found);
}

// Slashing may have used up a stake, and makes its supplier unbond: both must come back from an export.
function stakeFaultOf({ stake, unstakeSessionEndHeight }: shared.Supplier): string | undefined {
  if (unstakeSessionEndHeight !== 0n && stake?.denom === STAKE_DENOM && stake.amount === "0") return undefined;
  const fault = stake === undefined ? "missing" : supplierStakeFault(stake);
  return fault === undefined ? undefined : `its stake: ${fault}`;
}

/** A supplier without a history has had its services from the first block on. */
function withHistory(found: shared.Supplier): shared.Supplier {
  if (found.serviceConfigHistory.length > 0) return found;
  const { operatorAddress, services } = found;
  const serviceConfigHistory = services.map((service) =>
    createMessage(shared.ServiceConfigUpdateSchema, { operatorAddress, service, activationHeight: FIRST_HEIGHT }),
  );
  return { ...found, serviceConfigHistory };
}

function init(ctx: Context, { params = DEFAULT_SUPPLIER_PARAMS, supplierList }: supplier.GenesisState): undefined {
  const wrong = supplierParamsFault(params);
  if (wrong !== undefined) throw invalid(wrong.text);
  supplierParams.set(ctx, undefined, params);
  let staked = 0n;
  for (const found of supplierList) {
    const { operatorAddress, ownerAddress, stake } = found;
    const why =
      addressFault(operatorAddress) ??
      addressFault(ownerAddress) ??
      stakeFaultOf(found) ??
      (isHeight(found.unstakeSessionEndHeight) ? undefined : "it has a height that no block has") ??
      servicesFault(found) ??
      (getDehydratedSupplier(ctx, operatorAddress) === undefined ? undefined : "it is there twice");
    if (why !== undefined) throw invalid(`supplier ${operatorAddress}: ${why}`);
    setSupplier(ctx, parsedRecord(withHistory(found)));
    staked += coinAmount(stake);
  }
  const lacking = poolFault(ctx, SUPPLIER_MODULE, staked);
  if (lacking !== undefined) throw invalid(lacking);
}

function initNeverServed(ctx: Context, operators: readonly string[]): undefined {
  for (const operator of operators) {
    const record = getSupplier(ctx, operator);
    if (record === undefined || record.serviceConfigHistory.length > 0) {
      throw invalid(`never_served_operators has ${operator}, which is not a supplier without services`);
    }
    neverServed.set(ctx, record.operatorAddress, undefined);
  }
}

function* exportNeverServed(ctx: Context): Generator<string> {
  for (const [operator] of neverServed.entries(ctx)) yield operator;
}

/** The module of suppliers: their stakes, and which services they have when. */
export function supplierModule(opts: SupplierOptions): Module {
  return {
    name: SUPPLIER_MODULE,
    messages: supplierMessages(opts),
    queries: SUPPLIER_QUERIES,
    genesis: moduleGenesis(supplier.GenesisStateSchema, {
      init,
      export: (ctx) =>
        createMessage(supplier.GenesisStateSchema, {
          params: getSupplierParams(ctx),
          supplierList: [...suppliers.entries(ctx)].flatMap(([operator]) => getSupplier(ctx, operator) ?? []),
        }),
      lists: [
        genesisList("never_served_operators", addressType, { init: initNeverServed, export: exportNeverServed }),
        ...UNFINISHED_LISTS,
      ],
    }),
    beginBlock: activateConfigs,
    endBlock(ctx): undefined {
      unbondSuppliers(ctx);
      pruneConfigs(ctx);
    },
  };
}
