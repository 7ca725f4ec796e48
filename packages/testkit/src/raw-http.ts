import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { connect, type Socket } from "node:net";

/** One response, read off a raw socket. */
export interface RawResponse {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** A connection that takes any bytes. */
export interface RawClient extends AsyncDisposable {
  readonly socket: Socket;
  /** What went wrong with the connection, such as a reset. */
  readonly errors: readonly string[];
  write(text: string): void;
  /** All responses up to the connection's end. */
  all(): Promise<readonly RawResponse[]>;
  /** The next `count` responses. */
  next(count?: number): Promise<readonly RawResponse[]>;
  /** Resolves when the server has ended the connection. */
  readonly closed: Promise<void>;
}

/** Opens a raw connection to a port of this machine. */
export async function openRaw(port: number): Promise<RawClient> {
  const socket = connect({ host: "127.0.0.1", port, allowHalfOpen: true });
  let text = "";
  let wake = (): void => {};
  const { promise: closed, resolve: close } = Promise.withResolvers<void>();
  socket.on("data", (part) => {
    text += part.toString("latin1");
    wake();
  });
  const errors: string[] = [];
  socket.on("error", (error) => errors.push(error.message));
  const done = (): void => {
    close();
    wake();
  };
  socket.once("end", done).once("close", done);
  await new Promise<void>((resolve) => socket.once("connect", () => resolve()));
  let taken = 0;
  let ended = false;
  void closed.then(() => {
    ended = true;
  });
  return {
    socket,
    errors,
    closed,
    write: (bytes) => void socket.write(bytes, "latin1"),
    async all() {
      await closed;
      return readResponses(text).responses;
    },
    async next(count = 1) {
      for (;;) {
        const { responses } = readResponses(text);
        if (responses.length >= taken + count || ended) {
          const found = responses.slice(taken, taken + count);
          taken += found.length;
          return found;
        }
        await Promise.race([
          closed,
          new Promise<void>((resolve) => {
            wake = resolve;
          }),
        ]);
      }
    },
    async [Symbol.asyncDispose]() {
      socket.destroy();
    },
  };
}

/** Reads whole responses off a text; what is left of it begins at `rest`. */
function readResponses(text: string): { readonly responses: RawResponse[]; readonly rest: number } {
  const responses: RawResponse[] = [];
  let at = 0;
  for (;;) {
    const end = text.indexOf("\r\n\r\n", at);
    if (end === -1) return { responses, rest: at };
    const [first = "", ...lines] = text.slice(at, end).split("\r\n");
    const headers = new Map(
      lines.map((line) => [line.split(":", 1)[0]?.toLowerCase() ?? "", line.replace(/^[^:]*: /, "")]),
    );
    const status = Number(/^HTTP\/1\.1 ([0-9]{3}) /.exec(first)?.[1]);
    const length = status === 100 || status === 204 || status === 304 ? 0 : Number(headers.get("content-length") ?? 0);
    if (text.length < end + 4 + length) return { responses, rest: at };
    responses.push({ status, headers, body: text.slice(end + 4, end + 4 + length) });
    at = end + 4 + length;
  }
}

/**
 * Status of a GET as a web page sends it whose name was pointed at a port of this machine (DNS rebinding): to its browser
 * it is of the server's own origin.
 */
export async function reboundStatus(port: number, path: string): Promise<number> {
  const headers = { host: `evil.example:${port}` };
  const sent = request({ host: "127.0.0.1", port, path, headers, agent: false }).end();
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  answer.resume();
  await once(answer, "end");
  return answer.statusCode ?? 0;
}
