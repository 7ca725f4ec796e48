import { AppError } from "@turnpike/base";
import type { x402Facilitator } from "@x402/core/facilitator";
import { serveParent } from "../../lib/child.ts";
import { REFERENCE_REQUIREMENTS, relayerKey } from "../payers.ts";
import { createReferenceFacilitator, referenceHttp } from "../reference.ts";
import { measureSettle, type SettleOperations } from "../settle-run.ts";

let facilitator: x402Facilitator | undefined;

serveParent<SettleOperations>({
  async open({ rpcUrl, relayers, managedNonces, pollMs }) {
    const [relayer] = relayers;
    if (relayer === undefined) throw new AppError("INTERNAL");
    facilitator = createReferenceFacilitator({
      privateKey: relayerKey(relayer),
      transport: referenceHttp(rpcUrl),
      managedNonces,
      ...(pollMs === undefined ? {} : { pollMs }),
    });
  },
  run: (run) =>
    measureSettle(run, async (payload) => {
      const answer = await facilitator?.settle(payload, REFERENCE_REQUIREMENTS);
      if (answer === undefined) return { failure: "not open" };
      return answer.success ? { transaction: answer.transaction } : { failure: answer.errorReason ?? "unknown" };
    }),
});
