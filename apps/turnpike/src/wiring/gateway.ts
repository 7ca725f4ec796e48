import { randomBytes } from "node:crypto";
import type { Config } from "@turnpike/config";
import {
  createGateway,
  createPrometheusMetrics,
  type GatewayOptions,
  gatewayDefaults,
  type ReadinessCheck,
} from "@turnpike/gateway";
import { productVersion } from "../version.ts";
import { requireRunnable } from "./check.ts";
import { createLimits } from "./limits.ts";
import { partModules, type ServiceInput } from "./modules.ts";
import { offeredOptions } from "./offers.ts";
import { createStage, openPayments } from "./payment.ts";
import { createRelay, createSockets } from "./relay.ts";

/** A running gateway with all its parts. */
export interface GatewayService extends AsyncDisposable {
  readonly gatewayPort: number;
  readonly metricsPort: number;
}

/** Options of the gateway package. */
export function gatewayOptions(config: Config): GatewayOptions {
  const { gateway } = config;
  return {
    ...gatewayDefaults,
    host: gateway.host,
    gatewayPort: gateway.port,
    metricsHost: gateway.metrics.host,
    metricsPort: gateway.metrics.port,
    publicUrl: gateway.publicUrl?.replace(/\/+$/, ""),
    relayDomain: gateway.relayDomain,
    version: productVersion(),
    maxHeaderBytes: gateway.maxHeaderBytes,
    headersTimeoutMs: gateway.requestTimeoutMs,
    requestTimeoutMs: gateway.requestTimeoutMs,
    maxBufferedBytes: gateway.maxBufferedBytes,
    maxConcurrentRequests: gateway.maxConcurrentRequests,
    freeTimeoutMs: gateway.upstreamTimeoutMs,
    drainTimeoutMs: gateway.shutdownTimeoutMs,
    trustedProxies: gateway.trustedProxies,
  };
}

/**
 * Builds and starts a gateway: ledger, chains, settlement, relay, edges. When it is disposed of, calls under way end
 * first, and the ledger is closed last.
 * @throws AppError CONFIG_INVALID, CHAIN_MISMATCH, LEDGER_UNAVAILABLE, LEDGER_SCHEMA, PORT_IN_USE.
 */
export async function startGateway(input: ServiceInput): Promise<GatewayService> {
  const { config, env, log } = input;
  const catalogue = requireRunnable(config, env, "gateway");
  await using stack = new AsyncDisposableStack();
  const metrics = createPrometheusMetrics({ processMetrics: true });
  const modules = partModules(input, metrics);
  const payments = await openPayments(input, "gateway", modules, stack);
  const relay = stack.use(createRelay(config, catalogue, modules));
  const subscriptions = stack.use(createSockets(config, catalogue, modules));
  const payment = stack.use(createStage(config, payments, modules));
  const ledgerReady: ReadinessCheck = { name: "ledger", ready: () => payments.ledger.ready() };
  const gateway = stack.use(
    createGateway(gatewayOptions(config), {
      ...modules,
      catalogue,
      payment,
      relay,
      subscriptions,
      limits: createLimits(config, modules, stack),
      options: offeredOptions(config),
      readiness: [ledgerReady],
      metrics,
      random: { bytes: (length) => new Uint8Array(randomBytes(length)) },
    }),
  );
  const ports = await gateway.listen();
  void relay.start().catch((error: unknown) => {
    log.warn({ error: String(error) }, "the suppliers could not be probed");
  });
  const owned = stack.move();
  return { ...ports, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
