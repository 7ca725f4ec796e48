import { silentLog } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { startGateway } from "../../../apps/turnpike/src/wiring/gateway.ts";
import { migrateLedger } from "../../../apps/turnpike/src/wiring/ledger.ts";
import { serveParent } from "../../lib/child.ts";
import { type OurFacts, ourConfig } from "../our-config.ts";

const owned = new AsyncDisposableStack();

/** Operations of this child: the gateway as `turnpike gateway` wires it. */
export type OurGatewayOperations = { readonly start: (facts: OurFacts) => Promise<{ readonly port: number }> };

serveParent<OurGatewayOperations>(
  {
    async start(facts) {
      const config = loadConfig({ env: {}, overrides: ourConfig(facts, "gateway") });
      await migrateLedger(config, "gateway");
      const gateway = owned.use(await startGateway({ config, env: {}, log: silentLog }));
      return { port: gateway.gatewayPort };
    },
  },
  owned,
);
