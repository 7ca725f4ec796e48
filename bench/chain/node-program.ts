import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { AppError } from "@turnpike/base";
import { genesisFileText } from "@turnpike/chain";
import { freePort } from "@turnpike/localnet";
import type { Ground } from "./ground.ts";
import { validatorKeyFileText } from "./ground.ts";

const COMMAND = join(import.meta.dirname, "../../apps/turnpike/bin/turnpike.js");
const ANSWER_TIMEOUT_MS = 60_000;
const LOOK_MS = 3;

/** Folder, configuration and ports of a node that runs as a process of its own. */
export interface NodeHome {
  readonly folder: string;
  readonly rpcPort: number;
  /** The command that starts it, without the program of Node. */
  readonly command: readonly string[];
}

/** Writes what `turnpike chain start` needs to a folder. */
export async function makeNodeHome({ genesis }: Ground, folder: string): Promise<NodeHome> {
  const [rpcPort, rest, grpc] = [await freePort(), await freePort(), await freePort()];
  await mkdir(join(folder, "config"), { recursive: true });
  await writeFile(join(folder, "config", "genesis.json"), genesisFileText(genesis));
  await writeFile(join(folder, "config", "priv_validator_key.json"), validatorKeyFileText(), { mode: 0o600 });
  const file = join(folder, "turnpike.json");
  const chain = { rpc: { port: rpcPort }, rest: { port: rest }, grpc: { port: grpc }, minGasPrices: "" };
  await writeFile(file, JSON.stringify({ log: { level: "warn" }, chain }));
  return { folder, rpcPort, command: [COMMAND, "chain", "start", "--home", folder, "--config", file] };
}

/** The result of a method of the node's RPC; undefined when nothing answers. */
export async function askNode(port: number, path: string): Promise<unknown> {
  try {
    const answer = (await (await fetch(`http://127.0.0.1:${port}/${path}`)).json()) as { readonly result?: unknown };
    return answer.result;
  } catch {
    return undefined;
  }
}

/** A process that is ended, and waited for, at the end. */
export interface Started extends AsyncDisposable {
  readonly pid: number;
  /** From its start to its first answer. */
  readonly firstAnswerMs: number;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await gone;
}

/** Starts a program of Node and waits until a port of it answers. @throws AppError when it does not */
export async function startAnswering(command: readonly string[], port: number, path: string): Promise<Started> {
  const startedMs = performance.now();
  const child = spawn(process.execPath, command, { stdio: ["ignore", "ignore", "inherit"] });
  while ((await askNode(port, path)) === undefined) {
    if (child.exitCode !== null || performance.now() - startedMs > ANSWER_TIMEOUT_MS) {
      await end(child);
      throw new AppError("INTERNAL", { message: `A program does not answer: ${command.join(" ")}` });
    }
    await pause(LOOK_MS);
  }
  const firstAnswerMs = performance.now() - startedMs;
  return { pid: child.pid ?? 0, firstAnswerMs, [Symbol.asyncDispose]: () => end(child) };
}

/** What the files of a folder occupy on the disk, in bytes. */
export async function folderBytes(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true });
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).blocks * 512));
  return sizes.reduce((sum, size) => sum + size, 0);
}
