import { RULES, type RuleSet } from "../state/rules.ts";

type RuleName = (typeof RULES)[number];

/** What each of the rules does to a state that was made by those before it; the first have none before them. */
const MIGRATIONS: Readonly<Record<RuleName, RuleSet["migrate"]>> = {
  v1: undefined,
};

/** All rules that this program can run blocks by, in their order. */
export const RULE_SETS: readonly RuleSet[] = RULES.map((name) => {
  const migrate = MIGRATIONS[name];
  return migrate === undefined ? { name } : { name, migrate };
});
