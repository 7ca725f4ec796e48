import { createMessage, typeUrlOf, upgrade } from "@turnpike/proto";
import type { Context } from "../../state/context.ts";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { done, fail, type Outcome, SDK, type TxFault } from "../../state/outcome.ts";
import { appliedRules, FIRST_RULES, UPGRADE_MODULE } from "../../state/rules.ts";
import { planFault, removePlan, setPlan } from "./plan.ts";

const INVALID_SIGNER = {
  codespace: UPGRADE_MODULE,
  code: 6,
  text: "expected authority account as only signer for proposal message",
};

function wrongSigner(authority: string, got: string): TxFault | undefined {
  return authority === got ? undefined : fail(INVALID_SIGNER, `expected ${authority} got ${got}`).fault;
}

// Whatever this program knows: programs of other versions must decide the same of a plan.
function schedule(ctx: Context, plan: upgrade.Plan): Outcome<undefined> {
  if (plan.height < ctx.block.heightBlocks) {
    return fail(SDK.invalidRequest, "upgrade cannot be scheduled in the past");
  }
  const inForce = appliedRules.get(ctx, undefined) ?? [];
  if (plan.name === FIRST_RULES || inForce.some(({ name }) => name === plan.name)) {
    return fail(SDK.invalidRequest, `upgrade with name ${plan.name} has already been completed`);
  }
  setPlan(ctx, plan);
  return done(undefined);
}

/** Handlers of the module's messages, by type URL. */
export function upgradeMessages(authority: string): Readonly<Record<string, MessageHandler>> {
  return {
    [typeUrlOf(upgrade.MsgSoftwareUpgradeSchema)]: messageHandler(
      upgrade.MsgSoftwareUpgradeSchema,
      upgrade.MsgSoftwareUpgradeResponseSchema,
      {
        signers: (message) => [message.authority],
        run(ctx, message) {
          const signer = wrongSigner(authority, message.authority);
          if (signer !== undefined) return { ok: false, fault: signer };
          const plan = message.plan ?? createMessage(upgrade.PlanSchema);
          const fault = planFault(plan);
          if (fault !== undefined) return { ok: false, fault: { ...fault, text: `plan: ${fault.text}` } };
          const planned = schedule(ctx, plan);
          return planned.ok ? done(createMessage(upgrade.MsgSoftwareUpgradeResponseSchema)) : planned;
        },
      },
    ),
    [typeUrlOf(upgrade.MsgCancelUpgradeSchema)]: messageHandler(
      upgrade.MsgCancelUpgradeSchema,
      upgrade.MsgCancelUpgradeResponseSchema,
      {
        signers: (message) => [message.authority],
        run(ctx, message) {
          const signer = wrongSigner(authority, message.authority);
          if (signer !== undefined) return { ok: false, fault: signer };
          removePlan(ctx);
          return done(createMessage(upgrade.MsgCancelUpgradeResponseSchema));
        },
      },
    ),
  };
}
