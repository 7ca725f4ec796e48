import { bytesToBase64, bytesToHex } from "@turnpike/base";
import { createMessage, encodeMessage, tx } from "@turnpike/proto";
import type { Chance } from "@turnpike/testkit/chance";
import type { HostileTxs } from "./hostile-txs.ts";
import type { Doors, HostileWire } from "./hostile-wire.ts";

/** One thing that an attacker does; it resolves when its answer was looked at. */
export interface Shot {
  readonly kind: string;
  readonly fire: () => Promise<unknown>;
}

/** What shots are made of. */
export interface ShotModules {
  readonly chance: Chance;
  readonly wire: HostileWire;
}

/** Longest transaction that fits into an address. */
const MOST_BY_GET = 20_000;
/** Longest body of RPC and REST. */
const MOST_BODY = 990_000;
const SIMULATE = "/cosmos.tx.v1beta1.Service/Simulate";
const BROADCAST = "/cosmos.tx.v1beta1.Service/BroadcastTx";

const call = (method: string, params: unknown, id: unknown = 1): unknown => ({ jsonrpc: "2.0", id, method, params });

/** Sends hostile transactions, each by another door. */
export function transactionShots(doors: Doors, modules: ShotModules & { readonly txs: HostileTxs }): () => Shot {
  const { rpcUrl, restUrl } = doors;
  const { chance, wire, txs } = modules;
  const ways: readonly (readonly [weight: number, way: (bytes: Uint8Array) => Promise<unknown>])[] = [
    [30, (bytes) => post("broadcast_tx_sync", bytes)],
    [14, (bytes) => post("broadcast_tx_async", bytes)],
    [2, (bytes) => post("broadcast_tx_commit", bytes)],
    [4, (bytes) => post("check_tx", bytes)],
    [8, (bytes) => wire.http({ url: `${rpcUrl}/broadcast_tx_sync?tx=0x${bytesToHex(short(bytes))}` })],
    [6, batch],
    [10, (bytes) => rest("/cosmos/tx/v1beta1/txs", { tx_bytes: bytesToBase64(bytes), mode: chance.pick(MODES) })],
    [7, (bytes) => rest("/cosmos/tx/v1beta1/simulate", { tx_bytes: bytesToBase64(bytes) })],
    [
      7,
      (bytes) =>
        wire.grpc(
          SIMULATE,
          encodeMessage(tx.SimulateRequestSchema, createMessage(tx.SimulateRequestSchema, { txBytes: bytes })),
        ),
    ],
    [
      7,
      (bytes) =>
        wire.grpc(
          BROADCAST,
          encodeMessage(
            tx.BroadcastTxRequestSchema,
            createMessage(tx.BroadcastTxRequestSchema, { txBytes: bytes, mode: chance.below(5) as tx.BroadcastMode }),
          ),
        ),
    ],
    [5, (bytes) => query("/app/simulate", bytes)],
  ];
  const short = (bytes: Uint8Array): Uint8Array => bytes.subarray(0, MOST_BY_GET);
  const rpc = (value: unknown): Promise<unknown> => {
    const body = JSON.stringify(value);
    return wire.rpc(rpcUrl, body, body.length > MOST_BODY);
  };
  const post = (method: string, bytes: Uint8Array): Promise<unknown> => rpc(call(method, { tx: bytesToBase64(bytes) }));
  const query = (path: string, bytes: Uint8Array): Promise<unknown> =>
    rpc(call("abci_query", { path, data: bytesToHex(bytes) }));
  const rest = (path: string, value: unknown): Promise<unknown> => {
    const body = JSON.stringify(value);
    return wire.http({ url: restUrl + path, method: "POST", body, mayBeCut: body.length > MOST_BODY });
  };
  // Several in one request, the one that was asked for among them.
  async function batch(bytes: Uint8Array): Promise<unknown> {
    const others = Array.from({ length: chance.below(10) }, () => txs.next().bytes);
    return rpc([bytes, ...others].map((each, at) => call("broadcast_tx_async", { tx: bytesToBase64(each) }, at)));
  }
  return () => {
    const { kind, bytes } = txs.next();
    const way = chance.weighted(ways);
    return { kind, fire: () => way(bytes) };
  };
}

const MODES = [
  "BROADCAST_MODE_SYNC",
  "BROADCAST_MODE_ASYNC",
  "BROADCAST_MODE_BLOCK",
  "BROADCAST_MODE_UNSPECIFIED",
  "NONE",
  7,
] as const;
