import { AppError } from "@turnpike/base";
import { application, proof, tokenomics } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import {
  accountType,
  addressType,
  type GenesisType,
  heightType,
  messageType,
  optionalType,
  recordType,
  textType,
  variantType,
} from "../../state/genesis-types.ts";
import { isHeight } from "../../state/heights.ts";
import { genesisList } from "../../state/module.ts";
import type { Versions } from "../../state/versions.ts";
import { spendLimitFault } from "../application/staking.ts";
import { proofParamsFault } from "../proof/params.ts";
import { serviceIdFault } from "../shared/services.ts";
import { tokenomicsParamsFault } from "../tokenomics/params.ts";
import { pastApplications, pastOwners, pastProofParams, pastTokenomicsParams } from "./history.ts";

/** An earlier record; `value` is undefined where there was none. */
interface HistoryEntry {
  readonly record: string;
  readonly key: string;
  readonly last_height: bigint;
  readonly value: unknown;
}

/** The entries of one kind of record in a genesis. */
interface RecordHistory {
  readonly record: string;
  readonly type: GenesisType<HistoryEntry>;
  entries(ctx: Context): Iterable<HistoryEntry>;
  /** Adds an entry of the type; false when it is listed twice. */
  add(ctx: Context, entry: HistoryEntry): boolean;
}

const NO_KEY = textType((key) => (key === "" ? undefined : "it has a key"));

function recordHistory<V>(
  record: string,
  versions: Versions<V>,
  types: { readonly key: GenesisType<string>; readonly value: GenesisType<V> },
): RecordHistory {
  const type = recordType({
    record: textType(),
    key: types.key,
    last_height: heightType,
    value: optionalType(types.value),
  });
  return {
    record,
    type,
    *entries(ctx) {
      for (const { key, lastHeight, value } of versions.entries(ctx))
        yield { record, key, last_height: lastHeight, value };
    },
    add(ctx, { key, last_height: lastHeight, value }) {
      // A chain that begins anew at block 1 counts other blocks than the one that was exported.
      if (lastHeight > ctx.block.heightBlocks) return true;
      if (versions.has(ctx, key, lastHeight)) return false;
      // The list has only entries that the type of their record read.
      versions.add(ctx, { key, lastHeight, value: value as V | undefined });
      return true;
    },
  };
}

function applicationFault(app: application.Application): string | undefined {
  const past = Object.values(app.pendingUndelegations).flatMap(({ gatewayAddresses }) => gatewayAddresses);
  const heights = [
    app.unstakeSessionEndHeight,
    app.pendingTransfer?.sessionEndHeight ?? 0n,
    ...Object.keys(app.pendingUndelegations).map(BigInt),
  ];
  const faults = [app.address, ...app.delegateeGatewayAddresses, ...past].map((address) => addressFault(address));
  return (
    faults.find((fault) => fault !== undefined) ??
    (heights.every(isHeight) ? undefined : "a height that no block has") ??
    spendLimitFault(app.perSessionSpendLimit)?.text
  );
}

const HISTORIES: readonly RecordHistory[] = [
  recordHistory("application", pastApplications, {
    key: addressType,
    value: messageType(application.ApplicationSchema, applicationFault),
  }),
  recordHistory("service_owner", pastOwners, {
    key: textType((id) => serviceIdFault(id)?.text),
    value: accountType,
  }),
  recordHistory("proof_params", pastProofParams, {
    key: NO_KEY,
    value: messageType(proof.ParamsSchema, (params) => proofParamsFault(params)?.text),
  }),
  recordHistory("tokenomics_params", pastTokenomicsParams, {
    key: NO_KEY,
    value: messageType(tokenomics.ParamsSchema, (params) => tokenomicsParamsFault(params)?.text),
  }),
];

/** The earlier records that unsettled sessions need. */
export const RECORDS_HISTORY = genesisList(
  "records_history",
  variantType("record", new Map(HISTORIES.map(({ record, type }) => [record, type]))),
  {
    init(ctx, entries): undefined {
      for (const [at, entry] of entries.entries()) {
        const history = HISTORIES.find(({ record }) => record === entry.record);
        if (history?.add(ctx, entry) === true) continue;
        const message = `The genesis of the session module is not valid: records_history: entry ${at}: listed twice.`;
        throw new AppError("CONFIG_INVALID", { message });
      }
    },
    *export(ctx) {
      for (const history of HISTORIES) yield* history.entries(ctx);
    },
  },
);
