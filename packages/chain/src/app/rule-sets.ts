import { RULES, type RuleSet } from "../state/rules.ts";

type RuleName = (typeof RULES)[number];

/** Migration of each set of rules from the state of the set before it; the first has none. */
const MIGRATIONS: Readonly<Record<RuleName, RuleSet["migrate"]>> = {
  v1: undefined,
};

/** All rules that this program can run blocks by, in their order. */
export const RULE_SETS: readonly RuleSet[] = RULES.map((name) => {
  const migrate = MIGRATIONS[name];
  return migrate === undefined ? { name } : { name, migrate };
});
