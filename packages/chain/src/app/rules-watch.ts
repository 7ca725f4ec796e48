import { AppError, type Log, type Metrics } from "@turnpike/base";
import { chainRulesHeight, chainUpgradeHeight, chainUpgradeUnknown } from "../metrics.ts";
import { unknownRules } from "../modules/upgrade/upgrade-module.ts";
import { FIRST_RULES, type RuleSet } from "../state/rules.ts";
import type { RulesAhead } from "./state-machine.ts";

export interface RulesWatchModules {
  /** All rules that this program has. */
  readonly programRules: readonly RuleSet[];
  readonly metrics: Metrics;
  readonly log: Log;
}

/** Reports by what rules a chain runs its blocks, and the upgrade that is planned: in the log when it changes, and as metrics. */
export class RulesWatch {
  readonly #programRules: readonly RuleSet[];
  readonly #metrics: Metrics;
  readonly #log: Log;
  #rules: string | undefined;
  #plan = "";

  constructor({ programRules, metrics, log }: RulesWatchModules) {
    this.#programRules = programRules;
    this.#metrics = metrics;
    this.#log = log;
  }

  /** @throws AppError CHAIN_RULES when this program cannot run the next block */
  check({ rules }: RulesAhead): void {
    const missing = unknownRules(rules.inForce, this.#programRules);
    if (missing.length === 0) return;
    const names = missing.map(({ name, heightBlocks }) => `"${name}" (since block ${heightBlocks})`).join(", ");
    throw new AppError("CHAIN_RULES", {
      message: `The chain's state has the rules ${names}, and this program has ${this.#names()}.`,
    });
  }

  /** Takes in the state after the newest block. */
  stands({ rules, plan }: RulesAhead, heightBlocks: bigint): void {
    const { newest, inForce } = rules;
    const isChanged = newest !== this.#rules;
    if (isChanged) {
      const since = inForce.at(-1)?.heightBlocks;
      if (since === undefined) {
        const next = `${heightBlocks + 1n}`;
        this.#log.warn(
          { rules: FIRST_RULES, heightBlocks: next },
          "a version whose rules had no name made the newest block; the next one begins these rules, on all validators alike",
        );
      } else {
        this.#log.info({ rules: newest, since: `${since}`, has: this.#names() }, "rules of blocks");
      }
      this.#rules = newest;
    }
    for (const { name, heightBlocks: height } of inForce) {
      this.#metrics.set(chainRulesHeight, Number(height), { rules: name });
    }
    const isKnown = plan === undefined || this.#programRules.some(({ name }) => name === plan.name);
    this.#metrics.set(chainUpgradeHeight, Number(plan?.height ?? 0n));
    this.#metrics.set(chainUpgradeUnknown, isKnown ? 0 : 1);
    const planText = plan === undefined ? "" : `${plan.height} ${plan.name} ${plan.info}`;
    if (planText === this.#plan) return;
    this.#plan = planText;
    if (plan === undefined) {
      if (!isChanged) this.#log.info({ heightBlocks: `${heightBlocks}` }, "no upgrade is planned any more");
      return;
    }
    const fields = { upgrade: plan.name, height: `${plan.height}`, info: plan.info, has: this.#names() };
    if (isKnown) this.#log.info(fields, "an upgrade is planned, and this program has it");
    else this.#log.warn(fields, "an upgrade is planned that this program does not have: it will stop at that height");
  }

  #names(): string {
    return this.#programRules.map(({ name }) => name).join(", ");
  }
}
