import { type Static, Type } from "typebox";
import {
  address,
  anyUrl,
  byService,
  connections,
  databaseUrl,
  defaultsOf,
  entry,
  flag,
  integer,
  list,
  oneOf,
  port,
  section,
  sellerKey,
  text,
  textOf,
  url,
} from "./keys.ts";
import { CATALOGUE } from "./schema-catalogue.ts";
import { CHAIN } from "./schema-chain.ts";
import { GATEWAY } from "./schema-gateway.ts";
import { LIMITS, REDIS, unpaid } from "./schema-limits.ts";
import { ADMIN, LOG, TRACING } from "./schema-operate.ts";
import { NETWORK, RELAYER, RELAYER_KEYS, SELLER } from "./schema-payment.ts";
import { PORTAL_DB } from "./schema-portal.ts";
import { PROTOCOL, SUPPLIER_SECTION } from "./schema-protocol.ts";
import { CROSS_CHECK, LOGS, RELAY } from "./schema-relay.ts";
import { SEARCH } from "./schema-search.ts";

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
              patternProperties: { "^[A-Za-z0-9-]{1,64}$": { type: "string", maxLength: 4096, "x-secret": true } },
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
    crossCheck: CROSS_CHECK,
    logs: LOGS,
  },
  "Upstreams of one service.",
);

/** The whole configuration. One definition gives the types, the validation and `config.schema.json`. */
export const CONFIG_SCHEMA = Type.Object(
  {
    localnet: flag(
      false,
      "True only in a configuration that `turnpike up` wrote: allows sample keys, on loopback chains only.",
    ),
    allowedHosts: list(
      Type.String({
        pattern: "^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$",
        maxLength: 253,
        description: "A name without a port, in lower case.",
        "x-expected": "a host name such as search.internal",
      }),
      64,
      "Names by which requests reach the servers that are not meant for every web page: management data, search, facilitator, metrics, the admin API and the chain's RPC and REST. localhost, addresses in numbers and the names in `host` and `publicUrl` are always taken; other names are answered 403, because a web page may have its own name pointed here.",
    ),
    log: LOG,
    admin: ADMIN,
    tracing: TRACING,
    gateway: GATEWAY,
    relay: RELAY,
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
        releasedRetentionSeconds: integer(
          86_400,
          60,
          31_536_000,
          "How long a claim that was released and never used is kept once its window has closed, in seconds. Nothing was charged by it.",
        ),
        answerRetentionSeconds: integer(
          3_600,
          60,
          31_536_000,
          "How long a sold answer is kept for its payer to ask again, in seconds.",
        ),
        keylessAnswerSeconds: integer(
          120,
          1,
          3_600,
          "How long after its settlement a payment without an `answer-key` extension gets its stored answer, in seconds. All bytes of such a payment are public then, so it is for clients that send again at once, or after the longest `Retry-After` of a minute.",
        ),
      },
      "The durable record of payments.",
    ),
    payment: section(
      {
        mode: oneOf(
          ["local", "remote", "none"],
          "`local`: settle with own relayer keys. `remote`: ask the facilitator at `facilitatorUrl`. `none`: sell nothing; the gateway is the free relay alone, without ledger, keys and networks.",
          "local",
        ),
        facilitatorUrl: Type.Optional(
          url("Facilitator to ask in mode `remote`. No default: it is trusted with payments' liveness."),
        ),
        sellerKey: Type.Optional(sellerKey()),
        sellerKeyFile: Type.Optional(
          textOf(
            "File with the `sellerKey`, mode 600; a relative path starts at the folder of the configuration file. No default.",
          ),
        ),
        facilitatorTimeoutMs: integer(
          30_000,
          500,
          120_000,
          "Time for one request to the facilitator, in milliseconds: longer than the time after which it answers that a settlement is pending.",
        ),
        networks: list(
          NETWORK,
          16,
          "Payment options, first choice first. Empty: nothing can be sold, and a gateway must say so by mode `none`.",
        ),
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
        maxSignatureBytes: integer(
          2_048,
          65,
          8_192,
          "Longest signature of a contract wallet (ERC-1271, ERC-6492), in bytes: all of it is sent with the settlement, whose data costs a fee of its own on rollups.",
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
        metrics: section(
          {
            host: text("127.0.0.1", "Address of the metrics server. It is not meant for the public."),
            port: Type.Optional(
              port(undefined, "Port of `GET /metrics`, such as 9091. No default: without one there is no such server."),
            ),
          },
          "Prometheus metrics of the facilitator.",
        ),
        relayer: section(
          RELAYER_KEYS,
          "Relayer keys of the facilitator. They must be others than those of `payment.relayer`: each ledger leases its own.",
        ),
        payToAllowed: list(
          address("Receiver."),
          1_000,
          "The operator's own receivers that it settles for; settling costs gas. Empty: each `payTo` of `payment.networks`. Those of third parties belong in `sellers`.",
        ),
        payToAny: flag(
          false,
          "True: it settles for any receiver, and pays the gas for any client, within `keyless`. Such sales bring nothing: `whenUnprofitable` refuses them unless it is `settle`.",
        ),
        sellers: list(
          SELLER,
          1_000,
          "Third parties whose sales it settles, each by a key of its own. Empty: none, and an `Authorization` header means nothing.",
        ),
        keyless: section(
          {
            settlementsPerDay: integer(10_000, 1, 1_000_000_000, "Of all such sales together."),
            settlementsPerPayer: integer(250, 1, 1_000_000_000, "Of one payer."),
            settlementsPerReceiver: integer(2_500, 1, 1_000_000_000, "Of one receiver."),
          },
          "Most settlements a day (UTC) for third parties without a key, under `payToAny`: they pay nothing for the gas. More are answered 429. Counted in the ledger, for all processes together.",
        ),
        minAmountUnits: integer(
          1_000,
          1,
          1_000_000_000_000,
          "Least amount that it settles, in the token's smallest unit: every settlement costs gas.",
        ),
        ...connections(1_000, 250),
        maxConcurrentRequests: integer(
          256,
          1,
          10_000,
          "Verifications and settlements at once; more are answered 503 OVERLOADED.",
        ),
        maxConcurrentPerClient: integer(
          64,
          1,
          10_000,
          "Verifications and settlements of one client address (IPv6: each /64) at once; more are answered 429.",
        ),
        unpaidPerClient: unpaid(
          "Verifications and settlements of one client address (IPv6: each /64) that are refused or fail; more are answered 429. A client is a seller with many payers. What is settled is not limited.",
          { burst: 5_000, perSecond: 50 },
        ),
        trustedProxies: list(
          Type.String({ minLength: 2, maxLength: 64, description: "IP address or CIDR block." }),
          64,
          "Proxies whose X-Forwarded-For is believed, read from the right. Empty: none, and the client is who connects.",
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
    limits: LIMITS,
    redis: REDIS,
    portalDb: PORTAL_DB,
    search: SEARCH,
    chain: CHAIN,
    protocol: PROTOCOL,
    supplier: SUPPLIER_SECTION,
  },
  { additionalProperties: false },
);

/** How the suppliers of a service are asked that `suppliers` does not name, such as those of the chain's sessions. */
export const SUPPLIER_DEFAULTS = defaultsOf(SUPPLIER) as DeepReadonly<Omit<Static<typeof SUPPLIER>, "endpoints">>;

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
