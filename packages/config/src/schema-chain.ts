import { Type } from "typebox";
import { connectingProxies, connections, integer, oneOf, port, section, text, textOf, url } from "./keys.ts";

/** A listening address of one of the chain's servers. */
const listener = (fallback: number, maxConnections: number, description: string) =>
  section(
    {
      host: text("127.0.0.1", "Address to listen on."),
      port: port(fallback, "Port to listen on."),
      ...connections(maxConnections, 250),
      trustedProxies: connectingProxies(),
    },
    description,
  );

/** The relay protocol's chain. */
export const CHAIN = section(
  {
    home: Type.Optional(
      textOf(
        "Folder of the node, as CometBFT lays it out: config/genesis.json, its keys, data. `turnpike chain init` makes one. No default: without it this configuration runs no chain.",
      ),
    ),
    engine: oneOf(
      ["embedded", "cometbft"],
      "`embedded`: this process makes the blocks, as the one validator. `cometbft`: an unmodified CometBFT 0.38 does, and reaches this process at `chain.abciAddress`.",
      "embedded",
    ),
    blockIntervalMs: integer(1_000, 50, 3_600_000, "Time between blocks of the embedded engine, in milliseconds."),
    moniker: text("turnpike", "Name of the node for people."),
    minGasPrices: Type.String({
      pattern: "^(\\d+(\\.\\d+)?[a-zA-Z][a-zA-Z0-9/:._-]{2,127}(,|$))*$",
      maxLength: 512,
      default: "0.000001upokt",
      description: "What a unit of gas must pay at least, so that this node takes a transaction; empty for nothing.",
      "x-expected": "prices such as 0.000001upokt, with commas between them",
    }),
    keepHeights: integer(
      0,
      0,
      1_000_000_000,
      "Newest heights whose state can always be asked for. There are up to eleven more, and those from a snapshot's height on while it is made; older ones are pruned, but not their blocks. 0 keeps all.",
    ),
    snapshots: section(
      {
        everyBlocks: integer(
          0,
          0,
          1_000_000_000,
          "Heights between snapshots of the state, from which CometBFT's state sync brings a new node up. 0 makes none.",
        ),
        keep: integer(2, 1, 1_000, "Newest snapshots that are kept."),
      },
      "Snapshots of the state, in data/snapshots of the node's folder.",
    ),
    abciAddress: text("tcp://127.0.0.1:26658", "Where CometBFT reaches the application: tcp:// or unix://."),
    cometRpcUrl: Type.Optional(
      url("CometBFT's RPC, for REST and gRPC under that engine. No default: else it is http://127.0.0.1:26657."),
    ),
    rpc: listener(26_657, 900, "CometBFT's RPC: JSON-RPC, GET and WebSocket."),
    rest: listener(1317, 1_000, "REST, as in the Cosmos SDK."),
    grpc: listener(9090, 1_000, "gRPC."),
    metrics: section(
      {
        host: text("127.0.0.1", "Address of the metrics server. It is not meant for the public."),
        port: Type.Optional(
          port(undefined, "Port of `GET /metrics`, such as 9094. No default: without one there is no such server."),
        ),
      },
      "Prometheus metrics of the chain's node.",
    ),
  },
  "The relay protocol's chain (`turnpike chain`).",
);
