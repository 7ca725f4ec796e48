import type { cometAbci } from "@turnpike/proto";
import type { AnswerOutput } from "./answer-output.ts";

type Answer = cometAbci.Response["value"];

export interface AnswerQueueModules {
  readonly output: AnswerOutput;
  /** Called once when the connection fails while an answer is written. */
  readonly failed: (cause: unknown) => void;
}

/**
 * Pending answers of one connection. They are computed concurrently and sent in the order of their requests, so that a query
 * that waits for I/O does not delay the start of the next ones.
 */
export class AnswerQueue {
  readonly #modules: AnswerQueueModules;
  readonly #waiting: Promise<Answer>[] = [];
  #sending: Promise<void> | undefined;

  constructor(modules: AnswerQueueModules) {
    this.#modules = modules;
  }

  /** Number of answers that are not sent yet. */
  get length(): number {
    return this.#waiting.length;
  }

  /** Appends a pending answer. @param answer must not reject */
  push(answer: Promise<Answer>): void {
    this.#waiting.push(answer);
    this.#sending ??= this.#send();
  }

  /** Resolves when all pending answers are sent. */
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
