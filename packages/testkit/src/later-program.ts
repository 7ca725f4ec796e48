import { utf8ToBytes } from "@turnpike/base";
import {
  BLOCK_ORDER,
  type Module,
  pocketMachine,
  RULE_SETS,
  type RuleSet,
  rulesOf,
  StateMachine,
} from "@turnpike/chain";
import { bank, typeUrlOf } from "@turnpike/proto";

/** Rules that no real program has: a send costs more gas, and the state has a mark from the first block on. */
export const LATER = "dearer-sends";
/** Gas that a send costs on top by the rules {@link LATER}. */
export const DEARER_BY = 1_234n;
/** Key of the mark in the store `later`. */
export const MARK_KEY: Uint8Array = utf8ToBytes("mark");

/** Rules of a program after this one. */
export const LATER_RULES: readonly RuleSet[] = [
  ...RULE_SETS,
  {
    name: LATER,
    migrate({ block, state }) {
      state.set(Buffer.concat([Buffer.from("later/"), MARK_KEY]), utf8ToBytes(`${block.heightBlocks}`));
    },
  },
];

function withDearerSends(module: Module): Module {
  const typeUrl = typeUrlOf(bank.MsgSendSchema);
  const send = module.messages?.[typeUrl];
  if (send === undefined) return module;
  const dearer: typeof send = {
    ...send,
    run(ctx, message) {
      if (rulesOf(ctx).has(LATER)) ctx.gas.consume(DEARER_BY, "dearer sends");
      return send.run(ctx, message);
    },
  };
  return { ...module, messages: { ...module.messages, [typeUrl]: dearer } };
}

/** The machine of a program after this one. @param rules by default those of {@link LATER_RULES} */
export function laterMachine(rules: readonly RuleSet[] = LATER_RULES): StateMachine {
  const { modules } = pocketMachine({ gasPrices: [], rules });
  return new StateMachine({ gasPrices: [], order: BLOCK_ORDER, rules }, modules.map(withDearerSends));
}
