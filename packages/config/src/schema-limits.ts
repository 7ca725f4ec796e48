import { Type } from "typebox";
import { decimal, integer, oneOf, section, text } from "./keys.ts";

const rule = (requests: number, windowSeconds: number, description: string) =>
  section(
    {
      requests: integer(requests, 1, 1_000_000_000, "Most requests in any window. A batch counts its items."),
      windowSeconds: integer(windowSeconds, 1, 3_600, "Length of the window, in seconds. It slides."),
      onStoreFailure: oneOf(
        ["local", "open", "closed"],
        "While Redis (without it, with several workers: their primary) does not answer: `local` counts without it, `open` refuses nothing, `closed` refuses everything.",
        "local",
      ),
    },
    description,
  );

/** The rule of payments that are presented and do not pay. */
export const unpaid = (description: string, most = { burst: 500, perSecond: 5 }) =>
  section(
    {
      burst: integer(
        most.burst,
        1,
        1_000_000,
        "Tokens to begin with: payments that may be under way or have ended unpaid at once.",
      ),
      perSecond: decimal(
        most.perSecond,
        0.1,
        100_000,
        "Tokens that come back in a second, up to `burst`. A paid call earns one more.",
      ),
    },
    description,
  );

/** Limits of the free relay, and of payments that do not pay. */
export const LIMITS = section(
  {
    perClient: rule(
      2_000,
      60,
      "For each client address (IPv6: each /64), over all services together: calls, and events that are sent over WebSockets.",
    ),
    perEndpoint: rule(10_000, 1, "For each service, over all clients together."),
    unpaid: section(
      {
        perClient: unpaid("For each client address (IPv6: each /64), over all paid routes together."),
        perPayer: unpaid(
          "For each payer: claims that were released or could not be settled. A facilitator that runs alone has it too.",
        ),
      },
      "Payments that are presented and do not pay. What is paid is not limited. They count for this machine, and with Redis are shared once a second.",
    ),
    maxClients: integer(
      100_000,
      1_000,
      10_000_000,
      "Most clients that one process counts one by one, about 300 bytes each; those beyond share counts.",
    ),
  },
  "Limits of the free relay, which count for this machine, or in Redis for several; and of payments that do not pay.",
);

/** The store that several processes share. */
export const REDIS = section(
  {
    url: Type.Optional(
      Type.String({
        pattern: "^rediss?://\\S+$",
        maxLength: 2048,
        description:
          "Redis that gateways share limits and what they learn of suppliers through; REDIS_URL sets it too. No default: without one each machine is for itself.",
        "x-expected": "a redis:// or rediss:// URL",
        "x-secret": "url",
      }),
    ),
    keyPrefix: text("turnpike", "Start of every key in Redis."),
    timeoutMs: integer(
      100,
      5,
      10_000,
      "Longest wait for one answer of Redis, in milliseconds. After three failures in a row it is left alone until it answers again.",
    ),
  },
  "What several processes share beside the ledger.",
);
