import { createMessage, staking } from "@turnpike/proto";
import { type Context, chainEvent } from "../../state/context.ts";
import { DECIMAL_ONE, decimalOf, decimalText, integerOf } from "../../state/numbers.ts";
import { done, fail, type Outcome, SDK } from "../../state/outcome.ts";
import { timestampNanos, timestampOf } from "../../state/timestamps.ts";
import { checkDescription, isEmptyDescription, operatorOf } from "./create-validator.ts";
import { STAKING } from "./errors.ts";
import { getStakingParams, getValidator, setValidator, validatorNumbers } from "./state.ts";

const KEEP = "[do-not-modify]";
const DAY_NANOS = 86_400_000_000_000n;

function changedDescription(now: staking.Description, wanted: staking.Description): staking.Description {
  const pick = (part: "moniker" | "identity" | "website" | "securityContact" | "details"): string =>
    wanted[part] === KEEP ? now[part] : wanted[part];
  return createMessage(staking.DescriptionSchema, {
    moniker: pick("moniker"),
    identity: pick("identity"),
    website: pick("website"),
    securityContact: pick("securityContact"),
    details: pick("details"),
  });
}

function changedCommission(ctx: Context, now: staking.Commission, rate: bigint): Outcome<staking.Commission> {
  const { updateTime, commissionRates } = now;
  const current = decimalOf(commissionRates?.rate ?? "") ?? 0n;
  if (ctx.block.timeNanos - timestampNanos(updateTime) < DAY_NANOS) return fail(STAKING.commissionTooSoon);
  if (rate > (decimalOf(commissionRates?.maxRate ?? "") ?? 0n)) return fail(STAKING.commissionOverMax);
  if (rate - current > (decimalOf(commissionRates?.maxChangeRate ?? "") ?? 0n)) return fail(STAKING.commissionChange);
  return done(
    createMessage(staking.CommissionSchema, {
      commissionRates: createMessage(staking.CommissionRatesSchema, {
        rate: rate.toString(),
        maxRate: commissionRates?.maxRate ?? "0",
        maxChangeRate: commissionRates?.maxChangeRate ?? "0",
      }),
      updateTime: timestampOf(ctx.block.timeNanos),
    }),
  );
}

/** Changes what a validator says of itself, its commission, or its least own delegation. */
export function editValidator(
  ctx: Context,
  message: staking.MsgEditValidator,
): Outcome<staking.MsgEditValidatorResponse> {
  const operator = operatorOf(message.validatorAddress);
  if (!operator.ok) return operator;
  if (message.description === undefined || isEmptyDescription(message.description)) {
    return fail(SDK.invalidRequest, "empty description");
  }
  const least = message.minSelfDelegation === "" ? undefined : integerOf(message.minSelfDelegation);
  if (least !== undefined && least <= 0n) {
    return fail(SDK.invalidRequest, "minimum self delegation must be a positive integer");
  }
  const rate = message.commissionRate === "" ? undefined : decimalOf(message.commissionRate);
  if (rate !== undefined) {
    if (rate > DECIMAL_ONE || rate < 0n) {
      return fail(SDK.invalidRequest, "commission rate must be between 0 and 1 (inclusive)");
    }
    const leastRate = decimalOf(getStakingParams(ctx).minCommissionRate) ?? 0n;
    if (rate < leastRate) {
      const text = `commission rate cannot be less than the min commission rate ${decimalText(leastRate)}`;
      return fail(SDK.invalidRequest, text);
    }
  }
  const found = getValidator(ctx, operator.value);
  if (found === undefined) return fail(STAKING.noValidator);
  const now = found.description ?? createMessage(staking.DescriptionSchema);
  const description = changedDescription(now, message.description);
  const described = checkDescription(description);
  if (!described.ok) return described;
  let commission = found.commission ?? createMessage(staking.CommissionSchema);
  if (rate !== undefined) {
    const changed = changedCommission(ctx, commission, rate);
    if (!changed.ok) return changed;
    commission = changed.value;
  }
  if (least !== undefined && least <= (integerOf(found.minSelfDelegation) ?? 0n)) {
    return fail(STAKING.selfDelegationDecreased);
  }
  if (least !== undefined && least > validatorNumbers(found).tokens) return fail(STAKING.selfDelegation);
  const minSelfDelegation = least === undefined ? found.minSelfDelegation : least.toString();
  setValidator(ctx, { ...found, description, commission, minSelfDelegation });
  const shown = decimalText(decimalOf(commission.commissionRates?.rate ?? "") ?? 0n);
  ctx.events.push(chainEvent("edit_validator", { commission_rate: shown, min_self_delegation: minSelfDelegation }));
  return done(createMessage(staking.MsgEditValidatorResponseSchema));
}
