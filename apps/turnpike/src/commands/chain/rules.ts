import { existsSync } from "node:fs";
import { silentLog, systemClock } from "@turnpike/base";
import { type AppliedRules, pocketMachine, RULES, readAppliedRules } from "@turnpike/chain";
import { ChainClient } from "@turnpike/chain-client";
import { chainHome } from "@turnpike/chain-node";
import { openChainStore } from "@turnpike/chain-store";
import { upgrade } from "@turnpike/proto";
import { configOf } from "../../cli/config-file.ts";
import { type CommandContext, outputOf } from "../../cli/context.ts";
import { nodeUrl } from "../../wiring/chain-client.ts";
import { nodeFileOf, nodeFolder } from "../../wiring/chain-folder.ts";

export interface ChainRulesOptions {
  readonly json?: boolean;
  readonly config?: string;
  readonly home?: string;
  readonly node?: string;
}

/** Rules of a chain, as its state has them. */
interface ChainRules {
  readonly heightBlocks: bigint;
  /** Empty of a version whose rules had no name. */
  readonly inForce: readonly AppliedRules[];
  readonly plan: upgrade.Plan | undefined;
}

/** Key of the rules in the store `upgrade`. */
const RULES_KEY = Uint8Array.of(1);

async function rulesOfNode(url: string): Promise<ChainRules> {
  await using client = new ChainClient({ url }, { clock: systemClock });
  const { latestHeightBlocks: heightBlocks } = await client.status();
  const list = await client.stored("upgrade", RULES_KEY);
  const json: unknown = list.length === 0 ? [] : JSON.parse(Buffer.from(list).toString("utf8"));
  const { plan } = await client.ask(upgrade.Query.method.currentPlan, {});
  return { heightBlocks, inForce: readAppliedRules(json) ?? [], plan };
}

async function rulesOfStore(folder: string): Promise<ChainRules | undefined> {
  const { storeFolder } = chainHome(folder);
  if (!existsSync(storeFolder)) return undefined;
  await using store = await openChainStore({ folder: storeFolder }, { log: silentLog });
  const heightBlocks = store.latestHeightBlocks();
  if (heightBlocks === undefined) return undefined;
  const { machine } = pocketMachine({ gasPrices: [] });
  const { rules, plan } = machine.rulesAhead(store.at(heightBlocks));
  return { heightBlocks, inForce: rules.inForce, plan };
}

/**
 * Shows by which rules this program can run blocks, and what a chain has and has planned.
 */
export async function rules(opts: ChainRulesOptions, context: CommandContext): Promise<void> {
  const home = nodeFolder(opts.home, configOf(context, opts.config).chain.home);
  const isRunning = opts.node !== undefined || existsSync(nodeFileOf(home));
  const chain = isRunning ? await rulesOfNode(await nodeUrl({ ...opts, home })) : await rulesOfStore(home);
  const program: readonly string[] = RULES;
  const output = outputOf(opts);
  const plan = chain?.plan;
  output.result({
    program,
    chain:
      chain === undefined
        ? null
        : {
            height: `${chain.heightBlocks}`,
            rules: chain.inForce.map(({ name, heightBlocks }) => ({ name, height: `${heightBlocks}` })),
          },
    plan:
      plan === undefined
        ? null
        : { name: plan.name, height: `${plan.height}`, info: plan.info, isKnown: program.includes(plan.name) },
  });
  output.line(`this program   ${program.join(", ")}`);
  if (chain === undefined) {
    output.line(`the chain      none in ${home}`);
    return;
  }
  const listed = chain.inForce.map(({ name, heightBlocks }) => `${name} (since block ${heightBlocks})`).join(", ");
  output.line(
    `the chain      ${listed === "" ? `none named; block ${chain.heightBlocks + 1n} begins ${program[0] ?? ""}` : listed}`,
  );
  output.line(
    plan === undefined
      ? "planned        nothing"
      : `planned        ${plan.name} at block ${plan.height} (${plan.info}): this program ` +
          (program.includes(plan.name) ? "has it" : "does NOT have it, and stops there"),
  );
  for (const { name } of chain.inForce) {
    if (!program.includes(name)) output.line(`needed         a program that has ${name}: this one does not start here`);
  }
}
