import { Type } from "typebox";
import { connections, flag, integer, list, port, section, text, url } from "./keys.ts";

/** Bounds of the free relay's WebSockets. */
const WEB_SOCKETS = section(
  {
    max: integer(10_000, 0, 900_000, "Open WebSockets; more are answered 503. It must be below `maxConnections`."),
    maxPerClient: integer(1_000, 1, 900_000, "Open WebSockets of one client address; more are answered 429."),
    maxMessageBytes: integer(
      1_048_576,
      1_024,
      67_108_864,
      "Largest message of a client, in bytes; more closes with 1009.",
    ),
    maxSubscriptionsPerSocket: integer(100, 1, 100_000, "Subscriptions of one WebSocket; more are refused."),
    maxQueuedBytes: integer(
      4_194_304,
      65_536,
      1_073_741_824,
      "Most bytes that wait for one slow client, in bytes; more closes with 1013.",
    ),
    maxTotalQueuedBytes: integer(
      268_435_456,
      1_048_576,
      17_179_869_184,
      "The same over all clients, in bytes; the slowest are closed first.",
    ),
    maxMessagesInFlight: integer(
      32,
      1,
      10_000,
      "Messages of one client that are worked on at once; then none are read.",
    ),
    pingIntervalMs: integer(
      30_000,
      1_000,
      600_000,
      "Time between two pings, in milliseconds; who does not answer is ended.",
    ),
  },
  "The free relay's WebSockets.",
);

/** Edges of the gateway. */
export const GATEWAY = section(
  {
    host: text("127.0.0.1", "Address to listen on. `0.0.0.0` is every interface."),
    port: port(3069, "Port of paid routes, relay and health."),
    workers: integer(
      1,
      0,
      64,
      "Processes that serve, on this machine; 0: one for each CPU core. Above 1 a primary starts them, and in `payment.mode: local` each needs a relayer key of its own.",
    ),
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
      "Maximum bytes of request bodies that are held at once. Those of free calls may be half of them, those of paid calls of one client a quarter. Each service limits its own body.",
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
    maxConcurrentRequests: integer(
      1_000,
      1,
      100_000,
      "Calls under way at once, for the paid routes and for the free relay each; more are answered 503 OVERLOADED.",
    ),
    maxConcurrentPerClient: integer(
      256,
      1,
      100_000,
      "Free calls under way at once of one client (address, or application with a key), over HTTP and WebSockets, and as many paid calls, but at most a quarter of all; more are answered 429.",
    ),
    ...connections(20_000, 250),
    maxBatchItems: integer(1_000, 1, 100_000, "Calls in one batch of the free relay; more are answered 413."),
    webSockets: WEB_SOCKETS,
    watchConfig: flag(
      true,
      "True: the configuration file is watched, and what may change while the gateway runs is put into effect.",
    ),
    trustedProxies: list(
      Type.String({ minLength: 2, maxLength: 64, description: "IP address or CIDR block." }),
      64,
      "Proxies whose X-Forwarded-For is believed, read from the right. Empty: none, and the client is who connects.",
    ),
  },
  "The paid routes, the relay, health and metrics.",
);
