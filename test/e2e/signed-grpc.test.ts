import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { readSupplyReport } from "@turnpike/supplier";
import { rpcAnswer, startEvmUpstream } from "@turnpike/testkit";
import { balanceRequest, startEconomy, startRelay } from "./economy-rig.ts";

const RELAYS = 12;

suite("a supplier that has staked gRPC alone", () => {
  test("serves a gateway's calls by SendRelay, over a session's end, and each answer is one relay that is paid", async () => {
    await using stack = new AsyncDisposableStack();
    const node = stack.use(
      await startEvmUpstream((asked, response) => response.end(rpcAnswer(asked, '"result":"0x5"'))),
    );
    const economy = stack.use(
      await startEconomy({
        operators: ["grpc one"],
        backends: { json_rpc: { url: node.url } },
        rpcTypes: ["GRPC"],
      }),
    );
    const { chain, counted, stateFolder } = economy;
    const relay = stack.use(await startRelay(economy));
    for (let n = 0; n < RELAYS; n++) {
      const outcome = await relay.send(balanceRequest());
      assert.ok(outcome.ok, JSON.stringify(outcome));
      // Sessions of six blocks.
      if (n % 2 === 1) await economy.step();
    }
    await relay[Symbol.asyncDispose]();
    const answered = counted.get("answered") ?? 0n;
    assert.ok(answered >= BigInt(RELAYS), "probes are relays too");
    assert.deepEqual(new Set(counted.keys()), new Set(["answered"]));
    // Until the last session's claims are settled.
    const end = chain.heightBlocks + 30n;
    while (chain.heightBlocks < end) await economy.step();
    const { operators } = await readSupplyReport(stateFolder);
    const sum = (kind: "served" | "claimed" | "settled"): bigint =>
      operators.reduce((total, { all }) => total + BigInt(all.relays[kind]), 0n);
    assert.deepEqual([sum("served"), sum("claimed"), sum("settled")], [answered, answered, answered]);
  });
});
