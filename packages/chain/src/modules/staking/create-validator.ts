import { type AddressBytes, bytesEqual } from "@turnpike/base";
import { createMessage, staking, TimestampSchema } from "@turnpike/proto";
import { addressFault, parseAddress } from "../../state/addresses.ts";
import { type Context, chainEvent } from "../../state/context.ts";
import { DECIMAL_ONE, decimalOf, decimalText, integerOf } from "../../state/numbers.ts";
import { done, fail, type Outcome, SDK } from "../../state/outcome.ts";
import { timestampOf } from "../../state/timestamps.ts";
import { isDenom, readCoins } from "../bank/coins.ts";
import { delegate } from "./delegate.ts";
import { STAKING } from "./errors.ts";
import {
  consensusKey,
  getStakingParams,
  getValidator,
  OPERATOR_PREFIX,
  POWER_REDUCTION,
  setValidator,
  validatorsByKey,
} from "./state.ts";

/** Operator address bytes of a message, or the SDK's fault. */
export function operatorOf(text: string): Outcome<AddressBytes> {
  const operator = parseAddress(text, OPERATOR_PREFIX);
  if (operator.ok) return operator;
  return fail(SDK.invalidAddress, `invalid validator address: ${addressFault(text, OPERATOR_PREFIX) ?? ""}`);
}

const LONGEST = { moniker: 70, identity: 3000, website: 140, securityContact: 140, details: 280 } as const;
const NAMES = {
  moniker: "moniker",
  identity: "identity",
  website: "website",
  securityContact: "security contact",
  details: "details",
} as const;
const PARTS = ["moniker", "identity", "website", "securityContact", "details"] as const;

/** A fault when a description has a part that is too long; lengths are of the texts' bytes. */
export function checkDescription(description: staking.Description): Outcome<undefined> {
  for (const part of PARTS) {
    const length = Buffer.byteLength(description[part]);
    if (length <= LONGEST[part]) continue;
    return fail(SDK.invalidRequest, `invalid ${NAMES[part]} length; got: ${length}, max: ${LONGEST[part]}`);
  }
  return done(undefined);
}

/** True for a description in which nothing stands. */
export function isEmptyDescription(description: staking.Description | undefined): boolean {
  return description === undefined || PARTS.every((part) => description[part] === "");
}

function checkCommission({ rate, maxRate, maxChangeRate }: staking.CommissionRates): Outcome<bigint> {
  const [now, most, change] = [rate, maxRate, maxChangeRate].map(decimalOf);
  if (now === undefined || most === undefined || change === undefined) {
    return fail(SDK.invalidRequest, "empty commission");
  }
  if (most < 0n) return fail(STAKING.commissionNegative);
  if (most > DECIMAL_ONE) return fail(STAKING.commissionHuge);
  if (now < 0n) return fail(STAKING.commissionNegative);
  if (now > most) return fail(STAKING.commissionOverMax);
  if (change < 0n) return fail(STAKING.changeRateNegative);
  return change > most ? fail(STAKING.changeRateOverMax) : done(now);
}

/** What a validator begins with. */
function freshValidator(ctx: Context, message: staking.MsgCreateValidator): staking.Validator {
  return createMessage(staking.ValidatorSchema, {
    operatorAddress: message.validatorAddress,
    ...(message.pubkey === undefined ? {} : { consensusPubkey: message.pubkey }),
    status: staking.BondStatus.UNBONDED,
    tokens: "0",
    delegatorShares: "0",
    ...(message.description === undefined ? {} : { description: message.description }),
    unbondingTime: createMessage(TimestampSchema),
    commission: createMessage(staking.CommissionSchema, {
      ...(message.commission === undefined ? {} : { commissionRates: message.commission }),
      updateTime: timestampOf(ctx.block.timeNanos),
    }),
    minSelfDelegation: message.minSelfDelegation,
  });
}

/** Makes a validator with its own first delegation. On a fault the caller's writes must be undone. */
export function createValidator(
  ctx: Context,
  message: staking.MsgCreateValidator,
): Outcome<staking.MsgCreateValidatorResponse> {
  const operator = operatorOf(message.validatorAddress);
  if (!operator.ok) return operator;
  if (message.pubkey === undefined) return fail(STAKING.emptyKey);
  const [value] = message.value === undefined ? [] : (readCoins([message.value]) ?? []);
  if (value === undefined || !isDenom(value.denom) || value.amount <= 0n) {
    return fail(SDK.invalidRequest, "invalid delegation amount");
  }
  if (message.description === undefined || isEmptyDescription(message.description)) {
    return fail(SDK.invalidRequest, "empty description");
  }
  if (message.commission === undefined) return fail(SDK.invalidRequest, "empty commission");
  const rate = checkCommission(message.commission);
  if (!rate.ok) return rate;
  const least = integerOf(message.minSelfDelegation) ?? 0n;
  if (least <= 0n) return fail(SDK.invalidRequest, "minimum self delegation must be a positive integer");
  if (value.amount < least) return fail(STAKING.selfDelegation);
  const { bondDenom, minCommissionRate } = getStakingParams(ctx);
  const leastRate = decimalOf(minCommissionRate) ?? 0n;
  if (rate.value < leastRate) {
    const text = `cannot set validator commission to less than minimum rate of ${decimalText(leastRate)}`;
    return fail(STAKING.commissionUnderMin, text);
  }
  if (getValidator(ctx, operator.value) !== undefined) return fail(STAKING.ownerExists);
  const key = consensusKey(message.pubkey);
  if (key === undefined) {
    const got = message.pubkey.typeUrl.includes("secp256k1") ? "secp256k1" : message.pubkey.typeUrl;
    return fail(STAKING.keyType, `got: ${got}, expected: [ed25519]`);
  }
  const holder = validatorsByKey.get(ctx, key);
  if (holder !== undefined && !bytesEqual(holder, operator.value)) return fail(STAKING.keyExists);
  if (value.denom !== bondDenom) {
    return fail(SDK.invalidRequest, `invalid coin denomination: got ${value.denom}, expected ${bondDenom}`);
  }
  if (value.amount < POWER_REDUCTION) {
    const text = `bond of ${value.amount}${bondDenom} gives no voting power, and cannot be increased on this chain`;
    return fail(SDK.invalidRequest, `${text}; minimum: ${POWER_REDUCTION}${bondDenom}`);
  }
  const described = checkDescription(message.description);
  if (!described.ok) return described;
  const validator = freshValidator(ctx, message);
  setValidator(ctx, validator);
  const delegated = delegate(ctx, operator.value, validator, value);
  if (!delegated.ok) return delegated;
  const amount = `${value.amount}${value.denom}`;
  ctx.events.push(chainEvent("create_validator", { validator: message.validatorAddress, amount }));
  return done(createMessage(staking.MsgCreateValidatorResponseSchema));
}
