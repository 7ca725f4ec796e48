import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { AppError, ConnectionGuard, guardConnections, type Log } from "@turnpike/base";

/** A server on this machine. */
export interface SplitterTarget {
  /** 127.0.0.1 by default. */
  readonly host?: string;
  readonly port: number;
}

/** Plain values of {@link startPortSplitter}. */
export interface PortSplitterOptions {
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
  /** Who gets connections that begin as HTTP/2 with prior knowledge does: gRPC. */
  readonly http2: SplitterTarget;
  /** Who gets all others. */
  readonly http1: SplitterTarget;
  /** How long a connection may say nothing before it has shown what it speaks. */
  readonly firstBytesTimeoutMs?: number;
  /** How long a connection may still send when its other side is done. */
  readonly lingerMs?: number;
  readonly maxConnections?: number;
  /** Maximum of one address, or one /64 of IPv6; 250 by default. */
  readonly maxConnectionsPerClient?: number;
}

/** A splitter that listens until it is disposed; then its connections end. */
export interface PortSplitter extends AsyncDisposable {
  readonly port: number;
  /** Connections that are open now. */
  connections(): number;
}

/** What an HTTP/2 client sends first (RFC 9113 §3.4), as far as it must be seen. No HTTP/1.1 request begins so. */
const PREFACE = Buffer.from("PRI * HTTP/2.0");

type Kind = "http1" | "http2";

/** What a connection speaks; undefined: more bytes are needed. */
function kindOf(first: Buffer): Kind | undefined {
  const seen = first.subarray(0, PREFACE.length);
  if (!seen.equals(PREFACE.subarray(0, seen.length))) return "http1";
  return seen.length === PREFACE.length ? "http2" : undefined;
}

/** The first bytes of a connection, and what they mean. */
interface FirstBytes {
  readonly kind: Kind;
  readonly bytes: Buffer;
}

/** Waits for as many bytes as show what a connection speaks; undefined when it ends, fails or says nothing in time. */
function firstBytes(client: Socket, timeoutMs: number): Promise<FirstBytes | undefined> {
  return new Promise((resolve) => {
    let bytes = Buffer.alloc(0);
    const finish = (found: FirstBytes | undefined): void => {
      clearTimeout(timer);
      client.off("data", onData).off("end", onEnd).off("close", onEnd);
      client.pause();
      resolve(found);
    };
    const onData = (part: Buffer): void => {
      bytes = Buffer.concat([bytes, part]);
      const kind = kindOf(bytes);
      if (kind !== undefined) finish({ kind, bytes });
    };
    const onEnd = (): void => finish(undefined);
    const timer = setTimeout(onEnd, timeoutMs);
    client.on("data", onData).on("end", onEnd).on("close", onEnd);
  });
}

/** Carries bytes both ways until both sides are done, or one of them fails. `pipe` holds back the quicker side. */
function join(client: Socket, target: Socket, lingerMs: number): void {
  const pairs = [
    [client, target],
    [target, client],
  ] as const;
  for (const [from, to] of pairs) {
    from.pipe(to);
    from.once("end", () => {
      from.setTimeout(lingerMs, () => from.destroy());
      to.setTimeout(lingerMs, () => to.destroy());
    });
    from.once("close", (hadError) => {
      if (hadError) to.destroy();
      else if (!to.writableFinished) to.end();
      to.setTimeout(lingerMs, () => to.destroy());
    });
  }
}

type SplitterOptions = PortSplitterOptions &
  Required<Pick<PortSplitterOptions, "firstBytesTimeoutMs" | "lingerMs" | "maxConnections">>;

class Splitter {
  readonly #opts: SplitterOptions;
  readonly #log: Log;
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;

  constructor(opts: SplitterOptions, log: Log) {
    this.#opts = opts;
    this.#log = log;
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      this.#track(client);
      void this.#serve(client);
    });
    guardConnections(this.#server, new ConnectionGuard(opts));
  }

  get connections(): number {
    return this.#sockets.size;
  }

  listen(): Promise<number> {
    const { host, port } = this.#opts;
    return new Promise((resolve, reject) => {
      this.#server.on("error", (cause: NodeJS.ErrnoException) => {
        this.#log.warn({ code: cause.code }, "the splitter's port failed");
        reject(new AppError("PORT_IN_USE", { message: `The splitter cannot listen on ${host}:${port}.`, cause }));
      });
      this.#server.listen({ host, port }, () => {
        const address = this.#server.address();
        resolve(typeof address === "object" && address !== null ? address.port : port);
      });
    });
  }

  async close(): Promise<void> {
    const stopped = once(this.#server, "close");
    this.#server.close();
    const ended = [...this.#sockets].map((socket) => once(socket, "close"));
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all([stopped, ...ended]);
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    socket.on("error", (error: NodeJS.ErrnoException) => {
      this.#log.debug({ code: error.code }, "a split connection failed");
    });
  }

  async #serve(client: Socket): Promise<void> {
    const first = await firstBytes(client, this.#opts.firstBytesTimeoutMs);
    if (first === undefined || client.destroyed || !this.#server.listening) {
      client.destroy();
      return;
    }
    const { host = "127.0.0.1", port } = this.#opts[first.kind];
    const target = connect({ host, port, allowHalfOpen: true, noDelay: true });
    this.#track(target);
    const refuse = (error: NodeJS.ErrnoException): void => {
      this.#log.warn({ kind: first.kind, port, code: error.code }, "a split port's server does not answer");
      client.setTimeout(this.#opts.lingerMs, () => client.destroy());
      client.resume();
      client.end(() => client.destroy());
    };
    const giveUp = (): void => {
      target.destroy();
    };
    target.once("error", refuse);
    client.once("close", giveUp);
    target.once("connect", () => {
      target.off("error", refuse);
      client.off("close", giveUp);
      target.write(first.bytes);
      join(client, target, this.#opts.lingerMs);
    });
  }
}

/**
 * Lets two servers share one port: looks at the first bytes of every connection and carries it to the one that speaks
 * HTTP/2, or to the other. When one of them is down, its connections are closed and the other's go on.
 * @throws AppError PORT_IN_USE
 */
export async function startPortSplitter(
  opts: PortSplitterOptions,
  modules: { readonly log: Log },
): Promise<PortSplitter> {
  const { firstBytesTimeoutMs = 10_000, lingerMs = 30_000, maxConnections = 1000 } = opts;
  const splitter = new Splitter({ ...opts, firstBytesTimeoutMs, lingerMs, maxConnections }, modules.log);
  const port = await splitter.listen();
  return {
    port,
    connections: () => splitter.connections,
    [Symbol.asyncDispose]: () => splitter.close(),
  };
}
