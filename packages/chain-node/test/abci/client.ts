import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { cometAbci, createMessage, decodeMessage, encodeMessage } from "@turnpike/proto";
import { encodeFrame, FrameReader } from "../../src/abci/frames.ts";

type Request = cometAbci.Request["value"];
type Answer = cometAbci.Response["value"];

type Kind = NonNullable<Request["case"]> & NonNullable<Answer["case"]>;
type AnswerTo<C extends Kind> = Extract<Answer, { case: C }>["value"];

/** Asks over one connection, without a limit on what is under way. */
export class AbciClient {
  readonly #socket: Socket;
  readonly #answers: AsyncIterator<Answer>;

  constructor(address: string) {
    const [, port] = /:(\d+)$/.exec(address) ?? [];
    this.#socket = port === undefined ? connect(address.replace("unix://", "")) : connect(Number(port), "127.0.0.1");
    this.#answers = this.#read();
  }

  async *#read(): AsyncGenerator<Answer> {
    const reader = new FrameReader({ maxBytes: 2 ** 30 });
    for await (const chunk of this.#socket as AsyncIterable<Buffer>) {
      reader.push(chunk);
      for (let frame = reader.next(); frame.kind === "frame"; frame = reader.next()) {
        const decoded = decodeMessage(cometAbci.ResponseSchema, frame.body);
        assert.ok(decoded.ok);
        yield decoded.message.value;
      }
    }
  }

  send(value: Request): void {
    const request = createMessage(cometAbci.RequestSchema, { value });
    this.write(encodeFrame(encodeMessage(cometAbci.RequestSchema, request)));
  }

  write(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  async answer(): Promise<Answer | undefined> {
    const next = await this.#answers.next();
    return next.done === true ? undefined : next.value;
  }

  async ask<C extends Kind>(name: C, value: Extract<Request, { case: C }>["value"]): Promise<AnswerTo<C>> {
    this.send({ case: name, value } as Request);
    const answer = await this.answer();
    assert.equal(answer?.case, name, answer?.case === "exception" ? answer.value.error : "");
    return answer?.value as AnswerTo<C>;
  }

  close(): void {
    this.#socket.destroy();
  }
}
