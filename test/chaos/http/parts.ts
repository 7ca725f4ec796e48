import { fuzz } from "../../../packages/http1/test/fuzz.ts";
import type { ChaosPart } from "../chaos.ts";
import { besideNginx } from "./nginx.ts";

const REQUESTS = { short: 20_000, full: 1_000_000 };

/** Streams of plain, odd and broken requests, to the fast listener and to `node:http` alone: every byte that comes back. */
const differential: ChaosPart = async ({ size, progress }) => {
  const firstSeed = Number(process.env.FUZZ_SEED ?? 1) * 1_000_000;
  const { differences, ...sums } = await fuzz(firstSeed, REQUESTS[size], {
    progress: (requests) => progress(`${requests} requests`),
  });
  const { streams, requests, handled, handedOver, responses, refusals, cutShort, races } = sums;
  const figures = [
    { what: "streams", value: streams, unit: "" },
    { what: "requests put into them", value: requests, unit: "" },
    { what: "requests answered on the fast way", value: handled, unit: "" },
    { what: "connections handed over", value: handedOver, unit: "" },
    { what: "responses", value: responses, unit: "" },
    { what: "refusals of the parser", value: refusals, unit: "" },
    { what: "streams that a reset cut short on one way", value: cutShort, unit: "" },
    { what: "streams that end now so and now so", value: races, unit: "" },
    { what: "differences", value: differences.length, unit: "" },
  ];
  return { figures, faults: differences };
};

/** The parts of `npm run chaos -- http`. */
export const HTTP_PARTS: Readonly<Record<string, ChaosPart>> = { differential, nginx: besideNginx };
