import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { eventually, PATIENCE_MS } from "@turnpike/testkit";
import { type Answer, call } from "../support/payer.ts";
import type { ChildMessage, ChildOrder } from "./child.ts";

/** A gateway or facilitator in a process of its own, which kills itself at its fault point. */
export interface Child extends AsyncDisposable {
  readonly url: string;
  /** Resolves when the process is gone, with the signal that ended it. */
  readonly exited: Promise<NodeJS.Signals | null>;
}

/** Starts a child and waits until it listens. */
export async function startChild(order: ChildOrder): Promise<Child> {
  const child: ChildProcess = fork(new URL("./child.ts", import.meta.url), {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const exited = once(child, "exit").then(([, signal]: unknown[]) => signal as NodeJS.Signals | null);
  const { promise: listening, resolve, reject } = Promise.withResolvers<string>();
  child.on("message", (message: ChildMessage) => {
    if (message.kind === "listening") resolve(message.url);
    else reject(new TypeError(message.message));
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
  return {
    url,
    exited,
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
      await exited;
    },
  };
}

/** Pause before the same signature is presented again. */
const RETRY_MS = 50;
/** Longest wait for the end of a purchase: two services start meanwhile. */
const PURCHASE_MS = 2 * PATIENCE_MS;

/**
 * Presents the same signature until it is answered for good, as a buyer should: on a broken connection and on 503.
 * Returns every status on the way and the last answer.
 */
export async function callUntilAnswered(
  url: string,
  body: unknown,
  header: string,
): Promise<{ readonly statuses: readonly number[]; readonly answer: Answer }> {
  const statuses: number[] = [];
  const look = async (): Promise<Answer | undefined> => {
    const answer = await call(url, body, header).catch(() => undefined);
    statuses.push(answer?.status ?? 0);
    if (answer !== undefined && answer.status !== 503) return answer;
    await pause(RETRY_MS);
    return undefined;
  };
  return { statuses, answer: await eventually("an answer other than 503", look, PURCHASE_MS) };
}

/**
 * Presents the same signature, on 503 again and again, until the child has come to its fault point and is gone.
 * @throws AssertionError with what it answered instead.
 */
export async function callUntilKilled(child: Child, body: unknown, header: string): Promise<void> {
  let isGone = false;
  const exited = child.exited.then((signal) => {
    isGone = true;
    assert.equal(signal, "SIGKILL", "it ended by itself, not at its fault point");
  });
  await eventually("the end at the fault point", async () => {
    const answer = isGone ? undefined : await call(`${child.url}/v1/eth`, body, header).catch(() => undefined);
    if (answer !== undefined && answer.status !== 503) assert.fail(`it lives, and answered ${answer.status}`);
    await Promise.race([exited, pause(RETRY_MS)]);
    return isGone;
  });
  await exited;
}

/** A TCP proxy to a loopback port, whose connections can be cut. */
export interface Proxy extends AsyncDisposable {
  readonly url: string;
  /** Breaks all connections, and refuses new ones until {@link restore}. */
  cut(): void;
  /** Lets connections through again. @param port where to, when it has changed */
  restore(port?: number): void;
  /** Resolves when so many connections were refused since the last {@link cut}. */
  refused(count: number): Promise<void>;
}

/** Opens a {@link Proxy} to a loopback port. */
export async function openProxy(target: number): Promise<Proxy> {
  const sockets = new Set<Socket>();
  let port = target;
  let isCut = false;
  let refusals = 0;
  let waiting: { readonly count: number; readonly resolve: () => void }[] = [];
  const server: Server = createServer((inner) => {
    if (isCut) {
      inner.destroy();
      refusals++;
      for (const { count, resolve } of waiting) if (refusals >= count) resolve();
      waiting = waiting.filter(({ count }) => refusals < count);
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
  const breakAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut() {
      isCut = true;
      refusals = 0;
      breakAll();
    },
    restore(to = port) {
      port = to;
      isCut = false;
    },
    refused: (count) => new Promise((resolve) => waiting.push({ count, resolve })),
    async [Symbol.asyncDispose]() {
      breakAll();
      server.close();
    },
  };
}
