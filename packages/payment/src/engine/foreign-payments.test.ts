import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, AppError, type Clock, type Log, type Metrics, noMetrics, silentLog } from "@turnpike/base";
import { devRpc, USDC_ADDRESS } from "@turnpike/localnet";
import { eventually, type VirtualClock, virtualClock } from "@turnpike/testkit";
import { ANSWER, claim, NETWORK, newPayer, openOwnBed, PAY_TO, PRICE, timeLimit } from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import { overrideRpc } from "../../test/override-rpc.ts";
import { addressToTopic, TOPIC_AUTHORIZATION_USED, TOPIC_TRANSFER } from "../evm/logs.ts";
import type { EvmNode, RpcCall, RpcReply } from "../evm/rpc.ts";
import type { ForeignScan, Ledger, ScanCursor } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import { createEngine } from "./engine.ts";
import { type ForeignPaymentModules, ForeignPaymentWatch } from "./foreign-payments.ts";

const server = testServer();
const RECEIVERS = [{ asset: USDC_ADDRESS, payTo: PAY_TO }];
const RULES = { network: NETWORK, confirmations: 1, finalityBlocks: 3, blockTimeSeconds: 1, receivers: RECEIVERS };
const MINUTE_MS = 60_000;
const OTHER_ASSET: Address = "0x00000000000000000000000000000000000000aa";
const OTHER_RECEIVER: Address = "0x00000000000000000000000000000000000000bb";

/** Counts what is reported, by name, node and result. */
function counting(): Metrics & {
  of: (name: string) => number;
  has: (name: string) => boolean;
  lag: () => number | undefined;
} {
  const counts = new Map<string, number>();
  let lag: number | undefined;
  return {
    ...noMetrics,
    count(spec, labels, by = 1) {
      for (const node of [undefined, labels?.node]) {
        const name = [spec.name, node, labels?.result].filter((part) => part !== undefined).join(" ");
        counts.set(name, (counts.get(name) ?? 0) + by);
      }
    },
    set(_spec, value) {
      lag = value;
    },
    of: (name) => counts.get(`turnpike_settlement_foreign${name}`) ?? 0,
    has: (name) => counts.has(`turnpike_settlement_foreign${name}`),
    lag: () => lag,
  };
}

interface MemoryLedger extends Pick<Ledger, "find" | "unknownTransfers" | "beginScan" | "moveCursor"> {
  /** By node. */
  readonly cursors: Map<string, ScanCursor>;
}

/** A ledger that knows no payment, and keeps the cursors as the database does. */
function emptyLedger(): MemoryLedger {
  const cursors = new Map<string, ScanCursor>();
  const nowhere: ScanCursor = { scannedTo: undefined, finalBlock: undefined };
  const nameOf = ({ node, receivers }: ForeignScan): string => `${node} ${receivers}`;
  return {
    cursors,
    find: async () => undefined,
    unknownTransfers: async (_network, places) => places,
    beginScan: async (scan) => ({ ...(cursors.get(nameOf(scan)) ?? nowhere), isDue: true }),
    async moveCursor(scan, was, cursor) {
      if ((cursors.get(nameOf(scan)) ?? nowhere).scannedTo !== was) return false;
      cursors.set(nameOf(scan), cursor);
      return true;
    },
  };
}

/** An authorization of a payer that moved money to a receiver. */
interface Pay {
  readonly block: bigint;
  readonly payer: number;
  readonly asset?: Address;
  readonly payTo?: Address;
  /** Its transaction, if not one of its own. */
  readonly transaction?: number;
  /** The place of its first log, if not by its payer. */
  readonly at?: number;
  /** False for a transfer without an authorization. */
  readonly used?: boolean;
  /** False for a use that moved nothing. */
  readonly moved?: boolean;
}

interface Filter {
  readonly address: readonly string[];
  readonly topics: readonly (string | null | readonly string[])[];
  readonly fromBlock: string;
  readonly toBlock: string;
}

const hash = (value: bigint | number): `0x${string}` => `0x${value.toString(16).padStart(64, "0")}`;
const payerOf = (payer: number): Address => `0x${payer.toString(16).padStart(40, "0")}`;
const matches = (wanted: string | null | readonly string[] | undefined, topic: string): boolean =>
  wanted === undefined || wanted === null || (typeof wanted === "string" ? wanted === topic : wanted.includes(topic));

function logsOf(pay: Pay): { readonly address: string; readonly topics: readonly string[] }[] {
  const { block, payer, asset = USDC_ADDRESS, payTo = PAY_TO, transaction = payer, at = payer * 2 } = pay;
  const place = { address: asset, data: hash(1), transactionHash: hash(transaction), blockHash: hash(block) };
  const from = addressToTopic(payerOf(payer));
  const use = { ...place, topics: [TOPIC_AUTHORIZATION_USED, from, hash(at)], logIndex: `0x${at.toString(16)}` };
  const index = `0x${(at + 1).toString(16)}`;
  const transfer = { ...place, topics: [TOPIC_TRANSFER, from, addressToTopic(payTo)], logIndex: index };
  return [...(pay.used === false ? [] : [use]), ...(pay.moved === false ? [] : [transfer])];
}

/** A chain's node: it answers each exchange as one of its `backends` does, which are so many blocks behind. */
function fakeNode(clock: Clock, pays: readonly Pay[] | (() => readonly Pay[]) = [], name = "one") {
  const node = {
    name,
    head: 1_000n,
    /** What it says of its newest block instead. */
    says: undefined as bigint | undefined,
    ageMs: 0,
    backends: [0n],
    exchanges: 0,
    windows: [] as string[],
    payersAsked: 0,
    /** What it does instead of answering for logs. */
    refuses: (_from: bigint, _to: bigint): RpcReply | undefined => undefined,
    batch: async (calls: readonly RpcCall[], signal?: AbortSignal): Promise<readonly RpcReply[]> => {
      signal?.throwIfAborted();
      assert.equal(calls[0]?.method, "eth_getBlockByNumber", "a head read after the logs may be newer than they are");
      const head = node.head - (node.backends[node.exchanges % node.backends.length] ?? 0n);
      node.exchanges++;
      return calls.map(({ method, params }) => {
        if (method !== "eth_getLogs") {
          const timestamp = Math.floor((clock.nowMs() - node.ageMs) / 1_000);
          const number = `0x${(node.says ?? head).toString(16)}`;
          return { ok: true, result: { number, timestamp: `0x${timestamp.toString(16)}`, hash: hash(head) } };
        }
        const { topics, fromBlock, toBlock, address } = params[0] as Filter;
        const [from, to] = [BigInt(fromBlock), BigInt(toBlock)];
        if (topics[0] === TOPIC_TRANSFER) node.windows.push(`${from}-${to}`);
        else node.payersAsked = Math.max(node.payersAsked, topics[1]?.length ?? 0);
        const refusal = node.refuses(from, to);
        if (refusal !== undefined) return refusal;
        const all = (typeof pays === "function" ? pays() : pays).filter(({ block }) => block >= from && block <= to);
        const logs = all.filter(({ block }) => block <= head).flatMap(logsOf);
        const asked = logs.filter(
          (log) => address.includes(log.address) && log.topics.every((topic, at) => matches(topics[at], topic)),
        );
        return { ok: true, result: asked };
      });
    },
  };
  return node satisfies EvmNode;
}

const REFUSED: RpcReply = { ok: false, code: -32_005, message: "query returned more than 10000 results" };

interface Bench {
  readonly clock: VirtualClock;
  readonly metrics: ReturnType<typeof counting>;
  readonly ledger: MemoryLedger;
  /** Errors that were logged. */
  readonly errors: string[];
  /** Scans every minute, so many times. */
  minutes(count: number, each?: () => void): Promise<void>;
}

/** A watch of some nodes, that has begun at block 997. */
async function benchOf(
  clock: VirtualClock,
  nodes: readonly EvmNode[],
  more: { ledger?: MemoryLedger; rules?: Partial<typeof RULES>; begun?: boolean } = {},
): Promise<Bench> {
  const [metrics, ledger, errors]: [Bench["metrics"], MemoryLedger, string[]] = [
    counting(),
    more.ledger ?? emptyLedger(),
    [],
  ];
  const log: Log = { ...silentLog, error: (_fields, message) => void errors.push(message) };
  const modules: ForeignPaymentModules = { nodes, ledger, clock, log, metrics };
  const watch = new ForeignPaymentWatch({ ...RULES, ...more.rules }, modules);
  const bench: Bench = {
    clock,
    metrics,
    ledger,
    errors,
    async minutes(count, each) {
      for (let minute = 0; minute < count; minute++) {
        each?.();
        clock.advance(MINUTE_MS);
        await watch.scan(timeLimit());
      }
    },
  };
  if (more.begun !== false) await bench.minutes(2);
  return bench;
}

const scannedTo = ({ ledger }: Bench): bigint | undefined => [...ledger.cursors.values()][0]?.scannedTo;

test("attack: two sellers with one receiver and two databases, which cannot see each other, are found by their payments", async () => {
  await using bed = await openOwnBed(server());
  const [here, there] = [await bed.openLedger(), await bed.openLedger({ url: await server().database() })];
  await using _here = here;
  await using _there = there;
  const metrics = counting();
  const modules = { nodes: bed.rpc.nodes, clock: virtualClock(), log: silentLog, metrics };
  const rules = { ...RULES, foreignScanMs: 0 };
  let watch = new ForeignPaymentWatch(rules, { ...modules, ledger: here });
  const scan = async (): Promise<number> => {
    await devRpc(bed.anvil.url, "anvil_mine", ["0x4"]);
    // The first one sees what is final, the second one scans it.
    for (let times = 0; times < 2; times++) await watch.scan(timeLimit());
    return metrics.of("_total");
  };
  assert.equal(await scan(), 0, "it begins here");
  await using own = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(here));
  await own.settle(await claim(here, await bed.payer(PRICE)), ANSWER, timeLimit());
  assert.equal(await scan(), 0, "our own");

  await using other = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(there));
  await other.settle(await claim(there, await bed.payer(PRICE)), ANSWER, timeLimit());
  const elsewhere = await claim(there, await bed.payer(PRICE), { to: newPayer().address });
  await other.settle(elsewhere, ANSWER, timeLimit());
  assert.equal(await scan(), 1, "of another seller, to our receiver");
  assert.equal(await scan(), 1, "once");

  // The attack: one authorization at both. The transfer is evidence for each of them.
  const payer = await bed.payer(PRICE);
  const nonce = `0x${"07".repeat(32)}` as const;
  const twice = [await claim(there, payer, { nonce }), await claim(here, payer, { nonce })] as const;
  await other.settle(twice[0], ANSWER, timeLimit());
  await own.settle(twice[1], ANSWER, timeLimit());
  assert.equal(await scan(), 1, "it is ours as well");

  // What the other one sells while nothing watches is found after a restart, and nothing is found twice.
  await other.settle(await claim(there, await bed.payer(PRICE)), ANSWER, timeLimit());
  await using again = await bed.openLedger();
  watch = new ForeignPaymentWatch(rules, { ...modules, ledger: again });
  assert.equal(await scan(), 2, "of the time without a watch");
  assert.equal(await scan(), 2, "once");
  assert.equal(metrics.of("_scans_total failed"), 0);
});

test("attack: however many transfers a receiver gets, a scan costs two requests, and what it passes over is counted", async () => {
  const clock = virtualClock();
  const many = Array.from({ length: 5_000 }, (_, at) => at + 1);
  const node = fakeNode(clock, () => many.map((payer) => ({ block: node.head - 40n, payer })));
  const bench = await benchOf(clock, [node]);
  for (let minute = 0; minute < 5; minute++) {
    node.exchanges = 0;
    node.head += 30n;
    await bench.minutes(1);
    // Of the other calls in that minute none asks for anything.
    assert.ok(node.exchanges <= 2, `${node.exchanges}`);
  }
  assert.deepEqual(node.windows, ["998-1027", "1028-1057", "1058-1087", "1088-1117"]);
  assert.equal(node.payersAsked, 100);
  const { metrics } = bench;
  assert.deepEqual([metrics.of("_total"), metrics.of("_scans_total partial")], [400, 4]);
});

test("a node that fails is asked ever less, and what it never gave is scanned when it answers again", async () => {
  const clock = virtualClock();
  const node = fakeNode(clock, [{ block: 1_500n, payer: 1 }]);
  const bench = await benchOf(clock, [node]);
  node.head = 2_000n;
  await bench.minutes(1);
  const { batch } = node;
  node.batch = () => Promise.reject(new AppError("SETTLEMENT_UNAVAILABLE"));
  await bench.minutes(240);
  // After 1, 2, 4, 8, 16 and 32 minutes, then each hour.
  assert.equal(bench.metrics.of("_scans_total failed"), 8);
  assert.equal(scannedTo(bench), 997n);
  node.batch = batch;
  await bench.minutes(62);
  assert.equal(bench.metrics.of("_total"), 1);
  assert.equal(node.windows[0], "998-1997", "that it was down says nothing of how much it answers");
});

const poisons: readonly [string, () => RpcReply][] = [
  ["refuses", () => REFUSED],
  [
    "never answers for",
    () => {
      throw new DOMException("", "TimeoutError");
    },
  ],
];
for (const [what, poison] of poisons) {
  test(`attack: a block whose logs a node ${what} is passed over and counted, and the next ones are scanned`, async () => {
    const clock = virtualClock();
    const node = fakeNode(
      clock,
      [1_002n, 2_500n].map((block, payer) => ({ block, payer })),
    );
    node.refuses = (from, to) => (from <= 1_000n && to >= 1_000n ? poison() : undefined);
    const bench = await benchOf(clock, [node]);
    node.head = 3_000n;
    await bench.minutes(70);
    assert.deepEqual(
      [scannedTo(bench), bench.metrics.of("_scans_total partial"), bench.metrics.of("_total")],
      [2_997n, 1, 2],
    );
    assert.equal(node.windows.filter((window) => window === "1000-1000").length, 6);
    assert.ok(bench.errors.includes("a block could not be scanned and is passed over"));
  });
}

test("attack: a head that is wrong at the first scan blinds nothing; later it costs a scan", async () => {
  const clock = virtualClock();
  const node = fakeNode(
    clock,
    [1_500n, 2_500n].map((block, payer) => ({ block, payer })),
  );
  node.says = 10n ** 9n;
  const bench = await benchOf(clock, [node], { begun: false });
  await bench.minutes(1);
  node.says = undefined;
  await bench.minutes(30, () => {
    node.head += 30n;
  });
  assert.equal(bench.metrics.of("_total"), 1);
  node.says = 10n ** 9n;
  await bench.minutes(1);
  node.says = undefined;
  await bench.minutes(40, () => {
    node.head += 30n;
  });
  assert.deepEqual([bench.metrics.of("_total"), bench.metrics.of("_scans_total partial")], [2, 0]);
});

test("a cursor above the node's head counts as failed with a negative lag, and begins anew after six scans", async () => {
  const clock = virtualClock();
  const node = fakeNode(
    clock,
    [1_500n, 4_500n].map((block, payer) => ({ block, payer })),
  );
  // For so long that it has begun, as before a chain is restarted from genesis.
  node.says = 10n ** 9n;
  const bench = await benchOf(clock, [node]);
  assert.equal(scannedTo(bench), 10n ** 9n - 3n);
  node.says = undefined;
  await bench.minutes(3);
  assert.equal(bench.metrics.of("_scans_total failed"), 2);
  await bench.minutes(1);
  assert.ok((bench.metrics.lag() ?? 0) < 0);
  await bench.minutes(150, () => {
    node.head += 30n;
  });
  assert.deepEqual([bench.metrics.of("_scans_total failed"), bench.metrics.of("_scans_total partial")], [5, 1]);
  assert.equal(bench.errors.filter((message) => message.startsWith("a scan begins anew")).length, 1);
  assert.equal(bench.metrics.of("_total"), 1);
  assert.equal(bench.metrics.lag(), 30);
});

test("attack: a node that is still syncing neither begins a scan nor begins one anew", async () => {
  const clock = virtualClock();
  const node = fakeNode(clock, [{ block: 400n, payer: 1 }]);
  const bench = await benchOf(clock, [node]);
  node.head = 100n;
  node.ageMs = 10 * 86_400_000;
  await bench.minutes(1_000);
  assert.equal(scannedTo(bench), 997n);
  const fresh = await benchOf(clock, [node]);
  assert.equal(scannedTo(fresh), undefined);
  node.head = 2_000n;
  node.ageMs = 0;
  await bench.minutes(70);
  assert.deepEqual([scannedTo(bench), bench.metrics.of("_total")], [1_997n, 0]);
});

test("attack: of a balancer's backends that are behind none hides a payment", async () => {
  const clock = virtualClock();
  const pays = Array.from({ length: 40 }, (_, at) => ({ block: 1_010n + BigInt(at * 30), payer: at + 1 }));
  const node = fakeNode(clock, pays);
  const bench = await benchOf(clock, [node]);
  node.backends = [0n, 600n, 20n, 0n, 45n];
  await bench.minutes(300, () => {
    if (node.head < 2_500n) node.head += 30n;
  });
  assert.deepEqual([bench.metrics.of("_total"), bench.metrics.of("_scans_total partial")], [40, 0]);
  assert.ok(bench.metrics.of("_scans_total failed") > 0);
});

test("a node that answers for ten blocks of logs is kept up with, in at most thirty requests a minute", async () => {
  const clock = virtualClock();
  const node = fakeNode(clock, [{ block: 30_000n, payer: 1 }]);
  node.refuses = (from, to) => (to - from >= 10n ? REFUSED : undefined);
  const bench = await benchOf(clock, [node]);
  let most = 0;
  const measure = (): void => {
    most = Math.max(most, node.exchanges);
    node.exchanges = 0;
  };
  await bench.minutes(60 * 24, () => {
    node.head += 30n;
    measure();
  });
  assert.ok((bench.metrics.lag() ?? Number.NaN) <= 30, `${bench.metrics.lag()}`);
  assert.deepEqual([bench.metrics.of("_total"), bench.metrics.of("_scans_total failed")], [1, 0]);
  // Two days behind, once it answers for more.
  node.refuses = () => undefined;
  node.head += 90_000n;
  await bench.minutes(60, measure);
  assert.equal(bench.metrics.lag(), 0);
  // Behind again, and slow to say that it answers for nothing.
  node.refuses = () => {
    throw new DOMException("", "TimeoutError");
  };
  node.head += 90_000n;
  await bench.minutes(3, measure);
  assert.ok(most > 10 && most <= 30, `${most}`);
});

test("a scan ends before another process begins one, however slow its node is", async () => {
  const clock = virtualClock();
  const node = fakeNode(clock, [{ block: 1_500n, payer: 1 }]);
  const bench = await benchOf(clock, [node]);
  node.head = 90_000n;
  await bench.minutes(1);
  const { batch } = node;
  node.batch = (calls, signal) => {
    clock.advance(9_999);
    return batch(calls, signal);
  };
  node.refuses = (from) => {
    if (from < 2_000n) return undefined;
    throw new DOMException("", "TimeoutError");
  };
  for (let times = 0; times < 5; times++) {
    const startMs = clock.monotonicMs();
    await bench.minutes(1);
    assert.ok(clock.monotonicMs() - startMs < 2 * MINUTE_MS, `${clock.monotonicMs() - startMs}`);
  }
});

test("what is passed over counts although the node fails in the next window", async () => {
  const clock = virtualClock();
  const many = Array.from({ length: 200 }, (_, at) => ({ block: 1_500n, payer: at + 1 }));
  const node = fakeNode(clock, many);
  const bench = await benchOf(clock, [node]);
  node.head = 5_000n;
  await bench.minutes(1);
  const { batch } = node;
  node.batch = async (calls, signal) => {
    if (node.windows.length > 0 && node.payersAsked > 0) throw new AppError("SETTLEMENT_UNAVAILABLE");
    return batch(calls, signal);
  };
  await bench.minutes(1);
  const { metrics } = bench;
  assert.deepEqual(
    [metrics.of("_total"), metrics.of("_scans_total partial"), metrics.of("_scans_total failed")],
    [100, 1, 1],
  );
});

test("attack: of five nodes four lie, lag, limit or hang, and the other one still shows every payment", async () => {
  const clock = virtualClock();
  const pays = Array.from({ length: 30 }, (_, at) => ({ block: 1_010n + BigInt(at * 100), payer: at + 1 }));
  const honest = fakeNode(clock, pays, "honest");
  const lying = fakeNode(clock, [], "lying");
  const lagging = fakeNode(clock, pays, "lagging");
  const limited = fakeNode(clock, pays, "limited");
  limited.refuses = () => REFUSED;
  const hanging = fakeNode(clock, pays, "hanging");
  const nodes = [lying, lagging, limited, hanging, honest];
  const bench = await benchOf(clock, nodes);
  lagging.backends = [900n];
  hanging.batch = () => Promise.reject(new DOMException("", "TimeoutError"));
  await bench.minutes(120, () => {
    for (const node of nodes) node.head += 30n;
    lying.says = lying.head % 7n === 0n ? 10n ** 9n : undefined;
  });
  const { of } = bench.metrics;
  assert.deepEqual(
    nodes.map(({ name }) => of(`_total ${name}`)),
    [0, 27, 0, 0, 30],
  );
  assert.equal(of("_scans_total honest failed"), 0);
  for (const name of ["lying", "lagging", "limited", "hanging"]) assert.ok(of(`_scans_total ${name} failed`) > 0, name);
});

test("two gateways of one ledger with different receivers each scan for their own", async () => {
  const clock = virtualClock();
  const pays = [1_500n, 2_500n, 3_500n, 4_500n].map((block, payer) => ({
    block,
    payer,
    payTo: payer % 2 === 0 ? PAY_TO : OTHER_RECEIVER,
  }));
  const node = fakeNode(clock, pays);
  const ledger = emptyLedger();
  const other = { receivers: [{ asset: USDC_ADDRESS, payTo: OTHER_RECEIVER }] };
  const both = [await benchOf(clock, [node], { ledger }), await benchOf(clock, [node], { ledger, rules: other })];
  node.head = 6_000n;
  for (let minute = 0; minute < 8; minute++) for (const bench of both) await bench.minutes(1);
  assert.deepEqual(
    both.map(({ metrics }) => metrics.of("_total")),
    [2, 2],
  );
});

test("a fault of the ledger in the middle of a scan counts nothing twice", async () => {
  for (const broken of ["find", "moveCursor"] as const) {
    const clock = virtualClock();
    const node = fakeNode(
      clock,
      [1, 2, 3, 4].map((payer) => ({ block: 1_500n, payer })),
    );
    const ledger = emptyLedger();
    let asked = 0;
    const failing: MemoryLedger = {
      ...ledger,
      async [broken](...args: readonly unknown[]) {
        if (node.windows.length > 0 && ++asked === (broken === "find" ? 4 : 1))
          throw new AppError("LEDGER_UNAVAILABLE");
        return (ledger[broken] as (...all: readonly unknown[]) => Promise<never>)(...args);
      },
    };
    const bench = await benchOf(clock, [node], { ledger: failing });
    node.head = 2_000n;
    await bench.minutes(8);
    assert.deepEqual([bench.metrics.of("_total"), bench.metrics.of("_scans_total failed")], [4, 1], broken);
  }
});

test("attack: a move of the cursor that may be on disk is counted", async () => {
  const clock = virtualClock();
  const node = fakeNode(clock, [{ block: 1_500n, payer: 1 }]);
  const ledger = emptyLedger();
  const bench = await benchOf(clock, [node], {
    ledger: {
      ...ledger,
      async moveCursor(scan, was, cursor) {
        const moved = await ledger.moveCursor(scan, was, cursor);
        if (cursor.scannedTo === 1_997n) throw new AppError("LEDGER_UNAVAILABLE", { detail: { unknown: true } });
        return moved;
      },
    },
  });
  node.head = 2_000n;
  await bench.minutes(8);
  assert.equal(bench.metrics.of("_total"), 1);
});

test("each payment is judged by its own use of an authorization, its asset and its receiver", async () => {
  const clock = virtualClock();
  const [payer, block, transaction] = [1, 1_010n, 7];
  const node = fakeNode(clock, [
    // Two of one payer in one transaction: one is ours.
    { payer, block, transaction, at: 10 },
    { payer, block, transaction, at: 12 },
    // The same places and payer in another transaction and block.
    { payer, block: 1_011n, transaction: 8, at: 11 },
    // A use for another receiver, then a transfer without one.
    { payer: 2, block, transaction: 9, at: 20, payTo: OTHER_RECEIVER },
    { payer: 2, block, transaction: 9, at: 22, used: false },
    // Receiver and asset of different pairs.
    { payer: 3, block, at: 30, asset: OTHER_ASSET },
    { payer: 4, block, at: 40, payTo: OTHER_RECEIVER },
    { payer: 5, block, at: 50, asset: OTHER_ASSET, payTo: OTHER_RECEIVER },
    // A use in another transaction, and one in another block.
    { payer: 6, block, transaction: 10, at: 60, moved: false },
    { payer: 6, block, transaction: 11, at: 61, used: false },
    { payer: 7, block, transaction: 12, at: 70, moved: false },
    { payer: 7, block: 1_012n, transaction: 12, at: 71, used: false },
    // Another asset's log between the two.
    { payer: 8, block, transaction: 13, at: 80, moved: false },
    { payer: 8, block, transaction: 13, at: 80, used: false, asset: OTHER_ASSET, payTo: OTHER_RECEIVER },
    { payer: 8, block, transaction: 13, at: 81, used: false },
  ]);
  const asked: string[] = [];
  const ledger: MemoryLedger = {
    ...emptyLedger(),
    async find({ asset, from, nonce }) {
      asked.push(`${BigInt(from)} ${BigInt(nonce)} ${asset === USDC_ADDRESS.toLowerCase()}`);
      return BigInt(nonce) === 10n ? ({} as PaymentRecord) : undefined;
    },
  };
  const receivers = [...RECEIVERS, { asset: OTHER_ASSET, payTo: OTHER_RECEIVER }];
  const bench = await benchOf(clock, [node], { ledger, rules: { receivers } });
  node.head = 1_100n;
  await bench.minutes(2);
  assert.deepEqual(asked.toSorted(), ["1 10 true", "1 11 true", "1 12 true", "5 50 false", "8 80 true"]);
  assert.equal(bench.metrics.of("_total"), 4);
});

test("its counters are there before their first event, by node: an increase from nothing is none", async () => {
  const clock = virtualClock();
  const bench = await benchOf(clock, [fakeNode(clock, [], "a"), fakeNode(clock, [], "b")], { begun: false });
  for (const name of ["_total a", "_total b", "_scans_total a done", "_scans_total b failed", "_scans_total b partial"])
    assert.ok(bench.metrics.has(name), name);
  const nothing = await benchOf(clock, [fakeNode(clock)], { begun: false, rules: { receivers: [] } });
  assert.ok(!nothing.metrics.has("_total one"));
});

test("every process shows the lag, also when the scan is another's", async () => {
  const clock = virtualClock();
  const ledger: MemoryLedger = {
    ...emptyLedger(),
    beginScan: async () => ({ isDue: false, scannedTo: 5n, finalBlock: 25n }),
  };
  const node = fakeNode(clock);
  const bench = await benchOf(clock, [node], { ledger });
  assert.deepEqual([bench.metrics.lag(), node.exchanges], [20, 0]);
});

test("an engine with receivers scans by itself; one whose node never answers that settles and reconciles as before", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  let hanging = 0;
  let reconciled = 0;
  const rpc = overrideRpc(bed.rpc, {
    nodes: bed.rpc.nodes.map(({ name }) => ({
      name,
      batch(_calls, signal) {
        hanging++;
        return new Promise((_, reject) =>
          signal?.addEventListener("abort", () => reject(signal.reason), { once: true }),
        );
      },
    })),
    async batch(calls, signal) {
      if (calls.some(({ method }) => method === "eth_getBalance")) reconciled++;
      return bed.rpc.batch(calls, signal);
    },
  });
  const options = bed.options([await bed.relayerKey()]);
  const modules = { ...bed.modules(ledger), rpc: new Map([[NETWORK, rpc]]) };
  {
    await using seller = await createEngine(
      { ...options, networks: options.networks.map((network) => ({ ...network, receivers: RECEIVERS })) },
      modules,
    );
    await eventually("the scan hangs", async () => hanging === 1);
    const before = reconciled;
    await seller.settle(await claim(ledger, await bed.payer(PRICE)), ANSWER, timeLimit());
    await eventually("it reconciles on", async () => reconciled > before + 5);
    assert.equal(hanging, 1);
  }
  // As a facilitator, which sells nothing.
  let begun = 0;
  const counted: Ledger = {
    ...ledger,
    beginScan(scan, pauseMs) {
      begun++;
      return ledger.beginScan(scan, pauseMs);
    },
  };
  await using facilitator = await createEngine(options, { ...modules, ledger: counted });
  const before = reconciled;
  await facilitator.settle(await claim(ledger, await bed.payer(PRICE)), ANSWER, timeLimit());
  await eventually("it reconciles", async () => reconciled > before + 5);
  assert.deepEqual([begun, hanging], [0, 1]);
});
