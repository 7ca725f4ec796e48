import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type GenesisDocument, LOCAL_ROLES, type LocalRole } from "@turnpike/chain";
import type { ChainSigner } from "@turnpike/chain-client";
import { type ChainHome, chainHome, consensusKeyOf } from "@turnpike/chain-node";
import { initChain, namedKey } from "@turnpike/devnet";
import { freePort } from "@turnpike/localnet";
import { initComet } from "../../../support/chain/comet.ts";
import { QUICK_PROFILE } from "../../../support/chain/local-chain.ts";
import type { EngineName } from "../../../support/chain/nodes.ts";

/** Time between blocks, in milliseconds: of the embedded engine, and CometBFT's `timeout_commit`. */
export const BLOCK_MS = 100;

/** What differs between starts of one node. */
export interface NodeSettings {
  /** 0 keeps all states. */
  readonly keepHeights: number;
  /** 0 makes no snapshots. */
  readonly snapshotEveryBlocks: number;
}

/** The folder of a node that will be killed, and the configuration files that it is started with. */
export interface NodeHome extends AsyncDisposable {
  readonly engine: EngineName;
  readonly layout: ChainHome;
  readonly genesis: GenesisDocument;
  readonly signers: Readonly<Record<LocalRole, ChainSigner>>;
  /** Where CometBFT's RPC is after every start; the embedded engine's has another port each time. */
  readonly cometPort: number;
  /** What CometBFT is told as `proxy_app`. */
  readonly abciAddress: string;
  /** Folder where Node.js keeps compiled sources, so that starts take half the time. Filled when a process ends by SIGTERM. */
  readonly compileCache: string;
  /** Writes a configuration, and gives its file. */
  configure(settings: NodeSettings): Promise<string>;
}

/** A folder for {@link NodeHome.compileCache}, which homes share: the one of this process, where it has one. */
export async function makeCompileCache(): Promise<AsyncDisposable & { readonly folder: string }> {
  const own = process.env.NODE_COMPILE_CACHE;
  if (own !== undefined) return { folder: own, [Symbol.asyncDispose]: async () => {} };
  const folder = await mkdtemp(join(tmpdir(), "turnpike-compiled-"));
  return { folder, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
}

/** Options of {@link makeNodeHome}. */
export interface NodeHomeOptions {
  readonly engine: EngineName;
  readonly compileCache: string;
}

/** Makes a chain of its own for an engine, as `turnpike chain init` does, with sessions of six blocks. */
export async function makeNodeHome({ engine, compileCache }: NodeHomeOptions): Promise<NodeHome> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "turnpike-kills-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const home = join(folder, "home");
  const layout = chainHome(home);
  const keysFolder = join(home, "keys");
  if (engine === "cometbft") {
    initComet(home, BLOCK_MS);
    await rm(layout.genesisFile);
  }
  const genesis = await initChain({
    home,
    keysFolder,
    chainId: "pocket",
    profile: QUICK_PROFILE,
    genesisTime: new Date().toISOString(),
    services: [
      { id: "eth", name: "Ethereum" },
      { id: "base", name: "Base" },
    ],
    supplierUrls: ["http://127.0.0.1:8549", "http://127.0.0.1:8550"],
    consensusKey: await consensusKeyOf(home),
  });
  const signers = {} as Record<LocalRole, ChainSigner>;
  for (const role of LOCAL_ROLES) signers[role] = (await namedKey(keysFolder, role)).signer;
  const cometPort = await freePort();
  const abciAddress = `unix://${join(folder, "abci.sock")}`;
  const owned = stack.move();
  let written = 0;
  return {
    engine,
    layout,
    genesis,
    signers,
    cometPort,
    abciAddress,
    compileCache,
    async configure({ keepHeights, snapshotEveryBlocks }) {
      const file = join(folder, `turnpike-${written++}.yaml`);
      const chain = {
        home,
        engine,
        blockIntervalMs: BLOCK_MS,
        keepHeights,
        snapshots: { everyBlocks: snapshotEveryBlocks },
        abciAddress,
        cometRpcUrl: `http://127.0.0.1:${cometPort}`,
        rpc: { port: 0 },
        rest: { port: 0 },
        grpc: { port: 0 },
      };
      await writeFile(file, JSON.stringify({ chain }));
      return file;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
