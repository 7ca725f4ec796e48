import { Type } from "typebox";
import { connections, databaseUrl, entry, flag, integer, list, oneOf, port, section, text, textOf } from "./keys.ts";

const secret = (description: string) =>
  Type.String({
    minLength: 32,
    maxLength: 1_024,
    description,
    "x-expected": "at least 32 characters, such as of openssl rand -hex 32",
    "x-secret": true,
  });

const TOKEN_KEY = entry(
  {
    kid: Type.String({
      pattern: "^[A-Za-z0-9._-]{1,64}$",
      description: "Id that tokens name this key by. No default.",
      "x-expected": "letters, digits, dots, lines and underscores",
    }),
    algorithm: oneOf(
      ["HS256", "RS256", "ES256"],
      "How tokens of this key are signed. No other way is taken. No default.",
    ),
    secret: Type.Optional(
      secret("HS256: the shared secret. Take it from the environment, as the manual shows. No default."),
    ),
    publicKey: Type.Optional(textOf("RS256 and ES256: the public key, PEM (SPKI). No default.")),
  },
  "One key that tokens are checked with.",
);

const perSecond = (fallback: number, description: string) => integer(fallback, 1, 1_000_000, description);
const milliseconds = (fallback: number, least: number, most: number, description: string) =>
  integer(fallback, least, most, `${description}, in milliseconds.`);

/** The management data API. */
export const PORTAL_DB = section(
  {
    url: Type.Optional(
      databaseUrl(
        "PostgreSQL of the management data, as its role portal_authenticator; PORTAL_DATABASE_URL sets it too. `turnpike db migrate` gives the role the password that stands here. No default.",
      ),
    ),
    ownerUrl: Type.Optional(
      databaseUrl(
        "The same database as its owner, who may make roles and tables: for `turnpike db migrate` and `turnpike db revoke` only. PORTAL_OWNER_DATABASE_URL sets it too. No default: else it is ledger.url.",
      ),
    ),
    gatewayUrl: Type.Optional(
      databaseUrl(
        "The same database as its role portal_gateway, for the gateway: it knows applications by their keys and counts their calls. PORTAL_GATEWAY_DATABASE_URL sets it too. No default: without one no key is known.",
      ),
    ),
    host: text("127.0.0.1", "Address to listen on."),
    port: port(3000, "Port of the management data API."),
    poolSize: integer(10, 1, 200, "Most connections to the database; calls with one token have half of them at most."),
    maxRows: integer(1_000, 1, 1_000_000, "Most rows of one answer."),
    maxBodyBytes: integer(1_048_576, 1_024, 67_108_864, "Largest request body, in bytes."),
    maxHeaderBytes: integer(
      65_536,
      8_192,
      1_048_576,
      "Largest head of a request, in bytes: long lists of a filter stand in its first line.",
    ),
    requestTimeoutMs: milliseconds(
      10_000,
      1_000,
      300_000,
      "Longest time for a request to arrive, and for an answer to stand still because its client does not read it: the connection is cut",
    ),
    statementTimeoutMs: section(
      {
        reader: milliseconds(5_000, 10, 600_000, "Longest time of one statement of a reader"),
        admin: milliseconds(15_000, 10, 600_000, "Longest time of one statement of an admin"),
      },
      "Longest time of one statement, by role.",
    ),
    lockTimeoutMs: milliseconds(2_000, 10, 600_000, "Longest wait for a row that another request holds"),
    connectTimeoutMs: milliseconds(5_000, 100, 60_000, "Longest wait for a connection to the database"),
    ...connections(1_000, 250),
    maxInFlight: integer(256, 1, 10_000, "Requests at once; more are answered 503."),
    maxInFlightPerToken: integer(64, 1, 10_000, "Requests at once with one token; more are answered 429."),
    trustedProxies: list(
      Type.String({ minLength: 2, maxLength: 64, description: "IP address or CIDR block." }),
      64,
      "Proxies whose X-Forwarded-For is believed, read from the right. Empty: none, and the client is who connects.",
    ),
    corsOrigins: Type.Array(Type.String({ minLength: 1, maxLength: 256, description: "An origin, or `*`." }), {
      maxItems: 64,
      default: ["*"],
      description: "Origins whose pages may call; `*` is any. Cookies are never taken.",
    }),
    rate: section(
      {
        perTokenPerSecond: perSecond(500, "Requests a second with one token; twice as many at once."),
        refusedPerAddressPerSecond: perSecond(
          10,
          "Refused tokens a second from one address, or one /64 of IPv6; twice as many at once. Good tokens are not held up by it.",
        ),
      },
      "Rate limits. More is answered 429.",
    ),
    auditDays: integer(
      365,
      30,
      36_500,
      "Days that the audit of writes is kept. `turnpike db` removes what is older, in small batches, every hour.",
    ),
    revealCreatedHash: flag(
      false,
      "True: the answer to an admin's insert has the `secret_key_hash` that was sent. Nothing else ever shows a hash.",
    ),
    jwt: section(
      {
        secret: Type.Optional(
          secret("Secret of tokens without a `kid`, HS256; PORTAL_JWT_SECRET sets it too. No default."),
        ),
        keys: list(TOKEN_KEY, 16, "Keys of tokens that name a `kid`. Two at a time make a change of keys."),
        audience: text("postgrest", "What the claim `aud` must name."),
        maxLifetimeSeconds: integer(
          86_400,
          60,
          31_536_000,
          "Longest time between the making of a token and its end, in seconds.",
        ),
      },
      "Bearer tokens.",
    ),
    metrics: section(
      {
        host: text("127.0.0.1", "Address of the metrics server. It is not meant for the public."),
        port: Type.Optional(
          port(undefined, "Port of `GET /metrics`, such as 9093. No default: without one there is no such server."),
        ),
      },
      "Prometheus metrics of the management data API.",
    ),
  },
  "The management data API (`turnpike db`).",
);
