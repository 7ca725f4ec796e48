import { availableParallelism } from "node:os";
import { type NetworkId, noMetrics, silentLog, systemClock } from "@turnpike/base";
import { LOCAL_NETWORK, MULTICALL3_ADDRESS, USDC_ADDRESS } from "@turnpike/localnet";
import {
  decodePaymentHeader,
  type EvmRpc,
  EvmRpcClient,
  EvmVerifier,
  matchOption,
  type RpcReply,
} from "@turnpike/payment";
import { serveParent } from "../../lib/child.ts";
import { OPTION } from "../payers.ts";
import { createStandInChain } from "../stand-in.ts";
import { measureVerify, type VerifyOperations } from "../verify-run.ts";

const owned = new AsyncDisposableStack();
let verifier: EvmVerifier | undefined;

/** The stand-in chain behind the interface that the verifier asks. */
function standInRpc(): EvmRpc {
  const chain = createStandInChain();
  const reply = (method: string, params: readonly unknown[]): RpcReply => ({ ok: true, result: chain(method, params) });
  return {
    host: "stand-in",
    nodes: [],
    call: async (method, params) => reply(method, params),
    batch: async (calls) => calls.map(({ method, params }) => reply(method, params)),
    async [Symbol.asyncDispose]() {},
  };
}

/** What the gateway does with a header, from its text to the verdict. */
async function verify(header: string): Promise<boolean> {
  const decoded = decodePaymentHeader(header);
  if (!decoded.ok || verifier === undefined) return false;
  const option = matchOption(decoded.payment.accepted, [OPTION]);
  if (option === undefined) return false;
  const payment = { ...decoded.payment, option };
  const free = await verifier.checkFree(payment);
  if (!free.ok || free.signer !== "payer") return false;
  return (await verifier.checkChain(payment, free.signer)).ok;
}

serveParent<VerifyOperations>(
  {
    async open({ rpcUrl }) {
      const modules = { log: silentLog, metrics: noMetrics };
      const rpc = rpcUrl === undefined ? standInRpc() : new EvmRpcClient({ urls: [rpcUrl], timeoutMs: 5_000 }, modules);
      const network = LOCAL_NETWORK as NetworkId;
      owned.use(rpc);
      verifier = owned.use(
        new EvmVerifier(
          {
            networks: [
              {
                network,
                asset: USDC_ADDRESS,
                name: "USDC",
                version: "2",
                decimals: 6,
                multicall3: MULTICALL3_ADDRESS,
                allowedFactories: [],
                walletGas: 400_000,
                deploymentGas: 2_000_000,
                priorityFeeWei: 0n,
                relayers: [],
              },
            ],
            workers: Math.max(1, availableParallelism() - 1),
          },
          { ...modules, rpc: new Map([[network, rpc]]), clock: systemClock },
        ),
      );
    },
    run: (run) => measureVerify(run, verify),
  },
  owned,
);
