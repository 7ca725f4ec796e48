import { type NetworkId, silentLog } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { LOCAL_NETWORK, USDC_ADDRESS } from "@turnpike/localnet";
import { Facilitator } from "@turnpike/payment";
import { PrometheusMetrics } from "@turnpike/telemetry";
import { migrateLedger } from "../../../apps/turnpike/src/wiring/ledger.ts";
import { partModules } from "../../../apps/turnpike/src/wiring/modules.ts";
import { openPayments } from "../../../apps/turnpike/src/wiring/payment.ts";
import { serveParent } from "../../lib/child.ts";
import { ourConfig } from "../our-config.ts";
import { PAY_TO, REFERENCE_REQUIREMENTS } from "../payers.ts";
import { measureSettle, type SettleOperations } from "../settle-run.ts";

const owned = new AsyncDisposableStack();
const WAIT_MS = 60_000;
const ROOMY = { burst: 100_000, perSecond: 1_000 };
let facilitator: Facilitator | undefined;

serveParent<SettleOperations>(
  {
    async open(facts) {
      const config = loadConfig({ env: {}, overrides: ourConfig(facts, "facilitator") });
      await migrateLedger(config, "facilitator");
      const input = { config, env: {}, log: silentLog };
      const modules = partModules(input, new PrometheusMetrics({ processMetrics: false }));
      const payments = await openPayments(input, "facilitator", modules, owned);
      const network = LOCAL_NETWORK as NetworkId;
      facilitator = new Facilitator(
        {
          assets: [{ network, address: USDC_ADDRESS, name: "USDC", version: "2" }],
          // The operator's own receiver, whose sales no budget of a day bounds.
          payToAllowed: [PAY_TO],
          minAmountUnits: 1_000n,
          settleWaitMs: WAIT_MS,
          unpaidPerClient: () => ROOMY,
          unpaidPerPayer: () => ROOMY,
        },
        { ...modules, ...payments },
      );
    },
    run: (run) =>
      measureSettle(run, async (paymentPayload) => {
        const request = { x402Version: 2, paymentPayload, paymentRequirements: REFERENCE_REQUIREMENTS };
        const body = Buffer.from(JSON.stringify(request));
        const answer = await facilitator?.settle(body, AbortSignal.timeout(WAIT_MS), { client: "bench" });
        if (answer === undefined) return { failure: "not open" };
        if (answer.kind === "error") return { failure: answer.code };
        const { success, transaction, errorReason } = answer.body;
        return success ? { transaction } : { failure: errorReason ?? "unknown" };
      }),
  },
  owned,
);
