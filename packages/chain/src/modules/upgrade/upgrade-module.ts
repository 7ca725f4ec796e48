import { AppError } from "@turnpike/base";
import { authz, createMessage, packAny, shared, typeUrlOf, upgrade } from "@turnpike/proto";
import { parseAddress } from "../../state/addresses.ts";
import { stopsNode } from "../../state/block-parts.ts";
import type { Context } from "../../state/context.ts";
import { genesisList, type Module, type ModuleGenesis, moduleGenesis } from "../../state/module.ts";
import {
  APPLIED_RULES,
  type AppliedRules,
  appliedRules,
  FIRST_RULES,
  type RuleSet,
  rulesOf,
  UPGRADE_MODULE,
} from "../../state/rules.ts";
import { grantsByGranter, setGrant } from "../authz/grants.ts";
import { upgradeMessages } from "./messages.ts";
import { getPlan, planFault, removePlan, setPlan, upgradeNeeded } from "./plan.ts";
import { upgradeQueries } from "./queries.ts";

export interface UpgradeOptions {
  /** Address whose messages plan upgrades. */
  readonly authority: string;
  /** All rules that this program can run blocks by, in their order. */
  readonly rules: readonly RuleSet[];
  /** Heights at which a planned upgrade is dropped: what all validators of a chain agree on, or they part. */
  readonly skipHeights?: ReadonlySet<bigint>;
}

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the upgrades is not valid: ${why}.` });

/** Names of what a program cannot run, of the rules that a chain has. */
export function unknownRules(
  inForce: readonly AppliedRules[],
  programRules: readonly RuleSet[],
): readonly AppliedRules[] {
  const names = new Set(programRules.map(({ name }) => name));
  return inForce.filter(({ name }) => !names.has(name));
}

// A genesis names its rules, so that every later program begins with the same ones; none is of a version before they had names.
function initRules(ctx: Context, inForce: readonly AppliedRules[], programRules: readonly RuleSet[]): undefined {
  const [missing] = unknownRules(inForce, programRules);
  if (missing !== undefined) {
    throw invalid(`it has the rules "${missing.name}", which this program does not know; install a later one`);
  }
  const isInOrder = inForce.every(({ name }, at) => name === programRules[at]?.name);
  if (inForce.length === 0 || !isInOrder) throw invalid("its rules are not in their order, or some are missing");
  appliedRules.set(ctx, undefined, inForce);
}

function initPlan(ctx: Context, { plan }: upgrade.QueryCurrentPlanResponse): undefined {
  appliedRules.set(ctx, undefined, [{ name: FIRST_RULES, heightBlocks: 0n }]);
  if (plan === undefined) return;
  const fault = planFault(plan);
  if (fault !== undefined) throw invalid(`its plan: ${fault.text}`);
  setPlan(ctx, plan);
}

function exportPlan(ctx: Context): upgrade.QueryCurrentPlanResponse {
  const plan = getPlan(ctx);
  return createMessage(upgrade.QueryCurrentPlanResponseSchema, plan === undefined ? {} : { plan });
}

/** Genesis of upgrades: the real chain's is empty. */
function upgradeGenesis(programRules: readonly RuleSet[]): ModuleGenesis {
  const rules = genesisList("rules", APPLIED_RULES, {
    init: (ctx, inForce) => initRules(ctx, inForce, programRules),
    export: (ctx) => rulesOf(ctx).inForce,
  });
  return moduleGenesis(upgrade.QueryCurrentPlanResponseSchema, { init: initPlan, export: exportPlan, lists: [rules] });
}

/**
 * Names the rules of a state that a version before this one made. Those who may change parameters there may plan upgrades
 * from then on: nothing else could give them the grant, as the authority has no key.
 */
function nameFirstRules(ctx: Context, authority: string): void {
  const granter = parseAddress(authority);
  if (!granter.ok) throw new AppError("INTERNAL", { detail: { authority } });
  const holders = grantsByGranter(ctx, granter.value, typeUrlOf(shared.MsgUpdateParamsSchema));
  for (const { grantee, expiration } of holders) {
    for (const schema of [upgrade.MsgSoftwareUpgradeSchema, upgrade.MsgCancelUpgradeSchema]) {
      const typeUrl = typeUrlOf(schema);
      const generic = createMessage(authz.GenericAuthorizationSchema, { msg: typeUrl });
      const grant = createMessage(authz.GrantSchema, {
        authorization: packAny(authz.GenericAuthorizationSchema, generic),
        ...(expiration === undefined ? {} : { expiration }),
      });
      setGrant(ctx, { granter: granter.value, grantee, typeUrl }, grant);
    }
  }
  appliedRules.set(ctx, undefined, [{ name: FIRST_RULES, heightBlocks: ctx.block.heightBlocks }]);
}

// A migration that fails is not left out as another part of a block would be: later blocks are run by its rules.
function migrate(ctx: Context, rules: RuleSet): void {
  try {
    rules.migrate?.(ctx);
  } catch (cause) {
    if (stopsNode(cause)) throw cause;
    const height = ctx.block.heightBlocks;
    const message = `The migration to the rules "${rules.name}" fails at block ${height}; install a version that corrects it.`;
    throw new AppError("CHAIN_UPGRADE", { message, cause });
  }
}

// Upgrades that were passed over come with it: later rules are written on top of earlier ones, and are tried with them.
function apply(ctx: Context, name: string, programRules: readonly RuleSet[]): void {
  const { inForce } = rulesOf(ctx);
  const list = [...inForce];
  for (const rules of programRules.slice(0, programRules.findIndex((one) => one.name === name) + 1)) {
    if (inForce.some((one) => one.name === rules.name)) continue;
    list.push({ name: rules.name, heightBlocks: ctx.block.heightBlocks });
    appliedRules.set(ctx, undefined, list);
    migrate(ctx, rules);
  }
  removePlan(ctx);
}

/** The module by which the rules of blocks change at a height: as the SDK's x/upgrade, with the rules in one program. */
export function upgradeModule({ authority, rules, skipHeights }: UpgradeOptions): Module {
  return {
    name: UPGRADE_MODULE,
    messages: upgradeMessages(authority),
    queries: upgradeQueries(authority),
    genesis: upgradeGenesis(rules),
    beginBlock(ctx) {
      const height = ctx.block.heightBlocks;
      if (rulesOf(ctx).inForce.length === 0) nameFirstRules(ctx, authority);
      const plan = getPlan(ctx);
      if (plan === undefined || plan.height > height) return;
      // A plan for the height of its own block is due one later.
      if (skipHeights?.has(height) === true || skipHeights?.has(plan.height) === true) {
        removePlan(ctx);
        return;
      }
      const names = rules.map(({ name }) => name);
      if (!names.includes(plan.name)) throw upgradeNeeded(plan, height, names);
      apply(ctx, plan.name, rules);
    },
  };
}
