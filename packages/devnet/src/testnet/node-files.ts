import { isIP } from "node:net";
import { addressesOf, hostOf, PORTS, type Testnet, type TestnetNode } from "./plan.ts";

/** Times of CometBFT's consensus, in milliseconds. */
export interface ConsensusTimes {
  /** Least time between blocks. */
  readonly commitMs: number;
  /** Wait for a proposal, before a proposer that is silent is passed over. */
  readonly proposeMs: number;
}

/** What a node that joins trusts, to fetch a snapshot instead of all blocks. */
export interface Trusted {
  readonly heightBlocks: bigint;
  /** Block's hash at that height: 64 hexadecimal digits. */
  readonly hash: string;
  /** Nodes that are asked for headers: two or more. */
  readonly rpcServers: readonly string[];
}

/** What the files of one node are made of. */
export interface NodeFilesInput {
  readonly testnet: Testnet;
  readonly node: TestnetNode;
  readonly times: ConsensusTimes;
  /** Address on which RPC, REST, gRPC and metrics listen. */
  readonly listen: string;
  /** Blocks between snapshots; 0 makes none. */
  readonly snapshotBlocks: number;
  readonly trusted?: Trusted;
}

// A JSON text is a basic string of TOML and a quoted one of YAML, too.
const quoted = (text: string): string => JSON.stringify(text);

function stateSyncSection({ heightBlocks, hash, rpcServers }: Trusted): string {
  return `
# A new node fetches a snapshot of the state from its peers instead of running every block since the first one. It
# believes what two nodes' headers say, from this block on: compare its hash with somebody you trust.
[statesync]
enable = true
rpc_servers = ${quoted(rpcServers.join(","))}
trust_height = ${heightBlocks}
trust_hash = ${quoted(hash)}
# Shorter than the time in which stakes unbond, which is 21 days.
trust_period = "168h0m0s"
# Least that CometBFT takes: it looks for snapshots for so long before it begins with the best.
discovery_time = "5s"
`;
}

/** Text of `config/config.toml`: what differs from the defaults of CometBFT 0.38. */
export function cometConfigText({ testnet, node, times, listen, trusted }: NodeFilesInput): string {
  const peers = testnet.nodes.filter(({ isValidator, name }) => isValidator && name !== node.name);
  const peerList = peers.map((peer) => `${peer.nodeId}@${addressesOf(peer).p2p}`).join(",");
  // A name is looked up when the node starts, and one that is not known then ends it.
  const external = isIP(node.host) === 0 ? "" : `external_address = ${quoted(addressesOf(node).p2p)}\n`;
  return `# CometBFT 0.38, node ${node.name} of chain ${testnet.chainId}.
# Only what differs from CometBFT's defaults stands here: a key that is missing has its default.

# The application: turnpike chain start, on the same machine (chain.abciAddress in turnpike.yaml).
proxy_app = "tcp://127.0.0.1:${PORTS.abci}"
moniker = ${quoted(node.name)}

[rpc]
# Who reaches this address may ask and send transactions. 127.0.0.1 keeps it to this machine.
laddr = "tcp://${hostOf(listen)}:${PORTS.rpc}"

[p2p]
laddr = "tcp://0.0.0.0:${PORTS.p2p}"
${external}# The validators: node id @ host : port.
persistent_peers = ${quoted(peerList)}
# A peer that is away is dialled again for ever: at most so long after the last attempt.
persistent_peers_max_dial_period = "10s"
# Addresses of private networks are addresses, too.
addr_book_strict = false

[consensus]
# Wait for the proposer of a round before the next one is asked.
timeout_propose = "${times.proposeMs}ms"
# Least time between blocks.
timeout_commit = "${times.commitMs}ms"

[instrumentation]
# CometBFT's own metrics, on port ${PORTS.comet}.
prometheus = true
prometheus_listen_addr = "${hostOf(listen)}:${PORTS.comet}"
${trusted === undefined ? "" : stateSyncSection(trusted)}`;
}

/** Text of `turnpike.yaml`: the application's side. Paths are relative, so that the folder may be copied. */
export function turnpikeConfigText({ testnet, node, listen, snapshotBlocks }: NodeFilesInput): string {
  const host = quoted(listen);
  const here = ["0.0.0.0", "::"].includes(listen) ? "127.0.0.1" : hostOf(listen);
  return `# The application of node ${node.name} of chain ${testnet.chainId}. In this folder run, side by side:
#   npx turnpike chain start
#   cometbft start --home .
chain:
  # This folder, where the commands run in it; elsewhere say --home.
  home: .
  engine: cometbft
  moniker: ${quoted(node.name)}
  # CometBFT reaches the application here (proxy_app in config/config.toml), and the application asks its RPC.
  abciAddress: tcp://127.0.0.1:${PORTS.abci}
  cometRpcUrl: http://${here}:${PORTS.rpc}
  rest: { host: ${host}, port: ${PORTS.rest} }
  grpc: { host: ${host}, port: ${PORTS.grpc} }
  metrics: { host: ${host}, port: ${PORTS.metrics} }
  # From these a new node comes up without running every block.
  snapshots: { everyBlocks: ${snapshotBlocks}, keep: 2 }
`;
}
