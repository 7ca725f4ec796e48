import { staking } from "@turnpike/proto";
import { lengthPrefixedCodec, messageCodec, pairCodec, rawCodec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import type { Bytes } from "../../types.ts";

/** Name of the module, and of its part of the state. */
export const STAKING_MODULE = "staking";

const module = STAKING_MODULE;

/** Validators by operator address bytes. */
export const validators = new Collection({
  module,
  prefix: Uint8Array.of(0x21),
  key: lengthPrefixedCodec,
  value: messageCodec(staking.ValidatorSchema),
});
/** Delegations by the validator's operator address bytes and the delegator's. */
export const delegations = new Collection({
  module,
  prefix: Uint8Array.of(0x31),
  key: pairCodec(lengthPrefixedCodec, rawCodec),
  value: messageCodec(staking.DelegationSchema),
});

/** Bonded validators, by falling tokens and then by rising operator address bytes. */
export function getBondedValidators(ctx: Context): staking.Validator[] {
  const bonded = [...validators.entries(ctx)]
    .map(([, validator]) => validator)
    .filter((validator) => validator.status === staking.BondStatus.BONDED);
  return bonded.sort((a, b) => {
    const difference = BigInt(b.tokens) - BigInt(a.tokens);
    return difference > 0n ? 1 : difference < 0n ? -1 : 0;
  });
}

/** Delegations to a validator, by the delegator's address bytes. */
export function getDelegationsTo(ctx: Context, validator: Bytes): staking.Delegation[] {
  const within = lengthPrefixedCodec.encode(validator);
  return [...delegations.entries(ctx, { within })].map(([, delegation]) => delegation);
}
