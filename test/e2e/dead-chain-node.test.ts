import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { readSupplyReport } from "@turnpike/supplier";
import { rpcAnswer, startEvmUpstream } from "@turnpike/testkit";
import { balanceRequest, startEconomy, startRelay } from "./economy-rig.ts";

const OPERATORS = ["outage one", "outage two"] as const;
const REQUESTS = 100;

suite("a chain node that is away", () => {
  test("delays and refuses no relay of the session, and every relay of then is claimed and paid when it is back", async () => {
    await using stack = new AsyncDisposableStack();
    const node = stack.use(
      await startEvmUpstream((asked, response) => {
        response.end(rpcAnswer(asked, '"result":"0x5"'));
      }),
    );
    const economy = stack.use(await startEconomy({ operators: OPERATORS, backends: { json_rpc: { url: node.url } } }));
    const { chain, counted, stateFolder } = economy;
    const relay = stack.use(await startRelay(economy));
    const ask = async (times: number): Promise<void> => {
      for (let at = 0; at < times; at++) {
        const outcome = await relay.send(balanceRequest());
        assert.ok(outcome.ok, JSON.stringify(outcome));
      }
    };
    await ask(REQUESTS);
    await chain.stopRpc();
    await ask(REQUESTS);
    // The session ends meanwhile, and its claim window opens: neither side can know.
    await chain.produce(7);
    await ask(REQUESTS);
    await chain.startRpc();
    await economy.step();
    await ask(REQUESTS);
    await relay[Symbol.asyncDispose]();
    for (let blocks = 0; blocks < 30; blocks++) await economy.step();
    const { operators } = await readSupplyReport(stateFolder);
    const sum = (kind: "served" | "settled"): bigint =>
      operators.reduce((total, { all }) => total + BigInt(all.relays[kind]), 0n);
    const answered = counted.get("answered") ?? 0n;
    assert.ok(answered >= BigInt(4 * REQUESTS));
    assert.deepEqual([sum("served"), sum("settled")], [answered, answered]);
  });
});
