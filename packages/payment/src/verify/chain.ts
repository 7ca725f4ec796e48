import { AppError, isRecord } from "@turnpike/base";
import { BoundedMap } from "../bounded-map.ts";
import { decodeQuantity } from "../evm/abi.ts";
import { AnchoredRpc } from "../evm/anchored-rpc.ts";
import { ChainClock } from "./chain-time.ts";
import { CodeReader } from "./code-reader.ts";
import { EoaChecker } from "./eoa-checker.ts";
import { chainTimeOffsetSeconds } from "./metrics.ts";
import { chainIdOf } from "./network-check.ts";
import {
  DEFAULT_MARGIN_SECONDS,
  DEFAULT_MAX_QUEUED,
  type VerifierModules,
  type VerifierNetwork,
  type VerifierOptions,
} from "./options.ts";
import type { CallSender, ChainAccess } from "./reading.ts";
import { WalletChecker } from "./wallet-checker.ts";

/** How often the newest block is read until one was seen to appear, and for how many reads at most. */
const EAGER_POLL_MS = 500;
const EAGER_POLLS = 60;

/** One chain and its checkers. Reads the newest block in the background until it is disposed of. */
export class VerifierChain implements Disposable {
  readonly access: ChainAccess;
  readonly eoa: EoaChecker;
  readonly wallet: WalletChecker;
  readonly code: CodeReader;
  readonly #rpc: AnchoredRpc;
  readonly #network: VerifierNetwork;
  readonly #opts: VerifierOptions;
  readonly #modules: VerifierModules;
  readonly #stopping = new AbortController();
  readonly #timer: NodeJS.Timeout;
  /** Wei for one gas in the newest block; undefined before one was read, and on chains without it. */
  #baseFee: bigint | undefined;
  #isPolling = false;
  #isFailing = false;

  /** @throws AppError CONFIG_INVALID when the network has no RPC or is not of the form `eip155:<chain id>`. */
  constructor(network: VerifierNetwork, opts: VerifierOptions, modules: VerifierModules) {
    chainIdOf(network.network);
    const nodes = modules.rpc.get(network.network);
    if (nodes === undefined) throw new AppError("CONFIG_INVALID", { message: `${network.network} has no RPC URL.` });
    const { clock, metrics } = modules;
    const rpc = AnchoredRpc.of(nodes, undefined);
    this.#rpc = rpc;
    this.#network = network;
    this.#opts = opts;
    this.#modules = modules;
    const access: ChainAccess = {
      rpc,
      multicall3: network.multicall3,
      chainTime: new ChainClock({ clock }),
      marginSeconds: opts.marginSeconds ?? DEFAULT_MARGIN_SECONDS,
      sender: () => this.#sender(),
    };
    this.access = access;
    const noCode = new BoundedMap<string, true>({ maxEntries: 10_000, ttlMs: opts.codeCacheMs ?? 5_000 });
    const bounds = { maxExchanges: opts.maxExchanges ?? 8, maxQueued: opts.maxQueued ?? DEFAULT_MAX_QUEUED };
    this.eoa = new EoaChecker({ maxBatch: opts.maxBatch ?? 48, ...bounds }, { access, noCode, clock, metrics });
    this.wallet = new WalletChecker(
      {
        allowedFactories: allowedFactories(network, opts),
        walletGas: network.walletGas,
        deploymentGas: network.deploymentGas,
        maxChecks: opts.maxWalletChecks ?? 32,
      },
      { access, wallets: modules.wallets },
    );
    this.code = new CodeReader(bounds, { access, noCode, clock });
    this.#timer = this.#startPolling();
  }

  /** As a settlement would be sent now: room for the base fee to double, as the engine leaves it. */
  #sender(): CallSender {
    const [from] = this.#network.relayers;
    if (from === undefined) return {};
    if (this.#baseFee === undefined) return { from };
    const tip = this.#network.priorityFeeWei;
    return { from, maxFeePerGas: hexOf(this.#baseFee * 2n + tip), maxPriorityFeePerGas: hexOf(tip) };
  }

  /** Reads the newest block now and then; more often until one was seen to appear. */
  #startPolling(): NodeJS.Timeout {
    const pollMs = this.#opts.pollMs ?? 2_000;
    const everyMs = Math.min(pollMs, EAGER_POLL_MS);
    const eachth = Math.max(1, Math.round(pollMs / everyMs));
    let round = 0;
    const timer = setInterval(() => {
      const isEager = !this.access.chainTime.learnt && round < EAGER_POLLS;
      if (isEager || round % eachth === 0) void this.#poll();
      round++;
    }, everyMs).unref();
    void this.#poll();
    return timer;
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    const { network } = this.#network;
    const { clock, log, metrics } = this.#modules;
    const { chainTime } = this.access;
    try {
      const reply = await this.#rpc.call("eth_getBlockByNumber", ["latest", false], this.#stopping.signal);
      const block = reply.ok && isRecord(reply.result) ? reply.result : {};
      const number = decodeQuantity(block.number);
      const timestamp = decodeQuantity(block.timestamp);
      if (number !== undefined && timestamp !== undefined) {
        this.#rpc.saw(number);
        chainTime.sight(number, timestamp);
      }
      this.#baseFee = decodeQuantity(block.baseFeePerGas);
      metrics.set(chainTimeOffsetSeconds, chainTime.nowSeconds() - clock.nowMs() / 1_000, { network });
      this.#isFailing = false;
    } catch (error) {
      if (!this.#stopping.signal.aborted && !this.#isFailing) {
        log.warn({ network, error: String(error) }, "newest block cannot be read");
      }
      this.#isFailing = true;
    } finally {
      this.#isPolling = false;
    }
  }

  [Symbol.dispose](): void {
    this.#stopping.abort();
    clearInterval(this.#timer);
  }
}

/** All entries of a network share one chain. */
function allowedFactories({ network }: VerifierNetwork, opts: VerifierOptions): ReadonlySet<string> {
  const entries = opts.networks.filter((entry) => entry.network === network);
  return new Set(entries.flatMap((entry) => entry.allowedFactories).map((factory) => factory.toLowerCase()));
}

function hexOf(wei: bigint): `0x${string}` {
  return `0x${wei.toString(16)}`;
}
