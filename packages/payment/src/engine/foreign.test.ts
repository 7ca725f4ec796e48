import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError, type Metrics, noMetrics, silentLog } from "@turnpike/base";
import { devRpc, USDC_ADDRESS } from "@turnpike/localnet";
import { eventually, virtualClock } from "@turnpike/testkit";
import { ANSWER, claim, NETWORK, newPayer, openOwnBed, PAY_TO, PRICE, timeLimit } from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import { addressToTopic, TOPIC_AUTHORIZATION_USED, TOPIC_TRANSFER } from "../evm/logs.ts";
import type { EvmRpc, RpcReply } from "../evm/rpc.ts";
import type { Ledger } from "../ledger-types.ts";
import { createSettlementChain } from "./chain.ts";
import { createEngine } from "./engine.ts";
import { createForeignWatch } from "./foreign.ts";

const server = testServer();
const RECEIVERS = [{ asset: USDC_ADDRESS, payTo: PAY_TO }];
const RULES = { network: NETWORK, confirmations: 1, finalityBlocks: 3, blockTimeSeconds: 1, receivers: RECEIVERS };
const MINUTE_MS = 60_000;

/** Counts what is reported, by name and result. */
function counting(): Metrics & { readonly of: (name: string) => number } {
  const counts = new Map<string, number>();
  return {
    ...noMetrics,
    count(spec, labels) {
      const name = [spec.name, labels?.result].filter((part) => part !== undefined).join(" ");
      counts.set(name, (counts.get(name) ?? 0) + 1);
    },
    of: (name) => counts.get(`turnpike_settlement_foreign${name}`) ?? 0,
  };
}

/** A ledger that knows no payment, and keeps how far was looked. */
function emptyLedger(): Pick<Ledger, "find" | "unknownTransfers" | "beginLook" | "endLook"> & { lookedTo?: bigint } {
  return {
    find: async () => undefined,
    unknownTransfers: async (_network, places) => places,
    async beginLook() {
      return { lookedTo: this.lookedTo };
    },
    async endLook(_network, to) {
      this.lookedTo = to;
    },
  };
}

interface Filter {
  readonly topics: readonly unknown[];
  readonly fromBlock: string;
  readonly toBlock: string;
}

/** A node that counts its requests; `logs` answers for logs. */
function fakeNode(logs: (filter: Filter) => RpcReply) {
  const node = {
    head: 1_000n,
    requests: 0,
    windows: [] as string[],
    payersAsked: 0,
    rpc: {
      host: "fake",
      async call(method: string, params: readonly unknown[]): Promise<RpcReply> {
        node.requests++;
        if (method === "eth_getBlockByNumber") {
          const head = { number: `0x${node.head.toString(16)}`, timestamp: "0x1", hash: hash(node.head) };
          return { ok: true, result: head };
        }
        const filter = params[0] as Filter;
        if (filter.topics[0] === TOPIC_TRANSFER) {
          node.windows.push(`${BigInt(filter.fromBlock)}-${BigInt(filter.toBlock)}`);
        } else node.payersAsked = Math.max(node.payersAsked, (filter.topics[1] as string[]).length);
        return logs(filter);
      },
      batch: async () => Promise.reject(new AppError("INTERNAL")),
      [Symbol.asyncDispose]: async () => undefined,
    } satisfies EvmRpc,
  };
  return node;
}

const hash = (value: bigint): `0x${string}` => `0x${value.toString(16).padStart(64, "0")}`;

/** Each of many payers has paid the receiver with an authorization in the window's first block. */
function flood(payers: number): (filter: Filter) => RpcReply {
  return ({ topics, fromBlock }) => {
    const isTransfer = topics[0] === TOPIC_TRANSFER;
    const logs = Array.from({ length: payers }, (_, at) => {
      const payer = addressToTopic(`0x${(at + 1).toString(16).padStart(40, "0")}`);
      return {
        address: USDC_ADDRESS,
        topics: isTransfer
          ? [TOPIC_TRANSFER, payer, addressToTopic(PAY_TO)]
          : [TOPIC_AUTHORIZATION_USED, payer, hash(BigInt(at))],
        data: "0x",
        logIndex: `0x${(at * 2 + (isTransfer ? 1 : 0)).toString(16)}`,
        transactionHash: hash(BigInt(at)),
        blockHash: hash(BigInt(fromBlock)),
      };
    });
    return { ok: true, result: logs };
  };
}

test("attack: two sellers with one receiver and two databases, which cannot see each other, are found by their payments", async () => {
  await using bed = await openOwnBed(server());
  const [here, there] = [await bed.openLedger(), await bed.openLedger({ url: await server().database() })];
  await using _here = here;
  await using _there = there;
  const metrics = counting();
  const chain = createSettlementChain(bed.rpc);
  const modules = { chain, clock: virtualClock(), log: silentLog, metrics };
  const rules = { ...RULES, foreignLookMs: 0 };
  let watch = createForeignWatch(rules, { ...modules, ledger: here });
  const look = async (): Promise<number> => {
    await devRpc(bed.anvil.url, "anvil_mine", ["0x4"]);
    await watch.look(timeLimit());
    return metrics.of("_total");
  };
  assert.equal(await look(), 0, "it begins here");
  await using own = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(here));
  await own.settle(await claim(here, await bed.payer(PRICE)), ANSWER, timeLimit());
  assert.equal(await look(), 0, "our own");

  await using other = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(there));
  await other.settle(await claim(there, await bed.payer(PRICE)), ANSWER, timeLimit());
  const elsewhere = await claim(there, await bed.payer(PRICE), { to: newPayer().address });
  await other.settle(elsewhere, ANSWER, timeLimit());
  assert.equal(await look(), 1, "of another seller, to our receiver");
  assert.equal(await look(), 1, "once");

  // The attack: one authorization at both. The transfer is evidence for each of them.
  const payer = await bed.payer(PRICE);
  const nonce = `0x${"07".repeat(32)}` as const;
  const twice = [await claim(there, payer, { nonce }), await claim(here, payer, { nonce })] as const;
  await other.settle(twice[0], ANSWER, timeLimit());
  await own.settle(twice[1], ANSWER, timeLimit());
  assert.equal(await look(), 1, "it is ours as well");

  // What the other one sells while nothing watches is found after a restart, and nothing is found twice.
  await other.settle(await claim(there, await bed.payer(PRICE)), ANSWER, timeLimit());
  await using again = await bed.openLedger();
  watch = createForeignWatch(rules, { ...modules, ledger: again });
  assert.equal(await look(), 2, "of the time without a watch");
  assert.equal(await look(), 2, "once");
  assert.equal(metrics.of("_looks_total failed"), 0);
});

test("attack: however many transfers a receiver gets, a look costs three requests, and what it passes over is counted", async () => {
  const [node, ledger, clock, metrics] = [fakeNode(flood(5_000)), emptyLedger(), virtualClock(), counting()];
  const watch = createForeignWatch(RULES, {
    chain: createSettlementChain(node.rpc),
    ledger,
    clock,
    log: silentLog,
    metrics,
  });
  await watch.look(timeLimit());
  node.head = 11_000n;
  for (let round = 0; round < 5; round++) {
    node.requests = 0;
    clock.advance(MINUTE_MS);
    // Of the other calls in that minute none asks for anything.
    for (let times = 0; times < 10; times++) await watch.look(timeLimit());
    assert.equal(node.requests, 3);
  }
  assert.deepEqual(node.windows, ["998-1997", "1998-2997", "2998-3997", "3998-4997", "4998-5997"]);
  assert.equal(node.payersAsked, 100);
  assert.deepEqual(
    [metrics.of("_total"), metrics.of("_looks_total partial"), metrics.of("_looks_total done")],
    [500, 5, 0],
  );
});

test("a node that fails is asked ever less, and what it never gave is looked at when it answers again", async () => {
  let works = false;
  const node = fakeNode((filter) => (works ? flood(1)(filter) : { ok: false, code: -32_000, message: "no logs" }));
  const [ledger, clock, metrics] = [emptyLedger(), virtualClock(), counting()];
  const watch = createForeignWatch(RULES, {
    chain: createSettlementChain(node.rpc),
    ledger,
    clock,
    log: silentLog,
    metrics,
  });
  await watch.look(timeLimit());
  node.head = 2_000n;
  for (let minute = 0; minute < 240; minute++) {
    clock.advance(MINUTE_MS);
    await watch.look(timeLimit());
  }
  // After 1, 2, 4, 8, 16 and 32 minutes, then each hour.
  assert.equal(metrics.of("_looks_total failed"), 8);
  assert.equal(ledger.lookedTo, 997n);
  works = true;
  clock.advance(60 * MINUTE_MS);
  await watch.look(timeLimit());
  assert.equal(metrics.of("_total"), 1);
  assert.match(node.windows.at(-1) ?? "", /^998-/);
});

test("attack: a block with more logs than a node gives is passed over and counted, and the next ones are looked at", async () => {
  const node = fakeNode((filter) =>
    BigInt(filter.fromBlock) <= 1_000n && BigInt(filter.toBlock) >= 1_000n
      ? { ok: false, code: -32_000, message: "query returned more than 10000 results" }
      : { ok: true, result: [] },
  );
  const [ledger, clock, metrics] = [emptyLedger(), virtualClock(), counting()];
  const watch = createForeignWatch(RULES, {
    chain: createSettlementChain(node.rpc),
    ledger,
    clock,
    log: silentLog,
    metrics,
  });
  await watch.look(timeLimit());
  node.head = 3_000n;
  for (let hour = 0; hour < 60; hour++) {
    clock.advance(60 * MINUTE_MS);
    await watch.look(timeLimit());
  }
  assert.equal(ledger.lookedTo, 2_997n);
  assert.equal(metrics.of("_looks_total partial"), 1);
  assert.ok(node.windows.includes("1000-1000"));
});

test("an engine with receivers looks by itself; one whose node never answers that settles and reconciles as before", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  await devRpc(bed.anvil.url, "anvil_mine", ["0x10"]);
  await ledger.beginLook(NETWORK, 0);
  await ledger.endLook(NETWORK, 1n);
  let hanging = 0;
  let reconciled = 0;
  const rpc: EvmRpc = {
    ...bed.rpc,
    async call(method, params, signal) {
      if (method !== "eth_getLogs") return bed.rpc.call(method, params, signal);
      hanging++;
      return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason), { once: true }));
    },
    async batch(calls, signal) {
      if (calls.some(({ method }) => method === "eth_getBalance")) reconciled++;
      return bed.rpc.batch(calls, signal);
    },
  };
  const options = bed.options([await bed.relayerKey()]);
  const modules = { ...bed.modules(ledger), rpc: new Map([[NETWORK, rpc]]) };
  {
    await using seller = await createEngine(
      { ...options, networks: options.networks.map((network) => ({ ...network, receivers: RECEIVERS })) },
      modules,
    );
    await eventually("the look hangs", async () => hanging === 1);
    const before = reconciled;
    await seller.settle(await claim(ledger, await bed.payer(PRICE)), ANSWER, timeLimit());
    await eventually("it reconciles on", async () => reconciled > before + 5);
    assert.equal(hanging, 1);
  }
  // As a facilitator, which sells nothing.
  let begun = 0;
  const counted: Ledger = { ...ledger, beginLook: async () => void begun++ as undefined };
  await using facilitator = await createEngine(options, { ...modules, ledger: counted });
  const before = reconciled;
  await facilitator.settle(await claim(ledger, await bed.payer(PRICE)), ANSWER, timeLimit());
  await eventually("it reconciles", async () => reconciled > before + 5);
  assert.deepEqual([begun, hanging], [0, 1]);
});
