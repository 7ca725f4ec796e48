import { unitsToDecimal } from "@turnpike/base";
import { type Config, relayerKeys } from "@turnpike/config";
import { type CommandContext, outputOf } from "../context.ts";
import { type LedgerRole, ledgerBooks, migrateLedger } from "../wiring/ledger.ts";
import { configOf } from "./config.ts";

/** Options of `turnpike db`. */
export interface DbOptions {
  readonly json?: boolean;
  readonly config?: string;
  readonly facilitator?: boolean;
}

/** Makes or updates the ledgers' tables. */
export async function migrate(opts: DbOptions, context: CommandContext): Promise<void> {
  const output = outputOf(opts);
  const config = configOf(context, opts.config);
  // A facilitator that never runs needs no tables.
  const roles: LedgerRole[] =
    relayerKeys(config, context.env, "facilitator").length > 0 ? ["gateway", "facilitator"] : ["gateway"];
  const done: Record<string, readonly string[]> = {};
  for (const role of roles) {
    const { applied } = await migrateLedger(config, role);
    done[role] = applied;
    output.line(`${role}: ${applied.length === 0 ? "up to date" : `applied ${applied.join(", ")}`}`);
  }
  output.result({ applied: done });
}

/** Decimals of an asset by the configuration; undefined for one that is no longer in it. */
function decimalsOf(config: Config, network: string, asset: string): number | undefined {
  return config.payment.networks.find(
    (one) => one.network === network && one.asset.toLowerCase() === asset.toLowerCase(),
  )?.decimals;
}

/** Sums a ledger. */
export async function books(opts: DbOptions, context: CommandContext): Promise<void> {
  const output = outputOf(opts);
  const config = configOf(context, opts.config);
  const sums = await ledgerBooks(config, opts.facilitator === true ? "facilitator" : "gateway");
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
