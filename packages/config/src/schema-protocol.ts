import { EVM_BOUNDS } from "@turnpike/base";
import { Type } from "typebox";
import {
  anyUrl,
  byService,
  connectingProxies,
  connections,
  entry,
  flag,
  integer,
  list,
  oneOf,
  port,
  section,
  text,
  textOf,
  url,
} from "./keys.ts";

const KEY_FILE =
  "mode 0600, as `turnpike chain key` writes it: JSON with `privateKey`, or the key alone as 64 hex digits";

const SERVICE_ID = Type.String({
  pattern: "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
  description: "Id of a service.",
  "x-expected": "a service id: lower-case letters, digits and -",
});

/** By the chain's rule, which is wider: what is only registered there may be refused by any id. */
const CHAIN_SERVICE_ID = Type.String({
  pattern: "^[a-zA-Z0-9_-]{1,42}$",
  description: "Id of a service, as registered on the chain.",
  "x-expected": "a service id of the chain: letters, digits, _ and -",
});

/** What a gateway knows of the relay protocol: sessions, and the keys that sign relays. */
export const PROTOCOL = section(
  {
    nodeUrl: Type.Optional(
      url(
        "CometBFT RPC of a node of the relay protocol's chain. No default: without one there are no sessions, and calls go to `suppliers` alone.",
      ),
    ),
    gatewayKeyFile: Type.Optional(
      textOf(
        `Key of the staked gateway (${KEY_FILE}). It signs relays for each application that is delegated to it. No default: without one only the applications of \`applicationKeyFiles\` are used.`,
      ),
    ),
    applicationKeyFiles: list(
      textOf(`Key of an application (${KEY_FILE}).`),
      256,
      "Applications that sign their own relays.",
    ),
    staticFallback: flag(
      false,
      "True: a service whose session has no supplier that can be reached is served by its static `suppliers`. A service without an application of this gateway always is.",
    ),
    delegatedBeforeStatic: flag(
      false,
      "True: a service that has static `suppliers` is served by the sessions of applications that are delegated to this gateway, instead of these. Anyone may delegate one and stake suppliers for it: set it only on a chain of your own, or to let the chain decide. False: only applications of `applicationKeyFiles` do that.",
    ),
    extraRelaysPercent: integer(
      10,
      0,
      1_000,
      "Most relays for probes, comparisons and hedges, as a percentage of a service's relays for clients. Each is paid for by the application. A small number is free of this, so that an idle service is still probed.",
    ),
    signingThreads: integer(
      1,
      0,
      64,
      "Threads that sign requests and check answers while several are under way; 0: the main thread does all.",
    ),
    allowPrivateSuppliers: flag(
      false,
      "True: suppliers of sessions may have private addresses. Anyone who stakes a supplier chooses its address: set it only on a chain of your own, or where no private address can be reached from this gateway.",
    ),
    refuseServices: list(
      CHAIN_SERVICE_ID,
      1_000,
      "Services that only the chain has and that are not served. Those of the catalogue are switched off by `enabled: false` in `catalogue.overrides`.",
    ),
    sell: oneOf(
      ["all", "listed"],
      "Which services are sold. `all`: each that the catalogue or `catalogue.services` has, unless `paid: false`. `listed`: of these only the ones that `sellServices` names, or whose owner on the chain `sellOwners` names. A service that only the chain has is sold by neither: define it in `catalogue.services`, with the operations that read.",
      "all",
    ),
    sellServices: list(SERVICE_ID, 1_000, "Services that are sold with `sell: listed`."),
    sellOwners: list(
      Type.String({
        pattern: "^pokt1[02-9ac-hj-np-z]{38}$",
        description: "Address of an owner.",
        "x-expected": "an address of the chain: pokt1 and 38 lower-case letters and digits",
      }),
      256,
      "Owners whose services are sold with `sell: listed`, as the chain names them: of services that have an application of this gateway, and from the moment at which the chain's node has named the owner.",
    ),
  },
  "The relay protocol, as a gateway uses it: sessions of the chain instead of static suppliers.",
);

const HEADERS = Type.Unsafe<Record<string, string>>({
  type: "object",
  patternProperties: { "^[A-Za-z0-9-]{1,64}$": { type: "string", maxLength: 4096, "x-secret": true } },
  additionalProperties: false,
  description: "Headers to send, such as an API key. Take secrets from the environment. No default.",
  "x-map": "a header name",
});

const BACKEND = entry(
  {
    url: anyUrl("Base URL of the back-end. No default."),
    headers: Type.Optional(HEADERS),
    healthPath: Type.Optional(
      Type.String({
        pattern: "^/\\S*$",
        maxLength: 1024,
        description:
          "Path that answers 2xx to GET while the back-end is well; it is asked every five seconds. No default: without one only calls show how it is. A WebSocket's is not asked.",
        "x-expected": "a path such as /health",
      }),
    ),
  },
  "One back-end of a service.",
);

const EVM_BOUNDS_SECTION = entry(
  {
    maxGas: integer(
      EVM_BOUNDS.maxGas,
      21_000,
      1_000_000_000_000,
      "Most gas of a simulated call or block: of `eth_call`, `eth_estimateGas`, `eth_createAccessList`, `eth_simulateV1`, `eth_callMany`, `debug_traceCall`, `trace_call` and `trace_callMany`. A call that names none has the node's own limit.",
    ),
    maxHistoryBlocks: integer(EVM_BOUNDS.maxHistoryBlocks, 1, 1_000_000, "Most blocks of `eth_feeHistory`."),
    maxHistoryPercentiles: integer(
      EVM_BOUNDS.maxHistoryPercentiles,
      1,
      10_000,
      "Most percentiles of `eth_feeHistory`.",
    ),
    maxSimulatedCalls: integer(
      EVM_BOUNDS.maxSimulatedCalls,
      1,
      100_000,
      "Most calls of one `eth_simulateV1`, `eth_callMany` or `trace_callMany`.",
    ),
    maxFilterItems: integer(
      EVM_BOUNDS.maxFilterItems,
      1,
      1_000_000,
      "Most addresses of a filter, values of one of its topics, and storage keys of `eth_getProof`.",
    ),
    maxTracedBlocks: integer(EVM_BOUNDS.maxTracedBlocks, 1, 100_000_000, "Most blocks that `trace_filter` searches."),
    maxTransactionBytes: integer(
      EVM_BOUNDS.maxTransactionBytes,
      1_024,
      16_777_216,
      "Largest transaction of `eth_sendRawTransaction`, in bytes.",
    ),
    maxBatchCalls: integer(EVM_BOUNDS.maxBatchCalls, 1, 10_000, "Most calls of a batch."),
  },
  "Bounds of JSON-RPC calls before the back-ends `json_rpc` and `websocket` are asked, for a service whose node speaks Ethereum's JSON-RPC. A call beyond them is answered here with error -32602, signed, and paid for as a relay; the tracers of `debug_trace*` may only be named, not programmed. `{}` has all the defaults. No default: without it everything is passed.",
);

const SUPPLIED_SERVICE = entry(
  {
    backends: entry(
      {
        json_rpc: Type.Optional(BACKEND),
        rest: Type.Optional(BACKEND),
        comet_bft: Type.Optional(BACKEND),
        websocket: Type.Optional(BACKEND),
        grpc: Type.Optional(BACKEND),
      },
      "Back-ends by RPC type, as they are staked for. No default: at least one.",
    ),
    defaultRpcType: Type.Optional(
      oneOf(
        ["json_rpc", "rest", "comet_bft", "websocket", "grpc"],
        "Which back-end a relay without `Rpc-Type` reaches. No default: the first of `backends`.",
      ),
    ),
    timeoutMs: integer(10_000, 50, 300_000, "Time for one answer of the back-end, in milliseconds."),
    maxAnswerBytes: integer(20_971_520, 1_024, 104_857_600, "Largest answer of the back-end, in bytes."),
    maxConcurrent: integer(256, 1, 100_000, "Relays under way at once; more are refused with 503."),
    relaysPerSecond: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000,
        description:
          "Most relays a second of one application, beside what its stake pays for; more are refused with 429. No default: there is no such bound.",
      }),
    ),
    evmBounds: Type.Optional(EVM_BOUNDS_SECTION),
  },
  "A service that is supplied.",
);

/** The supplier (`turnpike supplier`). */
export const SUPPLIER_SECTION = section(
  {
    nodeUrl: Type.Optional(
      url("CometBFT RPC of a node of the relay protocol's chain. No default: `turnpike supplier` needs it."),
    ),
    stateFolder: Type.Optional(
      textOf(
        "Folder of the relay logs: what is claimed is read from here. Keep it on a disk that survives. No default: `turnpike supplier` needs it.",
      ),
    ),
    host: text("127.0.0.1", "Address to listen on."),
    keys: list(
      entry(
        {
          operatorKeyFile: textOf(`Key of the supplier's operator (${KEY_FILE}). No default.`),
          port: port(undefined, "Port that its endpoints on the chain name. No default."),
        },
        "A supplier that is served here.",
      ),
      64,
      "Suppliers that this process serves, each on its own port.",
    ),
    services: byService(SUPPLIED_SERVICE, "Services that are supplied, with their back-ends."),
    metrics: section(
      {
        host: text("127.0.0.1", "Address of the metrics server. It is not meant for the public."),
        port: Type.Optional(
          port(
            undefined,
            "Port of `GET /metrics` and `GET /status`, such as 9095. No default: without one there is no such server, and `turnpike supplier status` cannot ask.",
          ),
        ),
      },
      "Prometheus metrics and the status of the supplier.",
    ),
    fsyncMs: integer(
      1_000,
      0,
      60_000,
      "Longest time until served relays are forced to the disk, in milliseconds; 0: before each answer. A killed process loses none either way; a lost machine loses the relays of this time.",
    ),
    maxRequestBytes: integer(
      916_480,
      1_024,
      916_480,
      "Largest relay request, in bytes. A relay of a larger one could not be claimed: its proof fits into no transaction.",
    ),
    maxConcurrentRelays: integer(2_000, 1, 100_000, "Relays under way at once; more are refused with 503."),
    // A gateway of the network keeps some 500 connections to a supplier that it likes.
    ...connections(10_000, 1_000),
    trustedProxies: connectingProxies(),
    signingThreads: integer(
      1,
      0,
      64,
      "Threads that check requests and sign answers while several are under way; 0: the main thread does all.",
    ),
    skipUnprofitableClaims: flag(
      false,
      "True: a claim that is worth less than its fees is not made. A proof that is required always is.",
    ),
    maxFeeUpokt: integer(
      100_000,
      1,
      Number.MAX_SAFE_INTEGER,
      "Maximum fee, in upokt, of a transaction with claims or proofs that is in no block yet when its window ends. Each of the last four blocks raises it eightfold; that of claims never above what they are worth.",
    ),
    unsettledPercent: integer(
      10,
      0,
      100,
      "Percentage of an application's stake for which the supplier works in a session while the chain has not settled earlier ones, whose suppliers may claim all of it. 0: only for what is sure to be paid. 100: as if no other supplier had worked for it.",
    ),
    minBalanceUpokt: integer(
      1_000_000,
      0,
      Number.MAX_SAFE_INTEGER,
      "Balance of an operator, in upokt, below which it is reported as low: claims and proofs pay fees.",
    ),
  },
  "The supplier (`turnpike supplier`): serves relays of sessions, and claims them.",
);
