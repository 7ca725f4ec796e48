import { randomBytes } from "node:crypto";
import { type Metrics, noMetrics, type Random, trimEndOf } from "@turnpike/base";
import type { Catalogue } from "@turnpike/catalogue";
import type { Config } from "@turnpike/config";
import { createGateway, type GatewayOptions, gatewayBounds, webSocketBounds } from "@turnpike/gateway";
import { noPayments } from "@turnpike/payment";
import { type MetricsDump, PrometheusMetrics } from "@turnpike/telemetry";
import { productVersion } from "../cli/version.ts";
import { openAdmin } from "./admin.ts";
import { openApplications } from "./applications.ts";
import { sells } from "./catalogue.ts";
import { requireRunnable } from "./check.ts";
import { partModules, type ServiceInput } from "./modules.ts";
import { namedLabels } from "./named-labels.ts";
import { offeredOptions } from "./offers.ts";
import { createParts } from "./parts.ts";
import { createStage, openPayments } from "./payment.ts";
import { openSessions } from "./protocol.ts";
import { createReloader, type Reload } from "./reload.ts";
import { openBus, openLimitStore, openRelaySharing, openUnpaidSharing, type WorkerPart } from "./sharing.ts";
import { openTracer } from "./tracing.ts";

/** True where several processes may listen on one port. Elsewhere workers share one handle: see docs/decisions/0005-processes.md. */
export const CAN_REUSE_PORT: boolean = ["linux", "freebsd", "sunos", "aix"].includes(process.platform);

/** What a call takes beside its supplier and its settlement. */
const STALL_SLACK_MS = 30_000;

/** What a gateway is built from. */
export interface GatewayInput extends ServiceInput {
  /** Reads the configuration again. Undefined: it cannot be reloaded. */
  readonly load?: () => Config;
  /** Called with each configuration that was put into effect. */
  readonly onReload?: (config: Config) => void;
  /** Undefined: the gateway is one process. */
  readonly worker?: WorkerPart;
}

/** A running gateway with all its parts. */
export interface GatewayService extends AsyncDisposable {
  readonly gatewayPort: number;
  /** 0: another process shows the metrics. */
  readonly metricsPort: number;
  /** Undefined: there is no admin API. */
  readonly adminPort: number | undefined;
  /** Reads the configuration again and puts it into effect without dropping a request, or refuses it. */
  readonly reload: Reload;
  /** The configuration in effect. */
  config(): Config;
  /** Rejects when it cannot go on. Undefined: it always can. */
  readonly failed?: Promise<never>;
  /** Undefined: another process counts. */
  readonly metrics?: Metrics;
  /** What was counted until now. */
  dumpMetrics(): Promise<MetricsDump>;
}

/** The keys of `gateway` under the same names, and what is computed of them or comes from other sections. */
export function gatewayOptions(config: Config): GatewayOptions {
  const { gateway, payment } = config;
  const longestCallMs = gateway.upstreamTimeoutMs + payment.settleWaitMs + payment.facilitatorTimeoutMs;
  return {
    ...gatewayBounds,
    ...gateway,
    metricsHost: gateway.metrics.host,
    metricsPort: gateway.metrics.port,
    allowedHosts: config.allowedHosts,
    publicUrl: gateway.publicUrl === undefined ? undefined : trimEndOf(gateway.publicUrl, "/"),
    version: productVersion(),
    headersTimeoutMs: gateway.requestTimeoutMs,
    stallTimeoutMs: Math.max(gatewayBounds.stallTimeoutMs, longestCallMs + STALL_SLACK_MS),
    unpaidPerClient: config.limits.unpaid.perClient,
    webSockets: { ...webSocketBounds, ...gateway.webSockets, maxBatchItems: gateway.maxBatchItems },
    accessLog: config.log.access,
  };
}

/**
 * Builds and starts a gateway: ledger, chains, settlement, relay, edges. When it is disposed of, calls under way end
 * first, and the ledger is closed last.
 * @throws AppError CONFIG_INVALID, CHAIN_MISMATCH, LEDGER_UNAVAILABLE, LEDGER_SCHEMA, PORT_IN_USE.
 */
export async function startGateway(input: GatewayInput): Promise<GatewayService> {
  const { env, log, worker } = input;
  const start = input.config;
  let config = start;
  const catalogue = requireRunnable(start, env, "gateway");
  await using stack = new AsyncDisposableStack();
  const metrics = new PrometheusMetrics({ processMetrics: true, isNamed: namedLabels(() => config) });
  const modules = partModules(input, metrics);
  const random: Random = { bytes: (length) => new Uint8Array(randomBytes(length)) };
  const tracer = await openTracer(start, { log, random: () => Math.random() }, stack);
  const payments = sells(start)
    ? await openPayments({ ...input, config: start }, "gateway", { ...modules, current: () => config }, stack)
    : undefined;
  const store = openLimitStore(() => config, modules, stack, worker);
  const bus = openBus(start, modules, stack, worker);
  const unpaid = openUnpaidSharing(start, bus, stack, worker);
  const applications = openApplications(start, modules, stack);
  // Payment networks need a restart, so the ways to pay are those of the start.
  const sessions = await openSessions(() => config, modules, stack);
  const parts = stack.use(
    createParts(start, catalogue, {
      ...modules,
      store,
      sessions: sessions?.suppliers,
      ...(sessions === undefined ? {} : { registered: () => sessions.registered.current }),
      options: offeredOptions(start),
    }),
  );
  const payment =
    payments === undefined
      ? noPayments
      : stack.use(
          createStage(start, payments, {
            ...modules,
            current: () => config,
            ...(unpaid === undefined ? {} : { payerTokens: unpaid.limit("payer") }),
          }),
        );
  const readiness = payments === undefined ? [] : [{ name: "ledger", ready: () => payments.ledger.ready() }];
  // The primary shows the metrics of its workers, and the system spreads connections over them.
  const asWorker = worker === undefined ? {} : { metricsPort: undefined, reusePort: CAN_REUSE_PORT };
  const optionsOf = (of: Config): GatewayOptions => ({ ...gatewayOptions(of), ...asWorker });
  const gateway = stack.use(
    createGateway(optionsOf(start), {
      ...modules,
      ...parts.current,
      payment,
      readiness,
      ...(tracer === undefined ? {} : { tracer }),
      ...(unpaid === undefined ? {} : { clientTokens: unpaid.limit("client") }),
      ...(applications === undefined ? {} : { applications }),
      metrics,
      random,
    }),
  );
  const putIntoEffect = async (next: Config, base: Catalogue): Promise<void> => {
    const prepared = await parts.prepare(next, base);
    try {
      const { released } = gateway.replace(optionsOf(next), prepared);
      parts.put(prepared, next, released);
    } catch (error) {
      await parts.drop(prepared);
      throw error;
    }
  };
  const { reload, refresh } = createReloader(start, {
    load: input.load ?? (() => start),
    async apply(next) {
      await putIntoEffect(next, requireRunnable(next, env, "gateway"));
      config = next;
      input.onReload?.(next);
      // A new rule of sale may need owners that were not asked for.
      void sessions?.registered.lookAgain();
    },
    async refresh(next) {
      if (!parts.canRefresh) return false;
      await putIntoEffect(next, parts.current.base);
      return true;
    },
    log,
    // The primary counts what its workers do together.
    metrics: worker === undefined ? metrics : noMetrics,
  });
  const ports = await gateway.listen();
  if (sessions !== undefined) stack.use(sessions.registered.follow(parts.current.registered, refresh));
  const { control } = openRelaySharing(() => parts.current.relay, { ...modules, bus }, stack);
  const reloadAll = worker?.reload ?? (() => reload("admin"));
  const adminPort = await openAdmin(() => config, { ...modules, control, reload: reloadAll, random }, stack);
  const { relay } = parts.current;
  const probed = relay.start().then(() => relay.survey());
  void probed.catch((error: unknown) => {
    log.warn({ error: String(error) }, "the suppliers could not be probed");
  });
  const owned = stack.move();
  return {
    ...ports,
    adminPort,
    reload,
    config: () => config,
    metrics,
    async dumpMetrics() {
      await gateway.flush();
      return metrics.dump();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
