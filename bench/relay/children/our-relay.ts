import { randomBytes } from "node:crypto";
import { type Log, noFaults, systemClock } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { type Config, loadConfig } from "@turnpike/config";
import { createGateway } from "@turnpike/gateway";
import { PrometheusMetrics } from "@turnpike/telemetry";
import { catalogueOptions } from "../../../apps/turnpike/src/wiring/catalogue.ts";
import { gatewayOptions } from "../../../apps/turnpike/src/wiring/gateway.ts";
import { createLimitStore } from "../../../apps/turnpike/src/wiring/limits.ts";
import { createParts } from "../../../apps/turnpike/src/wiring/parts.ts";
import { option, standInPayment } from "../../../packages/gateway/test/stand-ins.ts";
import { serveParent } from "../../lib/child.ts";

/** What a gateway without payments is made of. */
export interface OurRelayFacts {
  /** `suppliers` of the configuration. */
  readonly suppliers: Readonly<Record<string, unknown>>;
  /** Endpoints beside those, past the most that the configuration allows, by service. */
  readonly moreEndpoints?: Readonly<Record<string, readonly Config["suppliers"][string]["endpoints"][number][]>>;
  /** Other keys of the configuration; the product's defaults where nothing is said. */
  readonly overrides?: Readonly<Record<string, unknown>>;
}

/** Operations of this child: the gateway as the command wires it, with a payment that nobody uses. */
export type OurRelayOperations = {
  readonly start: (facts: OurRelayFacts) => Promise<{ readonly port: number; readonly metricsPort: number }>;
};

/** They count everything, and refuse nothing. */
const FAR = { requests: 1_000_000_000 };

/** Maximum of one address: the load has few, and the product's default is for strangers. */
const MAX_CONNECTIONS = 10_000;

/** At the default level, with the work of writing a line; what says that something is broken is shown, the rest dropped. */
const log: Log = {
  debug: () => undefined,
  info: (fields, message) => void JSON.stringify({ ...fields, message }),
  warn: (fields, message) => void JSON.stringify({ ...fields, message }),
  error: (fields, message) => void process.stderr.write(`${JSON.stringify({ ...fields, message })}\n`),
  child: () => log,
};

function withMore(
  suppliers: Config["suppliers"],
  more: NonNullable<OurRelayFacts["moreEndpoints"]>,
): Config["suppliers"] {
  return Object.fromEntries(
    Object.entries(suppliers).map(([id, one]) => [id, { ...one, endpoints: [...one.endpoints, ...(more[id] ?? [])] }]),
  );
}

const owned = new AsyncDisposableStack();

serveParent<OurRelayOperations>(
  {
    async start({ suppliers, moreEndpoints = {}, overrides = {} }) {
      const valid = loadConfig({
        env: {},
        overrides: {
          gateway: { port: 0, metrics: { port: 0 }, maxConnectionsPerClient: MAX_CONNECTIONS },
          limits: { perClient: FAR, perEndpoint: FAR },
          suppliers,
          ...overrides,
        },
      });
      const config = { ...valid, suppliers: withMore(valid.suppliers, moreEndpoints) };
      const metrics = new PrometheusMetrics({ processMetrics: true });
      const modules = { clock: systemClock, log, metrics, faults: noFaults };
      const store = createLimitStore(config, modules, owned);
      const parts = owned.use(
        createParts(config, createCatalogue(catalogueOptions(config)), { ...modules, store, options: [option] }),
      );
      const gateway = owned.use(
        createGateway(gatewayOptions(config), {
          ...modules,
          ...parts.current,
          payment: standInPayment(),
          readiness: [],
          random: { bytes: (length) => new Uint8Array(randomBytes(length)) },
        }),
      );
      await parts.current.relay.start();
      const { gatewayPort: port, metricsPort } = await gateway.listen();
      return { port, metricsPort };
    },
  },
  owned,
);
