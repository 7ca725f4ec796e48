import { AppError } from "@turnpike/base";
import type { x402Facilitator } from "@x402/core/facilitator";
import { serveParent } from "../../lib/child.ts";
import { REFERENCE_REQUIREMENTS, relayerKey } from "../payers.ts";
import { createReferenceFacilitator, referenceHttp } from "../reference.ts";
import { measureSettle, type SettleOperations } from "../settle-run.ts";

/** The best of 100, 250, 500 and viem's default here: rarer is later, more often costs time of the same core. */
const TUNED_POLL_MS = 250;
let facilitator: x402Facilitator | undefined;

serveParent<SettleOperations>({
  async open({ rpcUrl, relayers, style }) {
    const [relayer] = relayers;
    if (relayer === undefined) throw new AppError("INTERNAL");
    const tuned = style === "tuned";
    facilitator = createReferenceFacilitator({
      privateKey: relayerKey(relayer),
      transport: referenceHttp(rpcUrl, tuned),
      managedNonces: style !== "documented",
      ...(tuned ? { pollMs: TUNED_POLL_MS } : {}),
    });
  },
  run: (run) =>
    measureSettle(run, async (payload) => {
      const answer = await facilitator?.settle(payload, REFERENCE_REQUIREMENTS);
      if (answer === undefined) return { failure: "not open" };
      return answer.success ? { transaction: answer.transaction } : { failure: answer.errorReason ?? "unknown" };
    }),
});
