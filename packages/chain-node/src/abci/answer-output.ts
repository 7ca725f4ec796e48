import { once } from "node:events";
import type { Socket } from "node:net";
import { cometAbci, createMessage, encodeMessage } from "@turnpike/proto";
import { encodeFrame } from "./frames.ts";

// Answers are sent together, at a flush or when this much waits.
const SEND_BYTES = 64 * 1024;

/** Answers that wait to be sent on a connection. */
export class AnswerOutput {
  readonly #socket: Socket;
  #waiting: Buffer[] = [];
  #sizeBytes = 0;
  readonly #gone = new AbortController();

  constructor(socket: Socket) {
    this.#socket = socket;
    // Once for all waits: a listener of each would stay for as long as the connection does.
    socket.once("close", () => this.#gone.abort());
  }

  /** Takes an answer; sends when much waits. */
  async add(value: cometAbci.Response["value"]): Promise<void> {
    const response = createMessage(cometAbci.ResponseSchema, { value });
    const frame = encodeFrame(encodeMessage(cometAbci.ResponseSchema, response));
    this.#waiting.push(frame);
    this.#sizeBytes += frame.length;
    if (this.#sizeBytes >= SEND_BYTES) await this.send();
  }

  /** Sends everything, and waits while the other side does not read. */
  async send(): Promise<void> {
    if (this.#waiting.length === 0) return;
    const bytes = Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#sizeBytes = 0;
    if (this.#socket.destroyed || this.#socket.write(bytes)) return;
    await once(this.#socket, "drain", { signal: this.#gone.signal });
  }

  /** Sends everything, and ends our side of the connection. */
  async end(): Promise<void> {
    await this.send();
    if (this.#socket.destroyed) return;
    const ended = once(this.#socket, "finish");
    this.#socket.end();
    await ended;
  }
}
