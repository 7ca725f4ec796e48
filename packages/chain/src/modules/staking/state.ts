import { type AddressBytes, AppError, bytesToHex } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { createMessage, cryptoEd25519, DurationSchema, decodeMessage, staking, typeUrlOf } from "@turnpike/proto";
import { addressText, parseAddress } from "../../state/addresses.ts";
import {
  booleanCodec,
  lengthPrefixedCodec,
  messageCodec,
  noKey,
  pairCodec,
  rawCodec,
  uint64Codec,
} from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { decimalOf, integerOf, type Rate, rateOf } from "../../state/numbers.ts";
import { type Parsed, recordCodec } from "../../state/parsed.ts";

/** Name of the module, and of its part of the state. */
export const STAKING_MODULE = "staking";
/** Account that holds the tokens of bonded validators. */
export const BONDED_POOL = "bonded_tokens_pool";
/** Account that holds the tokens of all other validators. */
export const NOT_BONDED_POOL = "not_bonded_tokens_pool";
/** What the bech32 addresses of validators begin with. */
export const OPERATOR_PREFIX = "poktvaloper";
/** Smallest units of tokens that are one unit of voting power. */
export const POWER_REDUCTION = 1_000_000n;

const module = STAKING_MODULE;

/** The parameters. */
export const stakingParams = new Collection({
  module,
  prefix: Uint8Array.of(0x51),
  key: noKey,
  value: messageCodec(staking.ParamsSchema),
});
/** Voting power that the consensus engine knows, by operator address bytes: that of the bonded validators. */
export const lastPowers = new Collection({
  module,
  prefix: Uint8Array.of(0x11),
  key: lengthPrefixedCodec,
  value: uint64Codec,
});
/** Validators by operator address bytes. Written through {@link setValidator}, which keeps the indexes. */
export const validators = new Collection({
  module,
  prefix: Uint8Array.of(0x21),
  key: lengthPrefixedCodec,
  value: messageCodec(staking.ValidatorSchema),
});
/** Operator address bytes by consensus public key. */
export const validatorsByKey = new Collection({ module, prefix: Uint8Array.of(0x22), key: rawCodec, value: rawCodec });
/** Validators that may vote, by power and inverted operator address bytes: backwards, the strongest come first. */
export const validatorsByPower = new Collection({
  module,
  prefix: Uint8Array.of(0x23),
  key: pairCodec(uint64Codec, rawCodec),
  value: rawCodec,
});
/** Delegations by the validator's operator address bytes and the delegator's. */
export const delegations = new Collection({
  module,
  prefix: Uint8Array.of(0x31),
  key: pairCodec(lengthPrefixedCodec, rawCodec),
  value: recordCodec(staking.DelegationSchema),
});
/** Whom a delegator delegates to: by the delegator's address bytes and the validator's. */
export const delegationsByDelegator = new Collection({
  module,
  prefix: Uint8Array.of(0x32),
  key: pairCodec(lengthPrefixedCodec, rawCodec),
  value: rawCodec,
});
/** Validators that stopped voting, by the time in nanoseconds at which they are unbonded, and operator address bytes. */
export const unbondingValidators = new Collection({
  module,
  prefix: Uint8Array.of(0x43),
  key: pairCodec(uint64Codec, rawCodec),
  value: rawCodec,
});
/** There when the set of voting validators must be looked at again. */
export const setIsStale = new Collection({ module, prefix: Uint8Array.of(0x61), key: noKey, value: booleanCodec });

/** The parameters that a chain has unless its genesis says otherwise: the SDK's own. */
export const DEFAULT_STAKING_PARAMS: staking.Params = createMessage(staking.ParamsSchema, {
  unbondingTime: createMessage(DurationSchema, { seconds: 1_814_400n }),
  maxValidators: 100,
  maxEntries: 7,
  historicalEntries: 10_000,
  bondDenom: "upokt",
  minCommissionRate: "0",
});

/** The parameters. */
export function getStakingParams(ctx: Context): staking.Params {
  return stakingParams.get(ctx, undefined) ?? DEFAULT_STAKING_PARAMS;
}

/** Operator address bytes of a validator of the state. */
export function operatorBytes(validator: staking.Validator): AddressBytes {
  const address = parseAddress(validator.operatorAddress, OPERATOR_PREFIX);
  if (!address.ok) throw new AppError("INTERNAL", { detail: { validator: validator.operatorAddress } });
  return address.value;
}

/** Ed25519 public key of a validator, 32 bytes; undefined for a key of another kind. */
export function consensusKey(any: staking.Validator["consensusPubkey"]): Bytes | undefined {
  if (any === undefined || any.typeUrl !== typeUrlOf(cryptoEd25519.PubKeySchema)) return undefined;
  const decoded = decodeMessage(cryptoEd25519.PubKeySchema, any.value);
  return decoded.ok && decoded.message.key.length === 32 ? decoded.message.key : undefined;
}

/** Numbers of a validator of the state. */
export interface ValidatorNumbers {
  readonly tokens: bigint;
  /** In units of 10^-18. */
  readonly shares: bigint;
  readonly commissionRate: Rate;
}

/**
 * Numbers of a validator of the state: the one reader of their texts, which were checked before they were stored.
 * @throws AppError CHAIN_STORE_DAMAGED when a text is not a number
 */
export function validatorNumbers({ operatorAddress, ...texts }: staking.Validator): ValidatorNumbers {
  const tokens = integerOf(texts.tokens);
  const shares = decimalOf(texts.delegatorShares);
  const commissionRate = rateOf(texts.commission?.commissionRates?.rate || "0");
  if (tokens === undefined || shares === undefined || commissionRate === undefined) {
    throw new AppError("CHAIN_STORE_DAMAGED", { detail: { validator: operatorAddress } });
  }
  return { tokens, shares, commissionRate };
}

/** Voting power that a validator's tokens are. */
export function powerOf(validator: staking.Validator): bigint {
  return validatorNumbers(validator).tokens / POWER_REDUCTION;
}

const inverted = (bytes: Bytes): Bytes => bytes.map((byte) => 255 - byte);

/** A validator; undefined when there is none. */
export function getValidator(ctx: Context, operator: Bytes): staking.Validator | undefined {
  return validators.get(ctx, operator);
}

/** Writes a validator, new or changed, with its indexes. */
export function setValidator(ctx: Context, validator: staking.Validator): void {
  const operator = operatorBytes(validator);
  const key = consensusKey(validator.consensusPubkey);
  if (key === undefined) throw new AppError("INTERNAL", { detail: { keyOf: bytesToHex(operator) } });
  const old = validators.get(ctx, operator);
  if (old !== undefined && !old.jailed) validatorsByPower.remove(ctx, [powerOf(old), inverted(operator)]);
  validators.set(ctx, operator, validator);
  validatorsByKey.set(ctx, key, operator);
  if (!validator.jailed) validatorsByPower.set(ctx, [powerOf(validator), inverted(operator)], operator);
  if (old === undefined || old.jailed !== validator.jailed || powerOf(old) !== powerOf(validator)) {
    setIsStale.set(ctx, undefined, true);
  }
}

/** Removes a validator that is not bonded, with its indexes. */
export function removeValidator(ctx: Context, validator: staking.Validator): void {
  const operator = operatorBytes(validator);
  const key = consensusKey(validator.consensusPubkey);
  validators.remove(ctx, operator);
  if (key !== undefined) validatorsByKey.remove(ctx, key);
  validatorsByPower.remove(ctx, [powerOf(validator), inverted(operator)]);
}

/** A delegation; undefined when there is none. */
export function getDelegation(
  ctx: Context,
  validator: Bytes,
  delegator: Bytes,
): Parsed<staking.Delegation> | undefined {
  return delegations.get(ctx, [validator, delegator]);
}

/** Shares of a delegation of the state, in units of 10^-18. @throws AppError CHAIN_STORE_DAMAGED when they are not a number */
export function sharesOf({ delegatorAddress, shares }: staking.Delegation): bigint {
  const value = decimalOf(shares);
  if (value === undefined) throw new AppError("CHAIN_STORE_DAMAGED", { detail: { delegator: delegatorAddress } });
  return value;
}

/** Writes a delegation with its index. */
export function setDelegation(
  ctx: Context,
  validator: Bytes,
  delegator: Bytes,
  delegation: Parsed<staking.Delegation>,
): void {
  delegations.set(ctx, [validator, delegator], delegation);
  delegationsByDelegator.set(ctx, [delegator, validator], new Uint8Array(0));
}

/**
 * Bonded validators, by falling tokens and then by rising operator address bytes. Anybody can create others for one POKT, and their
 * bonds stay: only those with voting power, at most `max_validators`, are read.
 */
export function getBondedValidators(ctx: Context): staking.Validator[] {
  const bonded = [...lastPowers.entries(ctx)].map(([operator]) => {
    const validator = validators.get(ctx, operator);
    if (validator === undefined)
      throw new AppError("CHAIN_STORE_DAMAGED", { detail: { operator: addressText(operator) } });
    return validator;
  });
  return bonded.sort((a, b) => {
    const difference = validatorNumbers(b).tokens - validatorNumbers(a).tokens;
    return difference > 0n ? 1 : difference < 0n ? -1 : 0;
  });
}

/** Delegations to a validator, by the delegator's address bytes. */
export function getDelegationsTo(ctx: Context, validator: Bytes): Parsed<staking.Delegation>[] {
  const within = lengthPrefixedCodec.encode(validator);
  return [...delegations.entries(ctx, { within })].map(([, delegation]) => delegation);
}
