import { createMessage, staking, typeUrlOf } from "@turnpike/proto";
import { addressFault, addressText, parseAddress } from "../../state/addresses.ts";
import { type Context, chainEvent } from "../../state/context.ts";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { done, fail, type Outcome, SDK } from "../../state/outcome.ts";
import { isDenom, readCoins } from "../bank/coins.ts";
import { checkAuthority } from "../bank/messages.ts";
import { createValidator, createValidatorFault, operatorOf } from "./create-validator.ts";
import { decimalText } from "./decimals.ts";
import { delegate } from "./delegate.ts";
import { editValidator, editValidatorFault } from "./edit-validator.ts";
import { STAKING } from "./errors.ts";
import { paramsFault } from "./params.ts";
import { getStakingParams, getValidator, OPERATOR_PREFIX, setIsStale, stakingParams } from "./state.ts";

/** What staking needs to know of the chain. */
export interface StakingOptions {
  /** Address whose messages change parameters. */
  readonly authority: string;
}

/** The account that an operator address belongs to, which signs for it. */
function accountOf(operator: string): string {
  const parsed = parseAddress(operator, OPERATOR_PREFIX);
  return parsed.ok ? addressText(parsed.value) : operator;
}

function runDelegate(ctx: Context, message: staking.MsgDelegate): Outcome<staking.MsgDelegateResponse> {
  const operator = operatorOf(message.validatorAddress);
  if (!operator.ok) return operator;
  const delegator = parseAddress(message.delegatorAddress);
  if (!delegator.ok) {
    return fail(SDK.invalidAddress, `invalid delegator address: ${addressFault(message.delegatorAddress) ?? ""}`);
  }
  const [amount] = message.amount === undefined ? [] : (readCoins([message.amount]) ?? []);
  if (amount === undefined || !isDenom(amount.denom) || amount.amount <= 0n) {
    return fail(SDK.invalidRequest, "invalid delegation amount");
  }
  const validator = getValidator(ctx, operator.value);
  if (validator === undefined) return fail(STAKING.noValidator);
  const { bondDenom } = getStakingParams(ctx);
  if (amount.denom !== bondDenom) {
    return fail(SDK.invalidRequest, `invalid coin denomination: got ${amount.denom}, expected ${bondDenom}`);
  }
  const delegated = delegate(ctx, delegator.value, validator, amount);
  if (!delegated.ok) return delegated;
  ctx.events.push(
    chainEvent("delegate", {
      validator: message.validatorAddress,
      delegator: message.delegatorAddress,
      amount: `${amount.amount}${amount.denom}`,
      new_shares: decimalText(delegated.value.newShares),
    }),
  );
  return done(createMessage(staking.MsgDelegateResponseSchema));
}

const refused = (what: string): { readonly ok: false; readonly fault: ReturnType<typeof fail>["fault"] } =>
  fail(SDK.notSupported, `${what} is not possible on this chain`);

/** Handlers of the messages of staking, by type URL. Delegations cannot be taken back: those messages are refused. */
export function stakingMessages(opts: StakingOptions): Record<string, MessageHandler> {
  return {
    [typeUrlOf(staking.MsgCreateValidatorSchema)]: messageHandler(
      staking.MsgCreateValidatorSchema,
      staking.MsgCreateValidatorResponseSchema,
      {
        signers: (message) => [accountOf(message.validatorAddress)],
        validate: createValidatorFault,
        run: createValidator,
      },
    ),
    [typeUrlOf(staking.MsgEditValidatorSchema)]: messageHandler(
      staking.MsgEditValidatorSchema,
      staking.MsgEditValidatorResponseSchema,
      {
        signers: (message) => [accountOf(message.validatorAddress)],
        validate: editValidatorFault,
        run: editValidator,
      },
    ),
    [typeUrlOf(staking.MsgDelegateSchema)]: messageHandler(
      staking.MsgDelegateSchema,
      staking.MsgDelegateResponseSchema,
      { signers: (message) => [message.delegatorAddress], run: runDelegate },
    ),
    [typeUrlOf(staking.MsgUndelegateSchema)]: messageHandler(
      staking.MsgUndelegateSchema,
      staking.MsgUndelegateResponseSchema,
      { signers: (message) => [message.delegatorAddress], run: () => refused("taking back a delegation") },
    ),
    [typeUrlOf(staking.MsgBeginRedelegateSchema)]: messageHandler(
      staking.MsgBeginRedelegateSchema,
      staking.MsgBeginRedelegateResponseSchema,
      { signers: (message) => [message.delegatorAddress], run: () => refused("moving a delegation") },
    ),
    [typeUrlOf(staking.MsgCancelUnbondingDelegationSchema)]: messageHandler(
      staking.MsgCancelUnbondingDelegationSchema,
      staking.MsgCancelUnbondingDelegationResponseSchema,
      { signers: (message) => [message.delegatorAddress], run: () => refused("keeping an unbonding delegation") },
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
