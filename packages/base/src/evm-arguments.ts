import { isRecord } from "./json.ts";

/** Maximum of what one JSON-RPC call may have an EVM node do. */
export interface EvmBounds {
  /** Gas of a simulated call, and of a simulated block. */
  readonly maxGas: number;
  readonly maxHistoryBlocks: number;
  readonly maxHistoryPercentiles: number;
  /** Calls that are simulated or traced by one call. */
  readonly maxSimulatedCalls: number;
  /** Addresses, values of one topic, and storage keys. */
  readonly maxFilterItems: number;
  /** Blocks whose traces are searched. */
  readonly maxTracedBlocks: number;
  readonly maxTransactionBytes: number;
  readonly maxBatchCalls: number;
}

/** Bounds for a node of a public network: gas as geth's own `--rpc.gascap`, a history as geth's maximum. */
export const EVM_BOUNDS: EvmBounds = {
  maxGas: 50_000_000,
  maxHistoryBlocks: 1_024,
  maxHistoryPercentiles: 100,
  maxSimulatedCalls: 16,
  maxFilterItems: 1_024,
  maxTracedBlocks: 1_000,
  maxTransactionBytes: 131_072,
  maxBatchCalls: 250,
};

const MAX_TOPICS = 4;
/** Largest that a tracer's time may be set to: no fraction, since what cannot be read is refused. */
const MAX_TRACE_TIME = /^(?:[0-9]{1,2}s|[0-9]{1,5}ms)$/;
/** A tracer of the node, by its name. Anything else is a program of the caller. */
const TRACER_NAME = /^\w{1,64}$/;
/** geth's own default of blocks that are run again to have a state. */
const MAX_REPEATED_BLOCKS = 128;

type Params = readonly unknown[];
type Fault = string | undefined;
type Fields = ReadonlyMap<string, unknown>;

/** A key as geth reads it: Go matches keys without regard to case, and by Unicode's folds (`ſ` is an `s`). */
export const foldedKey = (key: string): string => key.toUpperCase().toLowerCase();

/** Members of an object by their {@link foldedKey}; undefined for anything else. */
export function fieldsOf(value: unknown): Fields | undefined {
  return isRecord(value) ? new Map(Object.entries(value).map(([key, member]) => [foldedKey(key), member])) : undefined;
}

/** A quantity as nodes read it: hexadecimal of at most 256 bits, or a whole JSON number; undefined for anything else. */
function quantityOf(value: unknown): bigint | undefined {
  if (typeof value === "number") return Number.isSafeInteger(value) && value >= 0 ? BigInt(value) : undefined;
  return typeof value === "string" && /^0x[0-9a-f]{1,64}$/i.test(value) ? BigInt(value) : undefined;
}

/** True for a quantity up to a maximum, and for one that is not there. */
function isWithin(value: unknown, maximum: number): boolean {
  if (value === undefined || value === null) return true;
  const quantity = quantityOf(value);
  return quantity !== undefined && quantity <= BigInt(maximum);
}

const isShort = (value: unknown, maximum: number): boolean => !Array.isArray(value) || value.length <= maximum;

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

function firstFault(values: readonly unknown[], faultOf: (value: unknown) => Fault): Fault {
  for (const value of values) {
    const fault = faultOf(value);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** Nodes written in Rust read an object from a list of its values, too: then nothing of it would be compared with a bound. */
const objectFault = (value: unknown, name: string): Fault =>
  value === undefined || value === null || isRecord(value) ? undefined : `${name} must be an object`;

const gasFault = (call: unknown, { maxGas }: EvmBounds): Fault =>
  objectFault(call, "a call") ??
  (isWithin(fieldsOf(call)?.get("gas"), maxGas) ? undefined : `gas must be a quantity of at most ${maxGas}`);

const overrideFault = (overrides: unknown, { maxGas }: EvmBounds): Fault =>
  objectFault(overrides, "a block's overrides") ??
  (isWithin(fieldsOf(overrides)?.get("gaslimit"), maxGas)
    ? undefined
    : `gasLimit must be a quantity of at most ${maxGas}`);

const callFault = ([call, , , blockOverrides]: Params, bounds: EvmBounds): Fault =>
  gasFault(call, bounds) ?? overrideFault(blockOverrides, bounds);

/** Fault of a group of calls in a block of its own. A group without calls is work for a node, too. */
function groupsFault(groups: readonly Fields[], calls: string, overrides: string, bounds: EvmBounds): Fault {
  let count = 0;
  for (const group of groups) {
    const simulated = listOf(group.get(calls));
    count += Math.max(1, simulated.length);
    if (count > bounds.maxSimulatedCalls) return `at most ${bounds.maxSimulatedCalls} calls are simulated at once`;
    const blockOverrides = group.get(overrides);
    const fault = overrideFault(blockOverrides, bounds) ?? firstFault(simulated, (call) => gasFault(call, bounds));
    if (fault !== undefined) return fault;
    // A simulated block far ahead is filled up with empty ones.
    const number = fieldsOf(blockOverrides);
    if (number?.get("number") !== undefined || number?.get("blocknumber") !== undefined) {
      return "a simulated block has no number of its own here";
    }
  }
  return undefined;
}

const fieldsOfAll = (values: readonly unknown[]): Fields[] => values.flatMap((value) => fieldsOf(value) ?? []);

const objectsFault = (values: readonly unknown[]): Fault =>
  values.every(isRecord) ? undefined : "a group of calls must be an object";

const simulationFault = ([payload]: Params, bounds: EvmBounds): Fault => {
  const groups = listOf(fieldsOf(payload)?.get("blockstatecalls"));
  return (
    objectFault(payload, "a simulation") ??
    objectsFault(groups) ??
    groupsFault(fieldsOfAll(groups), "calls", "blockoverrides", bounds)
  );
};

/** `eth_callMany` of Erigon, and `debug_traceCallMany`: bundles of transactions. */
const bundlesFault = ([bundles]: Params, bounds: EvmBounds): Fault =>
  objectsFault(listOf(bundles)) ?? groupsFault(fieldsOfAll(listOf(bundles)), "transactions", "blockoverride", bounds);

/** `trace_callMany`: pairs of a call and kinds of traces. */
function tracedCallsFault([pairs]: Params, bounds: EvmBounds): Fault {
  const { maxSimulatedCalls } = bounds;
  if (!isShort(pairs, maxSimulatedCalls)) return `at most ${maxSimulatedCalls} calls are traced at once`;
  return firstFault(listOf(pairs), (pair) => gasFault(listOf(pair)[0], bounds));
}

function historyFault([count, , percentiles]: Params, bounds: EvmBounds): Fault {
  const { maxHistoryBlocks, maxHistoryPercentiles } = bounds;
  // Erigon and geth read a text of decimal digits as well.
  const blocks = typeof count === "string" && /^[0-9]{1,15}$/.test(count) ? Number(count) : count;
  if (!isWithin(blocks, maxHistoryBlocks)) return `a fee history has at most ${maxHistoryBlocks} blocks`;
  return isShort(percentiles, maxHistoryPercentiles)
    ? undefined
    : `at most ${maxHistoryPercentiles} percentiles are given`;
}

function filterFault(filter: unknown, { maxFilterItems }: EvmBounds): Fault {
  const fields = fieldsOf(filter);
  if (fields === undefined) return objectFault(filter, "a filter");
  if (!["address", "fromaddress", "toaddress"].every((name) => isShort(fields.get(name), maxFilterItems))) {
    return `a filter has at most ${maxFilterItems} addresses`;
  }
  const topics = fields.get("topics");
  if (!Array.isArray(topics)) return undefined;
  const areFew = topics.length <= MAX_TOPICS && topics.every((topic) => isShort(topic, maxFilterItems));
  return areFew ? undefined : `a filter has at most ${MAX_TOPICS} topics, each of at most ${maxFilterItems} values`;
}

function traceFilterFault([filter]: Params, bounds: EvmBounds): Fault {
  const fields = fieldsOf(filter);
  if (fields === undefined) return "a filter must be an object";
  const [from, to] = [quantityOf(fields.get("fromblock")), quantityOf(fields.get("toblock"))];
  if (from === undefined || to === undefined) return "fromBlock and toBlock must be numbers of blocks";
  if (to - from >= BigInt(bounds.maxTracedBlocks)) return `at most ${bounds.maxTracedBlocks} blocks are searched`;
  return filterFault(filter, bounds);
}

const proofFault = ([, keys]: Params, { maxFilterItems }: EvmBounds): Fault =>
  isShort(keys, maxFilterItems) ? undefined : `at most ${maxFilterItems} storage keys are proven at once`;

const transactionFault = ([raw]: Params, { maxTransactionBytes }: EvmBounds): Fault =>
  typeof raw === "string" && raw.length > 2 + 2 * maxTransactionBytes
    ? `a transaction has at most ${maxTransactionBytes} bytes`
    : undefined;

function tracerFault(options: unknown, bounds: EvmBounds): Fault {
  const fields = fieldsOf(options);
  if (fields === undefined) return objectFault(options, "a tracer's options");
  const [tracer, timeout] = [fields.get("tracer") ?? "callTracer", fields.get("timeout") ?? "5s"];
  if (typeof tracer !== "string" || !TRACER_NAME.test(tracer)) return "tracer must be the name of one of the node's";
  if (typeof timeout !== "string" || !MAX_TRACE_TIME.test(timeout)) return "timeout must be at most 99s, such as 5s";
  if (!isWithin(fields.get("reexec"), MAX_REPEATED_BLOCKS)) return `reexec must be at most ${MAX_REPEATED_BLOCKS}`;
  return overrideFault(fields.get("blockoverrides"), bounds);
}

const tracedFault = ([, options]: Params, bounds: EvmBounds): Fault => tracerFault(options, bounds);

type ArgumentCheck = (params: Params, bounds: EvmBounds) => Fault;

const CHECKS: ReadonlyMap<string, ArgumentCheck> = new Map<string, ArgumentCheck>([
  ["debug_traceBlock", tracedFault],
  ["debug_traceBlockByHash", tracedFault],
  ["debug_traceBlockByNumber", tracedFault],
  ["debug_traceCall", ([call, , options], bounds) => gasFault(call, bounds) ?? tracerFault(options, bounds)],
  [
    "debug_traceCallMany",
    ([bundles, , options], bounds) => bundlesFault([bundles], bounds) ?? tracerFault(options, bounds),
  ],
  ["debug_traceTransaction", tracedFault],
  ["eth_call", callFault],
  ["eth_callMany", bundlesFault],
  ["eth_createAccessList", callFault],
  ["eth_estimateGas", callFault],
  ["eth_feeHistory", historyFault],
  ["eth_getLogs", ([filter], bounds) => filterFault(filter, bounds)],
  ["eth_getProof", proofFault],
  ["eth_newFilter", ([filter], bounds) => filterFault(filter, bounds)],
  ["eth_sendRawTransaction", transactionFault],
  ["eth_sendRawTransactionSync", transactionFault],
  ["eth_simulateV1", simulationFault],
  ["eth_subscribe", ([, filter], bounds) => filterFault(filter, bounds)],
  ["trace_call", ([call], bounds) => gasFault(call, bounds)],
  ["trace_callMany", tracedCallsFault],
  ["trace_filter", traceFilterFault],
]);

/** Methods whose arguments are bounded. */
export const BOUNDED_EVM_METHODS: readonly string[] = [...CHECKS.keys()];

/**
 * Returns why a call's arguments may not reach a node, undefined when they may. A node trusts its caller: it reserves memory
 * for a fee history of any length, and runs a call for as long as its gas lasts.
 */
export function argumentFault(method: string, params: unknown, bounds: EvmBounds): string | undefined {
  const check = CHECKS.get(method);
  if (check === undefined || params === undefined || params === null) return undefined;
  // anvil takes a single argument without its list, too.
  return check(Array.isArray(params) ? params : [params], bounds);
}
