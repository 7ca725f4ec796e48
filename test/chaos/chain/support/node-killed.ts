import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { isAppError, systemClock } from "@turnpike/base";
import { ChainClient } from "@turnpike/chain-client";
import type { Random } from "../../../soak/random.ts";
import { type Checked, checkTold } from "./node-checks.ts";
import { type NodeFeed, openNodeFeed } from "./node-feed.ts";
import type { NodeHome, NodeSettings } from "./node-home.ts";
import { type Load, startLoad, tellAppHash } from "./node-load.ts";
import {
  type CometProcess,
  type FaultAt,
  HANG_MS,
  type NodeProcess,
  startCometProcess,
  startNodeProcess,
  within,
} from "./node-process.ts";
import type { Witness } from "./node-witness.ts";

const ASK_MS = 20;

/** Whom a kill hits. The embedded engine's node is one process. */
export type Hit = "ours" | "cometbft" | "both";

/** How long a restart took, from the start of the processes that were dead. */
export interface RestartTimes {
  readonly firstAnswerMs: number;
  readonly firstBlockMs: number;
}

/** A node that is started, killed and started again, with the witness of all that it ever told. */
export class KilledNode implements AsyncDisposable {
  readonly home: NodeHome;
  readonly witness: Witness;
  readonly counts = { txs: 0, queries: 0 };
  readonly #random: Random;
  #app: NodeProcess | undefined;
  #comet: CometProcess | undefined;
  /** Resolves when CometBFT was started, or will not be since our process ended before it was ready. */
  #cometStart: Promise<void> = Promise.resolve();
  #feed: NodeFeed | undefined;
  #load: Load | undefined;
  #startedMs = 0;
  #keptStatesBlocks = 0;

  constructor({ home }: { readonly home: NodeHome }, { witness, random }: { witness: Witness; random: Random }) {
    this.home = home;
    this.witness = witness;
    this.#random = random;
  }

  get app(): NodeProcess {
    return this.#app ?? assert.fail("the node was never started");
  }

  /** The subscriber of this start. */
  get feed(): NodeFeed {
    return this.#feed ?? assert.fail("the node is not up");
  }

  /**
   * Starts what does not run, and waits for nothing. CometBFT follows when our process listens: one that finds nothing
   * there waits for seconds before it looks again.
   */
  async start(settings: NodeSettings, fault?: FaultAt): Promise<void> {
    const { keepHeights } = settings;
    const file = await this.home.configure(settings);
    this.#startedMs = performance.now();
    if (this.#app?.isAlive() !== true) {
      if (keepHeights !== 0) {
        this.#keptStatesBlocks = Math.min(this.#keptStatesBlocks || keepHeights, keepHeights);
      }
      this.#app = startNodeProcess(this.home, file, fault);
    }
    if (this.home.engine !== "cometbft" || this.#comet?.isAlive() === true) return;
    this.#cometStart = this.app.ready.then(
      () => {
        this.#comet = startCometProcess(this.home);
      },
      () => undefined,
    );
  }

  /** Waits until the node answers, compares it with all that was told, and waits for a new block under load. */
  async up(): Promise<RestartTimes> {
    const urls = await within("the node's readiness", this.app.ready);
    await this.#cometStart;
    const rpc = this.#rpcUrl(urls);
    await using client = new ChainClient({ url: rpc }, { clock: systemClock });
    await this.#firstAnswer(client);
    const firstAnswerMs = performance.now() - this.#startedMs;
    const feed = openNodeFeed(rpc, this.witness);
    this.#feed = feed;
    const firstBlock = feed.firstBlock.then(() => performance.now() - this.#startedMs);
    firstBlock.catch(() => {});
    await checkTold(this.#checked(client));
    this.#load = startLoad(this.home, { rpc, rest: urls.rest ?? "" }, { witness: this.witness, random: this.#random });
    const firstBlockMs = await within("a new block", firstBlock);
    await tellAppHash(client, this.witness);
    return { firstAnswerMs, firstBlockMs };
  }

  /** Starts the load as soon as the node answers, where it may die at any moment. Never throws for its death. */
  async loadUntilDeath(): Promise<void> {
    const urls = await this.app.ready.catch(() => undefined);
    await this.#cometStart;
    if (urls === undefined) return;
    const rpc = this.#rpcUrl(urls);
    while (this.#isAlive()) {
      await using client = new ChainClient({ url: rpc }, { clock: systemClock });
      const answers = await client.status().then(
        () => true,
        () => false,
      );
      if (!answers) {
        await pause(ASK_MS);
        continue;
      }
      this.#feed = openNodeFeed(rpc, this.witness);
      this.#load = startLoad(
        this.home,
        { rpc, rest: urls.rest ?? "" },
        { witness: this.witness, random: this.#random },
      );
      return;
    }
  }

  /** SIGKILL, and the end of all that cannot live without. Faults that our process told of are faults of the run. */
  async kill(hit: Hit): Promise<void> {
    assert.ok(this.app.isAlive(), `the node ended by itself:\n${this.app.tail()}`);
    const [ours, comet] = [hit !== "cometbft", hit !== "ours"];
    // Ours alone may die before CometBFT is there.
    if (!ours) await this.#cometStart;
    await Promise.all([ours ? this.#app?.kill() : undefined, comet ? this.#comet?.kill() : undefined]);
    await this.buried(hit);
  }

  /** What follows a death: CometBFT gives up without its application, the load stops. */
  async buried(hit: Hit): Promise<void> {
    await this.#cometStart;
    if (hit === "ours" && this.#comet?.isAlive() === true) {
      // By itself, but not while it waits for its application at its start.
      const { exited, lonely, ending } = this.#comet;
      await within("the end of CometBFT", Promise.race([exited, lonely, ending]));
    }
    if (hit !== "cometbft") await this.#comet?.kill();
    if (hit === "cometbft") assert.ok(this.app.isAlive(), `the node died of CometBFT's death:\n${this.app.tail()}`);
    await this.#load?.[Symbol.asyncDispose]();
    this.counts.txs += this.#load?.counts.txs ?? 0;
    this.counts.queries += this.#load?.counts.queries ?? 0;
    this.#feed?.[Symbol.dispose]();
    this.#load = undefined;
    this.#feed = undefined;
    assert.deepEqual(this.app.faults, [], "faults in the node's log");
    this.witness.check();
  }

  /** Ends the node as an operator does. @returns our process' exit code */
  async end(): Promise<number | null> {
    await this.#cometStart;
    await this.#comet?.end();
    const code = await this.app.end();
    await this.buried("both");
    return code;
  }

  /** Does something; where it fails, the error says what was done, and what the processes wrote last. */
  async told<T>(what: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const why = error instanceof Error ? error.stack : String(error);
      const tails = `our process:\n${this.#app?.tail() ?? ""}\nCometBFT:\n${this.#comet?.tail() ?? ""}`;
      return assert.fail(`${this.home.engine}, ${what}: ${why}\n${tails}`);
    }
  }

  /** Address of the RPC of this start. */
  async rpcUrl(): Promise<string> {
    return this.#rpcUrl(await this.app.ready);
  }

  /** What the checks at the end need. */
  checkedBy(client: ChainClient): Checked {
    return this.#checked(client);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#app?.[Symbol.asyncDispose]();
    await this.#cometStart;
    await this.#comet?.[Symbol.asyncDispose]();
    await this.#load?.[Symbol.asyncDispose]();
    this.#feed?.[Symbol.dispose]();
  }

  #rpcUrl(urls: Readonly<Record<string, string>>): string {
    return urls.rpc ?? `http://127.0.0.1:${this.home.cometPort}`;
  }

  #checked(client: ChainClient): Checked {
    const { home, witness } = this;
    return { home, client, witness, random: this.#random, keptStatesBlocks: this.#keptStatesBlocks };
  }

  #isAlive(): boolean {
    return this.app.isAlive() && (this.home.engine === "embedded" || this.#comet?.isAlive() === true);
  }

  async #firstAnswer(client: ChainClient): Promise<void> {
    const endMs = performance.now() + HANG_MS;
    for (;;) {
      try {
        await client.status();
        return;
      } catch (error) {
        assert.ok(isAppError(error, "CHAIN_UNREACHABLE"), String(error));
        const tails = `${this.app.tail()}\n${this.#comet?.tail() ?? ""}`;
        assert.ok(this.#isAlive(), `the node ended by itself:\n${tails}`);
        assert.ok(performance.now() < endMs, `the node answers nothing:\n${tails}`);
        await pause(ASK_MS);
      }
    }
  }
}
