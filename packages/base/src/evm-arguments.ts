import { isRecord } from "@turnpike/base";

/** Gas of a block of the local chain: nothing that is sent to it may use more. */
const MAX_GAS = 30_000_000n;
/** geth's own maximum of a fee history. */
const MAX_HISTORY_BLOCKS = 1_024n;
const MAX_PERCENTILES = 100;
const MAX_SIMULATED_CALLS = 16;
/** Addresses, topics of one place, and storage keys. */
const MAX_ITEMS = 1_024;
const MAX_TOPICS = 4;
/** Blocks whose traces are searched. */
const MAX_TRACED_BLOCKS = 1_000n;
/** A block's gas is not more than this many bytes of a transaction: 0x and two digits a byte. */
const MAX_TRANSACTION_CHARS = 2 + 2 * 131_072;

type Params = readonly unknown[];

/** A quantity as nodes read it: hexadecimal of at most 256 bits, or a whole JSON number; undefined for anything else. */
function quantityOf(value: unknown): bigint | undefined {
  if (typeof value === "number") return Number.isSafeInteger(value) && value >= 0 ? BigInt(value) : undefined;
  return typeof value === "string" && /^0x[0-9a-f]{1,64}$/i.test(value) ? BigInt(value) : undefined;
}

/** True for a quantity up to a maximum, and for one that is not there. */
const isWithin = (value: unknown, maximum: bigint): boolean => {
  if (value === undefined || value === null) return true;
  const quantity = quantityOf(value);
  return quantity !== undefined && quantity <= maximum;
};

const isShort = (value: unknown, maximum: number): boolean => !Array.isArray(value) || value.length <= maximum;

function gasFault(call: unknown): string | undefined {
  if (!isRecord(call)) return undefined;
  return isWithin(call.gas, MAX_GAS) ? undefined : `gas must be a quantity of at most ${MAX_GAS}`;
}

function overrideFault(overrides: unknown): string | undefined {
  if (!isRecord(overrides)) return undefined;
  return isWithin(overrides.gasLimit, MAX_GAS) ? undefined : `gasLimit must be a quantity of at most ${MAX_GAS}`;
}

const callFault = ([call, , , blockOverrides]: Params): string | undefined =>
  gasFault(call) ?? overrideFault(blockOverrides);

function simulationFault([payload]: Params): string | undefined {
  const blocks = isRecord(payload) && Array.isArray(payload.blockStateCalls) ? payload.blockStateCalls : [];
  let calls = 0;
  for (const block of blocks) {
    if (!isRecord(block)) continue;
    const simulated = Array.isArray(block.calls) ? block.calls : [];
    calls += Math.max(1, simulated.length);
    if (calls > MAX_SIMULATED_CALLS) return `at most ${MAX_SIMULATED_CALLS} calls are simulated at once`;
    const fault = overrideFault(block.blockOverrides) ?? simulated.map(gasFault).find((text) => text !== undefined);
    if (fault !== undefined) return fault;
    // A simulated block far ahead is filled up with empty ones.
    if (isRecord(block.blockOverrides) && block.blockOverrides.number !== undefined) {
      return "a simulated block has no number of its own here";
    }
  }
  return undefined;
}

function historyFault([count, , percentiles]: Params): string | undefined {
  if (!isWithin(count, MAX_HISTORY_BLOCKS)) return `a fee history has at most ${MAX_HISTORY_BLOCKS} blocks`;
  return isShort(percentiles, MAX_PERCENTILES) ? undefined : `at most ${MAX_PERCENTILES} percentiles are given`;
}

function filterFault(filter: unknown): string | undefined {
  if (!isRecord(filter)) return undefined;
  const { address, topics, fromAddress, toAddress } = filter;
  if (![address, fromAddress, toAddress].every((list) => isShort(list, MAX_ITEMS))) {
    return `a filter has at most ${MAX_ITEMS} addresses`;
  }
  if (!Array.isArray(topics)) return undefined;
  const areFew = topics.length <= MAX_TOPICS && topics.every((topic) => isShort(topic, MAX_ITEMS));
  return areFew ? undefined : `a filter has at most ${MAX_TOPICS} topics, each of at most ${MAX_ITEMS} values`;
}

function traceFault([filter]: Params): string | undefined {
  if (!isRecord(filter)) return undefined;
  const [from, to] = [quantityOf(filter.fromBlock), quantityOf(filter.toBlock)];
  if (from === undefined || to === undefined) return "fromBlock and toBlock must be numbers of blocks";
  if (to - from >= MAX_TRACED_BLOCKS) return `at most ${MAX_TRACED_BLOCKS} blocks are searched`;
  return filterFault(filter);
}

function proofFault([, keys]: Params): string | undefined {
  return isShort(keys, MAX_ITEMS) ? undefined : `at most ${MAX_ITEMS} storage keys are proven at once`;
}

function transactionFault([raw]: Params): string | undefined {
  return typeof raw === "string" && raw.length > MAX_TRANSACTION_CHARS ? "the transaction is too large" : undefined;
}

const FAULTS: ReadonlyMap<string, (params: Params) => string | undefined> = new Map([
  ["eth_call", callFault],
  ["eth_createAccessList", callFault],
  ["eth_estimateGas", callFault],
  ["eth_feeHistory", historyFault],
  ["eth_getLogs", ([filter]: Params) => filterFault(filter)],
  ["eth_getProof", proofFault],
  ["eth_newFilter", ([filter]: Params) => filterFault(filter)],
  ["eth_sendRawTransaction", transactionFault],
  ["eth_sendRawTransactionSync", transactionFault],
  ["eth_simulateV1", simulationFault],
  ["eth_subscribe", ([, filter]: Params) => filterFault(filter)],
  ["trace_filter", traceFault],
]);

/**
 * Returns why a call's arguments may not reach the local chain, undefined when they may. A development node trusts its
 * caller: it reserves memory for a fee history of any length, and runs a call for as long as its gas lasts.
 */
export function argumentFault(method: string, params: unknown): string | undefined {
  const fault = FAULTS.get(method);
  if (fault === undefined || params === undefined) return undefined;
  // anvil takes a single argument without its list, too.
  return fault(Array.isArray(params) ? params : [params]);
}
