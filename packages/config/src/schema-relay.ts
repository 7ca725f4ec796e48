import { Type } from "typebox";
import { decimal, flag, integer, section } from "./keys.ts";

/** Bounds of the relay, over all services together. */
export const RELAY = section(
  {
    maxInFlight: integer(2_000, 1, 1_000_000, "Calls at suppliers at once; more are answered 503 OVERLOADED."),
    maxInFlightBytes: integer(
      268_435_456,
      1_048_576,
      17_179_869_184,
      "Most bytes of answers that are held while they arrive, over all calls; more are answered 503 OVERLOADED.",
    ),
    maxCacheBytes: integer(67_108_864, 0, 17_179_869_184, "Most bytes of kept answers; 0 keeps none."),
    maxHeadAgeMs: integer(
      500,
      0,
      60_000,
      "Longest time for which an answer about the newest block is kept, in milliseconds; 0: not at all.",
    ),
    maxOperatorShare: decimal(
      0.5,
      0.05,
      1,
      "Part of a service's calls that one operator gets at most, while enough others are healthy.",
    ),
    hedgeQuantile: decimal(
      0.95,
      0.5,
      1,
      "A second supplier is asked when a read takes longer than this share of the calls like it; 1 never does.",
    ),
    maxHedgeShare: decimal(0.1, 0, 1, "Most second askings for each call, on average."),
    streamAfterBytes: integer(
      1_048_576,
      1_024,
      1_073_741_824,
      "Free answers that are larger are passed on while they arrive, in bytes.",
    ),
    maxStreamedBytes: integer(
      67_108_864,
      1_024,
      1_073_741_824,
      "Largest answer of the free relay, in bytes; large ones are passed on while they arrive.",
    ),
    probeIntervalMs: integer(
      10_000,
      500,
      3_600_000,
      "Time between two probes of a supplier, in milliseconds; a fifth more or less at random.",
    ),
  },
  "How suppliers are asked, over all services.",
);

/** How answers of one service are compared. */
export const CROSS_CHECK = section(
  {
    sold: integer(2, 1, 10, "Operators that must agree on an answer that is sold; 1 compares nothing."),
    free: integer(1, 1, 10, "The same for the free relay."),
    methods: Type.Unsafe<Record<string, number>>({
      type: "object",
      patternProperties: { "^[A-Za-z0-9_.:/{} -]{1,128}$": { type: "integer", minimum: 1, maximum: 10 } },
      additionalProperties: false,
      default: {},
      description: "The same by method, for both.",
      "x-map": "a method",
    }),
    strict: flag(
      false,
      "Without so many operators who agree: true gives no answer, false gives the best checked one and counts it.",
    ),
  },
  "How answers of several operators are compared, where they can be.",
);

/** How one service's questions for logs are taken apart. */
export const LOGS = section(
  {
    maxBlocks: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 100_000_000,
        description:
          "`eth_getLogs` of more blocks is asked in parts from the start. No default: only when suppliers refuse the whole.",
      }),
    ),
    maxParts: integer(
      32,
      1,
      1_000,
      "Most parts of one `eth_getLogs`; one that needs more gets the supplier's refusal.",
    ),
  },
  "How `eth_getLogs` of many blocks is taken apart.",
);
