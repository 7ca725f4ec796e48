import { AppError, type Metrics, type NetworkId, trimEndOf } from "@turnpike/base";
import { type Catalogue, createDiscovery } from "@turnpike/catalogue";
import { type Config, relayerKeys } from "@turnpike/config";
import { createFacilitatorServer, Facilitator, type FacilitatorDiscovery } from "@turnpike/payment";
import { PrometheusMetrics, startMetricsServer } from "@turnpike/telemetry";
import { productVersion } from "../cli/version.ts";
import { LONGEST_SETTLE_WAIT_MS, requireRunnable } from "./check.ts";
import { partModules, type ServiceInput } from "./modules.ts";
import { accountOf, ownReceivers } from "./networks.ts";
import { offeredOptions } from "./offers.ts";
import { openPayments } from "./payment.ts";

/** A running facilitator with all its parts. */
export interface FacilitatorService extends AsyncDisposable {
  readonly url: string;
  /** Undefined when there is no metrics server. */
  readonly metricsPort: number | undefined;
  readonly metrics: Metrics;
}

/** The gateway's services as its own discovery lists and finds them; made from the same configuration. */
function discoveryOf(config: Config, catalogue: Catalogue): FacilitatorDiscovery | undefined {
  const publicUrl =
    config.facilitator.discoveryUrl === undefined ? undefined : trimEndOf(config.facilitator.discoveryUrl, "/");
  if (publicUrl === undefined) return undefined;
  const context = {
    publicUrl,
    options: offeredOptions(config),
    version: productVersion(),
    relayDomain: config.gateway.relayDomain,
    updatedAt: new Date().toISOString(),
    serves: () => false,
  };
  const discovery = createDiscovery(catalogue, context);
  return {
    list(query) {
      const { items, pagination } = discovery.list(query);
      return { items: items.map((item) => ({ ...item })), total: pagination.total };
    },
    search(query) {
      const { resources, partialResults, pagination } = discovery.search(query);
      return { resources: resources.map((item) => ({ ...item })), partialResults, pagination };
    },
  };
}

function isPortTaken(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "EADDRINUSE";
}

/**
 * Builds and starts a facilitator that runs alone, with a ledger and relayer keys of its own.
 * @throws AppError CONFIG_INVALID, CHAIN_MISMATCH, LEDGER_UNAVAILABLE, LEDGER_SCHEMA, PORT_IN_USE.
 */
export async function startFacilitator(input: ServiceInput): Promise<FacilitatorService> {
  const { config, env, log } = input;
  const catalogue = requireRunnable(config, env, "facilitator");
  await using stack = new AsyncDisposableStack();
  const { allowedHosts } = config;
  const watched = config.facilitator.metrics;
  const metrics = new PrometheusMetrics({ processMetrics: watched.port !== undefined });
  const modules = partModules(input, metrics);
  const { ledger, verifier, settler } = await openPayments(input, "facilitator", modules, stack);
  const { payToAny, payToAllowed, sellers, keyless, minAmountUnits, host, port } = config.facilitator;
  const { maxBodyBytes, trustedProxies, maxConcurrentRequests, maxConcurrentPerClient } = config.facilitator;
  const { maxConnections, maxConnectionsPerClient } = config.facilitator;
  const requests = { maxBodyBytes, trustedProxies, maxConcurrentRequests, maxConcurrentPerClient };
  const receivers = payToAllowed.length > 0 ? payToAllowed : config.payment.networks.map(({ payTo }) => payTo);
  const facilitator = new Facilitator(
    {
      assets: config.payment.networks.map(({ network, asset, name, version }) => ({
        network: network as NetworkId,
        address: asset,
        name,
        version,
      })),
      ...(payToAny ? {} : { payToAllowed: receivers }),
      sellers: {
        ownReceivers: ownReceivers(config),
        sellers: sellers.map((seller) => ({ ...seller, receivers: seller.payTo })),
        keyless,
      },
      minAmountUnits: BigInt(minAmountUnits),
      settleWaitMs: Math.min(config.payment.settleWaitMs, LONGEST_SETTLE_WAIT_MS),
      // The other places are for payments that are brought for the first time, and for verifications.
      maxCopies: Math.max(1, Math.floor(maxConcurrentRequests / 4)),
      unpaidPerClient: () => config.facilitator.unpaidPerClient,
      unpaidPerPayer: () => config.limits.unpaid.perPayer,
      signers: relayerKeys(config, env, "facilitator").map(accountOf),
    },
    { ...modules, verifier, ledger, settler },
  );
  const metricsPort =
    watched.port === undefined
      ? undefined
      : stack.use(await startMetricsServer({ host: watched.host, port: watched.port, allowedHosts }, { metrics, log }))
          .port;
  const discovery = discoveryOf(config, catalogue);
  try {
    const server = stack.use(
      await createFacilitatorServer(
        { host, port, allowedHosts, ...requests, maxConnections, maxConnectionsPerClient },
        { facilitator, log, metrics, ...(discovery === undefined ? {} : { discovery }) },
      ),
    );
    const owned = stack.move();
    return { url: server.url, metricsPort, metrics, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  } catch (cause) {
    if (!isPortTaken(cause)) throw cause;
    throw new AppError("PORT_IN_USE", { message: `facilitator.port: ${port} is in use by another program.`, cause });
  }
}
