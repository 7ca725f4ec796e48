import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLog, systemClock } from "@turnpike/base";
import { CHAIN_PROFILES, PROTOCOL_VERSION, pocketMachine } from "@turnpike/chain";
import { AbciQueries, apiSurface, startRpcServer } from "@turnpike/chain-api";
import {
  chainHome,
  consensusKeyOf,
  EmbeddedSource,
  loadNodeKey,
  loadValidatorKey,
  openEmbeddedNode,
} from "@turnpike/chain-node";
import { initChain } from "@turnpike/devnet";
import { eventually } from "@turnpike/testkit";
import { program } from "../src/main.ts";

/** What a command wrote, and what it threw. */
export interface RanCommand {
  readonly out: string;
  readonly error: unknown;
}

/** Runs a command in this process. */
export async function runCommand(args: readonly string[]): Promise<RanCommand> {
  let out = "";
  const write = process.stdout.write.bind(process.stdout);
  // Bytes are the test runner's own reports.
  process.stdout.write = ((chunk: unknown, ...rest: never[]) => {
    if (typeof chunk !== "string") return write(chunk as string, ...rest);
    out += chunk;
    return true;
  }) as typeof write;
  try {
    const context = { env: {}, exitWith: () => {}, kill: () => process.exit(1) };
    await program(context).parseAsync([...args], { from: "user" });
    return { out, error: undefined };
  } catch (error) {
    return { out, error };
  } finally {
    process.stdout.write = write;
  }
}

/** A chain for tests: all modules, all accounts with keys, and blocks that are made when the test says so. */
export interface TestChain extends AsyncDisposable {
  readonly home: string;
  readonly url: string;
  produce(blocks?: number): Promise<void>;
  /** Makes a block whenever a transaction waits for one, until work is done. */
  during<T>(work: Promise<T>): Promise<T>;
  /** Ends the RPC server and begins another one at the same address. */
  restartRpc(whileDown: () => Promise<void>): Promise<void>;
}

/** Starts a {@link TestChain}. Sessions have twenty blocks. */
export async function startTestChain(): Promise<TestChain> {
  await using stack = new AsyncDisposableStack();
  const home = await mkdtemp(join(tmpdir(), "turnpike-chain-"));
  stack.defer(() => rm(home, { recursive: true, force: true }));
  const { validatorKeyFile, nodeKeyFile } = chainHome(home);
  const genesis = await initChain({
    home,
    keysFolder: join(home, "keys"),
    chainId: "pocket",
    profile: CHAIN_PROFILES.fast,
    genesisTime: "2026-11-21T14:10:44Z",
    services: [
      { id: "eth", name: "Ethereum" },
      { id: "base", name: "Base" },
    ],
    supplierUrls: ["http://127.0.0.1:8549", "http://127.0.0.1:8550"],
    consensusKey: await consensusKeyOf(home),
  });
  const { machine, modules } = pocketMachine({ gasPrices: [] });
  const node = stack.use(
    await openEmbeddedNode(
      { folder: join(home, "store"), genesis, moniker: "test", version: PROTOCOL_VERSION },
      {
        machine,
        validatorSigner: await loadValidatorKey(validatorKeyFile),
        nodeSigner: await loadNodeKey(nodeKeyFile),
      },
    ),
  );
  const source = new EmbeddedSource({ listenAddr: "tcp://0.0.0.0:26656", rpcAddr: () => rpc.url }, node);
  const queries = new AbciQueries(
    { surface: apiSurface(modules), gasPrices: [] },
    { application: node.application, source, log: silentLog },
  );
  const start = (port: number) =>
    startRpcServer({ host: "127.0.0.1", port }, { node, queries, log: silentLog, clock: systemClock });
  let rpc = await start(0);
  stack.defer(() => rpc[Symbol.asyncDispose]());
  const { url } = rpc;
  await node.produceBlock();
  await node.produceBlock();
  const owned = stack.move();
  return {
    home,
    url,
    async produce(blocks = 1) {
      for (let made = 0; made < blocks; made++) await node.produceBlock();
    },
    async during(work) {
      let isOver = false;
      const over = (): void => {
        isOver = true;
      };
      work.then(over, over);
      await eventually("the end of the work", async () => {
        if (node.mempool.numTxs() > 0) await node.produceBlock();
        return isOver;
      });
      return work;
    },
    async restartRpc(whileDown) {
      await rpc[Symbol.asyncDispose]();
      await whileDown();
      rpc = await start(Number(new URL(url).port));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
