import { silentLog } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { request } from "undici";
import { startGateway } from "../../../apps/turnpike/src/wiring/gateway.ts";
import { migrateLedger } from "../../../apps/turnpike/src/wiring/ledger.ts";
import { serveParent } from "../../lib/child.ts";
import { type OurFacts, ourConfig } from "../our-config.ts";

const owned = new AsyncDisposableStack();

/** Seconds that calls of one method waited for the ledger, and how many there were. */
export type LedgerTimes = Readonly<Record<string, { readonly seconds: number; readonly calls: number }>>;

/** Operations of this child: the gateway as `turnpike gateway` wires it. */
export type OurGatewayOperations = {
  readonly start: (facts: OurFacts) => Promise<{ readonly port: number }>;
  /** By method, since the start. */
  readonly ledgerTimes: (params: undefined) => Promise<LedgerTimes>;
};

let metricsUrl = "";

/** Reads the histogram of the ledger's queries. */
async function ledgerTimes(): Promise<LedgerTimes> {
  const { body } = await request(metricsUrl);
  const times: Record<string, { seconds: number; calls: number }> = {};
  for (const line of (await body.text()).split("\n")) {
    const [, part, method, value] =
      /^turnpike_ledger_query_seconds_(sum|count)\{.*method="(\w+)".*\} (\S+)$/.exec(line) ?? [];
    if (method === undefined) continue;
    times[method] ??= { seconds: 0, calls: 0 };
    times[method][part === "sum" ? "seconds" : "calls"] += Number(value);
  }
  return times;
}

serveParent<OurGatewayOperations>(
  {
    async start(facts) {
      const config = loadConfig({ env: {}, overrides: ourConfig(facts, "gateway") });
      await migrateLedger(config, "gateway");
      const gateway = owned.use(await startGateway({ config, env: {}, log: silentLog }));
      metricsUrl = `http://127.0.0.1:${gateway.metricsPort}/metrics`;
      return { port: gateway.gatewayPort };
    },
    ledgerTimes,
  },
  owned,
);
