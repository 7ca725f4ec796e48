import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type Answer, call } from "../support/payer.ts";
import type { ChildOrder, ChildWord } from "./child.ts";

/** A gateway or facilitator in a process of its own, that can be killed. */
export interface Child extends AsyncDisposable {
  readonly url: string;
  /** Resolves when the fault point was reached. */
  readonly reached: Promise<void>;
  /** Resolves when the process is gone. */
  readonly exited: Promise<void>;
  /** Lets a held fault point go on. */
  resume(): void;
  kill(): Promise<void>;
}

/** Starts a child and waits until it listens. */
export async function startChild(order: ChildOrder): Promise<Child> {
  const child: ChildProcess = fork(new URL("./child.ts", import.meta.url), {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const exited = once(child, "exit").then(() => undefined);
  const { promise: reached, resolve: sayReached } = Promise.withResolvers<void>();
  const { promise: listening, resolve: sayListening, reject } = Promise.withResolvers<string>();
  child.on("message", (word: ChildWord) => {
    if (word.kind === "listening") sayListening(word.url);
    else if (word.kind === "reached") sayReached();
    else reject(new TypeError(word.message));
  });
  child.once("exit", () => reject(new TypeError("the child ended before it listened")));
  child.send(order);
  const url = await listening.catch((error: unknown) => {
    child.kill("SIGKILL");
    throw error;
  });
  // One that a failed test forgot does not keep this process from ending, with which it ends.
  child.unref();
  child.channel?.unref();
  const kill = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    await exited;
  };
  return { url, reached, exited, resume: () => child.send("resume"), kill, [Symbol.asyncDispose]: kill };
}

/** Longest wait for an answer for good. */
const INSIST_MS = 90_000;

/**
 * Presents the same signature until it is answered for good, as a buyer is told to: on a broken connection and on 503.
 * Returns every status on the way and the last answer.
 */
export async function insist(
  url: string,
  body: unknown,
  header: string,
): Promise<{ readonly statuses: readonly number[]; readonly answer: Answer }> {
  const statuses: number[] = [];
  const end = Date.now() + INSIST_MS;
  for (;;) {
    const answer = await call(url, body, header).catch(() => undefined);
    statuses.push(answer?.status ?? 0);
    if (answer !== undefined && answer.status !== 503) return { statuses, answer };
    if (Date.now() > end)
      throw new TypeError(`no end within ${INSIST_MS} ms: ${statuses.join()} ${answer?.text ?? ""}`);
    await sleep(250);
  }
}

/** Longest wait for a child to come to its fault point; on a busy machine its suppliers are probed late. */
const FAULT_MS = 60_000;

/**
 * Presents the same signature, on 503 again and again, until the child has come to its fault point and is gone.
 * @throws TypeError what it answered instead.
 */
export async function insistUntilGone(child: Child, body: unknown, header: string): Promise<void> {
  let isGone = false;
  const exited = child.exited.then(() => {
    isGone = true;
  });
  const end = Date.now() + FAULT_MS;
  while (!isGone) {
    const answer = await call(`${child.url}/v1/eth`, body, header).catch(() => undefined);
    const isFinal = answer !== undefined && answer.status !== 503;
    if (isFinal || Date.now() > end) throw new TypeError(`it answered ${answer?.status} and lives: ${answer?.text}`);
    await Promise.race([exited, sleep(250)]);
  }
}

/** A TCP door to a server that can be shut: connections through it break, new ones are refused. */
export interface Door extends AsyncDisposable {
  readonly url: string;
  shut(): void;
  open(): void;
}

/** Opens a {@link Door} to a loopback port. */
export async function openDoor(port: number): Promise<Door> {
  const sockets = new Set<Socket>();
  let isOpen = true;
  const server: Server = createServer((inner) => {
    if (!isOpen) {
      inner.destroy();
      return;
    }
    const outer = connect(port, "127.0.0.1");
    for (const socket of [inner, outer]) {
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        sockets.delete(socket);
        inner.destroy();
        outer.destroy();
      });
    }
    inner.pipe(outer).pipe(inner);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    shut() {
      isOpen = false;
      for (const socket of sockets) socket.destroy();
    },
    open() {
      isOpen = true;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
