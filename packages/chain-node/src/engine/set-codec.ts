import type { Bytes } from "@turnpike/chain-store";
import { totalPower, type Validator, type ValidatorSet } from "@turnpike/cometbft";
import { cometTypes, createMessage, decodeMessage, encodeMessage } from "@turnpike/proto";
import { damagedRecord } from "./record-errors.ts";

const toValidator = ({ address, publicKey, votingPower, proposerPriority }: Validator): cometTypes.Validator =>
  createMessage(cometTypes.ValidatorSchema, {
    address,
    pubKey: { sum: { case: "ed25519", value: publicKey } },
    votingPower,
    proposerPriority,
  });

function readValidator(message: cometTypes.Validator | undefined): Validator {
  const key = message?.pubKey?.sum;
  if (message === undefined || key?.case !== "ed25519") throw damagedRecord("a validator set");
  const { address, votingPower, proposerPriority } = message;
  return { address, publicKey: key.value, votingPower, proposerPriority };
}

/** CometBFT's bytes of a validator set, with priorities and proposer. */
export function encodeValidatorSet({ validators, proposer }: ValidatorSet): Bytes {
  const message = createMessage(cometTypes.ValidatorSetSchema, {
    validators: validators.map(toValidator),
    proposer: toValidator(proposer),
    totalVotingPower: totalPower(validators),
  });
  return encodeMessage(cometTypes.ValidatorSetSchema, message);
}

/** Reads {@link encodeValidatorSet}. @throws AppError CHAIN_STORE_DAMAGED */
export function decodeValidatorSet(bytes: Bytes): ValidatorSet {
  const decoded = decodeMessage(cometTypes.ValidatorSetSchema, bytes);
  if (!decoded.ok) throw damagedRecord("a validator set");
  const { validators, proposer } = decoded.message;
  return { validators: validators.map(readValidator), proposer: readValidator(proposer) };
}
