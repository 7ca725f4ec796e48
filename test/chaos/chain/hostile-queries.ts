import { bytesToHex } from "@turnpike/base";
import { encodeMessage, methodAt } from "@turnpike/proto";
import { bend } from "./hostile-bytes.ts";
import { type MessageWorld, randomMessage } from "./hostile-messages.ts";
import type { Shot, ShotModules } from "./hostile-shots.ts";
import type { Doors } from "./hostile-wire.ts";
import {
  DEPTHS,
  deepJson,
  HEIGHTS,
  METHODS,
  NAMES,
  PIECES,
  QUERIES,
  REST_PATHS,
  SEARCHES,
  VALUES,
} from "./hostile-words.ts";

/** What hostile queries are made of. */
export interface QueryWorld extends MessageWorld {
  /** gRPC paths of the modules' queries. */
  readonly queryPaths: readonly [string, ...string[]];
}

/** Asks hostile questions, each by another door. */
export function queryShots(doors: Doors, world: QueryWorld, { chance, wire }: ShotModules): () => Shot {
  const { rpcUrl, restUrl, grpcTarget } = doors;
  const call = (method: string, params: unknown): string => {
    const id = chance.pick([1, "x", null, -1, 1e300, true, { a: 1 }] as const);
    return JSON.stringify({ jsonrpc: chance.often(0.95) ? "2.0" : "9", id, method, params });
  };
  const params = (): unknown => {
    if (chance.often(0.1)) return chance.pick(VALUES);
    return Object.fromEntries(Array.from({ length: chance.below(5) }, () => [chance.pick(NAMES), chance.pick(VALUES)]));
  };
  const search = (): string =>
    chance.pick([SEARCHES[0], ...SEARCHES.slice(1)] as [() => string, ...(() => string)[]])();
  const request = (path: string): Uint8Array => {
    const method = methodAt(path);
    if (method === undefined || chance.often(0.3)) return chance.bytes(chance.below(60));
    const bytes = encodeMessage(method.input, randomMessage(chance, world, method.input, 5));
    return chance.often(0.5) ? bend(chance, bytes) : bytes;
  };
  const anyPath = (): string =>
    chance.often(0.8)
      ? chance.pick(world.queryPaths)
      : chance.pick([
          "",
          "/",
          "/a",
          "/store/bank/key",
          "/app/version",
          "/p2p/filter/addr/x",
          "/cosmos.bank.v1beta1.Query/Nothing",
          `/${"x".repeat(50_000)}`,
          "//",
          "\u0000",
          "/app/snapshots",
          "custom/x",
        ] as const);
  const kinds: readonly (readonly [weight: number, kind: string, fire: () => Promise<unknown>])[] = [
    [18, "rpc", () => wire.rpc(rpcUrl, call(chance.pick(METHODS), params()))],
    [
      6,
      "rpc-get",
      () =>
        wire.http({
          url: `${rpcUrl}/${chance.pick(METHODS)}?${chance.pick(NAMES)}=${encodeURIComponent(JSON.stringify(chance.pick(VALUES)))}`,
        }),
    ],
    [
      3,
      "rpc-batch",
      () =>
        wire.rpc(
          rpcUrl,
          `[${Array.from({ length: chance.pick([0, 2, 10, 11, 400]) }, () => call(chance.pick(METHODS.slice(2) as unknown as typeof METHODS), params())).join()}]`,
        ),
    ],
    [3, "rpc-deep", () => wire.rpc(rpcUrl, deepJson(chance.pick(DEPTHS), chance.often(0.7)))],
    [3, "rpc-noise", () => wire.rpc(rpcUrl, Buffer.from(chance.bytes(chance.below(2_000))).toString("latin1"))],
    [
      1,
      "too-large",
      () =>
        wire.http({
          url: chance.pick([rpcUrl, `${restUrl}/cosmos/tx/v1beta1/txs`]),
          method: "POST",
          body: Buffer.alloc(3_000_000, 0x5b),
          mayBeCut: true,
        }),
    ],
    [
      14,
      "abci-query",
      () => {
        const path = anyPath();
        const height = chance.often(0.5) ? {} : { height: chance.pick(HEIGHTS) };
        return wire.rpc(
          rpcUrl,
          call("abci_query", { path, data: bytesToHex(request(path)), prove: chance.often(0.2), ...height }),
        );
      },
    ],
    [
      6,
      "search",
      () => {
        const page = chance.often(0.5) ? {} : { page: chance.pick(HEIGHTS), per_page: chance.pick(HEIGHTS) };
        return wire.rpc(
          rpcUrl,
          call(chance.pick(["tx_search", "block_search"]), {
            query: search(),
            order_by: chance.pick(["asc", "desc", "", "x"]),
            ...page,
          }),
          // An answer of many megabytes is cut when it is not taken within eleven seconds.
          true,
        );
      },
    ],
    [
      18,
      "rest",
      () => {
        const path = chance
          .pick(REST_PATHS)
          .replaceAll("{a}", () =>
            chance.often(0.4) ? encodeURIComponent(chance.pick(world.addresses)) : chance.pick(PIECES),
          );
        const headers = chance.often(0.3) ? { "x-cosmos-block-height": chance.pick(HEIGHTS).trim() } : {};
        return wire.http({ url: restUrl + path + chance.pick(QUERIES), headers });
      },
    ],
    [
      4,
      "rest-body",
      () =>
        wire.http({
          url: `${restUrl}${chance.pick(["/cosmos/tx/v1beta1/txs", "/cosmos/tx/v1beta1/simulate", "/cosmos/tx/v1beta1/decode", "/cosmos/tx/v1beta1/encode"])}`,
          method: chance.pick(["POST", "PUT", "DELETE"]),
          body: chance.often(0.5) ? deepJson(chance.pick(DEPTHS), true) : chance.bytes(chance.below(300)),
        }),
    ],
    [
      16,
      "grpc",
      () => {
        const path = chance.often(0.9)
          ? chance.pick(world.queryPaths)
          : chance.pick(["/a/b", "/cosmos.bank.v1beta1.Query/Nothing", "/x.y.Msg/Send"] as const);
        return wire.grpc(path, request(path), chance.often(0.3) ? chance.pick(HEIGHTS) : undefined);
      },
    ],
    [
      3,
      "socket",
      () => {
        const subscribe = (): string =>
          call("subscribe", { query: chance.often(0.5) ? "tm.event='NewBlock'" : search() });
        const other = (): string | Uint8Array =>
          chance.often(0.5) ? call(chance.pick(METHODS), params()) : chance.bytes(50);
        const messages = Array.from({ length: 1 + chance.below(20) }, () =>
          chance.often(0.6) ? subscribe() : other(),
        );
        return wire.socket(rpcUrl, messages, 1);
      },
    ],
    [
      4,
      "raw",
      () => {
        const heads = [
          "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Le",
          "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\n{}",
          "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
          "GET /websocket HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
          `GET /${"a".repeat(400_000)} HTTP/1.1\r\n\r\n`,
          `GET / HTTP/1.1\r\n${"X: y\r\n".repeat(4_000)}\r\n`,
          "\u0016\u0003\u0001\u0002\u0000\u0001",
        ] as const;
        const bytes = chance.often(0.3) ? chance.bytes(500) : Buffer.from(chance.pick(heads), "latin1");
        return wire.raw(chance.pick([rpcUrl, restUrl, grpcTarget]), bytes, 200);
      },
    ],
  ];
  const weights = kinds.map(([weight, kind, fire]) => [weight, { kind, fire }] as const);
  return () => chance.weighted(weights);
}
