import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { AppError } from "@turnpike/base";
import { freePort } from "@turnpike/localnet";
import { processCpuMicros, processRssBytes } from "../lib/process.ts";
import type { Side } from "./sides.ts";

/** A program that is no part of this repository, and how it is started. */
interface Program {
  /** Its configuration, in `bench/peers`. */
  readonly template: string;
  /** What the file is called in the program's folder. */
  readonly file: string;
  readonly args: readonly string[];
  /** Path of its JSON-RPC. */
  readonly path: string;
}

const PEERS = join(import.meta.dirname, "..", "peers");
const START_TIMEOUT_MS = 20_000;

const PROGRAMS: Readonly<Record<string, Program>> = {
  nginx: {
    template: "nginx.conf",
    file: "nginx.conf",
    args: ["-p", ".", "-c", "nginx.conf", "-e", "stderr"],
    path: "/",
  },
  erpc: { template: "erpc.yaml", file: "erpc.yaml", args: [], path: "/main/evm/1" },
  nodecore: { template: "nodecore.yml", file: "nodecore.yml", args: [], path: "/queries/ethereum" },
  proxyd: { template: "proxyd.toml", file: "proxyd.toml", args: ["proxyd.toml"], path: "/" },
};

/** Names of the programs that can be given by path. */
export const PROGRAM_NAMES: readonly string[] = Object.keys(PROGRAMS);

/** Folders of daemons that are not in everybody's `PATH`. */
const DAEMON_FOLDERS = ["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];

/** Path of an installed nginx; undefined when there is none. */
export function findNginx(): string | undefined {
  return DAEMON_FOLDERS.map((folder) => join(folder, "nginx")).find((path) => existsSync(path));
}

async function isListening(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ port, host: "127.0.0.1" });
  socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
  const answer = await promise;
  socket.destroy();
  return answer;
}

/** One answer to one call, so that a peer's own start-up is over. */
async function answers(port: number, path: string): Promise<boolean> {
  const body = '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}';
  const headers = { "content-type": "application/json" };
  try {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", headers, body });
    return response.ok && (await response.text()).includes('"result"');
  } catch {
    return false;
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), 5_000);
  await gone;
  clearTimeout(timer);
}

/**
 * Starts a program with its configuration of `bench/peers` in a folder of its own.
 * @throws AppError USAGE when it is not known, or does not answer
 */
export async function startProgram(name: string, file: string, upstreamPort: number): Promise<Side> {
  const program = Object.hasOwn(PROGRAMS, name) ? PROGRAMS[name] : undefined;
  if (program === undefined) {
    throw new AppError("USAGE", { message: `${name} is no peer; there are: ${PROGRAM_NAMES.join(", ")}.` });
  }
  const folder = await mkdtemp(join(tmpdir(), `bench-${name}-`));
  const port = await freePort();
  const values: Readonly<Record<string, number>> = {
    PORT: port,
    UPSTREAM_PORT: upstreamPort,
    METRICS_PORT: await freePort(),
  };
  const template = await readFile(join(PEERS, program.template), "utf8");
  const text = template.replaceAll(/__([A-Z_]+?)__/g, (_, key: string) => String(values[key]));
  await writeFile(join(folder, program.file), text);
  const child = spawn(file, program.args, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said = `${said}${chunk.toString()}`.slice(-2_000);
  });
  let fault: string | undefined;
  child.once("error", (error) => {
    fault = error.message;
  });
  const dispose = async (): Promise<void> => {
    if (fault === undefined) await end(child);
    await rm(folder, { recursive: true, force: true });
  };
  const untilMs = performance.now() + START_TIMEOUT_MS;
  while (!((await isListening(port)) && (await answers(port, program.path)))) {
    if (fault !== undefined || child.exitCode !== null || performance.now() > untilMs) {
      await dispose();
      throw new AppError("USAGE", { message: `${name} (${file}) does not answer. ${fault ?? said}` });
    }
    await pause(50);
  }
  const pid = child.pid ?? 0;
  return {
    name,
    port,
    host: "127.0.0.1",
    path: program.path,
    cpuMicros: () => Promise.resolve(processCpuMicros(pid)),
    rssBytes: () => processRssBytes(pid),
    [Symbol.asyncDispose]: dispose,
  };
}
