import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { silentLog, systemClock } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { createSubscriptions, evmTopic } from "@turnpike/relay";
import { readSupplyReport } from "@turnpike/supplier";
import { eventually, FakeChain, rpcAnswer, startEvmUpstream, startSocketNode } from "@turnpike/testkit";
import { type Economy, ETH, startEconomy } from "./economy-rig.ts";

const OPERATORS = ["socket one", "socket two"] as const;

/** Numbers of the blocks that a subscriber to new heads was sent. */
async function followHeads(economy: Economy, stack: AsyncDisposableStack) {
  const subscriptions = stack.use(
    createSubscriptions(
      { suppliers: {} },
      {
        catalogue: createCatalogue().services,
        suppliers: economy.sessions.of([ETH]),
        clock: systemClock,
        log: silentLog,
        metrics: economy.metrics,
        random: () => 0,
      },
    ),
  );
  const topic = evmTopic(["newHeads"]);
  assert.ok(topic !== undefined);
  const heads: number[] = [];
  const ended: string[] = [];
  const subscribed = await subscriptions.subscribe(ETH, topic, {
    event: ({ raw }) => heads.push(Number((JSON.parse(raw) as { readonly number: string }).number)),
    ended: (reason) => ended.push(reason),
  });
  assert.ok(subscribed.ok);
  return { heads, ended, unsubscribe: () => subscriptions[Symbol.asyncDispose]() };
}

suite("a subscription over signed WebSockets", () => {
  test("goes on over session ends: each event once, in order, and each frame of a supplier is one relay that is paid", async () => {
    await using stack = new AsyncDisposableStack();
    const evm = new FakeChain();
    const node = stack.use(await startSocketNode(evm));
    const http = stack.use(
      await startEvmUpstream((asked, response) => response.end(rpcAnswer(asked, '"result":"0x5"'))),
    );
    const economy = stack.use(
      await startEconomy({
        operators: OPERATORS,
        backends: { json_rpc: { url: http.url }, websocket: { url: node.url } },
      }),
    );
    const { chain, counted, stateFolder } = economy;
    const { heads, ended, unsubscribe } = await followHeads(economy, stack);
    // Sessions of six blocks: three ends, each of which closes the supplier's WebSocket.
    const sockets = new Set<string>();
    while (chain.heightBlocks < 20n) {
      await economy.step();
      evm.mine();
      await eventually(`event of block ${evm.head.number}`, () => heads.at(-1) === evm.head.number || ended.length > 0);
      sockets.add(economy.source.sessionsOf(ETH)[0]?.header.sessionId ?? "");
    }
    assert.deepEqual(ended, []);
    assert.equal(sockets.size, 4);
    assert.deepEqual(
      heads,
      Array.from({ length: evm.head.number }, (_, at) => at + 1),
    );
    await unsubscribe();
    // Until the last session's claims are settled.
    for (let blocks = 0; blocks < 30; blocks++) await economy.step();
    const { operators } = await readSupplyReport(stateFolder);
    const sum = (kind: "served" | "settled"): bigint =>
      operators.reduce((total, { all }) => total + BigInt(all.relays[kind]), 0n);
    const answered = counted.get("answered");
    assert.deepEqual([sum("served"), sum("settled")], [answered, answered]);
  });

  test("goes on at a supplier when its connection breaks off, misses no event, and leaves no connection behind when it ends", async () => {
    await using stack = new AsyncDisposableStack();
    const evm = new FakeChain();
    const node = stack.use(await startSocketNode(evm));
    const http = stack.use(
      await startEvmUpstream((asked, response) => response.end(rpcAnswer(asked, '"result":"0x5"'))),
    );
    const economy = stack.use(
      await startEconomy({
        operators: OPERATORS,
        backends: { json_rpc: { url: http.url }, websocket: { url: node.url } },
      }),
    );
    const { heads, ended, unsubscribe } = await followHeads(economy, stack);
    const seen = (): Promise<unknown> =>
      eventually(`event of block ${evm.head.number}`, () => heads.at(-1) === evm.head.number || ended.length > 0);
    for (let breaks = 0; breaks < 3; breaks++) {
      evm.mine();
      await seen();
      node.drop();
      // No connection brings this one.
      evm.mine();
      await seen();
    }
    assert.deepEqual(ended, []);
    assert.deepEqual(
      heads,
      Array.from({ length: evm.head.number }, (_, at) => at + 1),
    );
    assert.ok(node.connections > 0);
    await unsubscribe();
    await eventually("the back-end's connections have ended", () => node.connections === 0);
  });
});
