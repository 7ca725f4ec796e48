import { existsSync } from "node:fs";
import { AppError, type SettlementId, unitsToDecimal } from "@turnpike/base";
import { type Config, relayerKeys } from "@turnpike/config";
import { findUpConfig, isUpStarting } from "@turnpike/devnet/files";
import type { LedgerFault, PaymentRecord, PaymentState } from "@turnpike/payment";
import type { PortalDbFault } from "@turnpike/portal-db";
import { configOf } from "../../cli/config-file.ts";
import { type CommandContext, DEFAULT_CONFIG_FILE, outputOf } from "../../cli/context.ts";
import { createLog } from "../../cli/logging.ts";
import { sells } from "../../wiring/catalogue.ts";
import {
  inspectLedgerOf,
  type LedgerRole,
  ledgerPayment,
  ledgerPayments,
  ledgerSums,
  migrateLedger,
} from "../../wiring/ledger.ts";
import { hasPortal, inspectPortal, migratePortal } from "../../wiring/portal-db.ts";

export interface DbOptions {
  readonly json?: boolean;
  readonly config?: string;
  readonly facilitator?: boolean;
}

export interface LedgerOptions extends DbOptions {
  /** States, with commas between. */
  readonly list?: string;
  readonly id?: string;
  readonly limit: string;
}

/** The ledgers that a configuration uses. */
function ledgerRoles(config: Config, env: CommandContext["env"]): readonly LedgerRole[] {
  // A facilitator that never runs needs no tables, nor does a ledger where there is management data alone.
  const hasLedger = config.ledger.url !== undefined || config.payment.networks.length > 0 || !hasPortal(config);
  const ledgers: LedgerRole[] = sells(config) ? ["gateway"] : [];
  if (relayerKeys(config, env, "facilitator").length > 0) ledgers.push("facilitator");
  return hasLedger ? ledgers : [];
}

/**
 * Compares the ledgers and the management data with what the migrations make; exit code 1 when something is missing.
 * @throws AppError those of the ledger and of the management data that cannot be reached
 */
export async function doctor(opts: DbOptions, context: CommandContext): Promise<void> {
  const output = outputOf(opts);
  const { config } = await ledgerConfig(opts, context);
  const databases: Record<string, readonly (LedgerFault | PortalDbFault)[]> = {};
  for (const role of ledgerRoles(config, context.env)) databases[role] = await inspectLedgerOf(config, role);
  if (hasPortal(config)) databases.portal = await inspectPortal(config);
  const isWhole = Object.values(databases).every((faults) => faults.length === 0);
  output.result({ whole: isWhole, faults: databases });
  for (const [name, faults] of Object.entries(databases)) {
    output.line(`${name}: ${faults.length === 0 ? "whole" : `${faults.length} to repair`}`);
    for (const { kind, what, cure } of faults) output.line(`  ${kind}: ${what}\n    ${cure}`);
  }
  if (Object.keys(databases).length === 0)
    output.line("There is nothing to look at: no ledger, and no management data.");
  if (!isWhole) context.exitWith(1);
}

/** Makes or updates the ledgers' tables, and those of the management data when there is any. */
export async function migrate(opts: DbOptions, context: CommandContext): Promise<void> {
  const output = outputOf(opts);
  const config = configOf(context, opts.config);
  const done: Record<string, readonly string[]> = {};
  for (const role of ledgerRoles(config, context.env)) {
    const { applied } = await migrateLedger(config, role);
    done[role] = applied;
    output.line(`${role}: ${applied.length === 0 ? "up to date" : `applied ${applied.join(", ")}`}`);
  }
  if (hasPortal(config)) {
    const { applied } = await migratePortal(config, createLog({ level: config.log.level, name: "db" }));
    done.portal = applied;
    output.line(`portal: ${applied.length === 0 ? "up to date" : `applied ${applied.join(", ")}`}`);
  }
  if (Object.keys(done).length === 0)
    output.line("There is nothing to make: nothing is sold, and there is no management data.");
  output.result({ applied: done });
}

/** Decimals of an asset by the configuration; undefined for one that is no longer in it. */
function decimalsOf(config: Config, network: string, asset: string): number | undefined {
  return config.payment.networks.find(
    (one) => one.network === network && one.asset.toLowerCase() === asset.toLowerCase(),
  )?.decimals;
}

const STATES: readonly PaymentState[] = [
  "claimed",
  "released",
  "signed",
  "submitted",
  "settled",
  "failed",
  "owed",
  "disputed",
];

function statesOf(text: string): readonly PaymentState[] {
  const names = text.split(",").map((name) => name.trim());
  const states = names.flatMap((name) => STATES.find((state) => state === name) ?? []);
  if (states.length === names.length) return states;
  throw new AppError("USAGE", { message: `--list: expected states of ${STATES.join(", ")}, with commas.` });
}

/** The number of --limit. @throws AppError USAGE */
export function limitOf(text: string): number {
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text);
  throw new AppError("USAGE", { message: "--limit: expected an integer 1..9999." });
}

/** The configuration of the ledger to look at: where none is named, that of a running `turnpike up`, which `of` names. */
export async function ledgerConfig(
  opts: DbOptions,
  context: CommandContext,
): Promise<{ readonly config: Config; readonly of?: string }> {
  const named = opts.config ?? context.env.TURNPIKE_CONFIG;
  if (named !== undefined || existsSync(DEFAULT_CONFIG_FILE)) return { config: configOf(context, opts.config) };
  const local = findUpConfig(process.cwd());
  if (local !== undefined) return { config: configOf(context, local), of: local };
  if (await isUpStarting(process.cwd())) {
    throw new AppError("USAGE", { message: "`npm start` is still starting here. Wait until it says ready." });
  }
  return { config: configOf(context, opts.config) };
}

/** Last second that a date can have. */
const LAST_SECOND = 8_640_000_000_000n;

function windowOf(validBefore: bigint): string {
  if (validBefore > LAST_SECOND) return "window without end";
  return `window until ${new Date(Number(validBefore) * 1_000).toISOString()}`;
}

function listPayments(config: Config, payments: readonly PaymentRecord[], opts: LedgerOptions): void {
  const output = outputOf(opts);
  output.result(
    payments.map(({ id, state, reason, key, value, transaction, serviceId, createdAtMs, validBefore }) => {
      const { network, asset, from: payer } = key;
      const created = new Date(createdAtMs).toISOString();
      return { id, state, reason, network, asset, payer, value, transaction, serviceId, created, validBefore };
    }),
  );
  if (payments.length === 0) output.line("There is none.");
  for (const { id, state, reason, key, value, transaction, createdAtMs, validBefore } of payments) {
    const decimals = decimalsOf(config, key.network, key.asset);
    const amount = decimals === undefined ? `${value} units` : unitsToDecimal(value, decimals);
    const outcome = reason === undefined ? state : `${state} ${reason}`;
    const times = `created ${new Date(createdAtMs).toISOString()}  ${windowOf(validBefore)}`;
    output.line(
      `${id}  ${outcome}  payer ${key.from}  ${amount}  transaction ${transaction ?? "-"}  ${key.network}  ${times}`,
    );
  }
}

/**
 * Sums a ledger, lists its payments of some states, or shows one.
 * @throws AppError USAGE, NOT_FOUND when no payment has the id, and those of the ledger.
 */
export async function showLedger(opts: LedgerOptions, context: CommandContext): Promise<void> {
  const output = outputOf(opts);
  if (opts.id !== undefined && opts.list !== undefined) {
    throw new AppError("USAGE", { message: "--id and --list: expected one of them." });
  }
  const states = opts.list === undefined ? undefined : statesOf(opts.list);
  const limit = limitOf(opts.limit);
  const { config, of } = await ledgerConfig(opts, context);
  const role = opts.facilitator === true ? "facilitator" : "gateway";
  if (of !== undefined) output.progress(`The ledger of the turnpike up that runs here (${of}).`);
  if (opts.id !== undefined) {
    const found = await ledgerPayment(config, role, opts.id as SettlementId);
    if (found === undefined) throw new AppError("NOT_FOUND", { message: `No payment has the id ${opts.id}.` });
    listPayments(config, [found], opts);
    return;
  }
  if (states !== undefined) {
    listPayments(config, await ledgerPayments(config, role, states, limit), opts);
    return;
  }
  const sums = await ledgerSums(config, role);
  output.result(sums);
  if (sums.length === 0) output.line("No payment was ever presented.");
  for (const { network, asset, states } of sums) {
    output.line(`${network} ${asset}`);
    const decimals = decimalsOf(config, network, asset);
    for (const [state, { count, value }] of Object.entries(states)) {
      const amount = decimals === undefined ? `${value} units` : unitsToDecimal(value, decimals);
      output.line(`  ${state.padEnd(10)} ${String(count).padStart(8)} ${amount.padStart(20)}`);
    }
  }
}
