import { AppError } from "@turnpike/base";
import { createMessage, tokenomics } from "@turnpike/proto";
import type { Context } from "../../state/context.ts";
import { heightType, numberType, recordType, textType, type ValueOf } from "../../state/genesis-types.ts";
import { genesisList, type Module, moduleGenesis, queryHandler } from "../../state/module.ts";
import { parsedRecord } from "../../state/parsed.ts";
import { serviceIdFault } from "../shared/services.ts";
import { tokenomicsMessages, tokenomicsParamsFault } from "./params.ts";
import { settleDueClaims } from "./settle-claims.ts";
import {
  DEFAULT_TOKENOMICS_PARAMS,
  dueDifficulties,
  endUnderWay,
  getTokenomicsParams,
  relaysOfPart,
  TOKENOMICS_MODULE,
  tokenomicsParams,
} from "./state.ts";

/** What the module of settlement needs to know of the chain. */
export interface TokenomicsOptions {
  /** Address whose messages change parameters. */
  readonly authority: string;
}

const MAX_RELAYS = 2n ** 64n - 1n;
const RELAYS = {
  service_id: textType((id) => serviceIdFault(id)?.text),
  num_relays: numberType((relays) => (relays <= MAX_RELAYS ? undefined : `more than ${MAX_RELAYS}`)),
};
const RELAYS_OF_PART = recordType(RELAYS);
const DUE_DIFFICULTY = recordType({ settled_height: heightType, ...RELAYS });

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of settlement is not valid: ${why}.` });

function initRelays(ctx: Context, list: readonly ValueOf<typeof RELAYS_OF_PART>[]): undefined {
  for (const { service_id: serviceId, num_relays: numRelays } of list) {
    if (relaysOfPart.has(ctx, serviceId)) throw invalid(`relays_of_part has ${serviceId} twice`);
    relaysOfPart.set(ctx, serviceId, numRelays);
  }
}

function* exportRelays(ctx: Context): Generator<ValueOf<typeof RELAYS_OF_PART>> {
  for (const [serviceId, numRelays] of relaysOfPart.entries(ctx)) {
    yield { service_id: serviceId, num_relays: numRelays };
  }
}

function initDue(ctx: Context, list: readonly ValueOf<typeof DUE_DIFFICULTY>[]): undefined {
  for (const { settled_height: height, service_id: serviceId, num_relays: numRelays } of list) {
    if (dueDifficulties.has(ctx, [height, serviceId])) throw invalid(`due_difficulties has ${serviceId} twice`);
    dueDifficulties.set(ctx, [height, serviceId], numRelays);
  }
}

function* exportDue(ctx: Context): Generator<ValueOf<typeof DUE_DIFFICULTY>> {
  for (const [[height, serviceId], numRelays] of dueDifficulties.entries(ctx)) {
    yield { settled_height: height, service_id: serviceId, num_relays: numRelays };
  }
}

function initEnd(ctx: Context, list: readonly bigint[]): undefined {
  const [height, ...more] = list;
  if (more.length > 0) throw invalid("end_under_way has more than one entry");
  // A chain that begins anew at block 1 counts other blocks than the one that was exported.
  if (height !== undefined && height <= ctx.block.heightBlocks) endUnderWay.set(ctx, undefined, height);
}

function* exportEnd(ctx: Context): Generator<bigint> {
  const height = endUnderWay.get(ctx, undefined);
  if (height !== undefined) yield height;
}

function init(ctx: Context, { params = DEFAULT_TOKENOMICS_PARAMS }: tokenomics.GenesisState): undefined {
  const fault = tokenomicsParamsFault(params);
  if (fault !== undefined) throw invalid(fault.text);
  tokenomicsParams.set(ctx, undefined, parsedRecord(params));
}

/** The module of settlement: money moves at the end of blocks alone. */
export function tokenomicsModule({ authority }: TokenomicsOptions): Module {
  return {
    name: TOKENOMICS_MODULE,
    messages: tokenomicsMessages(authority),
    queries: {
      "/pocket.tokenomics.Query/Params": queryHandler(
        tokenomics.QueryParamsRequestSchema,
        tokenomics.QueryParamsResponseSchema,
        (ctx) => ({
          ok: true,
          value: createMessage(tokenomics.QueryParamsResponseSchema, { params: getTokenomicsParams(ctx) }),
        }),
      ),
    },
    genesis: moduleGenesis(tokenomics.GenesisStateSchema, {
      init,
      export: (ctx) => createMessage(tokenomics.GenesisStateSchema, { params: getTokenomicsParams(ctx) }),
      // For the real chain's genesis has no fields: it settles all that is due in one block.
      lists: [
        genesisList("relays_of_part", RELAYS_OF_PART, { init: initRelays, export: exportRelays }),
        genesisList("due_difficulties", DUE_DIFFICULTY, { init: initDue, export: exportDue }),
        genesisList("end_under_way", heightType, { init: initEnd, export: exportEnd }),
      ],
    }),
    endBlock(ctx) {
      settleDueClaims(ctx);
      return undefined;
    },
  };
}
