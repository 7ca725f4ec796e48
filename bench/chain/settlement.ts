import { settle } from "@turnpike/protocol";
import { claimsOf, dueClaims, sessionsToSettle } from "../../packages/chain/src/modules/tokenomics/due-claims.ts";
import { settleDueClaims } from "../../packages/chain/src/modules/tokenomics/settle-claims.ts";
import { settlementSource } from "../../packages/chain/src/modules/tokenomics/settlement-input.ts";
import { GasMeter } from "../../packages/chain/src/state/gas.ts";
import { Overlay } from "../../packages/chain/src/state/overlay.ts";
import { addClaim, makeEconomy } from "../../packages/chain/test/modules/tokenomics/economy.ts";
import { blockAt } from "../../packages/chain/test/modules/tokenomics/recorded.ts";
import type { BenchOptions } from "../lib/benchmark.ts";
import type { Report } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import { cpuOf } from "./ground.ts";

const UNITS = 7n;
const [END, SETTLED] = [20n, 30n];

/** As many claims of one session end as one block settles, over the arithmetic of the protocol alone. */
export async function settlementReport({ quick, progress }: BenchOptions): Promise<Report> {
  const [applications, suppliers, rounds] = quick ? [40, 15, 2] : [130, 15, 3];
  const { state, ctx } = makeEconomy({
    applicationStakes: Array.from({ length: applications }, () => 10n ** 12n),
    supplierStakes: Array.from({ length: 300 }, () => 10n ** 10n),
    computeUnitsPerRelay: UNITS,
    tokenomics: {},
    proofRequestProbability: 0.25,
    penaltyUpokt: 1_000_000n,
    minStakeUpokt: 1n,
  });
  for (let application = 0; application < applications; application++) {
    for (let i = 0; i < suppliers; i++) {
      const supplier = (application * 7 + i * 20) % 300;
      addClaim(ctx, { application, supplier, end: END, relays: 1_000n + BigInt(i), units: UNITS, status: 1 });
    }
  }
  const whole: number[] = [];
  const alone: number[] = [];
  let count = 0;
  for (let round = 0; round <= rounds; round++) {
    progress(`settlement: ${round === 0 ? "warming up" : `round ${round} of ${rounds}`}`);
    const over = new Overlay(state);
    const run = {
      block: blockAt(SETTLED, new Uint8Array(32)),
      mode: "block" as const,
      state: over,
      gas: new GasMeter(),
      events: [],
    };
    const due = dueClaims(run, claimsOf(run, sessionsToSettle(run).fresh.flat()));
    count = due.length;
    const { input } = settlementSource(run, due);
    const arithmetic = (await cpuOf(() => settle(input))) / 1_000;
    const all = (await cpuOf(() => settleDueClaims({ ...run, state: new Overlay(state) }))) / 1_000;
    if (round === 0) continue;
    whole.push(all);
    alone.push(arithmetic);
  }
  return {
    rows: [
      {
        name: "chain.settle",
        title: `settlement of ${count.toLocaleString("en-US")} claims, CPU`,
        ours: { value: median(whole), unit: "ms" },
        reference: { value: median(alone), unit: "ms" },
        ratioOf: "ours / reference",
      },
    ],
    notes: ["The reference of settlement is its arithmetic alone: what is due is read before, and nothing is written."],
  };
}
