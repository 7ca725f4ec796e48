import { readFile, rm, stat } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { AppError, hexToBytes, isRecord, type Log, writeAtomically } from "@turnpike/base";
import { devRpc } from "./rpc.ts";

const unzip = promisify(gunzip);

export interface StateKeeperOptions {
  readonly url: string;
  readonly file: string;
  /** Shortest time between two looks at the chain; 500 by default. */
  readonly intervalMs?: number;
}

/** Writes the chain's whole state to a file that anvil's `--load-state` takes. */
export async function saveChainState(url: string, file: string): Promise<void> {
  const dump = await devRpc(url, "anvil_dumpState");
  const packed = typeof dump === "string" ? hexToBytes(dump) : undefined;
  if (packed === undefined) throw new AppError("INTERNAL", { message: "The local chain gave no state." });
  await writeAtomically(file, await unzip(packed));
}

/**
 * Drops the oldest blocks of a saved state, which grows by about 2 KB a block for ever. Balances and code are not
 * touched; only reads of those old blocks and their transactions are lost. True when something was dropped.
 */
export async function trimChainState(file: string, keepBlocks: number): Promise<boolean> {
  // @NOTE one saved block is over 500 bytes: a small file need not be parsed
  if ((await stat(file)).size < keepBlocks * 500) return false;
  const state: unknown = JSON.parse(await readFile(file, "utf8"));
  if (!isRecord(state) || !Array.isArray(state.blocks) || !Array.isArray(state.transactions)) return false;
  const numberOf = (block: unknown): number => {
    const header = isRecord(block) ? block.header : undefined;
    return Number(isRecord(header) ? header.number : Number.NaN);
  };
  const best = Math.max(...state.blocks.map(numberOf).filter((height) => !Number.isNaN(height)));
  const kept = state.blocks.filter((block) => numberOf(block) === 0 || !(numberOf(block) <= best - keepBlocks));
  if (kept.length === state.blocks.length) return false;
  const oldest = best - keepBlocks;
  const transactions = state.transactions.filter(
    (item) => !isRecord(item) || !(Number(item.block_number) <= oldest && item.block_number !== undefined),
  );
  await writeAtomically(file, JSON.stringify({ ...state, blocks: kept, transactions }));
  return true;
}

/**
 * Saves a development chain's state soon after every block. Anvil's own `--state-interval` overwrites its file in
 * place, so that a kill at the wrong moment leaves half a file and no chain; this writes beside it and renames.
 *
 * What is lost by `kill -9` of the chain is at most the last interval. The ledger then knows settlements that the chain
 * has lost; its reconciler sends those journalled transactions again. A longer interval makes that more work; with
 * no saving at all the ledger's settled payments could never be found again.
 */
export class StateKeeper implements AsyncDisposable {
  readonly #options: Required<StateKeeperOptions>;
  readonly #log: Log;
  readonly #stopping = new AbortController();
  readonly #loop: Promise<void>;
  #saved = "";

  constructor(options: StateKeeperOptions, modules: { readonly log: Log }) {
    this.#options = { intervalMs: 500, ...options };
    this.#log = modules.log;
    this.#loop = this.#run();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    let pauseMs = this.#options.intervalMs;
    while (!signal.aborted) {
      try {
        await delay(pauseMs, undefined, { signal });
        const startMs = performance.now();
        await this.#saveIfNew();
        // never more than a fifth of the chain's time goes into saving
        pauseMs = Math.max(this.#options.intervalMs, 4 * (performance.now() - startMs));
      } catch (error) {
        if (!signal.aborted) this.#log.debug({ error: String(error) }, "chain state not saved");
      }
    }
  }

  async #saveIfNew(): Promise<void> {
    const block = await devRpc(this.#options.url, "eth_getBlockByNumber", ["latest", false]);
    const hash = isRecord(block) ? String(block.hash) : "";
    if (hash === this.#saved) return;
    await saveChainState(this.#options.url, this.#options.file);
    this.#saved = hash;
  }

  /** Saves now, whether or not there is a new block. */
  async save(): Promise<void> {
    await saveChainState(this.#options.url, this.#options.file);
  }

  /** Stops looking; does not save. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#loop;
    await rm(`${this.#options.file}.${process.pid}.tmp`, { force: true });
  }
}
