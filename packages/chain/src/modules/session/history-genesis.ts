import { AppError, isRecord } from "@turnpike/base";
import { application, fromApiJson, proof, toApiJson, tokenomics } from "@turnpike/proto";
import { addressFault, parseAccount } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { isHeight } from "../../state/heights.ts";
import { parsedRecord } from "../../state/parsed.ts";
import type { Versions } from "../../state/versions.ts";
import { spendLimitFault } from "../application/staking.ts";
import { proofParamsFault } from "../proof/params.ts";
import { serviceIdFault } from "../shared/services.ts";
import { tokenomicsParamsFault } from "../tokenomics/params.ts";
import { pastApplications, pastOwners, pastProofParams, pastTokenomicsParams } from "./history.ts";

type Json = Readonly<Record<string, unknown>>;
type Read<V> = { readonly ok: true; readonly message: V } | { readonly ok: false; readonly fault: string };

/** The entries of one kind of record in a genesis. */
interface HistoryGenesis {
  export(ctx: Context): Json[];
  /** Adds an entry; returns what is wrong with it. */
  add(ctx: Context, entry: Json): string | undefined;
}

const HEIGHT = /^\d{1,18}$/;
const noKey = (key: string): string | undefined => (key === "" ? undefined : "it has a key");

function historyGenesis<V>(
  record: string,
  versions: Versions<V>,
  parts: {
    keyFault(key: string): string | undefined;
    toJson(value: V): unknown;
    read(json: unknown): Read<V>;
  },
): readonly [string, HistoryGenesis] {
  const toEntry = ({
    key,
    lastHeight,
    value,
  }: ReturnType<typeof versions.entries> extends Iterable<infer E> ? E : never) => ({
    record,
    key,
    last_height: lastHeight.toString(),
    value: value === undefined ? null : parts.toJson(value),
  });
  return [
    record,
    {
      export: (ctx) => [...versions.entries(ctx)].map(toEntry),
      add(ctx, { key, last_height: heightText, value: json }) {
        const lastHeight = typeof heightText === "string" && HEIGHT.test(heightText) ? BigInt(heightText) : -1n;
        if (typeof key !== "string") return "no key";
        const fault = parts.keyFault(key) ?? (isHeight(lastHeight) ? undefined : "a height that no block has");
        if (fault !== undefined) return fault;
        const read = json === null ? undefined : parts.read(json);
        if (read?.ok === false) return read.fault;
        // A chain that begins anew at block 1 counts other blocks than the one that was exported.
        if (lastHeight > ctx.block.heightBlocks) return undefined;
        if (versions.has(ctx, key, lastHeight)) return "listed twice";
        versions.add(ctx, { key, lastHeight, value: read?.message });
        return undefined;
      },
    },
  ];
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

/** A message of a genesis that passes a check, or what is wrong with it. */
function checked<V>(read: Read<V>, faultOf: (message: V) => string | undefined): Read<V> {
  const fault = read.ok ? faultOf(read.message) : undefined;
  return fault === undefined ? read : { ok: false, fault };
}

const KINDS: ReadonlyMap<string, HistoryGenesis> = new Map([
  historyGenesis("application", pastApplications, {
    keyFault: addressFault,
    toJson: (value) => toApiJson(application.ApplicationSchema, value),
    read: (json) => checked(fromApiJson(application.ApplicationSchema, json), applicationFault),
  }),
  historyGenesis("service_owner", pastOwners, {
    keyFault: (key) => serviceIdFault(key)?.text,
    toJson: (value) => value,
    read(json) {
      const parsed = parseAccount(typeof json === "string" ? json : "");
      return parsed.ok ? { ok: true, message: parsed.value } : { ok: false, fault: parsed.fault.text };
    },
  }),
  historyGenesis("proof_params", pastProofParams, {
    keyFault: noKey,
    toJson: (value) => toApiJson(proof.ParamsSchema, value),
    read: (json) => checked(fromApiJson(proof.ParamsSchema, json), (params) => proofParamsFault(params)?.text),
  }),
  historyGenesis("tokenomics_params", pastTokenomicsParams, {
    keyFault: noKey,
    toJson: (value) => toApiJson(tokenomics.ParamsSchema, value),
    read(json) {
      const read = checked(fromApiJson(tokenomics.ParamsSchema, json), (params) => tokenomicsParamsFault(params)?.text);
      return read.ok ? { ok: true, message: parsedRecord(read.message) } : read;
    },
  }),
]);

/** Field of the session module's genesis with the earlier records that unsettled sessions need. */
export const HISTORY_FIELD = "records_history";

/** All entries as a genesis has them. */
export function exportHistory(ctx: Context): Json[] {
  return [...KINDS.values()].flatMap((kind) => kind.export(ctx));
}

/** Adds the entries that {@link exportHistory} gave. @throws AppError CONFIG_INVALID */
export function addHistory(ctx: Context, list: unknown): void {
  const invalid = (why: string): AppError =>
    new AppError("CONFIG_INVALID", {
      message: `The genesis of the session module is not valid: ${HISTORY_FIELD}: ${why}.`,
    });
  if (!Array.isArray(list)) throw invalid("not a list");
  for (const [index, item] of (list as readonly unknown[]).entries()) {
    const entry = isRecord(item) ? item : {};
    const { record } = entry;
    const kind = typeof record === "string" ? KINDS.get(record) : undefined;
    const fault = kind === undefined ? "no such record" : kind.add(ctx, entry);
    if (fault !== undefined) throw invalid(`entry ${index}: ${fault}`);
  }
}
