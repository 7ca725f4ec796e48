import type { cometAbci } from "@turnpike/proto";
import type { AnswerOutput } from "./answer-output.ts";

type Answer = cometAbci.Response["value"];

/** What {@link AnswerQueue} works with. */
export interface AnswerQueueModules {
  readonly output: AnswerOutput;
  /** Is told when the other side is gone while an answer is sent. */
  readonly failed: (cause: unknown) => void;
}

/**
 * Answers of a connection that are being made at the same time, sent in the order of their requests: a query that waits for
 * something else lets the next ones begin.
 */
export class AnswerQueue {
  readonly #modules: AnswerQueueModules;
  readonly #waiting: Promise<Answer>[] = [];
  #sending: Promise<void> | undefined;

  constructor(modules: AnswerQueueModules) {
    this.#modules = modules;
  }

  /** Answers that are not sent yet. */
  get length(): number {
    return this.#waiting.length;
  }

  /** Adds an answer that is being made, and never rejects. */
  push(answer: Promise<Answer>): void {
    this.#waiting.push(answer);
    this.#sending ??= this.#send();
  }

  /** Resolves when everything is sent. */
  async sent(): Promise<void> {
    while (this.#sending !== undefined) await this.#sending;
  }

  async #send(): Promise<void> {
    const { output, failed } = this.#modules;
    try {
      for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
        const answer = await next;
        void this.#waiting.shift();
        await output.add(answer);
        if (this.#waiting.length === 0) await output.send();
      }
    } catch (cause) {
      this.#waiting.length = 0;
      failed(cause);
    } finally {
      this.#sending = undefined;
    }
  }
}
