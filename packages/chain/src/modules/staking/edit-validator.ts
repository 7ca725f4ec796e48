import { createMessage, staking } from "@turnpike/proto";
import { type Context, chainEvent } from "../../state/context.ts";
import { done, fail, type Outcome, SDK, type TxFault } from "../../state/outcome.ts";
import { timestampNanos, timestampOf } from "../../state/timestamps.ts";
import { checkDescription, isEmptyDescription, operatorOf } from "./create-validator.ts";
import { DECIMAL_ONE, decimalText, readWhole } from "./decimals.ts";
import { STAKING } from "./errors.ts";
import { getStakingParams, getValidator, setValidator } from "./state.ts";

const KEEP = "[do-not-modify]";
const DAY_NANOS = 86_400_000_000_000n;

/** Checks the numbers of a message, which the real chain's decoder reads. */
export function editValidatorFault({
  commissionRate,
  minSelfDelegation,
}: staking.MsgEditValidator): TxFault | undefined {
  const broken = [commissionRate, minSelfDelegation].find((text) => text !== "" && readWhole(text) === undefined);
  return broken === undefined ? undefined : fail(SDK.txDecode, "a number is not valid").fault;
}

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
  const current = readWhole(commissionRates?.rate ?? "") ?? 0n;
  if (ctx.block.timeNanos - timestampNanos(updateTime) < DAY_NANOS) return fail(STAKING.commissionTooSoon);
  if (rate > (readWhole(commissionRates?.maxRate ?? "") ?? 0n)) return fail(STAKING.commissionOverMax);
  if (rate - current > (readWhole(commissionRates?.maxChangeRate ?? "") ?? 0n)) return fail(STAKING.commissionChange);
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
  const least = message.minSelfDelegation === "" ? undefined : readWhole(message.minSelfDelegation);
  if (least !== undefined && least <= 0n) {
    return fail(SDK.invalidRequest, "minimum self delegation must be a positive integer");
  }
  const rate = message.commissionRate === "" ? undefined : readWhole(message.commissionRate);
  if (rate !== undefined) {
    if (rate > DECIMAL_ONE || rate < 0n) {
      return fail(SDK.invalidRequest, "commission rate must be between 0 and 1 (inclusive)");
    }
    const leastRate = readWhole(getStakingParams(ctx).minCommissionRate) ?? 0n;
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
  if (least !== undefined && least <= BigInt(found.minSelfDelegation)) return fail(STAKING.selfDelegationDecreased);
  if (least !== undefined && least > BigInt(found.tokens)) return fail(STAKING.selfDelegation);
  const minSelfDelegation = least === undefined ? found.minSelfDelegation : least.toString();
  setValidator(ctx, { ...found, description, commission, minSelfDelegation });
  const shown = decimalText(readWhole(commission.commissionRates?.rate ?? "") ?? 0n);
  ctx.events.push(chainEvent("edit_validator", { commission_rate: shown, min_self_delegation: minSelfDelegation }));
  return done(createMessage(staking.MsgEditValidatorResponseSchema));
}
