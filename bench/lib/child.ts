import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { AppError, isRecord } from "@turnpike/base";

/** What a child process can be asked: operations by name, each of one structured-clone argument. */
export type Operations = Readonly<Record<string, (params: never) => Promise<unknown>>>;

type ParamsOf<F> = F extends (params: infer P) => Promise<unknown> ? P : never;
type ResultOf<F> = F extends (params: never) => Promise<infer R> ? R : never;

/** A child process of a benchmark, seen from its parent. */
export interface Child<Ops extends Operations> extends AsyncDisposable {
  readonly pid: number;
  /** Runs one operation in the child. Throws what it threw, as text. */
  ask<Name extends keyof Ops & string>(name: Name, params: ParamsOf<Ops[Name]>): Promise<ResultOf<Ops[Name]>>;
  /** CPU time of all threads of the child since it started, in microseconds. */
  cpuMicros(): Promise<number>;
  /** Bytes of the child; `collect` collects its garbage first. */
  memory(collect: boolean): Promise<ProcessMemory>;
}

/** Bytes of a process. */
export interface ProcessMemory {
  readonly rssBytes: number;
  /** What its objects and buffers take; with what is garbage when that was not collected. */
  readonly liveBytes: number;
}

const CPU = "process.cpu";
const MEMORY = "process.memory";
const END_TIMEOUT_MS = 10_000;

/**
 * Starts a module as a child process. The parent's node options are passed on, so that
 * `node --cpu-prof bench/run.ts …` profiles every child too.
 */
export function startChild<Ops extends Operations>(file: string): Promise<Child<Ops>> {
  return attach(file, fork(file, { serialization: "advanced", stdio: ["ignore", "inherit", "inherit", "ipc"] }));
}

/** A program that prints a line when it is ready, and was observed from its start. */
export interface Program<Ops extends Operations> extends Child<Ops> {
  /** Its first line. */
  readonly line: string;
}

/**
 * Starts a program as it is, with a module loaded before it that answers its parent by {@link serveParent}. Resolves with
 * its first line of output.
 */
export async function startProgram<Ops extends Operations>(
  file: string,
  options: { readonly args: readonly string[]; readonly observer: string; readonly cwd: string },
): Promise<Program<Ops>> {
  const forked = fork(file, [...options.args], {
    cwd: options.cwd,
    execArgv: [...process.execArgv, "--import", options.observer],
    serialization: "advanced",
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  const lines = createInterface({ input: forked.stdout ?? process.stdin });
  const first = once(lines, "line").then(([line]: readonly unknown[]) => String(line));
  const child = await attach<Ops>(file, forked);
  const gone = once(forked, "exit").then(([code, signal]: readonly unknown[]) => {
    throw new AppError("INTERNAL", {
      message: `A program ended (${String(code ?? signal)}): ${options.args.join(" ")}`,
    });
  });
  gone.catch(() => {});
  return { ...child, line: await Promise.race([first, gone]) };
}

async function attach<Ops extends Operations>(file: string, child: ChildProcess): Promise<Child<Ops>> {
  const waiting = new Map<
    number,
    { readonly resolve: (value: unknown) => void; readonly reject: (error: Error) => void }
  >();
  let ended = false;
  let count = 0;
  const exit = new Promise<void>((resolve) => {
    child.once("exit", (code, signal) => {
      ended = true;
      const error = new AppError("INTERNAL", { message: `A benchmark's child ended (${code ?? signal}): ${file}` });
      for (const { reject } of waiting.values()) reject(error);
      resolve();
    });
  });
  const ask = (name: string, params: unknown): Promise<unknown> => {
    if (ended) return Promise.reject(new AppError("INTERNAL", { message: `A benchmark's child has ended: ${file}` }));
    const id = count++;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    waiting.set(id, { resolve, reject });
    child.send({ id, name, params });
    return promise;
  };
  await new Promise<void>((resolve, reject) => {
    child.on("message", (message: unknown) => {
      if (!isRecord(message)) return;
      if (message.ready === true) return resolve();
      const entry = waiting.get(Number(message.id));
      waiting.delete(Number(message.id));
      if (message.ok === true) entry?.resolve(message.value);
      else entry?.reject(new AppError("INTERNAL", { message: String(message.error) }));
    });
    void exit.then(() => reject(new AppError("INTERNAL", { message: `A benchmark's child did not start: ${file}` })));
  });
  return {
    pid: child.pid ?? 0,
    ask: (name, params) => ask(name, params) as Promise<never>,
    cpuMicros: async () => Number(await ask(CPU, undefined)),
    memory: (collect) => ask(MEMORY, collect) as Promise<ProcessMemory>,
    [Symbol.asyncDispose]: () => end(child, exit),
  };
}

async function end(child: ChildProcess, exit: Promise<void>): Promise<void> {
  if (child.connected) child.disconnect();
  const timer = setTimeout(() => child.kill("SIGKILL"), END_TIMEOUT_MS);
  await exit;
  clearTimeout(timer);
}

/** CPU time of all threads of this process, in microseconds. */
export function ownCpuMicros(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

function ownMemory(collect: boolean): ProcessMemory {
  if (collect) {
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as () => void;
    gc();
    gc();
  }
  const { rss, heapUsed, external } = process.memoryUsage();
  return { rssBytes: rss, liveBytes: heapUsed + external };
}

const OWN: Readonly<Record<string, (params: unknown) => unknown>> = {
  [CPU]: ownCpuMicros,
  [MEMORY]: (collect) => ownMemory(collect === true),
};

/** The child's side: answers its parent until that lets go of it, then releases what it owns and ends. */
export function serveParent<Ops extends Operations>(operations: Ops, owned?: AsyncDisposable): Ops {
  const answer = async (message: unknown): Promise<void> => {
    if (!isRecord(message)) return;
    const { id, name, params } = message;
    try {
      const own = OWN[String(name)];
      const value = own === undefined ? await operations[String(name)]?.(params as never) : own(params);
      process.send?.({ id, ok: true, value });
    } catch (error) {
      process.send?.({ id, ok: false, error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
    }
  };
  process.on("message", (message) => void answer(message));
  process.once("disconnect", () => {
    void Promise.resolve(owned?.[Symbol.asyncDispose]()).finally(() => process.exit(0));
  });
  process.send?.({ ready: true });
  return operations;
}
