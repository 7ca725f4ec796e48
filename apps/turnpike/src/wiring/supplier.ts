import { AppError, type Log, type Metrics, systemClock } from "@turnpike/base";
import { ChainClient, ChainHead, createChainSigner, PocketQueries } from "@turnpike/chain-client";
import { type Config, readChainKeyFile } from "@turnpike/config";
import { accountAddress, cosmosPublicKey, SigningThreads } from "@turnpike/crypto";
import { tokenomics } from "@turnpike/proto";
import type { RpcType } from "@turnpike/protocol";
import {
  bigintJson,
  ClaimRunner,
  RelayStore,
  type ServiceConfig,
  serveRelays,
  supplyReport,
  ThreadedRelayCrypto,
  termsOfQueries,
} from "@turnpike/supplier";
import { type JsonPage, PrometheusMetrics, startMetricsServer } from "@turnpike/telemetry";
import { hostText } from "../cli/context.ts";

/** A supplier's operator: its key, and the port that its endpoints name. */
export interface SupplierOperator {
  readonly address: string;
  readonly privateKey: Uint8Array;
  readonly port: number;
}

/** A running supplier. */
export interface RunningSupplier extends AsyncDisposable {
  readonly operators: readonly { readonly address: string; readonly url: string }[];
  /** Undefined when there is no metrics server. */
  readonly metricsUrl: string | undefined;
  readonly metrics: Metrics;
}

/** Time for the first block of the chain to be seen. */
const FIRST_BLOCK_MS = 60_000;
const REQUEST_TIMEOUT_MS = 30_000;
const DRAIN_TIMEOUT_MS = 10_000;
const TEN_MILLIONTHS = 1_000_000;

/** The operators of a configuration, with their keys. @throws AppError CONFIG_INVALID */
export function supplierOperators({ supplier }: Config): readonly SupplierOperator[] {
  const seen = new Set<string>();
  return supplier.keys.map(({ operatorKeyFile, port }, at) => {
    const where = `supplier.keys[${at}].operatorKeyFile`;
    const privateKey = readChainKeyFile(operatorKeyFile, where);
    const address = accountAddress(cosmosPublicKey(privateKey));
    if (seen.has(address)) {
      throw new AppError("CONFIG_INVALID", { message: `${where}: the key of ${address} is named twice; remove one.` });
    }
    seen.add(address);
    return { address, privateKey, port };
  });
}

/** Services of a configuration as the supplier package has them. */
function suppliedServices({ supplier }: Config): Readonly<Record<string, ServiceConfig>> {
  return Object.fromEntries(
    Object.entries(supplier.services).map(([id, { backends, defaultRpcType, ...bounds }]) => {
      const [first] = Object.keys(backends);
      const byType = (defaultRpcType ?? first) as RpcType;
      return [id, { backEnds: backends, defaultRpcType: byType, ...bounds }];
    }),
  );
}

/** What settlement mints on top of each claim, in millionths; it is taken from the application's stake too. */
async function inflationMillionths(client: ChainClient): Promise<bigint> {
  const { params } = await client.ask(tokenomics.Query.method.params, {});
  return BigInt(Math.ceil((params?.globalInflationPerClaim ?? 0) * TEN_MILLIONTHS));
}

/**
 * Builds and starts a supplier: evidence, relay servers, claims.
 * @throws AppError CONFIG_INVALID, CHAIN_UNREACHABLE, OPERATOR_KEY_HELD, EVIDENCE_FOLDER, PORT_IN_USE
 */
export async function startSupplier(config: Config, modules: { readonly log: Log }): Promise<RunningSupplier> {
  const { log } = modules;
  const { supplier, allowedHosts } = config;
  const { nodeUrl, stateFolder, host } = supplier;
  if (nodeUrl === undefined || stateFolder === undefined || supplier.keys.length === 0) {
    throw new AppError("CONFIG_INVALID", {
      message: "supplier.keys: empty; a supplier needs supplier.nodeUrl, stateFolder, keys and services.",
    });
  }
  const operators = supplierOperators(config);
  await using stack = new AsyncDisposableStack();
  const metrics = new PrometheusMetrics({ processMetrics: supplier.metrics.port !== undefined });
  const client = stack.use(new ChainClient({ url: nodeUrl }, { clock: systemClock }));
  const head = stack.use(new ChainHead({ url: nodeUrl }, { clock: systemClock, log }));
  if ((await head.waitFor(1n, AbortSignal.timeout(FIRST_BLOCK_MS))) === undefined) {
    throw new AppError("CHAIN_UNREACHABLE", { message: `supplier.nodeUrl: ${nodeUrl} shows no block.` });
  }
  const queries = new PocketQueries({}, { client, clock: systemClock, head });
  const addresses = operators.map(({ address }) => address);
  const store = stack.use(
    await RelayStore.open(
      { folder: stateFolder, operators: addresses, fsyncMs: supplier.fsyncMs },
      { clock: systemClock, termsOf: termsOfQueries(queries), log, metrics },
    ),
  );
  const threads = stack.use(new SigningThreads({ threads: supplier.signingThreads }, { log, clock: systemClock }));
  const keys = new Map(operators.map(({ address, privateKey }) => [address, privateKey]));
  const crypto = stack.use(new ThreadedRelayCrypto(threads, keys));
  // Unsigned relays make the serving client ask: they must not delay a claim or a proof.
  const claimClient = stack.use(new ChainClient({ url: nodeUrl }, { clock: systemClock }));
  const claimQueries = new PocketQueries({}, { client: claimClient, clock: systemClock });
  // Before the relay servers, so that they are disposed of after them: what drains is still claimed.
  for (const { privateKey } of operators) {
    stack.use(
      new ClaimRunner(
        {
          signer: createChainSigner(privateKey),
          skipUnprofitableClaims: supplier.skipUnprofitableClaims,
          minBalanceUpokt: BigInt(supplier.minBalanceUpokt),
          maxFeeUpokt: BigInt(supplier.maxFeeUpokt),
        },
        { store, head, queries: claimQueries, client: claimClient, clock: systemClock, log, metrics },
      ),
    );
  }
  const served = stack.use(
    await serveRelays(
      {
        host,
        operators: operators.map(({ address, port }) => ({ address, port })),
        services: suppliedServices(config),
        maxRequestBytes: supplier.maxRequestBytes,
        maxConcurrentRelays: supplier.maxConcurrentRelays,
        maxConnections: supplier.maxConnections,
        maxConnectionsPerClient: supplier.maxConnectionsPerClient,
        trustedProxies: supplier.trustedProxies,
        requestTimeoutMs: REQUEST_TIMEOUT_MS,
        drainTimeoutMs: DRAIN_TIMEOUT_MS,
        inflationMillionths: await inflationMillionths(client),
        unsettledPercent: supplier.unsettledPercent,
      },
      { queries, head, crypto, store, clock: systemClock, metrics, log },
    ),
  );
  const pages = new Map<string, JsonPage>([
    ["/ready", () => Promise.resolve({ status: head.isStale ? 503 : 200, body: { ready: !head.isStale } })],
    // As text: its sums are larger than what a JSON number holds exactly.
    ["/status", () => Promise.resolve({ status: 200, body: JSON.parse(bigintJson(supplyReport(store, addresses))) })],
  ]);
  const { port, host: metricsHost } = supplier.metrics;
  const metricsUrl =
    port === undefined
      ? undefined
      : `http://${hostText(metricsHost)}:${
          stack.use(await startMetricsServer({ host: metricsHost, port, allowedHosts }, { metrics, log, pages })).port
        }`;
  const owned = stack.move();
  return {
    operators: operators.map(({ address }) => ({
      address,
      url: `http://${hostText(host)}:${served.ports.get(address) ?? 0}`,
    })),
    metricsUrl,
    metrics,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
