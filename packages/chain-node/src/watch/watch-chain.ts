import { type Log, type Metrics, systemClock } from "@turnpike/base";
import type { BlockMeter } from "@turnpike/chain";
import { CometRpc } from "../abci/comet-rpc.ts";
import { chainCatchingUp, chainEngineUp } from "../metrics.ts";
import { CometWatch } from "./comet-watch.ts";
import { DiskWatch } from "./disk-watch.ts";
import { StandstillWatch } from "./standstill-watch.ts";

export interface WatchChainOptions {
  /** Folder of the chain's store. */
  readonly storeFolder: string;
  /** The engine: our own with its interval, or CometBFT at its RPC. */
  readonly engine: { readonly blockIntervalMs: number } | { readonly cometRpcUrl: string };
}

export interface WatchChainModules {
  /** What the application was given; of the machine's clock. */
  readonly meter: BlockMeter;
  readonly metrics: Metrics;
  readonly log: Log;
}

const RPC_TIMEOUT_MS = 3_000;
// `net_info` has some 2 KiB a peer.
const RPC_ANSWER_BYTES = 8 * 1024 * 1024;

/**
 * Keeps the metrics of a running node: what no block or transaction brings by itself. Says when the chain stands still.
 * @throws AppError CONFIG_INVALID when the RPC's address is none
 */
export async function watchChain(
  { storeFolder, engine }: WatchChainOptions,
  modules: WatchChainModules,
): Promise<AsyncDisposable> {
  const { meter, metrics, log } = modules;
  await using stack = new AsyncDisposableStack();
  let comet: CometWatch | undefined;
  if ("cometRpcUrl" in engine) {
    const rpc = new CometRpc({
      url: engine.cometRpcUrl,
      timeoutMs: RPC_TIMEOUT_MS,
      maxAnswerBytes: RPC_ANSWER_BYTES,
    });
    comet = stack.use(new CometWatch({}, { rpc, metrics, log }));
  } else {
    metrics.set(chainEngineUp, 1);
    metrics.set(chainCatchingUp, 0);
  }
  const disk = stack.use(new DiskWatch({ storeFolder }, { metrics, log }));
  const blockIntervalMs = "blockIntervalMs" in engine ? engine.blockIntervalMs : undefined;
  stack.use(new StandstillWatch({ blockIntervalMs }, { meter, comet, metrics, log, clock: systemClock }));
  await disk.looked;
  return stack.move();
}
