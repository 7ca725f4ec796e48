import { execFile, spawn } from "node:child_process";
import { closeSync, constants, existsSync, openSync } from "node:fs";
import { access, mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { AppError, commandLineOf } from "@turnpike/base";
import { LOCAL_CHAIN_ID } from "./constants.ts";
import { type ChildExit, childExit, endChild, endWithParent } from "./processes.ts";
import { devRpc } from "./rpc.ts";

const run = promisify(execFile);

export interface AnvilOptions {
  /** 84532 by default. */
  readonly chainId?: number;
  /** Loopback address; 127.0.0.1 by default. Every web page reaches anvil there: see `blockedAddress`. */
  readonly host?: string;
  /** Loopback port; 0 (the default) takes a free one. */
  readonly port?: number;
  /** Seconds between blocks; without it every transaction makes a block at once. */
  readonly blockTimeSeconds?: number;
  /** With a block time: a transaction makes a block at once too. */
  readonly mixedMining?: boolean;
  /** Mine only when `anvil_mine` asks for it. */
  readonly noMining?: boolean;
  /** Loaded at the start when it is there. Nothing is written to it: see `StateKeeper`. */
  readonly stateFile?: string;
  /** Where its output is appended; by default a temporary file that is removed at the end. */
  readonly logFile?: string;
  /** Says nothing of each call, so that its log stays small; needs a fixed {@link port}. */
  readonly quiet?: boolean;
  /** Development accounts that hold gas; 10 by default, 0 for none. */
  readonly accounts?: number;
  /** Most milliseconds until it answers; 20,000 by default. */
  readonly startTimeoutMs?: number;
  /** More arguments for the program. */
  readonly args?: readonly string[];
}

/** A running anvil. */
export interface Anvil extends AsyncDisposable {
  /** `http://<host>:<port>`; its WebSocket is at the same address. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Resolves when the program has ended, wanted or not. */
  readonly exited: Promise<ChildExit>;
  /** Ends it by force, as a crash would. */
  kill(): Promise<void>;
}

/**
 * The program's path: of the optional npm package, else on the PATH.
 * @throws AppError DEPENDENCY_MISSING when there is none.
 */
export async function findAnvil(): Promise<string> {
  if (process.platform === "linux" && process.arch === "x64") {
    try {
      const manifest = createRequire(import.meta.url).resolve("@foundry-rs/anvil-linux-amd64/package.json");
      const path = join(manifest, "..", "bin", "anvil");
      await access(path, constants.X_OK);
      return path;
    } catch {
      // optional: it may have been left out
    }
  }
  try {
    await run("anvil", ["--version"]);
    return "anvil";
  } catch (cause) {
    throw new AppError("DEPENDENCY_MISSING", {
      message:
        "The local chain needs the program anvil. On Linux x64 it comes with `npm ci` (not with --omit=optional); " +
        "elsewhere install Foundry (https://getfoundry.sh) and see that `anvil --version` works.",
      cause,
    });
  }
}

/** Starts an EVM chain on loopback and waits until it listens. */
export async function startAnvil(options: AnvilOptions = {}): Promise<Anvil> {
  const program = await findAnvil();
  const own = options.logFile === undefined ? await mkdtemp(join(tmpdir(), "turnpike-anvil-")) : undefined;
  const logFile = options.logFile ?? join(own ?? tmpdir(), "anvil.log");
  const removeOwn = async (): Promise<void> => {
    if (own !== undefined) await rm(own, { recursive: true, force: true });
  };
  // a file, not a pipe: an anvil that outlives its parent would die of the broken pipe and lose its state
  const log = openSync(logFile, "a");
  const start = (await readFile(logFile)).length;
  // by default old states go below the home folder, and stay there when it is killed
  const cache = own === undefined ? [] : ["--cache-path", join(own, "cache")];
  const child = spawn(program, [...anvilArguments(options), ...cache], { stdio: ["ignore", log, log], detached: true });
  closeSync(log);
  const exited = childExit(child);
  const release = endWithParent(child);
  const { pid } = child;
  const stop = async (signal: NodeJS.Signals, timeoutMs: number): Promise<void> => {
    await endChild(child, signal, timeoutMs);
    release();
    await removeOwn();
  };
  try {
    const port = await listeningPort(logFile, start, exited, options);
    if (pid === undefined) throw new AppError("DEPENDENCY_MISSING", { message: `${program} could not be started.` });
    return {
      url: `http://${hostOf(options)}:${port}`,
      port,
      pid,
      exited,
      kill: () => stop("SIGKILL", 0),
      [Symbol.asyncDispose]: () => stop("SIGINT", 10_000),
    };
  } catch (error) {
    await stop("SIGKILL", 0);
    throw error;
  }
}

function hostOf({ host = "127.0.0.1" }: AnvilOptions): string {
  return host;
}

/** The address of a running anvil by its command line; undefined for another program. */
export async function anvilUrlOf(pid: number): Promise<string | undefined> {
  const args = (await commandLineOf(pid)) ?? [];
  const option = (name: string): string | undefined => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);
  const [host, port] = [option("--host"), option("--port")];
  return host === undefined || port === undefined ? undefined : `http://${host}:${port}`;
}

/** The arguments for the options. */
function anvilArguments(options: AnvilOptions): string[] {
  const args = ["--host", hostOf(options), "--port", String(options.port ?? 0)];
  args.push("--chain-id", String(options.chainId ?? LOCAL_CHAIN_ID));
  if (options.noMining === true) args.push("--no-mining");
  if (options.blockTimeSeconds !== undefined) args.push("--block-time", String(options.blockTimeSeconds));
  if (options.mixedMining === true) args.push("--mixed-mining");
  if (options.accounts !== undefined) args.push("--accounts", String(options.accounts));
  if (options.stateFile !== undefined && existsSync(options.stateFile)) args.push("--load-state", options.stateFile);
  if (options.quiet === true) args.push("--quiet");
  if (options.args !== undefined) args.push(...options.args);
  return args;
}

async function listeningPort(
  logFile: string,
  start: number,
  exited: Promise<ChildExit>,
  options: AnvilOptions,
): Promise<number> {
  const timeoutMs = options.startTimeoutMs ?? 20_000;
  const until = performance.now() + timeoutMs;
  let ended = false;
  void exited.then(() => {
    ended = true;
  });
  for (;;) {
    const gone = ended;
    const text = (await readFile(logFile)).subarray(start).toString("utf8");
    const port = options.quiet === true ? await answeringPort(options) : portIn(text, hostOf(options));
    if (port !== undefined) return port;
    if (gone || performance.now() > until) {
      const code = text.includes("in use") ? "PORT_IN_USE" : "INTERNAL";
      const tail = text.trim().split("\n").slice(-5).join("\n");
      throw new AppError(code, {
        message: `The local chain did not start${gone ? "" : ` within ${timeoutMs} ms`}: ${tail}`,
      });
    }
    await delay(15);
  }
}

function portIn(text: string, host: string): number | undefined {
  const mark = `Listening on ${host}:`;
  const at = text.indexOf(mark);
  const port = at < 0 ? undefined : /^\d+/.exec(text.slice(at + mark.length))?.[0];
  return port === undefined ? undefined : Number(port);
}

async function answeringPort(options: AnvilOptions): Promise<number | undefined> {
  const port = options.port ?? 0;
  try {
    await devRpc(`http://${hostOf(options)}:${port}`, "eth_chainId");
    return port;
  } catch {
    return undefined;
  }
}
