import { AppError } from "@turnpike/base";
import type { Context } from "../../state/context.ts";
import { addressType, heightType, recordType, textType, type ValueOf } from "../../state/genesis-types.ts";
import { type GenesisList, genesisList } from "../../state/module.ts";
import { serviceIdFault } from "../shared/services.ts";
import { UNFINISHED_UNBONDING } from "./blocks.ts";
import { configsByActivation, lastActivated } from "./state.ts";

const ACTIVATED = recordType({
  activation_height: heightType,
  service_id: textType((id) => serviceIdFault(id)?.text),
  operator_address: addressType,
});

/** The only entry of a list, if it is of this chain: one that begins anew at block 1 counts other blocks than the exported one. */
function onlyEntry<V>(ctx: Context, field: string, list: readonly V[], heightOf: (entry: V) => bigint): V | undefined {
  const [entry, ...more] = list;
  if (more.length > 0) {
    throw new AppError("CONFIG_INVALID", {
      message: `The genesis of the suppliers is not valid: ${field} has more than one entry.`,
    });
  }
  return entry === undefined || heightOf(entry) > ctx.block.heightBlocks ? undefined : entry;
}

function initActivated(ctx: Context, list: readonly ValueOf<typeof ACTIVATED>[]): undefined {
  const entry = onlyEntry(ctx, "last_activated", list, (one) => one.activation_height);
  if (entry === undefined) return;
  const { activation_height: height, service_id: serviceId, operator_address: operator } = entry;
  lastActivated.set(ctx, undefined, configsByActivation.keyBytes([height, [serviceId, operator]]));
}

function* exportActivated(ctx: Context): Generator<ValueOf<typeof ACTIVATED>> {
  const key = lastActivated.get(ctx, undefined);
  if (key === undefined) return;
  const [[height, [serviceId, operator]]] = configsByActivation.decode(key, new Uint8Array(0));
  yield { activation_height: height, service_id: serviceId, operator_address: operator };
}

/** Lists of a genesis that say how far a block came in what the next ones finish; each has at most one entry. */
export const UNFINISHED_LISTS: readonly GenesisList[] = [
  UNFINISHED_UNBONDING,
  genesisList("last_activated", ACTIVATED, { init: initActivated, export: exportActivated }),
];
