import type { x402Facilitator } from "@x402/core/facilitator";
import { decodePaymentSignatureHeader } from "@x402/core/http";
import { custom } from "viem";
import { serveParent } from "../../lib/child.ts";
import { REFERENCE_REQUIREMENTS, relayerKey } from "../payers.ts";
import { createReferenceFacilitator, referenceHttp } from "../reference.ts";
import { createStandInChain } from "../stand-in.ts";
import { measureVerify, type VerifyOperations } from "../verify-run.ts";

let facilitator: x402Facilitator | undefined;

serveParent<VerifyOperations>({
  async open({ rpcUrl }) {
    const chain = createStandInChain();
    const request = async ({ method, params }: { method: string; params?: unknown }): Promise<unknown> =>
      chain(method, Array.isArray(params) ? params : []);
    facilitator = createReferenceFacilitator({
      privateKey: relayerKey(0),
      transport: rpcUrl === undefined ? custom({ request }) : referenceHttp(rpcUrl, true),
      managedNonces: true,
    });
  },
  run: (run) =>
    measureVerify(run, async (header) => {
      const verified = await facilitator?.verify(decodePaymentSignatureHeader(header), REFERENCE_REQUIREMENTS);
      return verified?.isValid === true;
    }),
});
