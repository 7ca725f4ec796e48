import { AppError } from "@turnpike/base";

/** What a {@link BodyStream} asks of the response that it is the body of. */
export interface BodySource {
  readonly pause: () => void;
  readonly resume: () => void;
  /** Nothing more of it is wanted. */
  readonly leave: () => void;
}

/** With more bytes waiting the source is paused. */
const MAX_WAITING_BYTES = 65_536;

/** A body that is read while it arrives, by one reader. Rejects when it breaks off. */
export class BodyStream implements AsyncIterable<Uint8Array> {
  readonly #source: BodySource;
  readonly #chunks: Uint8Array[] = [];
  #bytes = 0;
  #isPaused = false;
  #state: "open" | "ended" | "failed" = "open";
  #wake = (): void => {};

  constructor(source: BodySource) {
    this.#source = source;
  }

  push(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes > MAX_WAITING_BYTES && !this.#isPaused) {
      this.#isPaused = true;
      this.#source.pause();
    }
    this.#wake();
  }

  end(): void {
    if (this.#state === "open") this.#state = "ended";
    this.#wake();
  }

  fail(): void {
    if (this.#state === "open") this.#state = "failed";
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (;;) {
        const chunk = this.#state === "failed" ? undefined : this.#chunks.shift();
        if (chunk !== undefined) {
          this.#bytes -= chunk.length;
          if (this.#isPaused && this.#bytes <= MAX_WAITING_BYTES) {
            this.#isPaused = false;
            this.#source.resume();
          }
          yield chunk;
          continue;
        }
        if (this.#state === "ended") return;
        if (this.#state === "failed") throw new AppError("INTERNAL", { message: "The back-end broke off its stream." });
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      this.#source.leave();
    }
  }
}
