import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { jsonText, type MetricSpec, type RequestId, type ServiceId, silentLog, systemClock } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { ChainClient, ChainHead, PocketQueries } from "@turnpike/chain-client";
import { loadConfig } from "@turnpike/config";
import { SigningThreads } from "@turnpike/crypto";
import { freePort } from "@turnpike/localnet";
import { type FreeRequest, mintFree, mintParsed } from "@turnpike/protocol";
import { createRelayEngine, parseFreeRpc, relayEngineDefaults, SessionSource, SessionSuppliers } from "@turnpike/relay";
import { readSupplyReport } from "@turnpike/supplier";
import { eventually, rpcAnswer, startEvmUpstream } from "@turnpike/testkit";
import { chainParty, startTestChain } from "@turnpike/testkit/chain";
import { startSupplier } from "../../apps/turnpike/src/wiring/supplier.ts";

const ETH = "eth" as ServiceId;
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
    const folder = await mkdtemp(join(tmpdir(), "turnpike-economy-"));
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const ports = [await freePort(), await freePort()] as const;
    const chain = stack.use(
      await startTestChain({
        suppliers: Object.fromEntries(
          OPERATORS.map((name, at) => [name, { services: ["eth"], url: `http://127.0.0.1:${ports[at]}` }]),
        ),
        params: { proof: { proof_request_probability: 0.5 } },
      }),
    );
    await chain.reach(2n);
    const node = stack.use(
      await startEvmUpstream((asked, response) => {
        response.end(rpcAnswer(asked, '"result":"0x5"'));
      }),
    );
    for (const name of OPERATORS) {
      const privateKey = Buffer.from(chainParty(name).privateKey).toString("hex");
      await writeFile(join(folder, `${name}.json`), JSON.stringify({ privateKey }), { mode: 0o600 });
    }
    const stateFolder = join(folder, "relays");
    const supplier = stack.use(
      await startSupplier(
        loadConfig({
          env: {},
          overrides: {
            supplier: {
              nodeUrl: chain.rpcUrl,
              stateFolder,
              keys: OPERATORS.map((name, at) => ({ operatorKeyFile: join(folder, `${name}.json`), port: ports[at] })),
              services: { eth: { backends: { json_rpc: { url: node.url } } } },
              metrics: { port: 0 },
              signingThreads: 0,
            },
          },
        }),
        { log: silentLog },
      ),
    );

    const counted = new Map<string, bigint>();
    const metrics = {
      set() {},
      observe() {},
      count({ name }: MetricSpec, labels: Readonly<Record<string, string>> = {}) {
        if (name !== "turnpike_relay_signed_total") return;
        const key = String(labels.result);
        counted.set(key, (counted.get(key) ?? 0n) + 1n);
      },
    };
    const modules = { clock: systemClock, log: silentLog, metrics };
    const client = stack.use(new ChainClient({ url: chain.rpcUrl }, modules));
    const head = stack.use(new ChainHead({ url: chain.rpcUrl }, modules));
    const queries = new PocketQueries({}, { client, clock: systemClock });
    const threads = stack.use(new SigningThreads({ threads: 0 }));
    const source = stack.use(
      new SessionSource(
        { gatewayKey: chainParty("gateway"), applicationKeys: [], renewBlocks: 5n, maxJitterMs: 0 },
        { ...modules, queries, head, random: () => 0 },
      ),
    );
    const sessions = stack.use(
      new SessionSuppliers({ ...relayEngineDefaults, extraRelaysPercent: 10 }, { ...modules, source, threads }),
    );
    await source.start(AbortSignal.timeout(60_000));
    const catalogue = createCatalogue().services;
    const relay = stack.use(
      createRelayEngine(
        { ...relayEngineDefaults, suppliers: {} },
        { ...modules, catalogue, suppliers: sessions.of([ETH]), random: Math.random },
      ),
    );
    // A hedge that lost is not waited for: its supplier may have answered and counted it, or not.
    relay.setFlag("hedging", false);
    await relay.start();

    let served = 0;
    let isOver = false;
    const faults: string[] = [];
    const work = async (): Promise<void> => {
      while (!isOver) {
        const outcome = await relay.send(balanceRequest(catalogue));
        served++;
        if (outcome.ok) continue;
        faults.push(JSON.stringify(outcome));
        return;
      }
    };
    const working = Promise.all(Array.from({ length: WORKERS }, work));
    // A block is made once both sides know the one before, and some requests have ended in between.
    const step = async (): Promise<void> => {
      await chain.produce();
      const { heightBlocks } = chain;
      await eventually(`block ${heightBlocks} at gateway and supplier`, async () => {
        const [session] = source.sessionsOf(ETH);
        return (
          session !== undefined &&
          source.isCurrent(session) &&
          (await claimsHeight(supplier.metricsUrl)) >= heightBlocks
        );
      });
    };
    try {
      while (chain.heightBlocks < LAST_BLOCK) {
        await step();
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
    for (let blocks = 0; blocks < 30; blocks++) await step();

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

/** The lowest height after which an operator's claims were looked after. */
async function claimsHeight(metricsUrl: string | undefined): Promise<bigint> {
  const text = await (await fetch(`${metricsUrl}/metrics`)).text();
  const heights = [...text.matchAll(/^turnpike_supplier_claims_height_blocks\{[^}]*\} (\d+)$/gm)];
  if (heights.length < OPERATORS.length) return 0n;
  return heights.map(([, height]) => BigInt(height ?? 0)).reduce((least, one) => (one < least ? one : least));
}

/** A question that no other asks, so that no kept answer serves it. */
function balanceRequest(catalogue: ReturnType<typeof createCatalogue>["services"]): FreeRequest {
  const eth = catalogue.get(ETH);
  assert.ok(eth !== undefined);
  const params = [`0x${randomBytes(20).toString("hex")}`, "latest"];
  const method = "eth_getBalance";
  const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }));
  const at = body.indexOf('"id":') + 5;
  const read = { body, bodyText: jsonText(body), id: { start: at, end: at + 1 }, rawId: "1", isPlain: true };
  const parsed = parseFreeRpc(eth, { method, params, paramsSpan: undefined, ...read });
  assert.ok(parsed.ok);
  const facts = { requestId: "r" as RequestId, client: "c", serviceId: ETH, call: parsed.call };
  const request = mintParsed({ ...facts, requestHash: new Uint8Array(0) });
  return mintFree({ request, deadlineMs: systemClock.monotonicMs() + 60_000 });
}
