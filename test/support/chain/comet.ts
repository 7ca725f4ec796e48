import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { AppError } from "@turnpike/base";
import { type GenesisDocument, genesisFileText } from "@turnpike/chain";

const PROGRAM = process.env.COMETBFT ?? "cometbft";

function reasonToSkip(): string | false {
  const found = spawnSync(PROGRAM, ["version"], { encoding: "utf8" });
  if (found.status !== 0) return "cometbft is not installed";
  return found.stdout.trim().startsWith("0.38.") ? false : "cometbft is not of version 0.38";
}

/** What a test gives as `skip`: a reason, or false when the program is there. */
export const withoutComet: string | false = reasonToSkip();

/** Makes a home of CometBFT, and gives its validator's key, 32 bytes. */
export function initComet(home: string, commitMs: number): Uint8Array {
  const made = spawnSync(PROGRAM, ["init", "--home", home], { encoding: "utf8" });
  if (made.status !== 0) throw new AppError("DEPENDENCY_MISSING", { message: `cometbft init: ${made.stderr}` });
  const config = join(home, "config", "config.toml");
  const text = readFileSync(config, "utf8").replace(/^timeout_commit = .*$/m, `timeout_commit = "${commitMs}ms"`);
  writeFileSync(config, text);
  const key: unknown = JSON.parse(readFileSync(join(home, "config", "priv_validator_key.json"), "utf8"));
  return Buffer.from((key as { pub_key: { value: string } }).pub_key.value, "base64");
}

/** Gives a home our genesis. */
export function writeCometGenesis(home: string, genesis: GenesisDocument): void {
  writeFileSync(join(home, "config", "genesis.json"), genesisFileText(genesis));
}

/** A running CometBFT. */
export interface RunningComet extends AsyncDisposable {
  readonly rpcUrl: string;
}

/** Peer-to-peer addresses of this node and of the others. */
export interface CometPeers {
  readonly port: number;
  /** `id@host:port` of each other. */
  readonly peers: readonly string[];
}

/** Id of a home's node. */
export function cometNodeId(home: string): string {
  return spawnSync(PROGRAM, ["show-node-id", "--home", home], { encoding: "utf8" }).stdout.trim();
}

/** Lets a home's node have several peers on one machine. */
export function allowLocalPeers(home: string): void {
  const config = join(home, "config", "config.toml");
  const text = readFileSync(config, "utf8")
    .replace(/^addr_book_strict = .*$/m, "addr_book_strict = false")
    .replace(/^allow_duplicate_ip = .*$/m, "allow_duplicate_ip = true");
  writeFileSync(config, text);
}

/** Starts CometBFT against an application, and resolves once its RPC listens. @param rpcPort 0: any that is free */
export async function startComet(
  home: string,
  proxyApp: string,
  rpcPort = 0,
  { port, peers }: CometPeers = { port: 0, peers: [] },
): Promise<RunningComet> {
  const rpc = ["--rpc.laddr", `tcp://127.0.0.1:${rpcPort}`];
  const p2p = ["--p2p.laddr", `tcp://127.0.0.1:${port}`, "--p2p.persistent_peers", peers.join(",")];
  const args = ["start", "--home", home, "--proxy_app", proxyApp, "--log_level", "info", ...rpc, ...p2p];
  const child = spawn(PROGRAM, args, { stdio: ["ignore", "pipe", "inherit"] });
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  };
  const said: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    said.push(line);
    const [, port] = /Starting RPC HTTP server on 127\.0\.0\.1:(\d+)/.exec(line) ?? [];
    if (port === undefined) continue;
    // Leaving the loop closed the lines: what follows must still be read, or the program stands.
    child.stdout.resume();
    return { rpcUrl: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: stop };
  }
  throw new AppError("DEPENDENCY_MISSING", { message: `cometbft start: ${said.slice(-5).join("\n")}` });
}
