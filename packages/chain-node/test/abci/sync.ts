import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { silentLog } from "@turnpike/base";
import type { ChainApp, ChainStart } from "@turnpike/chain";
import { type LmdbChainStore, openChainStore } from "@turnpike/chain-store";
import { rfc3339ToNs } from "@turnpike/cometbft";
import { must } from "@turnpike/testkit/fixtures";
import { CometRpc } from "../../src/abci/comet-rpc.ts";
import { CometSource } from "../../src/abci/comet-source.ts";
import { startAbciServer } from "../../src/abci/server.ts";
import { SnapshotFolder } from "../../src/snapshots/snapshot-folder.ts";
import { SnapshotKeeper } from "../../src/snapshots/snapshot-keeper.ts";
import { SnapshotRestorer } from "../../src/snapshots/snapshot-restorer.ts";
import { CHAIN_ID, testApp } from "./chain.ts";
import { askComet, makeHome, startComet } from "./comet.ts";

/** A block in so many has a snapshot, whose chunks are that short: there are many of them. */
export const SNAPSHOT_EVERY = 10n;
const CHUNK_BYTES = 256;

/** A node: the application in this process, CometBFT in its own. */
export interface SyncNode extends AsyncDisposable {
  readonly store: LmdbChainStore;
  readonly application: ChainApp;
  readonly snapshots: SnapshotFolder;
  readonly rpc: CometRpc;
  readonly source: CometSource;
  readonly url: string;
}

/** Changes settings of CometBFT, by section and name. */
export function configure(home: string, settings: Readonly<Record<string, Readonly<Record<string, string>>>>): void {
  const file = join(home, "config", "config.toml");
  let section = "";
  const lines = readFileSync(file, "utf8").split("\n");
  const changed = lines.map((line) => {
    section = /^\[(\w+)\]$/.exec(line)?.[1] ?? section;
    const name = /^(\w+) = /.exec(line)?.[1];
    const value = name === undefined ? undefined : settings[section]?.[name];
    return value === undefined ? line : `${name} = ${value}`;
  });
  writeFileSync(file, changed.join("\n"));
}

const LOOPBACK = { addr_book_strict: "false", allow_duplicate_ip: "true", flush_throttle_timeout: '"5ms"' };
/** A node that is behind asks its peers for the next block so often; by default it is hardly quicker than the chain. */
const GOSSIP = { peer_gossip_sleep_duration: '"5ms"' };

/** The home of the validator; `cometbft` as a peer names it. */
export function makeValidator(folder: string, p2pPort: number): { readonly peer: string } {
  const home = join(folder, "home");
  makeHome(home);
  configure(home, { p2p: LOOPBACK, consensus: GOSSIP });
  return { peer: `${askComet("show-node-id", "--home", home)}@127.0.0.1:${p2pPort}` };
}

/** What a node that joins by state sync trusts. */
export interface Trust {
  readonly heightBlocks: bigint;
  /** The block's hash in hex. */
  readonly hash: string;
  readonly rpcUrl: string;
  readonly peer: string;
}

/** The home of a node that is no validator, and joins the chain of another folder by state sync. */
export function makeJoiner(folder: string, of: string, trust: Trust): void {
  const home = join(folder, "home");
  makeHome(home);
  copyFileSync(join(of, "home", "config", "genesis.json"), join(home, "config", "genesis.json"));
  configure(home, {
    p2p: { ...LOOPBACK, persistent_peers: `"${trust.peer}"` },
    consensus: GOSSIP,
    statesync: {
      enable: "true",
      rpc_servers: `"${trust.rpcUrl},${trust.rpcUrl}"`,
      trust_height: `${trust.heightBlocks}`,
      trust_hash: `"${trust.hash}"`,
      discovery_time: '"5s"',
    },
  });
}

/** The genesis of a home, as the application takes it. */
export function startOf(folder: string): ChainStart {
  const genesis = JSON.parse(readFileSync(join(folder, "home", "config", "genesis.json"), "utf8"));
  const { genesis_time: time, app_state: appState } = genesis as {
    genesis_time: string;
    app_state: ChainStart["appState"];
  };
  return { chainId: CHAIN_ID, initialHeightBlocks: 1n, timeNanos: must(rfc3339ToNs(time)), appState };
}

/** Starts a node in a folder that has a home. */
export async function startNode(folder: string, p2pPort?: number): Promise<SyncNode> {
  await using stack = new AsyncDisposableStack();
  const store = stack.use(await openChainStore({ folder: join(folder, "store") }));
  const application = testApp(store);
  const snapshots = new SnapshotFolder({ folder: join(folder, "snapshots") }, { log: silentLog });
  const keeper = stack.use(
    new SnapshotKeeper(
      { everyBlocks: Number(SNAPSHOT_EVERY), keep: 1_000, chunkBytes: CHUNK_BYTES },
      { store, folder: snapshots, log: silentLog },
    ),
  );
  const restorer = stack.use(
    new SnapshotRestorer({ genesis: startOf(folder) }, { store, application, log: silentLog }),
  );
  const address = `unix://${join(folder, "abci.sock")}`;
  stack.use(
    await startAbciServer(
      { address },
      {
        application,
        queries: application,
        log: silentLog,
        sync: { folder: snapshots, restorer },
        committed: (height) => keeper.committed(height),
      },
    ),
  );
  const { running, url } = await startComet(join(folder, "home"), address, p2pPort === undefined ? {} : { p2pPort });
  stack.use(running);
  const rpc = stack.use(new CometRpc({ url }));
  const owned = stack.move();
  return {
    store,
    application,
    snapshots,
    rpc,
    source: new CometSource({ rpc }),
    url,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
