import type { Address } from "@turnpike/base";
import {
  decodeAggregate3,
  decodeBool,
  decodeQuantity,
  encodeAuthorizationState,
  isBehindFailed,
  isPayerWithCode,
  type Result3,
} from "../evm/abi.ts";
import type { EvmRpc, RpcCall, RpcReply } from "../evm/rpc.ts";
import type { PayerKind } from "../types.ts";
import { boundGas } from "../verify/bounded-gas.ts";
import { hasCode, oddAnswer, readSimulation, replyToSimulation, type Simulation } from "../verify/reading.ts";
import type { BatchContract } from "./batch-contract.ts";
import { type GasPolicy, settlementCall, settlementGas, strictCall } from "./calls.ts";
import type { Head } from "./chain.ts";
import type { Fees } from "./fees.ts";
import type { QueueItem } from "./queue.ts";
import type { TransactionForm } from "./relayer-account.ts";

/** What the simulated transaction is going to be. */
export interface SimulationOptions {
  readonly multicall3: Address;
  readonly relayer: Address;
  readonly gas: GasPolicy;
  readonly fees: Fees;
  readonly head: Head;
  /** True when plain payments go through the contract SettlementBatch, which the number of payments was chosen by. */
  readonly mayGuard: boolean;
  readonly contract: Pick<BatchContract, "distrust">;
  /** Longest wait for the chain's answer. */
  readonly timeoutMs: number;
}

/** What the chain says of a batch right before it is signed. */
export interface SimulatedBatch extends TransactionForm {
  /** Those that would move their money now. */
  readonly good: readonly QueueItem[];
  /** Those that must not share a transaction: their account has code by now, or the shared call as a whole failed. */
  readonly alone: readonly QueueItem[];
  /** Those that would not move their money: the account has spent it, or its code refuses. */
  readonly failing: readonly QueueItem[];
}

/** Gas that a direct transfer's limit is above its estimate: a receiver's first balance takes 17,100 more (EIP-2200), and a margin. */
const DIRECT_MARGIN = 25_000n;

const NOTHING: SimulatedBatch = { good: [], alone: [], failing: [], gasLimit: 0n, isGuarded: false };

/**
 * Asks the chain, in one exchange, which payers have code by now, and what the transaction would do. An account may have
 * delegated its code since its payment was verified (EIP-7702), and code may burn the gas of everything that shares its
 * transaction. @throws AppError SETTLEMENT_UNAVAILABLE when the chain does not say.
 */
export async function simulateBatch(
  items: readonly QueueItem[],
  opts: SimulationOptions,
  modules: { readonly rpc: EvmRpc; readonly signal: AbortSignal },
): Promise<SimulatedBatch> {
  const [only] = items;
  if (only === undefined) return NOTHING;
  const accounts = [...new Set(items.filter(isPlain).map(({ payment }) => payment.key.from))];
  const mayGuard = opts.mayGuard && items.every(isPlain);
  const calls: RpcCall[] = accounts.map((account) => ({ method: "eth_getCode", params: [account, "latest"] }));
  calls.push(callOf(items, { kinds: items.map(kindOf), isGuarded: mayGuard }, opts));
  const isDirect = items.length === 1 && isPlain(only) && !mayGuard;
  if (isDirect) calls.push(estimateOf(only, opts));
  const limit = AbortSignal.any([modules.signal, AbortSignal.timeout(opts.timeoutMs)]);
  const replies = await modules.rpc.batch(calls, limit);
  const withCode = new Set(accounts.filter((_, at) => hasCode(replies[at], modules)));
  const kinds = items.map(({ payment }) => (withCode.has(payment.key.from) ? "erc1271" : payment.kind));
  // The gas that some burn says nothing about the others.
  const delegates = items.length > 1 ? items.filter(({ payment }) => withCode.has(payment.key.from)) : [];
  if (delegates.length > 0) return withoutDelegates(items, delegates, opts, modules);
  const isGuarded = mayGuard && withCode.size === 0;
  let reply = replies[accounts.length];
  if (withCode.size > 0) {
    const { method, params } = callOf(items, { kinds, isGuarded }, opts);
    reply = await modules.rpc.call(method, params, limit);
  }
  let simulations: readonly Simulation[];
  if (items.length === 1 && !isGuarded) simulations = [simulationOf(only, reply, modules.rpc)];
  else {
    const results = sharedResults(items, reply, { rpc: modules.rpc, contract: isGuarded ? opts.contract : undefined });
    if (results === undefined) return { ...NOTHING, alone: items };
    const behind = items.filter((_, at) => isGuarded && isBehindFailed(results[at]));
    if (behind.length > 0) {
      // Their results say nothing of them: all of such a payer go by themselves.
      const payers = new Set(behind.map(({ payment }) => payment.key.from));
      return withoutDelegates(
        items,
        items.filter(({ payment }) => payers.has(payment.key.from)),
        opts,
        modules,
      );
    }
    const leftOut = items.filter((_, at) => isGuarded && isPayerWithCode(results[at]));
    if (leftOut.length > 0) return withoutDelegates(items, leftOut, opts, modules);
    simulations = results.map(({ success, returnData }) => readSimulation(success, returnData));
  }
  const doubtful = items.filter((item, at) => {
    const simulation = simulations[at];
    return simulation?.ok !== true && !(kinds[at] === "eoa" && isEarly(item, simulation, opts.head));
  });
  const spent = doubtful.length === 0 ? undefined : await spentOf(doubtful, modules.rpc, limit);
  const failing = doubtful.filter((item) => spent?.has(item) !== true);
  const good = items.filter((item) => !failing.includes(item));
  const [kind = "eoa"] = kinds;
  if (items.length === 1 && kind !== "eoa")
    return boundOwn(only, { kind, isGood: doubtful.length === 0, failing }, opts, { ...modules, signal: limit });
  const goodKinds = kinds.filter((_, at) => good.includes(items[at] ?? only));
  const maxGas = settlementGas(goodKinds, opts.gas, goodKinds.length > 1 || isGuarded);
  const gasLimit = isDirect ? directLimit(replies.at(-1), maxGas) : maxGas;
  return { ...NOTHING, good, failing, gasLimit, isGuarded };
}

/** {@link simulateBatch} of all but the given ones, which must go by themselves. */
async function withoutDelegates(
  items: readonly QueueItem[],
  delegates: readonly QueueItem[],
  opts: SimulationOptions,
  modules: { readonly rpc: EvmRpc; readonly signal: AbortSignal },
): Promise<SimulatedBatch> {
  const plainItems = items.filter((item) => !delegates.includes(item));
  const batch = await simulateBatch(plainItems, opts, modules);
  return { ...batch, alone: [...delegates, ...batch.alone] };
}

/**
 * Result for a payment that runs its payer's code: it must do so in every block that may come, and within a gas limit that
 * is little above what it takes. One whose authorization a third party has used (neither good nor failing) goes as it is.
 */
async function boundOwn(
  item: QueueItem,
  {
    kind,
    isGood,
    failing,
  }: { readonly kind: PayerKind; readonly isGood: boolean; readonly failing: readonly QueueItem[] },
  opts: SimulationOptions,
  modules: { readonly rpc: EvmRpc; readonly signal: AbortSignal },
): Promise<SimulatedBatch> {
  const { payment } = item;
  const { relayer, multicall3, head } = opts;
  const maxGas = settlementGas([kind], opts.gas);
  if (failing.length > 0) return { ...NOTHING, failing };
  // Its transaction reverts before the payer's code runs.
  if (!isGood) return { ...NOTHING, good: [item], gasLimit: settlementGas(["eoa"], opts.gas) };
  const sender = senderOf(opts, true);
  const bound = await boundGas(
    {
      call: { ...sender, ...settlementCall([payment], { relayer, multicall3, gasEach: undefined }) },
      strictCall: { ...sender, ...strictCall(payment, multicall3) },
      read: (reply) => simulationOf(item, reply, modules.rpc),
      key: payment.key,
      validAfter: payment.validAfter,
      validBefore: payment.validBefore,
    },
    { maxGas, block: head, multicall3 },
    modules,
  );
  if (bound === undefined) return { ...NOTHING, failing: [item] };
  return { ...NOTHING, good: [item], gasLimit: bound.limit };
}

/**
 * Those whose authorization is used: a third party may have submitted it, so that the payer has paid. They are sent all
 * the same, and the chain says after that how they ended.
 */
async function spentOf(items: readonly QueueItem[], rpc: EvmRpc, signal: AbortSignal): Promise<ReadonlySet<QueueItem>> {
  const calls = items.map(({ payment: { key } }) => ({
    method: "eth_call",
    params: [{ to: key.asset, data: encodeAuthorizationState(key.from, key.nonce) }, "latest"],
  }));
  const replies = await rpc.batch(calls, signal);
  return new Set(
    items.filter((_, at) => {
      const reply = replies[at];
      const used = reply?.ok === true ? decodeBool(reply.result) : undefined;
      if (used === undefined) throw oddAnswer({ rpc }, "token");
      return used;
    }),
  );
}

/**
 * Results of a shared transaction, by payment; undefined when it as a whole would fail.
 * @throws AppError SETTLEMENT_UNAVAILABLE when the node could not run the call, or not by the contract any more.
 */
function sharedResults(
  items: readonly QueueItem[],
  reply: RpcReply | undefined,
  { rpc, contract }: { readonly rpc: EvmRpc; readonly contract: Pick<BatchContract, "distrust"> | undefined },
): readonly Result3[] | undefined {
  if (reply?.ok !== true) {
    replyToSimulation(reply, { rpc });
    // By itself, it is tried again without the contract.
    if (contract === undefined || items.length > 1) return undefined;
  }
  const results = reply?.ok === true ? decodeAggregate3(reply.result, items.length) : undefined;
  if (results !== undefined) return results;
  contract?.distrust();
  throw oddAnswer({ rpc }, contract === undefined ? "aggregate3" : "settle");
}

/** Gas limit of a direct transfer: little above what the node says that it takes, since its payer can get code that burns all of it. */
function directLimit(reply: RpcReply | undefined, maxGas: bigint): bigint {
  const estimate = reply?.ok === true ? decodeQuantity(reply.result) : undefined;
  const limit = estimate === undefined ? maxGas : estimate + DIRECT_MARGIN;
  return limit < maxGas ? limit : maxGas;
}

function estimateOf(item: QueueItem, opts: SimulationOptions): RpcCall {
  return { ...callOf([item], { kinds: [kindOf(item)], isGuarded: false }, opts), method: "eth_estimateGas" };
}

/**
 * The call that the transaction is going to make. What runs a payer's code is asked with the fees that it is going to
 * have, so that the code cannot know that it is simulated; what does not is asked without, for a node would want the relayer's funds for it.
 */
function callOf(
  items: readonly QueueItem[],
  { kinds, isGuarded }: { readonly kinds: readonly PayerKind[]; readonly isGuarded: boolean },
  opts: SimulationOptions,
): RpcCall {
  const { multicall3, relayer, gas, head } = opts;
  const gasEach = isGuarded ? gas.perTransfer : undefined;
  const payments = items.map(({ payment }) => payment);
  const runsCode = kinds.some((kind) => kind !== "eoa");
  const request = {
    ...senderOf(opts, runsCode),
    ...settlementCall(payments, { relayer, multicall3, gasEach }),
    gas: hex(settlementGas(kinds, gas, kinds.length > 1 || isGuarded)),
  };
  // A chain that makes no blocks while idle may stand before the window, which the next block is in.
  const opens = payments.reduce((latest, { validAfter }) => (validAfter >= latest ? validAfter + 1n : latest), 0n);
  const params = opens > BigInt(head.timeSeconds) ? [request, "latest", {}, { time: hex(opens) }] : [request, "latest"];
  return { method: "eth_call", params };
}

function senderOf({ relayer, fees }: SimulationOptions, runsCode: boolean): Readonly<Record<string, string>> {
  if (!runsCode) return { from: relayer };
  return { from: relayer, maxFeePerGas: hex(fees.maxFeePerGas), maxPriorityFeePerGas: hex(fees.maxPriorityFeePerGas) };
}

/** What the transaction of one payment by itself would do. */
function simulationOf({ payment }: QueueItem, reply: RpcReply | undefined, rpc: EvmRpc): Simulation {
  if (reply?.ok !== true || payment.kind !== "erc6492") return replyToSimulation(reply, { rpc });
  const moved = decodeAggregate3(reply.result, 2)?.at(-1);
  if (moved === undefined) throw oddAnswer({ rpc }, "aggregate3");
  return readSimulation(moved.success, moved.returnData);
}

function kindOf({ payment }: QueueItem): PayerKind {
  return payment.kind;
}

function isPlain({ payment }: QueueItem): boolean {
  return payment.kind === "eoa";
}

/**
 * Whether the window of a plain account's payment is not open where it was simulated, which the next block may be in. Not
 * every node can simulate a later time, or uses the time of the block that it simulates on.
 */
function isEarly({ payment }: QueueItem, simulation: Simulation | undefined, head: Head): boolean {
  return payment.validAfter >= BigInt(head.timeSeconds) || /not yet valid/i.test(simulation?.reason ?? "");
}

function hex(value: bigint): `0x${string}` {
  return `0x${value.toString(16)}`;
}
