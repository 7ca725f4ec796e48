import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  jsonText,
  type Log,
  type MetricSpec,
  type RequestId,
  type ServiceId,
  silentLog,
  systemClock,
} from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { ChainClient, ChainHead, PocketQueries } from "@turnpike/chain-client";
import { loadConfig } from "@turnpike/config";
import { SigningThreads } from "@turnpike/crypto";
import { freePort } from "@turnpike/localnet";
import { type FreeRequest, mintFree, mintParsed } from "@turnpike/protocol";
import { createRelayEngine, parseFreeRpc, type RelayEngine, SessionSource, SessionSuppliers } from "@turnpike/relay";
import { readSupplyReport } from "@turnpike/supplier";
import { type ChainProxy, eventually } from "@turnpike/testkit";
import {
  chainParty,
  startTestChain,
  type TestChain,
  type TestChainOptions,
  type TestSupplier,
} from "@turnpike/testkit/chain";
import { startSupplier } from "../../apps/turnpike/src/wiring/supplier.ts";
import { relayOptions } from "../../packages/gateway/test/options.ts";

/** The service of the applications that {@link startEconomy} begins with. */
export const ETH = "eth" as ServiceId;

/** What {@link startEconomy} starts. */
export interface EconomyOptions {
  /** Names of the suppliers' operators. */
  readonly operators: readonly string[];
  /** The back-ends of `eth`, as the configuration of a supplier has them. */
  readonly backends: Readonly<Record<string, { readonly url: string }>>;
  /** What the suppliers stake; JSON_RPC, and WEBSOCKET where they have such a back-end, by default. */
  readonly rpcTypes?: TestSupplier["rpcTypes"];
  /** Changes of the chain's beginning. */
  readonly chain?: TestChainOptions;
  /** What stands between the gateway and the chain's node. */
  readonly proxy?: (nodeUrl: string) => Promise<ChainProxy>;
  /** Of the gateway; silent by default. */
  readonly log?: Log;
}

/** A chain whose blocks the test makes, suppliers that serve `eth`, and the sessions of a gateway. */
export interface Economy extends AsyncDisposable {
  readonly chain: TestChain;
  readonly client: ChainClient;
  /** The newest block that the gateway knows. */
  readonly head: ChainHead;
  readonly queries: PocketQueries;
  readonly source: SessionSource;
  readonly sessions: SessionSuppliers;
  /** What the gateway's parts count signed relays with. */
  readonly metrics: EconomyMetrics;
  /** Signed relays by result, as the gateway counts them. */
  readonly counted: ReadonlyMap<string, bigint>;
  /** Where the suppliers keep their relays. */
  readonly stateFolder: string;
  /** Makes a block, and waits until gateway and suppliers know it, and the gateway the sessions of then. */
  step(): Promise<void>;
}

/** Counts signed relays by result. */
export interface EconomyMetrics {
  set(): void;
  observe(): void;
  count(spec: MetricSpec, labels?: Readonly<Record<string, string>>): void;
}

/** Starts an {@link Economy} whose gateway knows its first sessions. */
export async function startEconomy(options: EconomyOptions): Promise<Economy> {
  const { operators, backends, rpcTypes, chain: changes, proxy, log } = options;
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "turnpike-economy-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const ports = new Map<string, number>();
  for (const name of operators) ports.set(name, await freePort());
  const hasSockets = Object.hasOwn(backends, "websocket");
  const chain = stack.use(
    await startTestChain({
      suppliers: Object.fromEntries(
        [...ports].map(([name, port]) => [
          name,
          {
            services: [ETH],
            url: `http://127.0.0.1:${port}`,
            rpcTypes: rpcTypes ?? (hasSockets ? ["JSON_RPC", "WEBSOCKET"] : ["JSON_RPC"]),
          },
        ]),
      ),
      ...changes,
    }),
  );
  await chain.reach(2n);
  for (const name of operators) {
    const privateKey = Buffer.from(chainParty(name).privateKey).toString("hex");
    await writeFile(join(folder, `${name}.json`), JSON.stringify({ privateKey }), { mode: 0o600 });
  }
  const stateFolder = join(folder, "relays");
  const keys = [...ports].map(([name, port]) => ({ operatorKeyFile: join(folder, `${name}.json`), port }));
  const supplier = stack.use(
    await startSupplier(
      loadConfig({
        env: {},
        overrides: {
          supplier: {
            nodeUrl: chain.rpcUrl,
            stateFolder,
            keys,
            services: { eth: { backends } },
            metrics: { port: 0 },
            signingThreads: 0,
          },
        },
      }),
      { log: silentLog },
    ),
  );

  const nodeUrl = proxy === undefined ? chain.rpcUrl : stack.use(await proxy(chain.rpcUrl)).url;
  const gateway = stack.use(await startSessions(nodeUrl, log));
  const { client, queries, source, sessions, metrics, counted, head } = gateway;
  const owned = stack.move();
  return {
    chain,
    client,
    head,
    queries,
    source,
    sessions,
    metrics,
    counted,
    stateFolder,
    async step() {
      await chain.produce();
      const { heightBlocks } = chain;
      await eventually(`block ${heightBlocks} at gateway and suppliers`, async () => {
        const isKnown = head.newest !== undefined && head.newest.heightBlocks >= heightBlocks;
        if (!isKnown) return false;
        await source.settled();
        return (await claimsHeight(supplier.metricsUrl, operators.length)) >= heightBlocks;
      });
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The sessions of the gateway `gateway` of a chain, and what they stand on. */
export interface GatewaySessions extends AsyncDisposable {
  readonly client: ChainClient;
  readonly head: ChainHead;
  readonly queries: PocketQueries;
  readonly source: SessionSource;
  readonly sessions: SessionSuppliers;
  readonly metrics: EconomyMetrics;
  readonly counted: ReadonlyMap<string, bigint>;
}

/** Starts {@link GatewaySessions}; they are known when it resolves. */
export async function startSessions(rpcUrl: string, log: Log = silentLog): Promise<GatewaySessions> {
  await using stack = new AsyncDisposableStack();
  const counted = new Map<string, bigint>();
  const metrics: EconomyMetrics = {
    set() {},
    observe() {},
    count({ name }, labels = {}) {
      if (name !== "turnpike_relay_signed_total") return;
      const key = String(labels.result);
      counted.set(key, (counted.get(key) ?? 0n) + 1n);
    },
  };
  const modules = { clock: systemClock, log, metrics };
  const client = stack.use(new ChainClient({ url: rpcUrl }, modules));
  const head = stack.use(new ChainHead({ url: rpcUrl }, modules));
  // Blocks here come faster than a refused question is asked again by default.
  const queries = new PocketQueries({ briefMs: 0 }, { client, clock: systemClock, head });
  const threads = stack.use(new SigningThreads({ threads: 0 }));
  const source = stack.use(
    new SessionSource(
      { gatewayKey: chainParty("gateway"), applicationKeys: [], renewBlocks: 5n, maxJitterMs: 0 },
      { ...modules, queries, head, random: () => 0 },
    ),
  );
  const sessions = stack.use(
    new SessionSuppliers(
      { ...relayOptions, extraRelaysPercent: 10, allowPrivateSuppliers: true },
      { ...modules, source, threads },
    ),
  );
  await source.start(AbortSignal.timeout(60_000));
  const owned = stack.move();
  return {
    client,
    head,
    queries,
    source,
    sessions,
    metrics,
    counted,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The lowest height after which an operator's claims were looked after. */
async function claimsHeight(metricsUrl: string | undefined, operators: number): Promise<bigint> {
  const text = await (await fetch(`${metricsUrl}/metrics`)).text();
  const heights = [...text.matchAll(/^turnpike_supplier_claims_height_blocks\{[^}]*\} (\d+)$/gm)];
  if (heights.length < operators) return 0n;
  return heights.map(([, height]) => BigInt(height ?? 0)).reduce((least, one) => (one < least ? one : least));
}

/** Most blocks from a session to the settlement of its claims. */
const SETTLEMENT_BLOCKS = 30;

/** Ends the relay, makes blocks until all claims are settled, and holds that each relay that was answered is paid. */
export async function assertPaid(economy: Economy, relay: RelayEngine): Promise<void> {
  await relay[Symbol.asyncDispose]();
  for (let blocks = 0; blocks < SETTLEMENT_BLOCKS; blocks++) await economy.step();
  const { operators } = await readSupplyReport(economy.stateFolder);
  const sum = (kind: "served" | "settled"): bigint =>
    operators.reduce((total, { all }) => total + BigInt(all.relays[kind]), 0n);
  const answered = economy.counted.get("answered") ?? 0n;
  assert.ok(answered > 0n);
  assert.deepEqual([sum("served"), sum("settled")], [answered, answered]);
}

const CATALOGUE = createCatalogue().services;

/** The relay of the economy's gateway, over its sessions alone. */
export async function startRelay({ sessions, metrics }: Pick<Economy, "sessions" | "metrics">): Promise<RelayEngine> {
  const modules = { clock: systemClock, log: silentLog, metrics, catalogue: CATALOGUE, random: Math.random };
  const relay = createRelayEngine({ ...relayOptions, suppliers: {} }, { ...modules, suppliers: sessions.of([ETH]) });
  // A hedge that lost is not waited for: its supplier may have answered and counted it, or not.
  relay.setFlag("hedging", false);
  await relay.start();
  return relay;
}

/** A call that is unlike all others, so that no kept answer serves it. */
export function balanceRequest(): FreeRequest {
  const eth = CATALOGUE.get(ETH);
  if (eth === undefined) throw new TypeError("the catalogue has no eth");
  const params = [`0x${randomBytes(20).toString("hex")}`, "latest"];
  const method = "eth_getBalance";
  const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }));
  const at = body.indexOf('"id":') + 5;
  const read = { body, bodyText: jsonText(body), id: { start: at, end: at + 1 }, rawId: "1", isPlain: true };
  const parsed = parseFreeRpc(eth, { method, params, paramsSpan: undefined, ...read });
  if (!parsed.ok) throw new TypeError("the call is refused");
  const facts = { requestId: "r" as RequestId, client: "c", serviceId: ETH, call: parsed.call };
  const request = mintParsed({ ...facts, requestHash: new Uint8Array(0) });
  return mintFree({ request, deadlineMs: systemClock.monotonicMs() + 60_000 });
}
