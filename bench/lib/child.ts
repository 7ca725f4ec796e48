import { type ChildProcess, fork } from "node:child_process";
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
}

const CPU = "process.cpu";
const END_TIMEOUT_MS = 10_000;

/**
 * Starts a module as a child process. The parent's node options are passed on, so that
 * `node --cpu-prof bench/run.ts …` profiles every child too.
 */
export async function startChild<Ops extends Operations>(file: string): Promise<Child<Ops>> {
  const child = fork(file, { serialization: "advanced", stdio: ["ignore", "inherit", "inherit", "ipc"] });
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

/** The child's side: answers its parent until that lets go of it, then releases what it owns and ends. */
export function serveParent<Ops extends Operations>(operations: Ops, owned?: AsyncDisposable): Ops {
  const answer = async (message: unknown): Promise<void> => {
    if (!isRecord(message)) return;
    const { id, name, params } = message;
    try {
      const operation = operations[String(name)];
      const value = name === CPU ? ownCpuMicros() : await operation?.(params as never);
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
