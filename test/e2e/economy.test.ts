import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { readSupplyReport } from "@turnpike/supplier";
import { eventually, rpcAnswer, startEvmUpstream } from "@turnpike/testkit";
import { chainParty } from "@turnpike/testkit/chain";
import { balanceRequest, startEconomy, startRelay } from "./economy-rig.ts";

const OPERATORS = ["economy one", "economy two"] as const;
/** Sessions of six blocks: ten boundaries. */
const LAST_BLOCK = 62n;
const WORKERS = 8;
/** Requests that end between a block and the next. */
const REQUESTS_PER_BLOCK = 20;
const UPOKT_PER_RELAY = 4_200n;

suite("the economy of one gateway and two suppliers", () => {
  test("over ten session boundaries no client sees an error, and what the gateway counted is what the chain paid", async (t) => {
    await using stack = new AsyncDisposableStack();
    const node = stack.use(
      await startEvmUpstream((asked, response) => {
        response.end(rpcAnswer(asked, '"result":"0x5"'));
      }),
    );
    const economy = stack.use(
      await startEconomy({
        operators: OPERATORS,
        backends: { json_rpc: { url: node.url } },
        chain: { params: { proof: { proof_request_probability: 0.5 } } },
      }),
    );
    const { chain, queries, counted, stateFolder } = economy;
    const relay = stack.use(await startRelay(economy));

    let served = 0;
    let isOver = false;
    const faults: string[] = [];
    const work = async (): Promise<void> => {
      while (!isOver) {
        const outcome = await relay.send(balanceRequest());
        served++;
        if (outcome.ok) continue;
        faults.push(JSON.stringify(outcome));
        return;
      }
    };
    const working = Promise.all(Array.from({ length: WORKERS }, work));
    try {
      while (chain.heightBlocks < LAST_BLOCK) {
        // Some requests end between a block and the next.
        await economy.step();
        const enough = served + REQUESTS_PER_BLOCK;
        await eventually("requests after a block", () => Promise.resolve(served >= enough || faults.length > 0));
      }
    } finally {
      isOver = true;
      await working;
    }
    assert.deepEqual(faults, []);
    await relay[Symbol.asyncDispose]();
    // Until the last session's claims are settled.
    for (let blocks = 0; blocks < 30; blocks++) await economy.step();

    const answered = counted.get("answered") ?? 0n;
    assert.ok(served > 1_000 && answered >= BigInt(served));
    const { operators } = await readSupplyReport(stateFolder);
    const sum = (read: (all: (typeof operators)[number]["all"]) => bigint): bigint =>
      operators.reduce((total, { all }) => total + BigInt(read(all)), 0n);
    t.diagnostic(`${served} requests of clients, ${answered} relays, results ${[...counted].join(" ")}`);
    assert.equal(operators.length, 2);
    assert.deepEqual(
      operators.map(({ all }) => all.lost),
      [{}, {}],
    );
    assert.equal(
      sum(({ relays }) => relays.served),
      answered,
      "each relay that the gateway saw answered was counted once",
    );
    assert.equal(
      sum(({ relays }) => relays.settled),
      answered,
    );
    assert.equal(
      sum(({ upokt }) => upokt.settled),
      answered * UPOKT_PER_RELAY,
    );
    const application = await queries.application(chainParty("app").address, { fresh: true });
    assert.ok(application.ok);
    assert.ok(BigInt(application.value.stake?.amount ?? 0) <= 10_000_000_000n - answered * UPOKT_PER_RELAY);
  });
});
