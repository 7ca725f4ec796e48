import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, suite, test } from "node:test";
import { isAppError, silentLog } from "@turnpike/base";
import { createClient, memoryJournal, newPrivateKey, signerFromKey, tokenBalance } from "@turnpike/client";
import { loadConfig } from "@turnpike/config";
import { devRpc, fundGas, MULTICALL3_ADDRESS, setTokenBalance, USDC_ADDRESS } from "@turnpike/localnet";
import { openTestAnvil, openTestPostgres, type TestAnvil, type TestPostgres } from "@turnpike/testkit/servers";
import { PATIENT } from "../../test/patient.ts";
import { startFacilitator } from "./facilitator.ts";
import { type GatewayService, startGateway } from "./gateway.ts";
import { ledgerSums, migrateLedger } from "./ledger.ts";

const PAY_TO = signerFromKey(newPrivateKey()).address;

suite("a wired gateway, on a real chain and a real ledger", () => {
  const buyer = signerFromKey(newPrivateKey());
  const relayerKey = newPrivateKey();
  let anvil: TestAnvil;
  let postgres: TestPostgres;
  let gateway: GatewayService;
  const opened = new AsyncDisposableStack();

  const configWith = (change: Record<string, unknown>, network: Record<string, unknown> = {}) => {
    const overrides = {
      localnet: true,
      gateway: { port: 0, metrics: { port: 0 } },
      ledger: { url: `${postgres.url}`, schema: "wiring" },
      payment: {
        networks: [
          {
            network: "eip155:84532",
            rpcUrls: [anvil.url],
            asset: USDC_ADDRESS,
            name: "USDC",
            payTo: PAY_TO,
            multicall3: MULTICALL3_ADDRESS,
            blockTimeSeconds: 1,
            ...network,
          },
        ],
        relayer: { keys: [relayerKey], batchWindowMs: 10 },
        rpcTimeoutMs: 60_000,
      },
      suppliers: { eth: { endpoints: [{ operator: "local", urls: { json_rpc: anvil.url } }] } },
      catalogue: { overrides: { eth: { evmChainId: 84532 } } },
      ...change,
    };
    return loadConfig({ env: {}, overrides });
  };

  before(async () => {
    anvil = opened.use(await openTestAnvil());
    postgres = opened.use(await openTestPostgres());
    await setTokenBalance(anvil.url, { address: buyer.address, units: 20_000n });
    await fundGas(anvil.url, signerFromKey(relayerKey).address, 10n ** 18n);
    await migrateLedger(configWith({}), "gateway", PATIENT);
    gateway = opened.use(await startGateway({ config: configWith({}), env: {}, log: silentLog, waits: PATIENT }));
  });

  after(() => opened.disposeAsync());

  test("sells a live answer for exactly 5,000 units, and the ledger records it", async () => {
    const base = `http://127.0.0.1:${gateway.gatewayPort}`;
    const client = createClient({
      gateway: base,
      signer: buyer,
      budget: { perCallUsd: "0.01" },
      journal: memoryJournal(),
    });
    const result = await client.call("eth", { method: "eth_chainId" });
    assert.ok(
      result.kind === "bought",
      JSON.stringify(result, (_, value: unknown) => String(value)),
    );
    assert.match(JSON.stringify(result.envelope), /"result":"0x14a34"/);
    assert.match(result.receipt.transaction, /^0x[0-9a-f]{64}$/);
    assert.equal(await tokenBalance(anvil.url, USDC_ADDRESS, PAY_TO), 5_000n);
    assert.equal(await tokenBalance(anvil.url, USDC_ADDRESS, buyer.address), 15_000n);
    const [sums] = await ledgerSums(configWith({}), "gateway", PATIENT);
    assert.deepEqual(sums?.states.settled, { count: 1, value: 5_000n });
    const metrics = await fetch(`http://127.0.0.1:${gateway.metricsPort}/metrics`);
    const samples = await metrics.text();
    assert.match(samples, /^turnpike_gateway_ready 1$/m);
    assert.match(samples, /^turnpike_ledger_books_timestamp_seconds [1-9]/m);
    assert.equal((await fetch(`${base}/ready`)).status, 200);
  });

  test("a reloaded coin price has a sale refused for its cost, with nothing claimed, and served again", async () => {
    const own = newPrivateKey();
    await fundGas(anvil.url, signerFromKey(own).address, 10n ** 18n);
    const at = (coinPriceUsd: string) =>
      configWith({}, { relayer: { keys: [own], whenUnprofitable: "refuse", coinPriceUsd } });
    let next = at("0.000001");
    await using priced = await startGateway({
      config: next,
      env: {},
      log: silentLog,
      waits: PATIENT,
      load: () => next,
    });
    const base = `http://127.0.0.1:${priced.gatewayPort}`;
    const client = createClient({
      gateway: base,
      signer: buyer,
      budget: { perCallUsd: "0.01" },
      journal: memoryJournal(),
    });
    const buy = async () => (await client.call("eth", { method: "eth_chainId" })).kind;
    const sent = () => devRpc(anvil.url, "eth_getTransactionCount", [signerFromKey(own).address, "latest"]);
    assert.equal(await buy(), "bought");
    assert.equal(await sent(), "0x1", "by the network's own key");
    const sums = () => ledgerSums(configWith({}), "gateway", PATIENT);
    const before = await sums();

    next = at("9999999");
    assert.deepEqual(await priced.reload("signal"), {
      kind: "reloaded",
      changed: ["payment.networks[0].relayer.coinPriceUsd"],
    });
    const refused = await client.call("eth", { method: "eth_chainId" });
    assert.ok(refused.kind === "refused", refused.kind);
    assert.equal(refused.code, "SETTLEMENT_UNPROFITABLE");
    assert.deepEqual(await sums(), before, "nothing was claimed");
    assert.equal(await sent(), "0x1");

    next = at("0.000001");
    assert.equal((await priced.reload("signal")).kind, "reloaded");
    assert.equal(await buy(), "bought");
  });

  test("a facilitator serves its metrics by a port of their own", async () => {
    const relayer = { keys: [newPrivateKey()] };
    const apart = (metrics: Record<string, unknown>) =>
      configWith({ facilitator: { port: 0, relayer, ...(Object.keys(metrics).length === 0 ? {} : { metrics }) } });
    await migrateLedger(apart({}), "facilitator", PATIENT);
    await using watched = await startFacilitator({
      config: apart({ port: 0 }),
      env: {},
      log: silentLog,
      waits: PATIENT,
    });
    const answer = await fetch(`http://127.0.0.1:${watched.metricsPort}/metrics`);
    assert.equal(answer.status, 200);
    assert.match(await answer.text(), /turnpike_secp256k1_native 1/);
    assert.equal((await fetch(`${watched.url}/metrics`)).status, 404);
    await using quiet = await startFacilitator({ config: apart({}), env: {}, log: silentLog, waits: PATIENT });
    assert.equal(quiet.metricsPort, undefined);
  });

  test("does not start on a token whose EIP-712 name is another one", async () => {
    const config = configWith({}, { name: "USD Coin" });
    await assert.rejects(startGateway({ config, env: {}, log: silentLog, waits: PATIENT }), (error) =>
      isAppError(error, "CHAIN_MISMATCH"),
    );
  });

  test("says what is missing: ledger, key, networks", async () => {
    const from = (change: Record<string, unknown>) =>
      startGateway({ config: configWith(change), env: {}, log: silentLog, waits: PATIENT });
    const invalid = (path: RegExp) => (error: unknown) =>
      isAppError(error, "CONFIG_INVALID") && path.test(error.message);
    await assert.rejects(from({ payment: { networks: [] } }), invalid(/^payment\.networks: empty/));
    await assert.rejects(from({ ledger: {} }), invalid(/^ledger\.url: missing/));
    const [network] = configWith({}).payment.networks;
    await assert.rejects(
      from({ payment: { networks: [network] } }),
      invalid(/^payment\.relayer\.keysFile: there is no key/),
    );
  });

  test("does not start on a ledger whose tables are not there", async () => {
    const schema = `none_${randomBytes(4).toString("hex")}`;
    const config = configWith({ ledger: { url: postgres.url, schema } });
    await assert.rejects(startGateway({ config, env: {}, log: silentLog, waits: PATIENT }), (error) =>
      isAppError(error, "LEDGER_SCHEMA"),
    );
  });
});

suite("a wired gateway that sells nothing", () => {
  test("answers the free relay with no database, no key and no token, and has nothing to pay for", async () => {
    await using anvil = await openTestAnvil();
    const overrides = {
      gateway: { port: 0, metrics: { port: 0 } },
      payment: { mode: "none" },
      suppliers: { eth: { endpoints: [{ operator: "local", urls: { json_rpc: anvil.url, websocket: anvil.url } }] } },
      catalogue: { overrides: { eth: { evmChainId: 84532 } } },
    };
    const config = loadConfig({ env: {}, overrides });
    let next = config;
    await using gateway = await startGateway({ config, env: {}, log: silentLog, waits: PATIENT, load: () => next });
    const base = `http://127.0.0.1:${gateway.gatewayPort}`;
    const post = (path: string, method: string, headers: Record<string, string> = {}): Promise<Response> =>
      fetch(`${base}${path}`, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", id: 7, method }) });

    const answer = await post("/relay/eth", "eth_chainId");
    assert.equal(answer.status, 200);
    assert.deepEqual(await answer.json(), { jsonrpc: "2.0", id: 7, result: "0x14a34" });
    assert.equal((await fetch(`${base}/ready`)).status, 200);
    assert.equal((await fetch(`${base}/ready/eth`)).status, 200);

    for (const headers of [{}, { "payment-signature": "e30=" }]) {
      const refused = await post("/v1/eth", "eth_chainId", headers);
      assert.equal(refused.status, 404);
      assert.match(await refused.text(), /"UNKNOWN_SERVICE"/);
    }
    assert.equal((await fetch(`${base}/settlements/0x${"1".repeat(64)}`)).status, 404);
    const listed = (await (await fetch(`${base}/services.json`)).json()) as { readonly paid: boolean }[];
    assert.ok(listed.length > 60 && listed.every(({ paid }) => !paid));

    next = loadConfig({ env: {}, overrides: { ...overrides, payment: { mode: "local" } } });
    const reloaded = await gateway.reload("signal");
    assert.ok(reloaded.kind === "refused" && /payment/.test(reloaded.faults.join()), "to sell, it starts again");
    assert.equal((await post("/relay/eth", "eth_blockNumber")).status, 200);
  });
});
