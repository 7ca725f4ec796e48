import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { ServiceId } from "@turnpike/base";
import { publicEndpoints } from "@turnpike/devnet/up";
import { rpcAnswer, startEvmUpstream } from "@turnpike/testkit";
import { startRelay } from "./relay-rig.ts";

const BASE = 8453;

// Stand-ins on this machine for what `turnpike up --public` finds on the internet.
suite("networks by public end points", () => {
  test("a network is served by its listed end points, and none by one that turns out to be of another chain", async () => {
    await using good = await startEvmUpstream(
      (call, response) => response.end(rpcAnswer(call, '"result":"0x7"')),
      "0x2105",
    );
    await using other = await startEvmUpstream(
      (call, response) => response.end(rpcAnswer(call, '"result":"0xbad"')),
      "0x1",
    );
    const services = [
      { id: "base" as ServiceId, evmChainId: BASE },
      { id: "op" as ServiceId, evmChainId: 10 },
    ];
    const chains = [
      { id: BASE, name: "Base", rpcUrls: { default: { http: [other.url, good.url] } } },
      { id: 10, name: "OP Mainnet", rpcUrls: { default: { http: [other.url] } } },
    ];
    await using rig = await startRelay(publicEndpoints(services, chains, () => true));
    const ask = (network: string, at: number): Promise<Response> =>
      fetch(`${rig.url}/relay/${network}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          jsonrpc: "2.0",
          id: at,
          method: "eth_getBalance",
          params: [`0x${"1".repeat(40)}`, "latest"],
        }),
      });
    for (let at = 0; at < 20; at++) {
      assert.deepEqual(await (await ask("base", at)).json(), { jsonrpc: "2.0", id: at, result: "0x7" });
    }
    const refused = await ask("op", 1);
    assert.ok(refused.status === 502 || refused.status === 503, `${refused.status}`);
  });
});
