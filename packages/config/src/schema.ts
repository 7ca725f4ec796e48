import { type Static, Type } from "typebox";
import {
  address,
  anyUrl,
  byService,
  databaseUrl,
  decimal,
  entry,
  flag,
  integer,
  list,
  oneOf,
  port,
  privateKey,
  section,
  text,
  textOf,
  url,
} from "./keys.ts";
import { CATALOGUE } from "./schema-catalogue.ts";

const NETWORK = entry(
  {
    network: Type.String({
      pattern: "^eip155:[1-9][0-9]{0,17}$",
      description: "CAIP-2 id of the settlement chain: `eip155:8453` is Base. No default: it says where money moves.",
      "x-expected": "eip155: and a chain id, such as eip155:8453",
    }),
    rpcUrls: Type.Array(url("JSON-RPC URL of a node of this chain."), {
      minItems: 1,
      maxItems: 8,
      description:
        "Nodes of this chain, first choice first. No default: whoever runs the node is trusted with payments.",
    }),
    asset: address("Token contract that is paid in (EIP-3009). No default: it is the money."),
    name: textOf(
      "EIP-712 domain name of the token. It differs by deployment: `USD Coin` on Base, `USDC` on Base Sepolia. No default.",
    ),
    version: text("2", "EIP-712 domain version of the token."),
    decimals: integer(6, 0, 36, "Decimal places of the token."),
    payTo: address("Who is paid. No default: it is your account."),
    multicall3: address(
      "Multicall3 contract, for batches. The default is its address on almost every chain.",
      "0xcA11bde05977b3631167028862bE2a173976CA11",
    ),
    confirmations: integer(
      1,
      1,
      100,
      "Blocks that a settlement must have, its own included, before its answer is handed out.",
    ),
    finalityBlocks: integer(
      64,
      1,
      100_000,
      "Blocks after which a settlement is taken as final and no longer looked at.",
    ),
    blockTimeSeconds: decimal(2, 0.1, 600, "Usual time between blocks, in seconds."),
    maxTimeoutSeconds: integer(
      60,
      10,
      3600,
      "Time that a payer is asked to sign for, in seconds (`maxTimeoutSeconds`).",
    ),
    allowedFactories: list(
      address("Factory contract."),
      64,
      "Wallet factories that may be called to check a wallet that is not deployed yet (ERC-6492). Empty: none.",
    ),
  },
  "One token on one chain that payments are taken in.",
);

const RELAYER_KEYS = {
  keysFile: Type.Optional(
    textOf(
      "File with one private key a line, mode 600. No default: keys belong to the operator. The environment variable TURNPIKE_RELAYER_KEYS (comma separated) does the same.",
    ),
  ),
  keys: list(
    privateKey("Private key."),
    64,
    "Private keys, written here. Only with `localnet: true`: a configuration file is no place for a key.",
  ),
};

const RELAYER = section(
  {
    ...RELAYER_KEYS,
    batchWindowMs: integer(
      100,
      0,
      10_000,
      "How long a settlement waits for others to share its transaction, in milliseconds.",
    ),
    maxBatch: integer(50, 1, 200, "Most settlements in one transaction."),
    maxFeePerGasGwei: decimal(
      5,
      0.000001,
      100_000,
      "Most that is paid for a unit of gas, in gwei. Settlements wait while the chain asks for more.",
    ),
    maxPriorityFeePerGasGwei: decimal(0.001, 0, 10_000, "Tip for a unit of gas, in gwei."),
    bumpAfterMs: integer(
      10_000,
      500,
      600_000,
      "Time after which a transaction that is not mined is sent again with a higher fee, in milliseconds.",
    ),
    bumpPercent: integer(20, 13, 100, "By how much the fee is then raised, in percent. Nodes refuse less than 12.5."),
    maxOpenBatches: integer(16, 1, 64, "Most transactions of one key that are not mined."),
    gasPerTransfer: integer(
      120_000,
      50_000,
      1_000_000,
      "Gas limit of one transfer of a payer without a contract wallet.",
    ),
    reconcileIntervalMs: integer(
      5_000,
      100,
      600_000,
      "Time between looks at finality, closed windows and free keys, in milliseconds.",
    ),
    leaseSeconds: integer(
      5,
      2,
      600,
      "Time after which a process that is not heard of loses its relayer keys, in seconds.",
    ),
    minBalanceGwei: decimal(
      1_000_000,
      0,
      1_000_000_000_000,
      "Gas money below which a relayer key settles nothing new, in gwei.",
    ),
  },
  "The accounts that send settlements and pay their gas.",
);

const BACKEND_URLS = entry(
  {
    json_rpc: Type.Optional(anyUrl("JSON-RPC over HTTP. No default.")),
    rest: Type.Optional(anyUrl("HTTP-JSON, or the REST API of a Cosmos-style chain. No default.")),
    comet_bft: Type.Optional(anyUrl("CometBFT RPC of a Cosmos-style chain. No default.")),
    websocket: Type.Optional(
      anyUrl("JSON-RPC over WebSocket, for the free relay; not used by paid calls. No default."),
    ),
  },
  "Base URLs by how they are spoken to. No defaults: they are the operator's.",
);

const SUPPLIER = entry(
  {
    endpoints: Type.Array(
      entry(
        {
          operator: textOf("Who runs it. Endpoints of one operator share a score; no default."),
          urls: BACKEND_URLS,
          headers: Type.Optional(
            Type.Unsafe<Record<string, string>>({
              type: "object",
              patternProperties: { "^[A-Za-z0-9-]{1,64}$": { type: "string", maxLength: 4096 } },
              additionalProperties: false,
              description:
                "Headers to send, such as an API key. Take secrets from the environment, as the manual shows. No default.",
              "x-map": "a header name",
            }),
          ),
        },
        "One upstream.",
      ),
      {
        minItems: 1,
        maxItems: 64,
        description: "Upstreams of this service. No default: without one it is not served.",
      },
    ),
    timeoutMs: integer(10_000, 50, 120_000, "Time for one attempt, in milliseconds."),
    maxAttempts: integer(3, 1, 10, "Most upstreams that one call tries."),
  },
  "Upstreams of one service.",
);

const GATEWAY = section(
  {
    host: text("127.0.0.1", "Address to listen on. `0.0.0.0` is every interface."),
    port: port(3069, "Port of paid routes, relay and health."),
    publicUrl: Type.Optional(
      url(
        "Address that buyers see, without a slash at its end: the start of `resource.url`. No default: it is made of `host` and `port`.",
      ),
    ),
    relayDomain: text("localhost", "Domain of the relay hosts: `<service id>.<relayDomain>`."),
    metrics: section(
      {
        host: text("127.0.0.1", "Address of the metrics server. It is not meant for the public."),
        port: port(9090, "Port of `GET /metrics`."),
      },
      "Prometheus metrics.",
    ),
    maxBufferedBytes: integer(
      268_435_456,
      1_048_576,
      17_179_869_184,
      "Most bytes of request bodies that are held at once, over all requests. Each service limits its own body.",
    ),
    maxHeaderBytes: integer(32_768, 8_192, 262_144, "Largest header block of a request, in bytes."),
    maxAnswerBytes: integer(4_194_304, 1_024, 67_108_864, "Largest upstream answer that is sold, in bytes."),
    requestTimeoutMs: integer(10_000, 100, 300_000, "Time in which a whole request must arrive, in milliseconds."),
    upstreamTimeoutMs: integer(20_000, 100, 120_000, "Time for all attempts of a call together, in milliseconds."),
    shutdownTimeoutMs: integer(
      8_000,
      0,
      300_000,
      "Time that calls under way have to end at shutdown, in milliseconds.",
    ),
    maxConcurrentRequests: integer(1_000, 1, 100_000, "Paid calls at once; more are answered 503 OVERLOADED."),
    trustedProxies: list(
      Type.String({ minLength: 2, maxLength: 64, description: "IP address or CIDR block." }),
      64,
      "Proxies whose X-Forwarded-For is believed. Empty: none.",
    ),
  },
  "The paid routes, the relay, health and metrics.",
);

/** The whole configuration. One definition gives the types, the validation and `config.schema.json`. */
export const CONFIG_SCHEMA = Type.Object(
  {
    localnet: flag(
      false,
      "True only in a configuration that `turnpike up` wrote: allows sample keys, on loopback chains only.",
    ),
    log: section(
      { level: oneOf(["debug", "info", "warn", "error", "silent"], "Lowest level that is logged.", "info") },
      "Logs, as JSON lines on the error output.",
    ),
    gateway: GATEWAY,
    ledger: section(
      {
        url: Type.Optional(
          databaseUrl(
            "PostgreSQL of the payment ledger; DATABASE_URL sets it too. No default: it holds the record of all money.",
          ),
        ),
        schema: Type.String({
          pattern: "^[a-z_][a-z0-9_]{0,48}$",
          default: "turnpike",
          description: "PostgreSQL schema of the ledger's tables.",
          "x-expected": "a lower-case PostgreSQL name of at most 49 letters",
        }),
        poolSize: integer(10, 2, 200, "Most connections to the database."),
        answerRetentionSeconds: integer(
          86_400,
          60,
          31_536_000,
          "How long a sold answer is kept for its payer to ask again, in seconds.",
        ),
      },
      "The durable record of payments.",
    ),
    payment: section(
      {
        mode: oneOf(
          ["local", "remote"],
          "`local`: settle with own relayer keys. `remote`: ask the facilitator at `facilitatorUrl`.",
          "local",
        ),
        facilitatorUrl: Type.Optional(
          url("Facilitator to ask in mode `remote`. No default: it is trusted with payments' liveness."),
        ),
        facilitatorTimeoutMs: integer(
          20_000,
          500,
          120_000,
          "Time for one request to the facilitator, in milliseconds.",
        ),
        networks: list(NETWORK, 16, "Payment options, first choice first. Empty: nothing can be sold."),
        relayer: RELAYER,
        rpcTimeoutMs: integer(
          5_000,
          100,
          60_000,
          "Time for one request to a settlement chain's node, in milliseconds.",
        ),
        settleWaitMs: integer(
          20_000,
          100,
          300_000,
          "How long a call waits for its settlement before it is answered `settlement_pending`, in milliseconds.",
        ),
        settleMarginMs: integer(
          10_000,
          1_000,
          300_000,
          "Time kept for settling between the deadline of a call and the end of its payment's window, in milliseconds.",
        ),
        verifyThreads: integer(1, 0, 64, "Threads that check signatures; 0 checks them on the main thread."),
      },
      "How calls are paid.",
    ),
    facilitator: section(
      {
        host: text("127.0.0.1", "Address to listen on."),
        port: port(8402, "Port of POST /verify, POST /settle, GET /supported and GET /discovery/resources."),
        maxBodyBytes: integer(65_536, 1_024, 1_048_576, "Largest request body, in bytes."),
        relayer: section(
          RELAYER_KEYS,
          "Relayer keys of the facilitator. They must be others than those of `payment.relayer`: each ledger leases its own.",
        ),
        payToAllowed: list(
          address("Receiver."),
          1_000,
          "Receivers that it settles for; settling costs gas. Empty: any receiver.",
        ),
        discoveryUrl: Type.Optional(
          url(
            "Address of the gateway whose services `GET /discovery/resources` lists, as buyers see it. No default: without one the list is empty.",
          ),
        ),
      },
      "The facilitator that runs alone (`turnpike facilitator`). It settles in the tokens of `payment.networks`.",
    ),
    suppliers: byService(SUPPLIER, "Upstreams by service id. A service without one answers 503."),
    catalogue: CATALOGUE,
  },
  { additionalProperties: false },
);

/** Read-only all the way down. */
export type DeepReadonly<T> = T extends readonly (infer E)[]
  ? readonly DeepReadonly<E>[]
  : T extends object
    ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
    : T;

/** A validated, frozen configuration. */
export type Config = DeepReadonly<Static<typeof CONFIG_SCHEMA>>;
/** One payment option of the configuration. */
export type NetworkConfig = Config["payment"]["networks"][number];
/** Upstreams of one service. */
export type SupplierConfig = Config["suppliers"][string];
/** A new service. */
export type ServiceConfig = Config["catalogue"]["services"][string];
