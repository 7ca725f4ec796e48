import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { AppError } from "@turnpike/base";
import { CHAIN_ID, testAppState } from "./chain.ts";

const PROGRAM = process.env.COMETBFT ?? "cometbft";

function reasonToSkip(): string | false {
  const found = spawnSync(PROGRAM, ["version"], { encoding: "utf8" });
  if (found.status !== 0) return "cometbft is not installed";
  return found.stdout.trim().startsWith("0.38.") ? false : "cometbft is not of version 0.38";
}

/** What a test gives as `skip`: a reason, or false when the program is there. */
export const withoutComet: string | false = reasonToSkip();

/** A process that says things, and its end. */
export interface Running extends AsyncDisposable {
  readonly process: ChildProcess;
  readonly lines: Interface;
}

/** Runs a program; what it says on its output is read line by line. */
export function run(program: string, args: readonly string[]): Running {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  return {
    process: child,
    lines,
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exit = once(child, "exit");
      child.kill("SIGKILL");
      await exit;
    },
  };
}

/** Makes a home of CometBFT with quick blocks, and with our genesis: its validator stands in `app_state` alone. */
export function makeHome(home: string): Record<string, unknown> {
  const made = spawnSync(PROGRAM, ["init", "--home", home], { encoding: "utf8" });
  if (made.status !== 0) throw new AppError("DEPENDENCY_MISSING", { message: `cometbft init: ${made.stderr}` });
  const config = join(home, "config", "config.toml");
  const text = readFileSync(config, "utf8").replace(/^timeout_commit = .*$/m, 'timeout_commit = "100ms"');
  writeFileSync(config, text);
  const key: unknown = JSON.parse(readFileSync(join(home, "config", "priv_validator_key.json"), "utf8"));
  const appState = testAppState((key as { pub_key: { value: string } }).pub_key.value);
  const genesisFile = join(home, "config", "genesis.json");
  const genesis = JSON.parse(readFileSync(genesisFile, "utf8")) as Record<string, unknown>;
  delete genesis.validators;
  writeFileSync(genesisFile, JSON.stringify({ ...genesis, chain_id: CHAIN_ID, app_state: appState }));
  return { ...genesis, appState };
}

/** What CometBFT's program says to a command. */
export function askComet(...args: readonly string[]): string {
  return spawnSync(PROGRAM, args, { encoding: "utf8" }).stdout.trim();
}

/** Starts CometBFT against an application, and gives it with its RPC's URL once it listens. */
export async function startComet(
  home: string,
  proxyApp: string,
  opts: { readonly p2pPort?: number } = {},
): Promise<{ running: Running; url: string }> {
  const free = ["--rpc.laddr", "tcp://127.0.0.1:0", "--p2p.laddr", `tcp://127.0.0.1:${opts.p2pPort ?? 0}`];
  const running = run(PROGRAM, ["start", "--home", home, "--proxy_app", proxyApp, "--log_level", "info", ...free]);
  const said: string[] = [];
  for await (const line of running.lines) {
    said.push(line);
    const [, port] = /Starting RPC HTTP server on 127\.0\.0\.1:(\d+)/.exec(line) ?? [];
    if (port === undefined) continue;
    // Leaving the loop closed the lines: what follows must still be read, or the program stands.
    running.process.stdout?.resume();
    return { running, url: `http://127.0.0.1:${port}` };
  }
  throw new AppError("DEPENDENCY_MISSING", { message: `cometbft start: ${said.slice(-5).join("\n")}` });
}
