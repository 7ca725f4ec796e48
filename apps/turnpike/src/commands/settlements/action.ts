import {
  type Address,
  AppError,
  isAppError,
  type NetworkId,
  noMetrics,
  type SettlementId,
  silentLog,
} from "@turnpike/base";
import type { Config } from "@turnpike/config";
import {
  type BatchContractState,
  type EvmRpc,
  LedgerOperator,
  readBatchContract,
  SETTLEMENT_BATCH_ADDRESS,
  SETTLEMENT_BATCH_DEPLOYMENT,
} from "@turnpike/payment";
import { type CommandContext, outputOf } from "../../cli/context.ts";
import { secondsOf } from "../../cli/duration.ts";
import { ledgerSchema, ledgerUrl } from "../../wiring/ledger.ts";
import { openChains } from "../../wiring/networks.ts";
import { type DbOptions, ledgerConfig, limitOf } from "../db/action.ts";

export type SettlementOptions = DbOptions;

export interface BlockOptions extends SettlementOptions {
  readonly reason: string;
  /** A time such as 1h. */
  readonly for?: string;
}

interface Opened {
  readonly config: Config;
  readonly operator: LedgerOperator;
}

async function openLedger(opts: SettlementOptions, context: CommandContext): Promise<Opened> {
  const { config, of } = await ledgerConfig(opts, context);
  if (of !== undefined) outputOf(opts).progress(`The ledger of the turnpike up that runs here (${of}).`);
  const role = opts.facilitator === true ? "facilitator" : "gateway";
  return { config, operator: new LedgerOperator(ledgerUrl(config), { schema: ledgerSchema(config, role) }) };
}

async function operatorOf(opts: SettlementOptions, context: CommandContext): Promise<LedgerOperator> {
  return (await openLedger(opts, context)).operator;
}

/** A block of another network would block nothing, silently. A configuration of the ledger alone names none. */
function assertConfigured(network: NetworkId, config: Config): void {
  const networks = [...new Set(config.payment.networks.map((one) => one.network))];
  if (networks.length === 0 || networks.some((one) => one === network)) return;
  const message = `network: ${network} is not in payment.networks, which has ${networks.join(", ")}.`;
  throw new AppError("USAGE", { message });
}

function networkOf(text: string): NetworkId {
  if (/^eip155:[1-9]\d{0,17}$/.test(text)) return text as NetworkId;
  throw new AppError("USAGE", { message: "network: expected eip155: and a chain id, such as eip155:8453." });
}

function accountOf(text: string, name: string): Address {
  if (/^0x[0-9a-fA-F]{40}$/.test(text)) return text as Address;
  throw new AppError("USAGE", { message: `${name}: expected an address, 0x and 40 hex digits.` });
}

function nonceOf(text: string): number {
  if (/^\d{1,12}$/.test(text)) return Number(text);
  throw new AppError("USAGE", { message: "nonce: expected an integer." });
}

/** Lists open settlement transactions. @throws AppError USAGE and those of the ledger. */
export async function transactions(
  opts: SettlementOptions & { readonly limit: string },
  context: CommandContext,
): Promise<void> {
  const output = outputOf(opts);
  const found = await (await operatorOf(opts, context)).openTransactions(limitOf(opts.limit));
  output.result(found);
  if (found.length === 0) output.line("There is none: every settlement transaction is mined.");
  for (const { network, relayer, nonce, held, ageSeconds, attempts, payments, cancellation, transaction } of found) {
    const notes = [
      ...(held ? [] : ["no process holds the key"]),
      ...(cancellation === "none" ? [] : [`cancellation ${cancellation}`]),
    ];
    const note = notes.length === 0 ? "" : `  (${notes.join(", ")})`;
    output.line(
      `${network}  ${relayer}  nonce ${nonce}  ${ageSeconds} s  attempts ${attempts}  payments ${payments}  ${transaction}${note}`,
    );
  }
}

/**
 * Shows how each chain of the configuration has the settlement contract, and the call that deploys it: no key of ours sends
 * that, for a relayer's nonces belong to the process that holds its lease. A chain without an answer is shown as such.
 */
export async function contract(opts: SettlementOptions, context: CommandContext): Promise<void> {
  const { config } = await ledgerConfig(opts, context);
  await using stack = new AsyncDisposableStack();
  const chains = [...openChains(config, { log: silentLog, metrics: noMetrics })];
  const readState = async (rpc: EvmRpc): Promise<BatchContractState | "unreachable"> => {
    try {
      return await readBatchContract(rpc);
    } catch (error) {
      if (!isAppError(error, "SETTLEMENT_UNAVAILABLE")) throw error;
      return "unreachable";
    }
  };
  for (const [, rpc] of chains) stack.use(rpc);
  const states = Object.fromEntries(
    await Promise.all(chains.map(async ([network, rpc]) => [network, await readState(rpc)] as const)),
  );
  const output = outputOf(opts);
  output.result({ contract: SETTLEMENT_BATCH_ADDRESS, deployment: SETTLEMENT_BATCH_DEPLOYMENT, networks: states });
  const { to, data } = SETTLEMENT_BATCH_DEPLOYMENT;
  for (const [network, state] of Object.entries(states)) output.line(`${network}  ${state}`);
  if (Object.keys(states).length === 0) output.line("There is no payment network.");
  const isAbsent = Object.values(states).some((state) => state === "deployable" || state === "missing");
  if (isAbsent) {
    output.line(`Any account but a relayer's may deploy it to ${SETTLEMENT_BATCH_ADDRESS}, by a transaction`);
    output.line(`to ${to}, which has to be deployed there first where it is missing, with this data:`);
    output.line(data);
  }
}

/** Asks for a cancellation. @throws AppError NOT_FOUND when there is no such open transaction. */
export async function cancel(
  network: string,
  relayer: string,
  nonce: string,
  opts: SettlementOptions,
  context: CommandContext,
): Promise<void> {
  const wanted = [networkOf(network), accountOf(relayer, "relayer"), nonceOf(nonce)] as const;
  if (!(await (await operatorOf(opts, context)).cancel(...wanted))) {
    throw new AppError("NOT_FOUND", {
      message: "No transaction of this key and nonce is open.",
      advice: "See npx turnpike settlements transactions.",
    });
  }
  const output = outputOf(opts);
  output.result({ cancellation: "requested" });
  output.line("Asked for. The process that holds the key cancels it when it looks at the ledger next.");
}

/** Has a payment sent again. @throws AppError NOT_FOUND when it is in no state for that. */
export async function retry(id: string, opts: SettlementOptions, context: CommandContext): Promise<void> {
  const result = await (await operatorOf(opts, context)).retry(id as SettlementId);
  if (result === "window-closed") {
    throw new AppError("NOT_FOUND", {
      message: "The window of this payment is closed: no transaction can settle it. Nothing is charged.",
      advice: "It fails by itself once the chain is past the window by `finalityBlocks` blocks.",
    });
  }
  if (result === "submitted") {
    throw new AppError("NOT_FOUND", {
      message: "A remote facilitator settles this payment: nothing is sent from here.",
      advice: "See its /ready. It is asked again until the payment settles or its window is closed for good.",
    });
  }
  if (result === "not-waiting") {
    throw new AppError("NOT_FOUND", {
      message: "No signed payment of this id waits for another transaction.",
      advice: `See npx turnpike db ledger --id ${id}. One in an open transaction is sent by itself.`,
    });
  }
  const output = outputOf(opts);
  output.result({ retry: "requested" });
  output.line("Asked for. It is sent again within a minute, while its window is open and its payer has the funds.");
}

/** Releases a claim. @throws AppError NOT_FOUND when the payment is not claimed. */
export async function release(id: string, opts: SettlementOptions, context: CommandContext): Promise<void> {
  if (!(await (await operatorOf(opts, context)).release(id as SettlementId))) {
    throw new AppError("NOT_FOUND", {
      message: "No claimed payment has this id: what is signed can only be settled.",
      advice: "See npx turnpike db ledger --list claimed.",
    });
  }
  const output = outputOf(opts);
  output.result({ released: id });
  output.line("Released. Nothing was charged; its payer may present it again.");
}

/** Blocks a payer on a network of the configuration. @throws AppError USAGE and those of the ledger. */
export async function block(
  network: string,
  payer: string,
  opts: BlockOptions,
  context: CommandContext,
): Promise<void> {
  const untilMs = opts.for === undefined ? undefined : Date.now() + secondsOf(opts.for, "--for") * 1_000;
  const blockedPayer = { network: networkOf(network), payer: accountOf(payer, "payer"), reason: opts.reason, untilMs };
  const { config, operator } = await openLedger(opts, context);
  assertConfigured(blockedPayer.network, config);
  await operator.block(blockedPayer);
  const output = outputOf(opts);
  output.result(blockedPayer);
  output.line(
    `Blocked ${untilMs === undefined ? "until it is unblocked" : `until ${new Date(untilMs).toISOString()}`}.`,
  );
}

/** Takes a payer's payments again. @throws AppError NOT_FOUND when it is not blocked. */
export async function unblock(
  network: string,
  payer: string,
  opts: SettlementOptions,
  context: CommandContext,
): Promise<void> {
  const wanted = [networkOf(network), accountOf(payer, "payer")] as const;
  if (!(await (await operatorOf(opts, context)).unblock(...wanted))) {
    throw new AppError("NOT_FOUND", {
      message: "This account is not blocked.",
      advice: "See npx turnpike settlements blocked.",
    });
  }
  const output = outputOf(opts);
  output.result({ unblocked: payer });
  output.line("Unblocked.");
}

/** Lists blocked payers. @throws AppError USAGE and those of the ledger. */
export async function blocked(
  opts: SettlementOptions & { readonly limit: string },
  context: CommandContext,
): Promise<void> {
  const output = outputOf(opts);
  const found = await (await operatorOf(opts, context)).blocked(limitOf(opts.limit));
  output.result(found);
  if (found.length === 0) output.line("There is none.");
  for (const { network, payer, reason, untilMs } of found) {
    output.line(
      `${network}  ${payer}  until ${untilMs === undefined ? "unblocked" : new Date(untilMs).toISOString()}  ${reason}`,
    );
  }
}
