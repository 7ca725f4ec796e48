import assert from "node:assert/strict";
import { Agent, request } from "node:http";
import { connect } from "node:net";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { WebSocket } from "ws";

/** Longest time for any answer, on a machine that does much else. */
const ANSWER_MS = 60_000;
/** What no answer may have: parts of a stack, files of the program, a panic of Go. */
const INSIDES = /node_modules|\.ts:\d+|\n\s+at \S+ \(|file:\/\/\/|goroutine \d+ \[/;
/** A method of ours whose status says that the program has a fault, in gRPC's numbers. */
const GRPC_UNKNOWN = 2;
const ENDED: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE", "ECONNREFUSED"]);

/** Addresses of a node. */
export interface Doors {
  readonly rpcUrl: string;
  readonly restUrl: string;
  readonly grpcTarget: string;
}

/** An HTTP request to one of them. */
export interface HttpShot {
  readonly url: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** True where the server may end the connection instead of reading on: a body that is too large. */
  readonly mayBeCut?: boolean;
}

/** What came back: 0 and no text where the connection was cut, which had to be allowed. */
export interface HttpAnswer {
  readonly status: number;
  readonly text: string;
}

/** Sends what attackers send, and looks at every answer. */
export class HostileWire implements Disposable {
  // Servers end idle connections after some seconds; this side is faster.
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 40, timeout: 2_000 });
  readonly #grpc: Client;
  readonly #secrets: readonly string[];
  readonly #foreign: string | undefined;
  /** Requests that a foreign server ended without an answer. */
  cutByForeign = 0;
  /** Requests that a foreign server did not answer in time. */
  unansweredByForeign = 0;

  /**
   * @param secrets texts that no answer may hold, such as the node's folder
   * @param foreign address of a server that is not ours: what it does to connections is not judged
   */
  constructor(doors: Doors, secrets: readonly string[], foreign: string | undefined) {
    this.#foreign = foreign;
    this.#grpc = new Client(doors.grpcTarget, credentials.createInsecure(), { "grpc.max_receive_message_length": -1 });
    this.#secrets = secrets;
  }

  /** @throws AssertionError when it hangs, or says what it should not. */
  async http({ url, method = "GET", headers = {}, body, mayBeCut = false }: HttpShot): Promise<HttpAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<HttpAnswer>();
    const length: Record<string, number> = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
    const agent = mayBeCut ? false : this.#agent;
    const isForeign = this.#foreign !== undefined && url.startsWith(this.#foreign);
    const failed = (error: NodeJS.ErrnoException): void => {
      const isLate = isForeign && error instanceof assert.AssertionError;
      const isCut = (mayBeCut || isForeign) && ENDED.has(error.code ?? "");
      if (isLate) this.unansweredByForeign++;
      else if (isCut && !mayBeCut) this.cutByForeign++;
      if (isLate || isCut) resolve({ status: 0, text: "" });
      else reject(error);
    };
    const sent = request(url, { method, agent, headers: { ...length, ...headers } }, (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString() }));
      response.on("error", failed);
    });
    const late = setTimeout(
      () => sent.destroy(new assert.AssertionError({ message: `no answer: ${url.slice(0, 300)}` })),
      ANSWER_MS,
    );
    sent.on("error", failed);
    sent.end(body);
    try {
      const answer = await promise;
      this.#look(answer.text, url);
      return answer;
    } catch (cause) {
      if (cause instanceof assert.AssertionError) throw cause;
      throw new assert.AssertionError({ message: `${method} ${url.slice(0, 300)}: ${String(cause)}` });
    } finally {
      clearTimeout(late);
    }
  }

  /** JSON-RPC by POST: the answer must be JSON of the protocol. */
  async rpc(url: string, body: string, mayBeCut = false): Promise<unknown> {
    const { status, text } = await this.http({
      url,
      method: "POST",
      body,
      mayBeCut,
      headers: { "content-type": "application/json" },
    });
    if (status === 0 || text === "") return undefined;
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch {
      // A body that is too large is refused before it is JSON-RPC; CometBFT answers an empty one with a page of its routes.
      const isPage = body === "" && this.#foreign !== undefined && url.startsWith(this.#foreign);
      assert.ok(mayBeCut || status >= 400 || isPage, `${status} ${text.slice(0, 300)}`);
      return undefined;
    }
    for (const one of Array.isArray(answer) ? answer : [answer]) {
      assert.ok(typeof one === "object" && one !== null && ("result" in one || "error" in one), text.slice(0, 300));
    }
    return answer;
  }

  /** A call of gRPC: its status, 0 when it went well. */
  grpc(path: string, bytes: Uint8Array, height?: string): Promise<number> {
    const metadata = new Metadata();
    if (height !== undefined) metadata.set("x-cosmos-block-height", height);
    const options = { deadline: Date.now() + ANSWER_MS };
    const same = (value: Buffer): Buffer => value;
    return new Promise((resolve, reject) => {
      this.#grpc.makeUnaryRequest(path, same, same, Buffer.from(bytes), metadata, options, (error) => {
        const code = error?.code ?? 0;
        try {
          this.#look(error?.details ?? "", path);
          assert.notEqual(code, 4, `no answer: ${path}`);
          assert.ok(code !== GRPC_UNKNOWN || (error?.details ?? "") !== "", `${path}: a status without a text`);
          resolve(code);
        } catch (fault) {
          reject(fault);
        }
      });
    });
  }

  /** Sends messages on a WebSocket, and waits for so many answers or its end. */
  async socket(url: string, messages: readonly (string | Uint8Array)[], answers: number): Promise<void> {
    const socket = new WebSocket(`${url.replace(/^http/, "ws")}/websocket`, { handshakeTimeout: ANSWER_MS });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const late = setTimeout(
      () => reject(new assert.AssertionError({ message: "a WebSocket without an answer" })),
      ANSWER_MS,
    );
    let left = answers;
    socket.on("open", () => {
      for (const message of messages) socket.send(message, () => {});
      if (left === 0) resolve();
    });
    socket.on("message", (data: Buffer) => {
      try {
        this.#look(data.toString(), "a WebSocket");
      } catch (fault) {
        reject(fault);
      }
      if (--left <= 0) resolve();
    });
    socket.on("error", () => resolve());
    socket.on("close", () => resolve());
    try {
      await promise;
    } finally {
      clearTimeout(late);
      socket.terminate();
    }
  }

  /** Writes bytes to a port, and leaves when something came back or soon after. */
  async raw(authority: string, bytes: Uint8Array, leaveAfterMs: number): Promise<void> {
    const { hostname, port } = new URL(`http://${authority.replace(/^http:\/\//, "")}`);
    const socket = connect(Number(port), hostname);
    const { promise, resolve } = Promise.withResolvers<void>();
    const leave = setTimeout(resolve, leaveAfterMs);
    let text = "";
    socket.on("error", () => resolve());
    socket.on("close", () => resolve());
    socket.on("data", (part: Buffer) => {
      text += part.toString("latin1");
      resolve();
    });
    socket.write(bytes, () => {});
    await promise;
    clearTimeout(leave);
    socket.destroy();
    this.#look(text, "a bare connection");
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
    this.#grpc.close();
  }

  #look(text: string, what: string): void {
    const told = INSIDES.exec(text)?.[0] ?? this.#secrets.find((secret) => text.includes(secret));
    assert.equal(told, undefined, `${what.slice(0, 300)} tells of the machine: ${text.slice(0, 600)}`);
  }
}

/** Connections that send a byte now and then, and never a whole request, until they are let go. */
export function slowConnections(doors: Doors, each: number): Disposable {
  const { host: rpc } = new URL(doors.rpcUrl);
  const { host: rest } = new URL(doors.restUrl);
  const open = [rpc, rest, doors.grpcTarget].flatMap((authority) =>
    Array.from({ length: each }, () => {
      const [hostname = "", port = "0"] = authority.split(":");
      const socket = connect(Number(port), hostname);
      socket.on("error", () => {});
      socket.write("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n");
      return socket;
    }),
  );
  const drip = setInterval(() => {
    for (const socket of open) if (socket.writable) socket.write(" ");
  }, 500);
  return {
    [Symbol.dispose]() {
      clearInterval(drip);
      for (const socket of open) socket.destroy();
    },
  };
}
