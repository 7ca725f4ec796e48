import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { createMessage, staking, typeUrlOf } from "@turnpike/proto";
import { addressText, parseAddress } from "../../state/addresses.ts";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { done, fail, SDK } from "../../state/outcome.ts";
import { checkAuthority } from "../bank/messages.ts";
import { createValidator } from "./create-validator.ts";
import { editValidator } from "./edit-validator.ts";
import { paramsFault } from "./params.ts";
import { getStakingParams, OPERATOR_PREFIX, setIsStale, stakingParams } from "./state.ts";

/** What staking needs to know of the chain. */
export interface StakingOptions {
  /** Address whose messages change parameters. */
  readonly authority: string;
}

const NO_DELEGATING =
  "this chain cannot undelegate yet, so it accepts no delegation: the coins would be locked for good; keep them in the account";
const NO_UNDELEGATING = "this chain cannot undelegate yet";
const NO_REDELEGATING = "this chain cannot redelegate yet";
const NO_UNBONDING = "this chain has no unbonding delegations";

/** The account that an operator address belongs to, which signs for it. */
function accountOf(operator: string): string {
  const parsed = parseAddress(operator, OPERATOR_PREFIX);
  return parsed.ok ? addressText(parsed.value) : operator;
}

type DelegationMessage = MessageShape<typeof staking.MsgDelegateSchema | typeof staking.MsgUndelegateSchema>;

/** A message about delegations that is refused when it is checked, so that it costs no fee. */
function refused(schema: DescMessage, response: DescMessage, why: string): Record<string, MessageHandler> {
  const { fault } = fail(SDK.notSupported, why);
  const handler = messageHandler(schema, response, {
    signers: (message) => [(message as DelegationMessage).delegatorAddress],
    validate: () => fault,
    run: () => ({ ok: false, fault }),
  });
  return { [typeUrlOf(schema)]: handler };
}

/**
 * Handlers of the messages of staking, by type URL. Delegations cannot be taken back yet, so none is accepted: coins would be
 * locked for good.
 */
export function stakingMessages(opts: StakingOptions): Record<string, MessageHandler> {
  return {
    [typeUrlOf(staking.MsgCreateValidatorSchema)]: messageHandler(
      staking.MsgCreateValidatorSchema,
      staking.MsgCreateValidatorResponseSchema,
      {
        signers: (message) => [accountOf(message.validatorAddress)],
        run: createValidator,
      },
    ),
    [typeUrlOf(staking.MsgEditValidatorSchema)]: messageHandler(
      staking.MsgEditValidatorSchema,
      staking.MsgEditValidatorResponseSchema,
      {
        signers: (message) => [accountOf(message.validatorAddress)],
        run: editValidator,
      },
    ),
    ...refused(staking.MsgDelegateSchema, staking.MsgDelegateResponseSchema, NO_DELEGATING),
    ...refused(staking.MsgUndelegateSchema, staking.MsgUndelegateResponseSchema, NO_UNDELEGATING),
    ...refused(staking.MsgBeginRedelegateSchema, staking.MsgBeginRedelegateResponseSchema, NO_REDELEGATING),
    ...refused(
      staking.MsgCancelUnbondingDelegationSchema,
      staking.MsgCancelUnbondingDelegationResponseSchema,
      NO_UNBONDING,
    ),
    [typeUrlOf(staking.MsgUpdateParamsSchema)]: messageHandler(
      staking.MsgUpdateParamsSchema,
      staking.MsgUpdateParamsResponseSchema,
      {
        signers: (message) => [message.authority],
        run(ctx, message) {
          const allowed = checkAuthority(opts.authority, message.authority);
          if (!allowed.ok) return allowed;
          const params = message.params ?? createMessage(staking.ParamsSchema);
          const fault = paramsFault(params);
          if (fault !== undefined) return fail(SDK.invalidRequest, fault);
          // The pools hold the tokens of all validators in it.
          if (params.bondDenom !== getStakingParams(ctx).bondDenom) {
            return fail(SDK.invalidRequest, "the denomination of bonds cannot be changed on this chain");
          }
          stakingParams.set(ctx, undefined, params);
          setIsStale.set(ctx, undefined, true);
          return done(createMessage(staking.MsgUpdateParamsResponseSchema));
        },
      },
    ),
  };
}
