import { AppError, systemClock } from "@turnpike/base";
import {
  type Amount,
  type ChainClient,
  feeAtPrices,
  parseAmounts,
  parseGasPrices,
  type TxOptions,
  type TxOrder,
  type UnsignedTx,
  unorderedUntil,
  usualFee,
} from "@turnpike/chain-client";
import type { Any } from "@turnpike/proto";

/** Flags of every command of `turnpike tx`. */
export interface TxFlags {
  readonly json?: boolean;
  readonly output?: "json" | "text";
  readonly node?: string;
  readonly chainId?: string;
  readonly home?: string;
  readonly from?: string;
  readonly keyFile?: string;
  readonly fees?: string;
  readonly gasPrices?: string;
  readonly gas?: string;
  readonly gasAdjustment?: string;
  readonly generateOnly?: boolean;
  readonly offline?: boolean;
  readonly accountNumber?: string;
  readonly sequence?: string;
  readonly note?: string;
  readonly unordered?: boolean;
  readonly timeoutDuration?: string;
  readonly timeoutHeight?: string;
  readonly yes?: boolean;
  readonly broadcastMode?: "sync" | "async";
  readonly wait?: boolean;
}

/** Gas limit of a transaction that no node simulates; the same default as in `pocketd`. */
const UNSIMULATED_GAS = 200_000n;
const usage = (message: string): AppError => new AppError("USAGE", { message });

function wholeFlag(text: string | undefined, flag: string): bigint | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,19}$/.test(text)) return BigInt(text);
  throw usage(`${flag}: expected a whole number, not ${JSON.stringify(text)}.`);
}

/** Milliseconds of `90s`, `1m30s`, `500ms`. @throws AppError USAGE */
function durationMs(text: string): number {
  const [, hours = "0", minutes = "0", seconds = "0", ms = "0"] =
    /^(?=\d)(?:(\d{1,3})h)?(?:(\d{1,5})m(?!s))?(?:(\d{1,7})s)?(?:(\d{1,9})ms)?$/.exec(text) ?? [];
  const found = ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000 + Number(ms);
  if (found > 0) return found;
  throw usage(`--timeout-duration: expected a duration such as 90s or 1m30s, not ${JSON.stringify(text)}.`);
}

function adjustment(text: string | undefined): bigint | undefined {
  if (text === undefined) return undefined;
  const value = /^\d{1,3}(\.\d{1,4})?$/.test(text) ? Number(text) : 0;
  if (value >= 1) return BigInt(Math.round(value * 100));
  throw usage(`--gas-adjustment: expected a number from 1, such as 1.5, not ${JSON.stringify(text)}.`);
}

function feeFlag({ fees, gasPrices }: TxFlags): TxOptions["fee"] {
  if (fees !== undefined && gasPrices !== undefined) throw usage("Give --fees or --gas-prices, not both.");
  if (fees !== undefined) return parseAmounts(fees).filter(({ amount }) => amount > 0n);
  if (gasPrices === undefined) return undefined;
  const prices = parseGasPrices(gasPrices);
  return (gas) => feeAtPrices(prices, gas).filter(({ amount }) => amount > 0n);
}

/** Until when the transaction is taken; the newest block's time counts, not this machine's. */
async function timeoutNanos(flags: TxFlags, client: ChainClient | undefined): Promise<bigint | undefined> {
  if (flags.timeoutDuration === undefined && flags.unordered !== true) return undefined;
  const ms = flags.timeoutDuration === undefined ? undefined : durationMs(flags.timeoutDuration);
  if (client !== undefined) return (await client.unordered(ms)).timeoutNanos;
  return unorderedUntil(BigInt(systemClock.nowMs()) * 1_000_000n, ms);
}

/** What the flags say of a transaction. @throws AppError USAGE, CHAIN_UNREACHABLE */
export async function txOptions(flags: TxFlags, client: ChainClient | undefined): Promise<TxOptions> {
  const until = await timeoutNanos(flags, client);
  const sequence = wholeFlag(flags.sequence, "--sequence");
  if (flags.unordered === true && sequence !== undefined) throw usage("An unordered transaction has no --sequence.");
  const timeout = until === undefined ? {} : { timeoutNanos: until };
  const order: TxOrder | undefined =
    flags.unordered === true && until !== undefined
      ? { kind: "unordered", timeoutNanos: until }
      : sequence === undefined
        ? undefined
        : { kind: "ordered", sequence, ...timeout };
  const gasLimit = flags.gas === undefined || flags.gas === "auto" ? undefined : wholeFlag(flags.gas, "--gas");
  const accountNumber = wholeFlag(flags.accountNumber, "--account-number");
  const timeoutHeight = wholeFlag(flags.timeoutHeight, "--timeout-height");
  const gasAdjustment = adjustment(flags.gasAdjustment);
  const fee = feeFlag(flags);
  return {
    ...timeout,
    ...(order === undefined ? {} : { order }),
    ...(gasLimit === undefined ? {} : { gasLimit }),
    ...(gasAdjustment === undefined ? {} : { gasAdjustment }),
    ...(fee === undefined ? {} : { fee }),
    ...(flags.note === undefined ? {} : { memo: flags.note }),
    ...(timeoutHeight === undefined ? {} : { timeoutHeight }),
    ...(flags.chainId === undefined ? {} : { chainId: flags.chainId }),
    ...(accountNumber === undefined ? {} : { accountNumber }),
  };
}

/** A transaction of which nothing is asked of a node. @throws AppError USAGE when it is to be signed and facts are missing */
export function withoutNode(messages: readonly Any[], options: TxOptions, isSigned: boolean): UnsignedTx {
  const { chainId, accountNumber, order, memo, timeoutHeight } = options;
  if (isSigned && (chainId === undefined || accountNumber === undefined || order === undefined)) {
    throw usage("--offline: say --chain-id, --account-number and --sequence (or --unordered).");
  }
  const gasLimit = options.gasLimit ?? UNSIMULATED_GAS;
  const usual: readonly Amount[] = isSigned ? usualFee(gasLimit) : [];
  const timeout = options.timeoutNanos === undefined ? {} : { timeoutNanos: options.timeoutNanos };
  return {
    messages,
    chainId: chainId ?? "",
    accountNumber: accountNumber ?? 0n,
    order: order ?? { kind: "ordered", sequence: 0n, ...timeout },
    gasLimit,
    fee: typeof options.fee === "function" ? options.fee(gasLimit) : (options.fee ?? usual),
    ...(memo === undefined ? {} : { memo }),
    ...(timeoutHeight === undefined ? {} : { timeoutHeight }),
  };
}

/** Gives one of many transactions of a command its own sequence, or its own time-out. */
export function optionsOfBatch(options: TxOptions, batch: number): TxOptions {
  const { order } = options;
  if (order === undefined || batch === 0) return options;
  const later = BigInt(batch);
  return order.kind === "unordered"
    ? { ...options, order: { ...order, timeoutNanos: order.timeoutNanos + later } }
    : { ...options, order: { ...order, sequence: order.sequence + later } };
}
