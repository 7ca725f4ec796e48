import { spawn } from "node:child_process";
import { closeSync, fstatSync, openSync, renameSync, statSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { AppError, type Log, writePidFile } from "@turnpike/base";
import {
  childExit,
  createDocumentDigest,
  devRpc,
  endChild,
  endWithParent,
  type ListenAddress,
  type LocalPostgres,
  StateKeeper,
  saveChainState,
  startAnvil,
  startEvmGuard,
  startPostgres,
  trimChainState,
} from "@turnpike/localnet";
import type { UpPorts } from "../ports.ts";
import { EMPTY_BLOCK_SECONDS } from "./configs.ts";
import { localGet, untilOk } from "./http-ready.ts";
import type { LocalKeys } from "./keys.ts";
import { prepareEvm } from "./prepare-evm.ts";
import type { StateLayout } from "./state-layout.ts";
import { neverExits, type Part, type RunningPart } from "./supervisor.ts";

const MAX_LOG_BYTES = 16 * 1024 * 1024;
/** A day and a half of empty blocks. */
const KEPT_BLOCKS = 10_000;
const HISTORY_BLOCKS = 1_000;
const PROBE_MS = 10_000;
const nothing = (): Promise<void> => Promise.resolve();

/** Opens a log for appending; a large one is put aside first, replacing the one before. */
function openLog(file: string): number {
  try {
    if (statSync(file).size > MAX_LOG_BYTES) renameSync(file, `${file}.1`);
  } catch {
    // not there yet
  }
  return openSync(file, "a", 0o600);
}

/** A child process that runs the command itself with other arguments. */
export interface ChildOptions {
  readonly name: string;
  /** The program and its arguments. */
  readonly command: readonly [string, ...string[]];
  readonly logFile: string;
  readonly pidFile: string;
  /** Answers 200 when the child is ready; without one it is ready when it has ended with code 0. */
  readonly readyUrl?: string;
}

/** A part that is a child process. */
export function childPart(options: ChildOptions): Part {
  const { name, logFile, pidFile, readyUrl } = options;
  const [program, ...args] = options.command;
  let logStart = 0;
  const start = async (): Promise<RunningPart> => {
    const log = openLog(logFile);
    logStart = fstatSync(log).size;
    // its own group: Ctrl-C on the terminal reaches the supervisor alone, which ends the parts in order
    const child = spawn(program, args, { stdio: ["ignore", log, log], detached: true });
    closeSync(log);
    const exited = childExit(child);
    const release = endWithParent(child);
    if (child.pid !== undefined) await writePidFile(pidFile, child.pid);
    const stop = async (signal: NodeJS.Signals, timeoutMs: number): Promise<void> => {
      await endChild(child, signal, timeoutMs);
      release();
      await rm(pidFile, { force: true });
    };
    return {
      exited: readyUrl === undefined ? neverExits : exited,
      ready: async (signal) => {
        if (readyUrl !== undefined) return untilOk(readyUrl, signal);
        const gone = new Promise<never>((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        });
        const { code } = await Promise.race([exited, gone]);
        await rm(pidFile, { force: true });
        if (code !== 0) {
          const words = await lastWords(logFile, logStart);
          throw new AppError("PART_FAILED", {
            message: `${name} failed.${words === "" ? "" : ` ${words}`} See ${logFile}.`,
          });
        }
      },
      // Any status is an answer: a part that is up and waits for another one says 503.
      ...(readyUrl === undefined
        ? {}
        : { probe: async (signal) => (await localGet(readyUrl, PROBE_MS, signal)) !== undefined }),
      stop: () => stop("SIGTERM", 12_000),
      kill: () => stop("SIGKILL", 0),
    };
  };
  return { name, logFile, start, lastWords: () => lastWords(logFile, logStart) };
}

/** The error that a command printed last, or else its last line. */
async function lastWords(file: string, start: number): Promise<string> {
  const bytes = await readFile(file).catch(() => Buffer.alloc(0));
  const lines = bytes.subarray(start).toString("utf8").trim().split("\n");
  const at = lines.findLastIndex((line) => line.startsWith("error "));
  return (at === -1 ? lines.slice(-1) : lines.slice(at, at + 3)).join("\n").slice(0, 2_000);
}

/** The ledger's database, in the state folder. `onStart` gets the running server. */
export function postgresPart(
  layout: StateLayout,
  port: number,
  onStart: (server: LocalPostgres) => Promise<void>,
): Part {
  const logFile = layout.logFile("postgres");
  let fixedPort = port;
  const start = async (): Promise<RunningPart> => {
    closeSync(openLog(logFile));
    const server = await startPostgres({ dataDir: layout.postgresFolder, port: fixedPort, logFile, durable: true });
    // the children know this port: after a restart it must be the same
    fixedPort = server.port;
    await onStart(server);
    return {
      exited: server.exited,
      ready: nothing,
      stop: async () => server[Symbol.asyncDispose](),
      kill: () => server.kill(),
    };
  };
  return { name: "postgres", logFile, start };
}

/** The local chain, which keeps its state in the state folder. It does what every caller says: see {@link evmGuardPart}. */
export function anvilPart(
  layout: StateLayout,
  address: ListenAddress,
  keys: LocalKeys,
  modules: { readonly log: Log },
): Part {
  const logFile = layout.logFile("anvil");
  const stateFile = layout.evmStateFile;
  const start = async (): Promise<RunningPart> => {
    closeSync(openLog(logFile));
    await trimChainState(stateFile, KEPT_BLOCKS).catch(() => false);
    const anvil = await startAnvil({
      ...address,
      blockTimeSeconds: EMPTY_BLOCK_SECONDS,
      mixedMining: true,
      accounts: 0,
      stateFile,
      logFile,
      quiet: true,
      // unbounded, it writes each block's whole state below the home folder
      args: ["--prune-history", String(HISTORY_BLOCKS), "--cache-path", layout.evmCacheFolder],
    });
    const { url } = anvil;
    await writePidFile(layout.pidFile("anvil"), anvil.pid);
    await prepareEvm(url, keys);
    await saveChainState(url, stateFile);
    const keeper = new StateKeeper({ url, file: stateFile }, modules);
    void anvil.exited.then(() => keeper[Symbol.asyncDispose]());
    const end = async (stop: () => Promise<void>): Promise<void> => {
      await keeper[Symbol.asyncDispose]();
      await stop();
      await rm(layout.pidFile("anvil"), { force: true });
    };
    return {
      exited: anvil.exited,
      ready: nothing,
      probe: async (signal) => (await devRpc(url, "eth_chainId", [], signal)) !== undefined,
      stop: () =>
        end(async () => {
          await saveChainState(url, stateFile).catch(() => {});
          await anvil[Symbol.asyncDispose]();
        }),
      kill: () => end(() => anvil.kill()),
    };
  };
  return { name: "anvil", logFile, start };
}

/** The way in to the local chain, for all but this process. */
export function evmGuardPart(ports: UpPorts, { host, port }: ListenAddress): Part {
  const start = async (): Promise<RunningPart> => {
    const guard = await startEvmGuard({ port: ports.evm, target: `http://${host}:${port}` });
    const stop = async (): Promise<void> => guard[Symbol.asyncDispose]();
    return { exited: neverExits, ready: nothing, stop, kill: stop };
  };
  return { name: "evm-guard", start };
}

/** The back-ends that are no chain, inside this process. */
export function toolsPart(port: number): Part {
  const start = async (): Promise<RunningPart> => {
    const server = await createDocumentDigest({ port });
    const stop = async (): Promise<void> => server[Symbol.asyncDispose]();
    return { exited: neverExits, ready: nothing, stop, kill: stop };
  };
  return { name: "tools", start };
}
