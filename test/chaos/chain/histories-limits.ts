import { systemClock } from "@turnpike/base";
import { causeOf, errorText, makeGround } from "../../../packages/chain/test/generated/history.ts";
import { type LimitCase, limitCases, runLimitCase } from "../../../packages/chain/test/generated/limits.ts";
import type { LiveChain } from "../../../packages/chain/test/generated/live-chain.ts";
import type { ChaosFigure } from "../chaos.ts";

interface LimitRun {
  readonly bytes: number;
  readonly isTried: (name: string) => boolean;
}

/** First as much as nodes gossip, then as much as a byzantine proposer puts into a block, which takes a second each. */
const RUNS: Readonly<Record<"short" | "full", readonly LimitRun[]>> = {
  short: [{ bytes: 100_000, isTried: (name) => /: (list|bytes|text of "(a|9)")$/.test(name) }],
  full: [
    { bytes: 1_000_000, isTried: () => true },
    { bytes: 20_000_000, isTried: (name) => /: (list|bytes|text of "(a|\/)")$/.test(name) },
  ],
};

/** The state that the limits are tried on. */
export function makeGroundOfLimits(): LiveChain {
  return makeGround("limits");
}

/** Runs every message type with each of its parts as long as fits, each in a block of its own. */
export function runLimits(
  chain: LiveChain,
  size: "short" | "full",
): { readonly figures: readonly ChaosFigure[]; readonly faults: readonly string[] } {
  const faults = new Map<string, string>();
  let [count, slowestMs, slowest] = [0, 0, ""];
  const runOne = (limit: LimitCase): void => {
    count++;
    try {
      const beganMs = systemClock.monotonicMs();
      runLimitCase(chain, limit);
      const ms = systemClock.monotonicMs() - beganMs;
      if (ms > slowestMs) [slowestMs, slowest] = [ms, limit.name];
    } catch (error) {
      const cause = causeOf(error);
      if (!faults.has(cause)) faults.set(cause, `${limit.name}: ${errorText(error)}`);
    }
  };
  for (const { bytes, isTried } of RUNS[size]) {
    for (const limit of limitCases(chain, bytes, isTried)) runOne(limit);
  }
  return {
    figures: [
      { what: "messages with one part at its limit", value: count, unit: "" },
      { what: `slowest of them (${slowest})`, value: slowestMs, unit: "ms" },
    ],
    faults: [...faults.values()],
  };
}
