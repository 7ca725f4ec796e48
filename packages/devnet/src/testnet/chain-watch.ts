import { setTimeout as delay } from "node:timers/promises";
import { type Clock, isAppError, isRecord } from "@turnpike/base";
import { ChainClient } from "@turnpike/chain-client";

/** A node that is watched. */
export interface WatchedNode {
  readonly name: string;
  readonly rpc: string;
}

export interface ChainWatchOptions {
  /** Asked anew each time: nodes may join. */
  readonly nodes: () => readonly WatchedNode[];
  /** Time without a block after which the chain stands still; 10,000 by default. */
  readonly standMs?: number;
  /** Pause between looks; 1,000 by default. */
  readonly everyMs?: number;
  /** Time for a node to answer; 2,000 by default. */
  readonly askMs?: number;
}

export interface ChainWatchModules {
  readonly clock: Clock;
  /** Called when the chain stands still, and when it goes on, with a text for the operator. */
  readonly onEvent: (text: string) => void;
}

interface Look {
  readonly heightBlocks: bigint;
  readonly silent: readonly string[];
  /** A node that answers. */
  readonly rpc: string | undefined;
}

const STAND_MS = 10_000;
const EVERY_MS = 1_000;
const ASK_MS = 2_000;

const seconds = (ms: number): string => `${Math.round(ms / 1_000)} s`;

/** What CometBFT's `consensus_state` says of the votes of the round that does not end; empty when it says nothing. */
export function votesText(result: unknown): string {
  const state = isRecord(result) && isRecord(result.round_state) ? result.round_state : {};
  const rounds: readonly unknown[] = Array.isArray(state.height_vote_set) ? state.height_vote_set : [];
  const place = state["height/round/step"];
  if (typeof place !== "string") return "";
  const [height, number = "0"] = place.split("/");
  const round = rounds.find((one) => isRecord(one) && one.round === Number(number));
  const { prevotes_bit_array: prevotes, precommits_bit_array: precommits } = isRecord(round) ? round : {};
  return `round ${number} of block ${height} has prevotes ${String(prevotes)}, precommits ${String(precommits)}`;
}

/** Sees to it that a chain that stands still says so: more than two thirds of the votes are needed for a block. */
export class ChainWatch implements AsyncDisposable {
  readonly #options: ChainWatchOptions;
  readonly #modules: ChainWatchModules;
  readonly #stopping = new AbortController();
  readonly #over: Promise<void>;

  constructor(options: ChainWatchOptions, modules: ChainWatchModules) {
    this.#options = options;
    this.#modules = modules;
    this.#over = this.#watch();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#over;
  }

  async #watch(): Promise<void> {
    const { clock, onEvent } = this.#modules;
    const { standMs = STAND_MS, everyMs = EVERY_MS } = this.#options;
    const { signal } = this.#stopping;
    let heightBlocks = 0n;
    let sinceMs = clock.monotonicMs();
    let isSaid = false;
    while (!signal.aborted) {
      const look = await this.#look();
      const nowMs = clock.monotonicMs();
      if (look.heightBlocks > heightBlocks) {
        if (isSaid) onEvent(`the chain goes on with block ${look.heightBlocks} after ${seconds(nowMs - sinceMs)}`);
        [heightBlocks, sinceMs, isSaid] = [look.heightBlocks, nowMs, false];
      } else if (!isSaid && nowMs - sinceMs >= standMs && !signal.aborted) {
        isSaid = true;
        onEvent(await this.#standText(look, heightBlocks, nowMs - sinceMs));
      }
      await delay(everyMs, undefined, { signal }).catch(() => {});
    }
  }

  async #look(): Promise<Look> {
    const answers = await Promise.all(
      this.#options.nodes().map(async ({ name, rpc }) => {
        const heightBlocks = await this.#ask(
          rpc,
          async (client, signal) => (await client.status(signal)).latestHeightBlocks,
        );
        return { name, rpc, heightBlocks };
      }),
    );
    let newest = 0n;
    for (const { heightBlocks = 0n } of answers) if (heightBlocks > newest) newest = heightBlocks;
    return {
      heightBlocks: newest,
      silent: answers.filter(({ heightBlocks }) => heightBlocks === undefined).map(({ name }) => name),
      rpc: answers.find(({ heightBlocks }) => heightBlocks !== undefined)?.rpc,
    };
  }

  async #standText({ silent, rpc }: Look, heightBlocks: bigint, forMs: number): Promise<string> {
    const stands = `the chain stands still at block ${heightBlocks} for ${seconds(forMs)}`;
    const votes = rpc === undefined ? undefined : await this.#ask(rpc, (client, signal) => votesOf(client, signal));
    const from = silent.length === 0 ? "every node answers" : `no answer from ${silent.join(", ")}`;
    return [stands, from, votes ?? "", "a block needs more than two thirds of the votes"]
      .filter((it) => it !== "")
      .join("; ");
  }

  async #ask<T>(rpc: string, asking: (client: ChainClient, signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    const { askMs = ASK_MS } = this.#options;
    await using client = new ChainClient({ url: rpc, timeoutMs: askMs }, { clock: this.#modules.clock });
    try {
      return await asking(client, this.#stopping.signal);
    } catch (error) {
      if (isAppError(error) || this.#stopping.signal.aborted) return undefined;
      throw error;
    }
  }
}

async function votesOf(client: ChainClient, signal: AbortSignal): Promise<string> {
  const answer = await client.call("consensus_state", {}, signal);
  return answer.ok ? votesText(answer.result) : "";
}
