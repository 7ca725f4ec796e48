import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { type Clock, type ServiceId, silentLog, systemClock } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { createRelayEngine, createSubscriptions, type SubscriptionOptions } from "@turnpike/relay";
import { PrometheusMetrics } from "@turnpike/telemetry";
import { PATIENCE_MS } from "@turnpike/testkit";
import type { GatewayModules, GatewayOptions } from "../src/types.ts";
import { relayOptions } from "./options.ts";
import { startTestGateway, type TestGateway } from "./stand-ins.ts";

/** A way to a server of this machine that can be cut. */
export interface Wire extends AsyncDisposable {
  readonly port: number;
  /** Open connections. */
  readonly connections: number;
  /** Cuts all connections. */
  cut(): void;
  /** While true new connections are cut at once. */
  isDown: boolean;
}

/** Starts a TCP proxy to a port of this machine. */
export async function startWire(toPort: number): Promise<Wire> {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    if (wire.isDown) {
      near.destroy();
      return;
    }
    const far = connect(toPort, "127.0.0.1");
    near.pipe(far).pipe(near);
    for (const socket of [near, far]) socket.on("error", () => {});
    near.on("close", () => {
      sockets.delete(near);
      far.destroy();
    });
    far.on("close", () => near.destroy());
    sockets.add(near);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const wire: Wire = {
    port: (server.address() as AddressInfo).port,
    isDown: false,
    get connections() {
      return sockets.size;
    },
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
  return wire;
}

/** A gateway whose `eth` is a real chain behind real suppliers. */
export interface SocketGateway extends AsyncDisposable {
  readonly gateway: TestGateway;
  /** `ws://127.0.0.1:…/relay/eth` */
  readonly url: string;
  /** Text of the metrics. */
  metrics(): Promise<string>;
}

/** What {@link startSocketGateway} connects. */
export interface SocketGatewayInput {
  readonly chainId: number;
  readonly httpUrl?: string;
  readonly socketUrls: readonly string[];
  /** More services: id to WebSocket URL. */
  readonly others?: Readonly<Record<string, string>>;
  readonly options?: Partial<GatewayOptions>;
  readonly modules?: Partial<GatewayModules>;
  readonly subscriptions?: Partial<SubscriptionOptions>;
  /** Clock of the relay and the subscriptions; the machine's by default. */
  readonly clock?: Clock;
}

/** Starts a gateway with the product's relay and subscriptions. */
export async function startSocketGateway(input: SocketGatewayInput): Promise<SocketGateway> {
  const catalogue = createCatalogue({
    overrides: { eth: { evmChainId: input.chainId } },
  });
  const metrics = new PrometheusMetrics({ processMetrics: false });
  const modules = {
    catalogue: catalogue.services,
    clock: input.clock ?? systemClock,
    log: silentLog,
    metrics,
    random: () => Math.random(),
  };
  const endpoints = input.httpUrl === undefined ? [] : [{ operator: "http", urls: { json_rpc: input.httpUrl } }];
  const relay = createRelayEngine(
    {
      ...relayOptions,
      connectTimeoutMs: PATIENCE_MS,
      suppliers: { eth: { endpoints, timeoutMs: PATIENCE_MS, maxAttempts: 2 } },
    },
    modules,
  );
  const others = Object.entries(input.others ?? {}).map(([id, url]) => [id, [{ operator: id, url }]] as const);
  const subscriptions = createSubscriptions(
    {
      connectTimeoutMs: PATIENCE_MS,
      callTimeoutMs: PATIENCE_MS,
      recoveryTimeoutMs: PATIENCE_MS,
      subscribeTimeoutMs: PATIENCE_MS,
      ...input.subscriptions,
      suppliers: {
        eth: input.socketUrls.map((url, at) => ({ operator: `ws${at}`, url })),
        ...Object.fromEntries(others),
      },
    },
    modules,
  );
  const gateway = await startTestGateway(
    { shutdownTimeoutMs: 500, ...input.options },
    { catalogue, relay, subscriptions, metrics, ...input.modules },
  );
  return {
    gateway,
    url: `${gateway.url.replace("http", "ws")}/relay/${"eth" as ServiceId}`,
    metrics: () => metrics.render(),
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]();
      await subscriptions[Symbol.asyncDispose]();
      await relay[Symbol.asyncDispose]();
    },
  };
}
