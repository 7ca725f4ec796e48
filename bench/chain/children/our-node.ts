import { silentLog, systemClock } from "@turnpike/base";
import { pocketMachine } from "@turnpike/chain";
import { AbciQueries, apiSurface, startGrpcServer, startRestServer, startRpcServer } from "@turnpike/chain-api";
import { EmbeddedSource } from "@turnpike/chain-node";
import { serveParent } from "../../lib/child.ts";
import { beginChain, makeGround, scratchFolder } from "../ground.ts";

/** Where the servers of the node listen. */
export interface NodePorts {
  readonly rpc: number;
  readonly rest: number;
  /** Address of an application that is staked. */
  readonly application: string;
}

/** Operations of this child: a node with all its servers, whose blocks stand still. */
export type OurNodeOperations = { readonly start: (params: { readonly suppliers: number }) => Promise<NodePorts> };

const owned = new AsyncDisposableStack();

async function start({ suppliers }: { readonly suppliers: number }): Promise<NodePorts> {
  const ground = makeGround({ accounts: 1, suppliers, applications: 1 });
  const folder = owned.use(await scratchFolder());
  const node = owned.use(await beginChain(ground, folder.path));
  for (let i = 0; i < 3; i++) await node.produceBlock();
  const listen = { host: "127.0.0.1", port: 0 };
  const rpcAddr = (): string => "tcp://0.0.0.0:26657";
  const source = new EmbeddedSource({ listenAddr: "tcp://0.0.0.0:26656", rpcAddr }, node);
  const { modules } = pocketMachine({ gasPrices: [] });
  const servers = { application: node.application, source, log: silentLog, clock: systemClock };
  const api = { ...listen, surface: apiSurface(modules), gasPrices: [], pruningKeepBlocks: 0n };
  const queries = new AbciQueries(api, servers);
  const rpc = owned.use(await startRpcServer(listen, { node, queries, log: silentLog, clock: systemClock }));
  const rest = owned.use(await startRestServer(api, servers));
  owned.use(await startGrpcServer(api, servers));
  const application = ground.applications[0]?.signer.address ?? "";
  return { rpc: Number(new URL(rpc.url).port), rest: rest.port, application };
}

serveParent<OurNodeOperations>({ start }, owned);
