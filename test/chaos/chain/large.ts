import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { AppError } from "@turnpike/base";
import type { ChaosFigure, ChaosPart } from "../chaos.ts";
import type { LargeFigures } from "./large-child.ts";
import type { LargeSize } from "./large-ground.ts";

/** The state of the issue. */
const WHOLE: LargeSize = { suppliers: 5_000, services: 300, applications: 200 };
const CLAIMS = 6_000;
/** How an amount may grow with the state: 1 is linear. */
const MOST_GROWTH = 1.15;
/** The same for times, which other programs on the machine disturb. */
const MOST_GROWTH_OF_TIME = 1.4;

type Quantity = keyof LargeFigures;

interface Shown {
  readonly name: Quantity;
  readonly what: string;
  readonly unit: string;
  readonly divisor?: number;
  readonly kind: "amount" | "time" | "memory";
}

const KB = 1_024;
const SHOWN: readonly Shown[] = [
  { name: "claims", what: "claims", unit: "", kind: "amount" },
  { name: "genesisBytes", what: "genesis, written", unit: "kB", divisor: KB, kind: "amount" },
  { name: "emptyBytes", what: "empty block, written", unit: "bytes", kind: "amount" },
  { name: "claimsBytes", what: "blocks of claims, written", unit: "kB", divisor: KB, kind: "amount" },
  { name: "settleBytes", what: "settlement, written", unit: "kB", divisor: KB, kind: "amount" },
  { name: "settleEntries", what: "settlement, entries", unit: "", kind: "amount" },
  { name: "settleEvents", what: "settlement, events", unit: "", kind: "amount" },
  { name: "fileBytes", what: "the store's file", unit: "MB", divisor: KB * KB, kind: "amount" },
  { name: "emptyMs", what: "empty block, CPU", unit: "ms", kind: "time" },
  { name: "claimBlockMs", what: "a quarter of the claims in a block, CPU", unit: "ms", kind: "time" },
  { name: "settleMs", what: "settlement, CPU", unit: "ms", kind: "time" },
  { name: "heapMb", what: "heap, at most", unit: "MB", kind: "memory" },
  { name: "memoryMb", what: "memory of the process, at most", unit: "MB", kind: "memory" },
];

/** In a process of its own, whose memory nothing else has used. */
async function measure(size: LargeSize): Promise<LargeFigures> {
  const child = fork(join(import.meta.dirname, "large-child.ts"), { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const exited = once(child, "exit");
  try {
    child.send(size);
    const [figures] = (await Promise.race([once(child, "message"), exited])) as [LargeFigures | number | null];
    if (typeof figures === "object" && figures !== null) return figures;
    throw new AppError("INTERNAL", { message: `The measurement of ${size.suppliers} suppliers ended: ${figures}.` });
  } finally {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    await exited;
  }
}

/** The exponent e of y = c·x^e, by least squares of the logarithms. */
export function growthOf(points: readonly (readonly [x: number, y: number])[]): number {
  const logs = points.map(([x, y]) => [Math.log(x), Math.log(Math.max(y, 1e-9))] as const);
  const mean = (at: 0 | 1): number => logs.reduce((sum, point) => sum + point[at], 0) / logs.length;
  const [x, y] = [mean(0), mean(1)];
  const above = logs.reduce((sum, [a, b]) => sum + (a - x) * (b - y), 0);
  return above / logs.reduce((sum, [a]) => sum + (a - x) ** 2, 0);
}

/** A large state at three sizes: what blocks write, how long they take, and how much memory; none grows faster than the state. */
export const large: ChaosPart = async ({ size, progress }) => {
  const shares = size === "short" ? [1 / 20, 1 / 10, 1 / 5] : [1 / 4, 1 / 2, 1];
  const run = async (share: number) => {
    const suppliers = WHOLE.suppliers * share;
    progress(`${suppliers} suppliers`);
    const scaled = { suppliers, services: WHOLE.services * share, applications: WHOLE.applications * share };
    const figures = await measure(scaled);
    assert.equal(figures.claims, CLAIMS * share);
    assert.equal(figures.settled, figures.claims);
    return { suppliers, figures };
  };
  const runs: { readonly suppliers: number; readonly figures: LargeFigures }[] = [];
  // Amounts are the same whatever runs beside; times are not.
  if (size === "short") runs.push(...(await Promise.all(shares.map(run))));
  else for (const share of shares) runs.push(await run(share));
  const result: ChaosFigure[] = [];
  for (const { name, what, unit, divisor = 1, kind } of SHOWN) {
    for (const { suppliers, figures } of runs) {
      result.push({ what: `${suppliers} suppliers: ${what}`, value: figures[name] / divisor, unit });
    }
    const growth = growthOf(runs.map(({ suppliers, figures }) => [suppliers, figures[name]]));
    result.push({ what: `growth of ${what} (1 is linear)`, value: growth, unit: "" });
    const most = kind === "time" ? MOST_GROWTH_OF_TIME : MOST_GROWTH;
    // Times and memory of small states say little.
    if (kind === "amount" || size === "full") assert.ok(growth <= most, `${what} grows with exponent ${growth}`);
  }
  return { figures: result };
};
