import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLog, systemClock } from "@turnpike/base";
import { PROTOCOL_VERSION } from "@turnpike/chain";
import { startRpcServer } from "@turnpike/chain-api";
import { openEmbeddedNode } from "@turnpike/chain-node";
import { quickGenesis } from "./local-chain.ts";
import { edSigner, embeddedQueries, machineOf } from "./nodes.ts";

/** A node of a new chain that makes a block when it is told to. */
export interface SteppedNode extends AsyncDisposable {
  readonly rpcUrl: string;
  readonly chainId: string;
  /** Makes blocks up to a height. */
  reach(heightBlocks: bigint): Promise<void>;
}

/** Starts an embedded node whose blocks are made one by one, with its RPC. */
export async function startStepped(): Promise<SteppedNode> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "turnpike-stepped-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const validatorSigner = edSigner("validator");
  const genesis = quickGenesis(validatorSigner.publicKey);
  const { machine, modules } = machineOf(genesis);
  const node = stack.use(
    await openEmbeddedNode(
      { folder, genesis, moniker: "test", version: PROTOCOL_VERSION },
      { machine, validatorSigner, nodeSigner: edSigner("node") },
    ),
  );
  const { queries } = embeddedQueries(node, modules);
  const served = { node, queries, log: silentLog, clock: systemClock };
  const rpc = stack.use(await startRpcServer({ host: "127.0.0.1", port: 0 }, served));
  const owned = stack.move();
  return {
    rpcUrl: rpc.url,
    chainId: genesis.chain_id,
    async reach(heightBlocks) {
      while (node.blocks.latestHeightBlocks() < heightBlocks) await node.produceBlock();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
