import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { isRecord } from "@turnpike/base";
import type { NodeHome } from "./node-home.ts";

const MAIN = join(import.meta.dirname, "../../../../apps/turnpike/bin/turnpike.js");
const FAULT_CHILD = join(import.meta.dirname, "node-fault-child.ts");
const PROGRAM = process.env.COMETBFT ?? "cometbft";
const KEPT_LINES = 40;

/** Longest time that anything may take which a healthy node does in seconds: it finds what hangs, not what is slow. */
export const HANG_MS = 120_000;

/** The same as the promise, but no later than {@link HANG_MS}. @throws AssertionError */
export async function within<T>(what: string, promise: Promise<T>): Promise<T> {
  const stop = new AbortController();
  const late = pause(HANG_MS, undefined, { signal: stop.signal }).then(
    () => assert.fail(`${what}: nothing within ${HANG_MS} ms`),
    () => new Promise<never>(() => {}),
  );
  try {
    return await Promise.race([promise, late]);
  } finally {
    stop.abort();
  }
}

/** A process that is there to be killed. */
export interface Victim extends AsyncDisposable {
  /** `performance.now()` when it was started. */
  readonly startedMs: number;
  readonly exited: Promise<void>;
  readonly isAlive: () => boolean;
  /** What it wrote last. */
  readonly tail: () => string;
  /** SIGKILL, and waits for its end. */
  kill(): Promise<void>;
  /** SIGTERM, and waits for its end; gives its exit code. */
  end(): Promise<number | null>;
}

type Listen = (line: string, from: "out" | "error") => void;

function startVictim(program: string, args: readonly string[], env: Record<string, string>, listen: Listen): Victim {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } });
  const lines: string[] = [];
  const read = (stream: NonNullable<typeof child.stdout>, from: "out" | "error") => {
    const input = createInterface({ input: stream });
    input.on("line", (line) => {
      lines.push(line);
      if (lines.length > KEPT_LINES) lines.shift();
      listen(line, from);
    });
    return once(input, "close");
  };
  const streams = [read(child.stdout, "out"), read(child.stderr, "error")];
  const exited = Promise.all([once(child, "exit"), ...streams]).then(() => undefined);
  const end = async (signal: "SIGKILL" | "SIGTERM"): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    await within(`the end by ${signal}`, exited);
  };
  return {
    startedMs: performance.now(),
    exited,
    isAlive: () => child.exitCode === null && child.signalCode === null,
    tail: () => lines.join("\n"),
    kill: () => end("SIGKILL"),
    async end() {
      await end("SIGTERM");
      return child.exitCode;
    },
    [Symbol.asyncDispose]: () => end("SIGKILL"),
  };
}

/** Where a fault point ends the process: the n-th time that it is reached, counted from 1. */
export interface FaultAt {
  readonly point: string;
  readonly nth: number;
}

/** Our process: `turnpike chain start`, or the same wiring with a fault point. */
export interface NodeProcess extends Victim {
  /** Its addresses, once it is ready. @throws AssertionError when it ends before */
  readonly ready: Promise<Readonly<Record<string, string>>>;
  /** Resolves when the store is open, or the process has ended. */
  readonly opened: Promise<void>;
  /** Lines of its log that say a fault. */
  readonly faults: readonly string[];
  /** Fault points that it reached, in the order of the first time. */
  readonly reached: readonly string[];
  /** Blocks, the genesis among them, that were on the disk before it ended. */
  readonly written: () => number;
  /** It has ended at the fault point that it was started with. */
  readonly diedThere: () => boolean;
}

/** Starts our process with a configuration. */
export function startNodeProcess(home: NodeHome, config: string, fault?: FaultAt): NodeProcess {
  const faults: string[] = [];
  const reached: string[] = [];
  let written = 0;
  let diedThere = false;
  const ready = Promise.withResolvers<Readonly<Record<string, string>>>();
  const opened = Promise.withResolvers<void>();
  const listen: Listen = (line, from) => {
    if (from === "error") {
      if (line.includes('"msg":"chain store opened"')) opened.resolve();
      if (line.includes('"level":"error"') || line.startsWith("error ")) faults.push(line);
      return;
    }
    const said: unknown = line.startsWith("{") ? JSON.parse(line) : undefined;
    if (!isRecord(said)) return;
    if (said.ready === true) ready.resolve(said as Record<string, string>);
    if (typeof said.reached === "string") reached.push(said.reached);
    if (said.written === true) written++;
    if (said.dying === true) diedThere = true;
  };
  const args =
    fault === undefined
      ? [MAIN, "chain", "start", "--json", "--config", config]
      : [FAULT_CHILD, config, fault.point, `${fault.nth}`];
  const victim = startVictim(process.execPath, args, { NODE_COMPILE_CACHE: home.compileCache }, listen);
  void victim.exited.then(() => {
    opened.resolve();
    ready.reject(new assert.AssertionError({ message: `the node ended before it was ready:\n${victim.tail()}` }));
  });
  // Whoever kills it while it starts does not wait for this.
  ready.promise.catch(() => {});
  const told = { written: () => written, diedThere: () => diedThere };
  return { ...victim, ready: ready.promise, opened: opened.promise, faults, reached, ...told };
}

/** CometBFT beside our process. */
export interface CometProcess extends Victim {
  /** Resolves when it finds no application where it looks for ours; it looks again until there is one. */
  readonly lonely: Promise<void>;
  /** Resolves when it begins to end. The end itself may not come: its parts sometimes wait for one another for ever. */
  readonly ending: Promise<void>;
}

/** Starts CometBFT beside our process. */
export function startCometProcess(home: NodeHome): CometProcess {
  const rpc = ["--rpc.laddr", `tcp://127.0.0.1:${home.cometPort}`, "--p2p.laddr", "tcp://127.0.0.1:0"];
  const args = ["start", "--home", home.layout.folder, "--proxy_app", home.abciAddress, "--log_level", "info", ...rpc];
  const lonely = Promise.withResolvers<void>();
  const ending = Promise.withResolvers<void>();
  const victim = startVictim(PROGRAM, args, {}, (line) => {
    if (line.includes("failed to connect to")) lonely.resolve();
    if (line.includes("captured terminated, exiting")) ending.resolve();
  });
  return { ...victim, lonely: lonely.promise, ending: ending.promise };
}
