import { AppError, noFaults, noMetrics, type SettlementId, silentLog } from "@turnpike/base";
import type { Config } from "@turnpike/config";
import {
  createLedger,
  inspectLedger,
  type Ledger,
  type LedgerFault,
  type LedgerSums,
  type MigrationResult,
  migrate,
  type PaymentRecord,
  type PaymentState,
  type Receiver,
} from "@turnpike/payment";
import type { PartModules, Waits } from "./modules.ts";

/** Whose ledger: the gateway's claims are for requests, the facilitator's for requirements, so each has its own. */
export type LedgerRole = "gateway" | "facilitator";

/** The ledger's URL. @throws AppError CONFIG_INVALID when there is none. */
export function ledgerUrl(config: Config): string {
  if (config.ledger.url === undefined) {
    throw new AppError("CONFIG_INVALID", {
      message: "ledger.url: missing; set it, or DATABASE_URL, to the PostgreSQL of the ledger.",
    });
  }
  return config.ledger.url;
}

/** PostgreSQL schema of a role's ledger. */
export function ledgerSchema(config: Config, role: LedgerRole): string {
  return role === "gateway" ? config.ledger.schema : `${config.ledger.schema}_facilitator`;
}

/** Opens a ledger of the configuration, to sell for `receivers`. A heartbeat that is lost twice does not lose the relayer keys. */
export async function openLedger(
  config: Config,
  role: LedgerRole,
  modules: Pick<PartModules, "log" | "metrics" | "faults">,
  { ledgerConnectMs, ledgerStatementMs }: Waits = {},
  receivers: readonly Receiver[] = [],
): Promise<Ledger> {
  const { poolSize, answerRetentionSeconds, releasedRetentionSeconds } = config.ledger;
  const holderTtlMs = config.payment.relayer.leaseSeconds * 1_000;
  return createLedger(
    {
      url: ledgerUrl(config),
      schema: ledgerSchema(config, role),
      poolSize,
      answerRetentionSeconds,
      receivers,
      releasedRetentionSeconds,
      holderTtlMs,
      heartbeatMs: Math.floor(holderTtlMs / 3.4),
      ...(ledgerConnectMs === undefined ? {} : { connectTimeoutMs: ledgerConnectMs }),
      ...(ledgerStatementMs === undefined ? {} : { statementTimeoutMs: ledgerStatementMs }),
    },
    modules,
  );
}

/** Makes or updates the tables of a ledger. */
export function migrateLedger(
  config: Config,
  role: LedgerRole,
  { ledgerConnectMs: connectTimeoutMs }: Waits = {},
): Promise<MigrationResult> {
  const schema = ledgerSchema(config, role);
  return migrate(ledgerUrl(config), connectTimeoutMs === undefined ? { schema } : { schema, connectTimeoutMs });
}

/** Faults of a ledger: what it lacks of what its migrations make. */
export function inspectLedgerOf(config: Config, role: LedgerRole): Promise<readonly LedgerFault[]> {
  return inspectLedger(ledgerUrl(config), { schema: ledgerSchema(config, role) });
}

/** Sums of a ledger, by asset and state. */
export async function ledgerSums(config: Config, role: LedgerRole, waits: Waits = {}): Promise<readonly LedgerSums[]> {
  const modules = { log: silentLog, metrics: noMetrics, faults: noFaults };
  await using ledger = await openLedger(config, role, modules, waits);
  return await ledger.sums();
}

/** Payments of a ledger that are in any of these states, newest first. */
export async function ledgerPayments(
  config: Config,
  role: LedgerRole,
  states: readonly PaymentState[],
  limit: number,
): Promise<readonly PaymentRecord[]> {
  await using ledger = await openLedger(config, role, { log: silentLog, metrics: noMetrics, faults: noFaults });
  return await ledger.list(states, limit);
}

/** One payment by its id. @throws AppError as {@link ledgerSums} */
export async function ledgerPayment(
  config: Config,
  role: LedgerRole,
  id: SettlementId,
): Promise<PaymentRecord | undefined> {
  await using ledger = await openLedger(config, role, { log: silentLog, metrics: noMetrics, faults: noFaults });
  return await ledger.get(id);
}
