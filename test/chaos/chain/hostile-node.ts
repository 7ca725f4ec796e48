import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { AppError, isRecord } from "@turnpike/base";
import { type GenesisDocument, LOCAL_ROLES, type LocalRole } from "@turnpike/chain";
import type { ChainSigner } from "@turnpike/chain-client";
import { consensusKeyOf } from "@turnpike/chain-node";
import { initChain, namedKey } from "@turnpike/devnet";
import { freePort } from "@turnpike/localnet";
import { initComet, startComet } from "../../support/chain/comet.ts";
import { QUICK_PROFILE } from "../../support/chain/local-chain.ts";
import type { EngineName } from "../../support/chain/nodes.ts";

/** A chain's node in a process of its own, and what its attackers and its honest users know. */
export interface ChainProcess extends AsyncDisposable {
  readonly genesis: GenesisDocument;
  readonly home: string;
  readonly signers: Readonly<Record<LocalRole, ChainSigner>>;
  readonly rpcUrl: string;
  readonly restUrl: string;
  /** `host:port` */
  readonly grpcTarget: string;
  /** Of the process that `turnpike chain start` is. */
  readonly pid: number;
  /** @throws AssertionError when the process ended. */
  assertRuns(): void;
  /** Ends the process as an operator does, and resolves when it is gone. */
  stop(): Promise<void>;
  /** Lines of its log of level `warn` and above. */
  warnings(): Promise<readonly string[]>;
}

const PROGRAM = join(import.meta.dirname, "..", "..", "..", "apps", "turnpike", "bin", "turnpike.js");
/** Time between blocks, in milliseconds. */
export const BLOCK_MS = 200;

/** Makes the chain's folder; CometBFT's own files are in it, too, when that is the engine. */
async function makeHome(engine: EngineName, home: string): Promise<GenesisDocument> {
  if (engine === "cometbft") {
    initComet(home, BLOCK_MS);
    await rm(join(home, "config", "genesis.json"));
  } else await mkdir(home, { recursive: true });
  return await initChain({
    home,
    keysFolder: join(home, "keys"),
    chainId: "pocket",
    profile: QUICK_PROFILE,
    genesisTime: new Date().toISOString(),
    services: [
      { id: "eth", name: "Ethereum" },
      { id: "rest", name: "A REST service" },
    ],
    supplierUrls: ["http://127.0.0.1:1", "http://127.0.0.1:2"],
    consensusKey: await consensusKeyOf(home),
  });
}

/** Starts `turnpike chain start` on a new chain, under an engine. */
export async function startChainProcess(engine: EngineName): Promise<ChainProcess> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "turnpike-hostile-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const home = join(folder, "home");
  const genesis = await makeHome(engine, home);
  const signers = {} as Record<LocalRole, ChainSigner>;
  for (const role of LOCAL_ROLES) signers[role] = (await namedKey(join(home, "keys"), role)).signer;
  const abciAddress = `unix://${join(folder, "abci.sock")}`;
  // CometBFT's RPC must be known before CometBFT runs.
  const cometPort = engine === "cometbft" ? await freePort() : 0;
  const config = join(folder, "turnpike.yaml");
  const chain = {
    home,
    engine,
    blockIntervalMs: BLOCK_MS,
    abciAddress,
    ...(engine === "cometbft" ? { cometRpcUrl: `http://127.0.0.1:${cometPort}` } : {}),
    rpc: { port: 0 },
    rest: { port: 0 },
    grpc: { port: 0 },
  };
  await writeFile(config, JSON.stringify({ chain }));
  const child = spawn(process.execPath, [PROGRAM, "chain", "start", "--json", "--config", config], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = once(child, "exit");
  const logFile = join(folder, "log.jsonl");
  child.stderr.pipe(createWriteStream(logFile));
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
    await exited;
  };
  stack.defer(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    await exited;
  });
  const [line] = (await Promise.race([once(createInterface({ input: child.stdout }), "line"), exited])) as [unknown];
  if (typeof line !== "string") {
    throw new AppError("INTERNAL", { message: `chain start: ${await readFile(logFile, "utf8")}` });
  }
  child.stdout.resume();
  const said: unknown = JSON.parse(line);
  assert.ok(isRecord(said) && typeof said.rest === "string" && typeof said.grpc === "string");
  const comet = engine === "cometbft" ? stack.use(await startComet(home, abciAddress, cometPort)) : undefined;
  const owned = stack.move();
  return {
    genesis,
    home,
    signers,
    rpcUrl: comet?.rpcUrl ?? String(said.rpc),
    restUrl: said.rest,
    grpcTarget: said.grpc,
    pid: child.pid ?? 0,
    assertRuns() {
      assert.deepEqual([child.exitCode, child.signalCode], [null, null], "the node's process ended");
    },
    async stop() {
      await comet?.[Symbol.asyncDispose]();
      await stop();
    },
    async warnings() {
      const lines = (await readFile(logFile, "utf8")).split("\n").filter((text) => text !== "");
      return lines.filter((text) => {
        const record: unknown = text.startsWith("{") ? JSON.parse(text) : undefined;
        return !isRecord(record) || record.level === "warn" || record.level === "error";
      });
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Memory of a process that is its own, not a file's, in MB. @throws Error when there is none */
export async function ownMemoryMb(pid: number): Promise<number> {
  const [, kb = "0"] = /^RssAnon:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kb) / 1_024;
}
