import assert from "node:assert/strict";
import type { DescMessage, DescMethodUnary, MessageInitShape } from "@bufbuild/protobuf";
import { createMessage, encodeMessage } from "@turnpike/proto";
import type { BlockFeed } from "./block-feed.ts";
import type { RawAnswer, Strangers } from "./strangers.ts";

/** A question of the whole run. */
export type Question =
  | { readonly kind: "abci"; readonly path: string; readonly data: string }
  | { readonly kind: "grpc"; readonly path: string; readonly data: string }
  | { readonly kind: "rest"; readonly path: string };

/** A query over `abci_query`, or over gRPC. */
export function question<I extends DescMessage, O extends DescMessage>(
  kind: "abci" | "grpc",
  method: DescMethodUnary<I, O>,
  request: MessageInitShape<I>,
): Question {
  const data = Buffer.from(encodeMessage(method.input, createMessage(method.input, request))).toString("hex");
  return { kind, path: `/${method.parent.typeName}/${method.name}`, data };
}

interface AbciAnswer {
  readonly height: string;
  readonly code: number;
}

interface Kept {
  readonly question: Question;
  readonly heightBlocks: bigint;
  readonly answer: string;
}

function assertSame({ question: asked, heightBlocks, answer }: Kept, again: string): void {
  assert.equal(again, answer, `${asked.kind} ${asked.path} at ${heightBlocks}`);
}

// CometBFT takes ten requests in one batch.
const BATCH = 10;

/**
 * Asks the same questions after every block, and later each of them again at its height. Answers of refusal carry no
 * height: those of `abci_query` are kept where the batch began and ended at one height.
 */
export class PastAnswers {
  readonly #questions: readonly Question[];
  readonly #strangers: Strangers;
  readonly #rpcUrl: string;
  readonly #kept = new Map<string, Kept>();
  #asking: Promise<void> | undefined;
  #failure: unknown;
  readonly #stop: () => void;

  constructor(
    options: { readonly rpcUrl: string; readonly questions: readonly Question[] },
    modules: { readonly feed: BlockFeed; readonly strangers: Strangers },
  ) {
    this.#questions = options.questions;
    this.#rpcUrl = options.rpcUrl;
    this.#strangers = modules.strangers;
    this.#stop = modules.feed.onBlock(() => {
      // On a slow machine a block passes by unasked.
      this.#asking ??= this.#askNow()
        .catch((error: unknown) => {
          this.#failure ??= error;
        })
        .finally(() => {
          this.#asking = undefined;
        });
    });
  }

  /** Resolves when the questions of the newest block that was heard of are answered. */
  async asked(): Promise<void> {
    await this.#asking;
  }

  /** Ends the asking, asks everything again, and gives how many answers were the same. */
  async check(): Promise<{ readonly heights: number; readonly answers: number }> {
    this.#stop();
    await this.#asking;
    assert.ifError(this.#failure);
    const byHeight = Map.groupBy(this.#kept.values(), ({ heightBlocks }) => heightBlocks);
    for (const [heightBlocks, kept] of byHeight) {
      const abci = kept.filter(({ question: asked }) => asked.kind === "abci");
      const others = kept.filter(({ question: asked }) => asked.kind !== "abci");
      for (let from = 0; from < abci.length; from += BATCH) {
        const some = abci.slice(from, from + BATCH);
        const questions = some.map(({ question: asked }) => asked);
        const again = await this.#abci(questions, heightBlocks);
        for (const [i, one] of some.entries()) assertSame(one, JSON.stringify(again[i]));
      }
      await Promise.all(
        others.map(async (one) => assertSame(one, (await this.#one(one.question, heightBlocks)).value)),
      );
    }
    return { heights: byHeight.size, answers: this.#kept.size };
  }

  async #askNow(): Promise<void> {
    const abci = this.#questions.filter(({ kind }) => kind === "abci");
    const others = this.#questions.filter(({ kind }) => kind !== "abci");
    await Promise.all([
      ...Array.from({ length: Math.ceil(abci.length / BATCH) }, (_, i) =>
        this.#keepAbci(abci.slice(i * BATCH, (i + 1) * BATCH)),
      ),
      ...others.map(async (asked) => {
        const { value, heightBlocks } = await this.#one(asked);
        if (heightBlocks > 0n) this.#keep(asked, heightBlocks, value);
      }),
    ]);
  }

  async #keepAbci(questions: readonly Question[]): Promise<void> {
    const answers = await this.#abci(questions, 0n);
    const [first, last] = [answers[0], answers.at(-1)];
    assert.ok(first && last && first.code === 0 && last.code === 0, "the first and the last question have an answer");
    if (first.height !== last.height) return;
    for (const [i, asked] of questions.entries()) {
      this.#keep(asked, BigInt(first.height), JSON.stringify(answers[i]));
    }
  }

  #keep(asked: Question, heightBlocks: bigint, answer: string): void {
    const key = `${JSON.stringify(asked)} ${heightBlocks}`;
    const known = this.#kept.get(key);
    if (known === undefined) this.#kept.set(key, { question: asked, heightBlocks, answer });
    else assert.equal(answer, known.answer, `${asked.path} asked twice at ${heightBlocks}`);
  }

  #one(asked: Question, heightBlocks?: bigint): Promise<RawAnswer> {
    if (asked.kind === "rest") return this.#strangers.rest(asked.path, heightBlocks);
    return this.#strangers.grpc(asked.path, Buffer.from(asked.kind === "grpc" ? asked.data : "", "hex"), heightBlocks);
  }

  async #abci(questions: readonly Question[], heightBlocks: bigint): Promise<AbciAnswer[]> {
    const body = questions.map((asked, id) => ({
      jsonrpc: "2.0",
      id,
      method: "abci_query",
      params: { path: asked.path, data: "data" in asked ? asked.data : "", height: `${heightBlocks}` },
    }));
    const headers = { "content-type": "application/json" };
    const response = await fetch(this.#rpcUrl, { method: "POST", headers, body: JSON.stringify(body) });
    type Answer = { readonly result: { readonly response: AbciAnswer } };
    const answers = (await response.json()) as Answer | readonly Answer[];
    // CometBFT answers a batch of one without a list.
    return [answers].flat().map(({ result }) => result.response);
  }
}
