import type { Log } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { startPortal } from "../../../apps/turnpike/src/wiring/portal-db.ts";
import { serveParent } from "../../lib/child.ts";

/** Operations of this child: the management data API as the command wires it. */
export type OurDbOperations = {
  /** `overrides` are keys of `portalDb`; the product's defaults where nothing is said. */
  readonly start: (params: { readonly overrides: Readonly<Record<string, unknown>> }) => Promise<{
    readonly port: number;
  }>;
};

/** At the default level, with the work of writing a line; what says that something is broken is shown, the rest dropped. */
const log: Log = {
  debug: () => undefined,
  info: (fields, message) => void JSON.stringify({ ...fields, message }),
  warn: (fields, message) => void JSON.stringify({ ...fields, message }),
  error: (fields, message) => void process.stderr.write(`${JSON.stringify({ ...fields, message })}\n`),
  child: () => log,
};

const owned = new AsyncDisposableStack();

serveParent<OurDbOperations>(
  {
    async start({ overrides }) {
      const config = loadConfig({ env: {}, overrides: { portalDb: { ...overrides, port: 0 } } });
      const { portal } = owned.use(await startPortal(config, { log }));
      return { port: portal.port };
    },
  },
  owned,
);
