import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Address, isAppError, type NetworkId, noMetrics, silentLog, systemClock } from "@turnpike/base";
import { devRpc } from "@turnpike/localnet";
import { eventually, virtualClock } from "@turnpike/testkit";
import { overrideRpc } from "../../test/override-rpc.ts";
import { type Harness, NETWORK, newKey, startHarness, startOwnHarness, verdict } from "../../test/verifier-fixtures.ts";
import { EvmRpcClient } from "../evm/rpc.ts";
import { chainIdOf } from "./network-check.ts";
import type { VerifierNetwork } from "./options.ts";
import { EvmVerifier } from "./verifier.ts";

let harness: Harness;
before(async () => {
  harness = await startHarness();
});
after(async () => {
  await harness?.[Symbol.asyncDispose]();
});
const modules = { clock: systemClock, log: silentLog, metrics: noMetrics };

test("the configured chain passes", async () => {
  await using verifier = harness.open();
  await verifier.checkNetworks();
});

test("every difference from the configuration is refused by name", async () => {
  const empty: Address = newKey().address;
  const other = "eip155:8453" as NetworkId;
  const cases: readonly [Partial<VerifierNetwork>, RegExp][] = [
    [{ network: other }, /chain id is 84532/],
    [{ asset: empty }, new RegExp(`no contract at the asset ${empty}`)],
    [{ multicall3: empty }, /no Multicall3/],
    [{ multicall3: NETWORK.asset }, /does not answer as Multicall3/],
    [{ decimals: 18 }, /has 6 decimals, 18 are configured/],
    [{ name: "USD Coin" }, /domain.*says name "USDC", version "2"; configured: name "USD Coin"/],
    [{ version: "1" }, /domain/],
  ];
  for (const [more, message] of cases) {
    const networks = [{ ...NETWORK, ...more }];
    const rpc = new Map([[networks[0]?.network ?? other, harness.rpc]]);
    await using verifier = new EvmVerifier({ networks, workers: 0 }, { rpc, ...modules });
    await assert.rejects(
      verifier.checkNetworks(),
      (error) => isAppError(error, "CHAIN_MISMATCH") && message.test(error.message),
      String(message),
    );
  }
});

test("an RPC whose nodes are all of another chain is a mismatch", async () => {
  const opts = { urls: [harness.anvil.url], timeoutMs: 60_000, expectedChainId: 8453 };
  await using rpc = new EvmRpcClient(opts, modules);
  const networks = [{ ...NETWORK, network: "eip155:8453" as NetworkId }];
  await using verifier = new EvmVerifier(
    { networks, workers: 0 },
    { rpc: new Map([[networks[0]?.network ?? NETWORK.network, rpc]]), ...modules },
  );
  await assert.rejects(
    verifier.checkNetworks(),
    (error) => isAppError(error, "CHAIN_MISMATCH") && /its chain id is 84532/.test(error.message),
  );
});

test("a chain that does not answer is unavailable, in the check and in a verification", async () => {
  await using rpc = new EvmRpcClient({ urls: ["http://127.0.0.1:1/key"], timeoutMs: 60_000 }, modules);
  const opts = { networks: [NETWORK], workers: 0 };
  await using verifier = new EvmVerifier(opts, { rpc: new Map([[NETWORK.network, rpc]]), ...modules });
  await assert.rejects(verifier.checkNetworks(), { code: "SETTLEMENT_UNAVAILABLE" });
  const payment = harness.pay(newKey());
  assert.deepEqual(await verifier.checkFree(payment), { ok: true, signer: "payer" });
  await assert.rejects(verifier.checkChain(payment, "payer"), { code: "SETTLEMENT_UNAVAILABLE" });
  await assert.rejects(verifier.checkChain(payment, "unknown"), { code: "SETTLEMENT_UNAVAILABLE" });
});

test("a network without an RPC, or of another kind, is a configuration error", () => {
  assert.throws(() => new EvmVerifier({ networks: [NETWORK], workers: 0 }, { rpc: new Map(), ...modules }), {
    code: "CONFIG_INVALID",
  });
  assert.equal(chainIdOf("eip155:84532"), 84_532);
  for (const odd of ["eip155:", "eip155:0", "eip155:x", "solana:1", "eip155:01", "84532"]) {
    assert.throws(() => chainIdOf(odd), { code: "CONFIG_INVALID" });
  }
});

test("a wrong machine clock does not matter where blocks are made", async () => {
  await using chain = await startOwnHarness({ noMining: true });
  const key = await chain.payer();
  for (const wrongBySeconds of [-600, 3_600]) {
    const clock = virtualClock(((await chain.blockTime()) + wrongBySeconds) * 1_000);
    let seenBlock = 0;
    const rpc = overrideRpc(chain.rpc, {
      async call(method, params, signal) {
        const reply = await chain.rpc.call(method, params, signal);
        const block = reply.ok ? (reply.result as { number?: string } | null) : undefined;
        if (method === "eth_getBlockByNumber" && block?.number !== undefined) seenBlock = Number(block.number);
        return reply;
      },
    });
    await using verifier = chain.open({ pollMs: 50 }, clock, rpc);
    for (let block = 0; block < 2; block++) {
      if (block > 0) {
        clock.advance(2_000);
        await devRpc(chain.anvil.url, "evm_setNextBlockTimestamp", [(await chain.blockTime()) + 2]);
        await devRpc(chain.anvil.url, "anvil_mine", ["0x1"]);
      }
      const newest = Number(await devRpc(chain.anvil.url, "eth_blockNumber"));
      await eventually("the newest block is seen", () => seenBlock === newest);
    }
    const nowSeconds = BigInt(await chain.blockTime());
    assert.equal(verifier.chainTimeSeconds(NETWORK.network), Number(nowSeconds));
    assert.equal(await verdict(verifier, chain.pay(key, { validAfter: nowSeconds - 3n })), "eoa");
    assert.equal(await verdict(verifier, chain.pay(key, { validBefore: nowSeconds + 3n })), "PAYMENT_EXPIRED");
    assert.equal(await verdict(verifier, chain.pay(key, { validAfter: nowSeconds + 20n })), "PAYMENT_NOT_YET_VALID");
  }
});

test("a chain whose time is up to a quarter of an hour ahead of the machine's is believed", async () => {
  await using chain = await startOwnHarness();
  await devRpc(chain.anvil.url, "evm_increaseTime", [800]);
  await devRpc(chain.anvil.url, "anvil_mine", ["0x1"]);
  await using verifier = chain.open();
  const key = await chain.payer();
  const payment = chain.pay(key);
  assert.equal((await verifier.checkChain(payment, "payer")).ok, false);
  assert.equal(await verdict(verifier, payment), "PAYMENT_EXPIRED");
  const nowSeconds = BigInt(await chain.blockTime());
  assert.equal(await verdict(verifier, chain.pay(key, { validBefore: nowSeconds + 600n })), "eoa");
});
