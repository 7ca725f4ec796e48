import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text as textOfStream } from "node:stream/consumers";
import { after, afterEach, before, suite, test } from "node:test";
import { type AppError, isAppError, silentLog } from "@turnpike/base";
import { CHAIN_PROFILES, type GenesisDocument, parseGenesisFile } from "@turnpike/chain";
import { consensusKeyOf } from "@turnpike/chain-node";
import { type Config, loadConfig } from "@turnpike/config";
import { builtinChainServices, initChain } from "@turnpike/devnet";
import { COMMAND_FILE, type Ran, runInProcess } from "../../../test/run-command.ts";
import { exportChain, type RunningChain, startChain } from "../../wiring/chain.ts";

const folder = mkdtempSync(join(tmpdir(), "turnpike-chain-command-"));
const config = join(folder, "turnpike.yaml");

/** Processes that a test may have left behind. */
const children = new Set<ChildProcess>();

/** A command in a process of its own. */
function launch(args: readonly string[]): { readonly child: ChildProcess; readonly ran: Promise<Ran> } {
  const child = spawn(process.execPath, [COMMAND_FILE, "chain", ...args, "--config", config], {
    cwd: folder,
    env: {},
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.add(child);
  child.once("close", () => children.delete(child));
  const ran = Promise.all([once(child, "close"), textOfStream(child.stdout), textOfStream(child.stderr)]);
  return { child, ran: ran.then(([[code], out, err]) => ({ code: code as number | null, out, err })) };
}

const run = (...args: readonly string[]): Promise<Ran> => runInProcess(["chain", ...args, "--config", config]);

/** Blocks as they are made. */
async function subscribed(rpc: string): Promise<{ heights(count: number): Promise<bigint[]> }> {
  const socket = new WebSocket(`${rpc.replace(/^http/, "ws")}/websocket`);
  await once(socket, "open");
  return {
    async heights(count) {
      const { promise, resolve } = Promise.withResolvers<bigint[]>();
      const seen: bigint[] = [];
      socket.addEventListener("message", ({ data }) => {
        const found = /"height":"(\d+)"/.exec(String(data))?.[1];
        if (found !== undefined && seen.push(BigInt(found)) === count) resolve([...seen]);
      });
      const params = { query: "tm.event='NewBlockHeader'" };
      socket.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "subscribe", params }));
      const heights = await promise;
      socket.close();
      return heights;
    },
  };
}

interface Node {
  /** Heights of blocks as they are made. */
  heights(count: number): Promise<bigint[]>;
  get<T>(path: string): Promise<T>;
  end(signal: NodeJS.Signals): Promise<Ran>;
}

async function startNode(home: string): Promise<Node> {
  const { child, ran } = launch(["start", "--home", home, "--json"]);
  const first = once(child.stdout ?? child, "data").then(([part]) => String(part));
  const text = await Promise.race([first, ran.then(({ err }) => assert.fail(err))]);
  const { ready, rpc } = JSON.parse(text) as { ready: boolean; rpc: string };
  assert.equal(ready, true);
  return {
    heights: async (count) => (await subscribed(rpc)).heights(count),
    async get<T>(path: string): Promise<T> {
      const response = await fetch(`${rpc}/${path}`);
      return ((await response.json()) as { result: T }).result;
    },
    end(signal) {
      child.kill(signal);
      return ran;
    },
  };
}

interface Status {
  readonly node_info: { readonly network: string };
  readonly sync_info: { readonly latest_block_height: string };
}

const heightOf = async (node: Node): Promise<bigint> =>
  BigInt((await node.get<Status>("status")).sync_info.latest_block_height);
const hashOf = async (node: Node, height: bigint): Promise<string> =>
  (await node.get<{ block_id: { hash: string } }>(`block?height=${height}`)).block_id.hash;

interface Told {
  readonly error: { readonly code: string; readonly message: string };
}

const readJson = <T>(text: string): T => JSON.parse(text) as T;
const textOf = (file: string): string => readFileSync(file, "utf8");
const modules = { log: silentLog };

function genesisOf(text: string): GenesisDocument {
  const genesis = parseGenesisFile(text);
  assert.ok(genesis !== undefined);
  return genesis;
}

/** Makes a chain in this process. */
async function makeChain(home: string, chainId: string): Promise<GenesisDocument> {
  return initChain({
    home,
    keysFolder: join(home, "keys"),
    chainId,
    profile: CHAIN_PROFILES.fast,
    genesisTime: "2026-11-22T00:00:00Z",
    services: builtinChainServices(),
    supplierUrls: ["http://127.0.0.1:8549", "http://127.0.0.1:8550"],
    consensusKey: await consensusKeyOf(home),
  });
}

/** A folder with another's validator key and, where none is given, its genesis. */
function copyOf(home: string, name: string, genesis?: string): string {
  const copy = join(folder, name);
  mkdirSync(join(copy, "config"), { recursive: true });
  copyFileSync(join(home, "config/priv_validator_key.json"), join(copy, "config/priv_validator_key.json"));
  writeFileSync(join(copy, "config/genesis.json"), genesis ?? textOf(join(home, "config/genesis.json")));
  return copy;
}

const listener = (port = 0, host = "127.0.0.1") => ({ host, port });

function chainConfig(servers: Readonly<Record<string, unknown>> = {}): Config {
  const chain = { blockIntervalMs: 50, rpc: listener(), rest: listener(), grpc: listener(), ...servers };
  return loadConfig({ env: {}, overrides: { chain } });
}

/** The error of something that does not come to be. */
async function refusal(doing: Promise<unknown>): Promise<AppError> {
  try {
    const made = await doing;
    if (typeof made === "object" && made !== null && Symbol.asyncDispose in made) {
      await (made as RunningChain)[Symbol.asyncDispose]();
    }
  } catch (error) {
    if (isAppError(error)) return error;
    throw error;
  }
  assert.fail("nothing was refused");
}

const startRefusal = (home: string, config = chainConfig()): Promise<AppError> =>
  refusal(startChain(config, home, modules));

suite("turnpike chain", () => {
  const home = join(folder, "home");

  before(async () => {
    const free = "    port: 0\n";
    writeFileSync(config, `chain:\n  blockIntervalMs: 50\n  rpc:\n${free}  rest:\n${free}  grpc:\n${free}`);
    await makeChain(home, "try-1");
  });

  afterEach(async () => {
    await Promise.all(
      [...children].map((child) => {
        const closed = once(child, "close");
        child.kill("SIGKILL");
        return closed;
      }),
    );
  });
  after(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  test("init makes a genesis and keys that nobody else may read, once", async () => {
    const own = join(folder, "own");
    const made = await run("init", "--home", own, "--chain-id", "own-1", "--json");
    assert.equal(made.code, 0, made.err);
    const { genesis: file, chainId } = readJson<{ genesis: string; chainId: string }>(made.out);
    assert.equal(chainId, "own-1");
    const genesis = genesisOf(textOf(file));
    assert.deepEqual([genesis.chain_id, genesis.initial_height], ["own-1", 1]);
    const keys = readdirSync(join(own, "keys")).map((name) => join(own, "keys", name));
    assert.ok(keys.length >= 10);
    for (const key of [...keys, join(own, "config/priv_validator_key.json")]) {
      assert.equal(statSync(key).mode & 0o777, 0o600, key);
    }
    const [again, badId] = await Promise.all([
      run("init", "--home", own, "--json"),
      run("init", "--home", join(folder, "other"), "--chain-id", "no spaces"),
    ]);
    const told = readJson<Told>(again.out).error;
    assert.deepEqual([again.code, told.code], [1, "CHAIN_HOME"]);
    assert.match(told.message, /genesis\.json is there already; name an empty folder with --home/);
    assert.equal(badId.code, 2);
    assert.match(badId.err, /^error USAGE: --chain-id: /);
  });

  test("start serves and makes blocks; a signal ends it with 0, and it goes on where it stood", async () => {
    const node = await startNode(home);
    assert.equal((await node.get<Status>("status")).node_info.network, "try-1");
    const seen = await node.heights(3);
    const [first = 0n] = seen;
    assert.deepEqual(seen, [first, first + 1n, first + 2n]);
    const hash = await hashOf(node, first);
    const [second, exported] = await Promise.all([startRefusal(home), refusal(exportChain(home, modules, undefined))]);
    assert.deepEqual([second.code, exported.code], ["CHAIN_STORE_BUSY", "CHAIN_STORE_BUSY"]);
    const ended = await node.end("SIGTERM");
    assert.equal(ended.code, 0, ended.err);

    const later = await startNode(home);
    assert.ok((await heightOf(later)) >= first + 2n);
    assert.equal(await hashOf(later, first), hash);
    const [newest = 0n] = await later.heights(1);
    const newestHash = await hashOf(later, newest);
    assert.equal((await later.end("SIGKILL")).code, null);

    await using last = await startChain(chainConfig(), home, modules);
    const response = await fetch(`${last.urls.rpc ?? ""}/block?height=${newest}`);
    assert.match(await response.text(), new RegExp(`"hash":"${newestHash}"`));
  });

  test("a chain goes on from an exported genesis, with the same state", async () => {
    const born = copyOf(home, "born");
    const unborn = await refusal(exportChain(born, modules, undefined));
    assert.equal(unborn.code, "CHAIN_HOME");
    assert.match(unborn.message, /has no block yet; start it once/);

    {
      await using running = await startChain(chainConfig(), born, modules);
      const socket = await subscribed(running.urls.rpc ?? "");
      const heights = await socket.heights(4);
      assert.ok((heights.at(-1) ?? 0n) >= 4n);
    }
    const exported = await run("export", "--home", born);
    assert.equal(exported.code, 0, exported.err);
    const genesis = genesisOf(exported.out);
    assert.ok(genesis.initial_height > 3);
    const next = copyOf(home, "next", exported.out);
    {
      await using running = await startChain(chainConfig(), next, modules);
      assert.equal(running.chainId, genesis.chain_id);
      const socket = await subscribed(running.urls.rpc ?? "");
      const [height = 0n] = await socket.heights(1);
      assert.ok(height >= BigInt(genesis.initial_height));
    }
    assert.deepEqual(await exportChain(next, modules, BigInt(genesis.initial_height) - 1n), genesis);
    assert.equal((await exportChain(born, modules, 2n)).initial_height, 3);
    assert.equal((await refusal(exportChain(born, modules, 1_000_000n))).code, "HEIGHT_UNAVAILABLE");
    const junk = await run("export", "--home", born, "--height", "-1");
    assert.equal(junk.code, 2);
    assert.match(junk.err, /^error USAGE: --height: /);
  });

  test("a folder that is not whole is refused with what is wrong and what to do", async () => {
    const missing = await startRefusal(join(folder, "nowhere"));
    assert.equal(missing.code, "CHAIN_HOME");
    assert.match(missing.message, /nowhere\/config\/genesis\.json is missing; make a chain with .* init --home /);

    const text = textOf(join(home, "config/genesis.json"));
    for (const [name, bad] of [
      ["cut", text.slice(0, text.length / 2)],
      ["no-params", text.replace(/"max_gas": "\d+"/, '"max_gas": "much"')],
      ["no-time", text.replace('"genesis_time"', '"time"')],
    ] as const) {
      assert.notEqual(bad, text);
      const { code, message } = await startRefusal(copyOf(home, name, bad));
      assert.deepEqual([code, /genesis\.json is no genesis; restore it/.test(message)], ["CHAIN_HOME", true], name);
    }

    const keyless = copyOf(home, "keyless");
    const key = join(keyless, "config/priv_validator_key.json");
    rmSync(key);
    assert.match(
      (await startRefusal(keyless)).message,
      /priv_validator_key\.json is missing: .*restore it from a copy/,
    );
    assert.ok(!readdirSync(join(keyless, "config")).includes("priv_validator_key.json"));

    writeFileSync(key, '{"priv_key": {"type": "tendermint/PrivKeyEd25519", "value": "AAAA"}}');
    const damaged = await startRefusal(keyless);
    assert.deepEqual([damaged.code, damaged.message.includes(key)], ["CONFIG_INVALID", true]);

    rmSync(key);
    await consensusKeyOf(keyless);
    const stranger = await startRefusal(keyless);
    assert.equal(stranger.code, "CONFIG_INVALID");
    assert.match(stranger.message, /its validator key .* is no validator of this chain/);
  });

  test("another genesis on an old store is refused", async () => {
    const old = copyOf(home, "old");
    await (await startChain(chainConfig(), old, modules))[Symbol.asyncDispose]();
    const file = join(old, "config/genesis.json");
    writeFileSync(file, textOf(file).replace('"try-1"', '"try-2"'));
    const { code, message } = await startRefusal(old);
    assert.equal(code, "CONFIG_INVALID");
    assert.match(message, /began with another genesis/);
  });

  test("a port that is taken is named by its path in the configuration", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const bound = taken.address();
    assert.ok(bound !== null && typeof bound === "object");
    try {
      for (const name of ["rpc", "rest", "grpc"]) {
        const servers = chainConfig({ [name]: listener(bound.port) });
        const { code, message } = await startRefusal(copyOf(home, "taken"), servers);
        assert.equal(code, "PORT_IN_USE");
        assert.equal(message, `chain.${name}.port: ${bound.port} is in use by another program.`);
      }
      const elsewhere = await startRefusal(copyOf(home, "taken"), chainConfig({ rpc: listener(0, "192.0.2.1") }));
      assert.match(elsewhere.message, /^chain\.rpc\.host: 192\.0\.2\.1 is no address of this machine/);
      await (await startChain(chainConfig(), copyOf(home, "taken"), modules))[Symbol.asyncDispose]();
    } finally {
      taken.close();
    }
  });

  test("every command has help", async () => {
    for (const { code, out } of await Promise.all(["init", "start", "export"].map((name) => run(name, "--help")))) {
      assert.equal(code, 0);
      assert.match(out, /--home <folder>/);
      assert.match(out, /--json/);
    }
  });

  test("prices that are none are refused by their path", () => {
    assert.throws(() => chainConfig({ minGasPrices: "much" }), /chain\.minGasPrices: expected prices such as/);
  });
});
