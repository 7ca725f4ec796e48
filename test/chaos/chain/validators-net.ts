import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isAppError, systemClock } from "@turnpike/base";
import { CHAIN_PROFILES } from "@turnpike/chain";
import { ChainClient } from "@turnpike/chain-client";
import {
  addressesOf,
  findTestnetPrograms,
  joinTestnet,
  nodeNamed,
  RunningTestnet,
  sharedInput,
  type TestnetLayout,
  writeTestnet,
} from "@turnpike/devnet";

const COMMAND_FILE = join(import.meta.dirname, "../../../apps/turnpike/bin/turnpike.js");
/** Id of the chain. */
export const CHAIN_ID = "validators-1";
/** Blocks between snapshots. */
const SNAPSHOT_BLOCKS = 20;
// A proposer that is away costs its whole wait, every fourth block.
const FILES = { times: { commitMs: 300, proposeMs: 1_000 }, snapshotBlocks: SNAPSHOT_BLOCKS };
const LOOK_MS = 50;
const ASK_MS = 2_000;
const SERVICES = [{ id: "eth", name: "Ethereum" }] as const;

/** Why no namespaces of networks, or no CometBFT, can be had here; false when they can. */
export async function whyNoTestnet(): Promise<string | false> {
  try {
    await findTestnetPrograms(process.env);
    return false;
  } catch (error) {
    if (isAppError(error, "DEPENDENCY_MISSING")) return error.message;
    throw error;
  }
}

/** Where a node stands. */
export interface NodeStatus {
  readonly latest: bigint;
  readonly earliest: bigint;
  readonly isCatchingUp: boolean;
}

/** Differences from the usual net. */
export interface NetSetup {
  /** Script that runs the nodes in the place of the turnpike command. */
  readonly commandFile?: string;
  readonly times?: typeof FILES.times;
  readonly bondUpokt?: bigint;
  /** Changes the nodes' files before they start. */
  readonly prepare?: (layout: TestnetLayout) => Promise<void>;
}

/** Four validators in namespaces, and which of them can be asked now. */
export class ValidatorsNet implements AsyncDisposable {
  readonly layout: TestnetLayout;
  readonly running: RunningTestnet;
  /** What the testnet said. */
  readonly events: readonly string[];
  readonly #away = new Set<string>();
  readonly #owned: AsyncDisposableStack;

  private constructor(
    layout: TestnetLayout,
    running: RunningTestnet,
    events: readonly string[],
    owned: AsyncDisposableStack,
  ) {
    this.layout = layout;
    this.running = running;
    this.events = events;
    this.#owned = owned;
  }

  static async start(validators: number, setup: NetSetup = {}): Promise<ValidatorsNet> {
    await using stack = new AsyncDisposableStack();
    // A space in the path is on purpose.
    const folder = await mkdtemp(join(tmpdir(), "turnpike validators-"));
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const { layout } = await writeTestnet({
      home: join(folder, "testnet"),
      validators,
      chainId: CHAIN_ID,
      profile: CHAIN_PROFILES.fast,
      genesisTime: new Date().toISOString(),
      services: SERVICES,
      supplierUrls: ["http://127.0.0.1:1", "http://127.0.0.1:2"],
      ...FILES,
      ...(setup.times === undefined ? {} : { times: setup.times }),
      ...(setup.bondUpokt === undefined ? {} : { bondUpokt: setup.bondUpokt }),
    });
    const events: string[] = [];
    const onEvent = (text: string): void => void events.push(text);
    const programs = await findTestnetPrograms(process.env);
    const command = [process.execPath, setup.commandFile ?? COMMAND_FILE];
    await setup.prepare?.(layout);
    const modules = { programs, command, env: process.env, clock: systemClock, onEvent };
    const running = stack.use(await RunningTestnet.start({ layout }, modules));
    return new ValidatorsNet(layout, running, events, stack.move());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#owned.disposeAsync();
  }

  /** Ends the nodes; their folders stay until this is disposed of. */
  stopNodes(): Promise<void> {
    return this.running[Symbol.asyncDispose]();
  }

  /** Names of the nodes. */
  get names(): readonly string[] {
    return this.running.testnet.nodes.map(({ name }) => name);
  }

  /** Names of the nodes that run and are reached. */
  get present(): readonly string[] {
    return this.names.filter((name) => !this.#away.has(name));
  }

  urls(name: string): ReturnType<typeof addressesOf> {
    return addressesOf(nodeNamed(this.running.testnet, name));
  }

  async kill(name: string): Promise<void> {
    this.#away.add(name);
    await this.running.killNode(name);
  }

  async cutOff(name: string): Promise<void> {
    this.#away.add(name);
    await this.running.cutOff(name);
  }

  /** Brings a killed node back; resolves when its RPC answers. */
  async revive(name: string): Promise<void> {
    await this.running.startNode(name);
    this.#away.delete(name);
  }

  async reconnect(name: string): Promise<void> {
    await this.running.reconnect(name);
    this.#away.delete(name);
  }

  /** Writes one more node, starts it, and waits until it follows the others. @returns its name */
  async addNode(timeoutMs: number): Promise<string> {
    const shared = sharedInput(FILES, FILES.times.commitMs);
    const { node } = await joinTestnet({ home: this.layout.folder, shared }, { clock: systemClock });
    // A node without a state takes no transactions.
    this.#away.add(node.name);
    await this.running.startNode(node.name);
    await this.caughtUp(node.name, timeoutMs);
    this.#away.delete(node.name);
    return node.name;
  }

  async status(name: string): Promise<NodeStatus | undefined> {
    await using client = new ChainClient({ url: this.urls(name).rpc, timeoutMs: ASK_MS }, { clock: systemClock });
    try {
      const answer = await client.call("status", {});
      assert.ok(answer.ok);
      const info = answer.result.sync_info as Readonly<Record<string, unknown>>;
      return {
        latest: BigInt(String(info.latest_block_height)),
        earliest: BigInt(String(info.earliest_block_height)),
        isCatchingUp: info.catching_up === true,
      };
    } catch (error) {
      if (isAppError(error, "CHAIN_UNREACHABLE")) return undefined;
      throw error;
    }
  }

  /** Newest block that a node that is present tells of. */
  async height(): Promise<bigint> {
    const all = await Promise.all(this.present.map((name) => this.status(name)));
    return all.reduce((most, one) => (one !== undefined && one.latest > most ? one.latest : most), 0n);
  }

  /** Waits for so many further blocks. @returns milliseconds */
  async moreBlocks(count: bigint, timeoutMs: number): Promise<number> {
    const wanted = (await this.height()) + count;
    return this.until(`block ${wanted}`, timeoutMs, async () => (await this.height()) >= wanted);
  }

  /** Waits until a node follows the others: it is at most a block behind, and votes. @returns milliseconds */
  async caughtUp(name: string, timeoutMs: number): Promise<number> {
    return this.until(`${name} to catch up`, timeoutMs, async () => {
      const one = await this.status(name);
      return one !== undefined && !one.isCatchingUp && one.latest + 1n >= (await this.height());
    });
  }

  /** Asks until something is so. @returns milliseconds that it took */
  async until(what: string, timeoutMs: number, isSo: () => Promise<boolean>): Promise<number> {
    const startMs = performance.now();
    while (!(await isSo())) {
      if (performance.now() - startMs > timeoutMs) {
        const states = await Promise.all(this.names.map(async (name) => [name, (await this.status(name))?.latest]));
        assert.fail(`waited ${timeoutMs} ms for ${what}; heights ${states.join(" ")}; ${this.events.join("; ")}`);
      }
      await delay(LOOK_MS);
    }
    return performance.now() - startMs;
  }
}
