import { setTimeout as delay } from "node:timers/promises";
import { isAppError, systemClock } from "@turnpike/base";
import { ChainClient, signTx } from "@turnpike/chain-client";
import { chanceOf } from "@turnpike/testkit/chance";
import { ACTORS, GROUND_STATE, SIGNERS } from "../../../packages/chain/test/generated/actors.ts";
import { LiveChain } from "../../../packages/chain/test/generated/live-chain.ts";
import { drawStep } from "../../../packages/chain/test/generated/steps.ts";

export interface GeneratedLoadOptions {
  readonly chainId: string;
  readonly seed: string;
  readonly everyMs: number;
  /** RPC of the nodes that are there now; they take turns. */
  readonly targets: () => readonly string[];
}

const ASK_MS = 3_000;
const TIMEOUT_NANOS = 300_000_000_000n;
const MAX_GAS = 20_000_000n;

/** Random transactions of the generator of histories, plausible ones and changed ones, to the nodes of a real net. */
export class GeneratedLoad implements AsyncDisposable {
  sent = 0;
  accepted = 0;
  refused = 0;
  /** Requests that no node answered: it was killed meanwhile. */
  unanswered = 0;
  readonly #options: GeneratedLoadOptions;
  readonly #stopping = new AbortController();
  readonly #sending: Promise<void>;
  readonly #clients = new Map<string, ChainClient>();
  readonly #numbers = new Map<string, bigint>();
  #mark = 0n;

  constructor(options: GeneratedLoadOptions) {
    this.#options = options;
    this.#sending = this.#send();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#sending;
    for (const client of this.#clients.values()) await client[Symbol.asyncDispose]();
  }

  #client(turn: number): ChainClient | undefined {
    const urls = this.#options.targets();
    const url = urls[turn % urls.length];
    if (url === undefined) return undefined;
    const client = this.#clients.get(url) ?? new ChainClient({ url, timeoutMs: ASK_MS }, { clock: systemClock });
    this.#clients.set(url, client);
    return client;
  }

  async #send(): Promise<void> {
    const { signal } = this.#stopping;
    const chance = chanceOf(this.#options.seed);
    // The records that plausible messages name are those of the generator's own genesis.
    const ctx = LiveChain.start(GROUND_STATE).context();
    for (let turn = 0; !signal.aborted; turn++) {
      const step = drawStep({ chance, ctx }, chance.often(0.6));
      const client = this.#client(turn);
      try {
        if (step !== undefined && client !== undefined) await this.#broadcast(client, step);
      } catch (error) {
        if (isAppError(error, "TX_FAILED")) this.refused++;
        else if (isAppError(error)) this.unanswered++;
        else throw error;
      }
      await delay(this.#options.everyMs, undefined, { signal }).catch(() => {});
    }
  }

  async #broadcast(client: ChainClient, step: NonNullable<ReturnType<typeof drawStep>>): Promise<void> {
    const signer = SIGNERS[step.signer];
    const accountNumber = this.#numbers.get(step.signer) ?? (await client.account(signer.address))?.accountNumber;
    if (accountNumber === undefined) return;
    this.#numbers.set(step.signer, accountNumber);
    const timeoutNanos = BigInt(Date.now()) * 1_000_000n + TIMEOUT_NANOS + this.#mark++;
    const gasLimit = step.gasLimit > MAX_GAS ? step.gasLimit : MAX_GAS / 40n;
    const { chainId } = this.#options;
    const order = { kind: "unordered", timeoutNanos } as const;
    const { messages, fee, memo } = step;
    this.sent++;
    const { code } = await client.broadcast(
      signTx({ messages, fee, memo, gasLimit, chainId, accountNumber, order }, signer),
    );
    if (code === 0) this.accepted++;
    else this.refused++;
  }
}

/** Addresses that the load sends from, to be funded. */
export const LOAD_ADDRESSES: readonly string[] = ACTORS.map((actor) => SIGNERS[actor].address);
