import { AppError } from "@turnpike/base";
import { merkleRoot, validatorKeyAddress } from "@turnpike/crypto";
import { encodeSimpleValidator } from "./messages.ts";
import type { Validator, ValidatorSet } from "./types.ts";

/** Most voting power that a set may have together (CometBFT's bound). */
export const MAX_TOTAL_POWER = (2n ** 63n - 1n) / 8n;

const MAX_INT64 = 2n ** 63n - 1n;
const MIN_INT64 = -(2n ** 63n);
const WINDOW_FACTOR = 2n;

/** A validator's new power; 0 removes it. */
export interface ValidatorChange {
  /** 32 bytes, ed25519. */
  readonly publicKey: Uint8Array;
  readonly votingPower: bigint;
}

/** Why changes do not fit a set. */
export type ValidatorFault = "bad_key" | "bad_power" | "duplicate" | "unknown" | "empty" | "too_much_power";

/** A set after changes, or why there is none. */
export type ValidatorSetResult =
  | { readonly ok: true; readonly set: ValidatorSet }
  | { readonly ok: false; readonly fault: ValidatorFault };

const clip = (value: bigint): bigint => (value > MAX_INT64 ? MAX_INT64 : value < MIN_INT64 ? MIN_INT64 : value);
const byAddress = (a: Validator, b: Validator): number => Buffer.compare(a.address, b.address);

function byPower(a: Validator, b: Validator): number {
  if (a.votingPower !== b.votingPower) return a.votingPower > b.votingPower ? -1 : 1;
  return byAddress(a, b);
}

/** Voting power of a list together. */
export function totalPower(validators: readonly Validator[]): bigint {
  return validators.reduce((sum, { votingPower }) => sum + votingPower, 0n);
}

/** Hash of a set (32 bytes): of keys and powers, not of priorities. */
export function validatorsHash(set: ValidatorSet): Uint8Array {
  return merkleRoot(set.validators.map(encodeSimpleValidator));
}

/** The validator with an address. */
export function validatorAt(set: ValidatorSet, address: Uint8Array): Validator | undefined {
  return set.validators.find((validator) => Buffer.compare(validator.address, address) === 0);
}

/** Brings the priorities nearer to each other when the window is too wide, and their mean to zero. */
function scaleAndCentre(validators: readonly Validator[], power: bigint): readonly Validator[] {
  const priorities = validators.map(({ proposerPriority }) => proposerPriority);
  const sorted = priorities.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const wide = (sorted.at(-1) ?? 0n) - (sorted[0] ?? 0n);
  const window = WINDOW_FACTOR * power;
  const ratio = wide > window ? (wide + window - 1n) / window : 1n;
  const scaled = priorities.map((priority) => priority / ratio);
  const sum = scaled.reduce((a, b) => a + b, 0n);
  const count = BigInt(scaled.length);
  // Rounds down, where the division of BigInt rounds towards zero.
  const mean = (sum - (((sum % count) + count) % count)) / count;
  return validators.map((validator, i) => ({ ...validator, proposerPriority: clip((scaled[i] ?? 0n) - mean) }));
}

function highestPriority(validators: readonly Validator[]): Validator {
  const chosen = validators.reduce<Validator | undefined>((best, validator) => {
    if (best === undefined || validator.proposerPriority > best.proposerPriority) return validator;
    const equal = validator.proposerPriority === best.proposerPriority;
    return equal && byAddress(validator, best) < 0 ? validator : best;
  }, undefined);
  if (chosen === undefined) throw new AppError("INTERNAL", { message: "A validator set is empty." });
  return chosen;
}

/** One turn: everyone gains its power, and who then stands highest proposes and pays the power of all. */
function turn(validators: readonly Validator[], power: bigint): ValidatorSet {
  const risen = validators.map((validator) => ({
    ...validator,
    proposerPriority: clip(validator.proposerPriority + validator.votingPower),
  }));
  const highest = highestPriority(risen);
  const proposer = { ...highest, proposerPriority: clip(highest.proposerPriority - power) };
  return { validators: risen.map((validator) => (validator === highest ? proposer : validator)), proposer };
}

/**
 * The set some rounds or heights on: CometBFT moves the set by one for each height, and by the round within a height.
 * @throws AppError INTERNAL when `times` is not at least 1
 */
export function rotateProposer(set: ValidatorSet, times = 1): ValidatorSet {
  if (!Number.isSafeInteger(times) || times < 1) {
    throw new AppError("INTERNAL", { message: "A validator set moves by at least one." });
  }
  const power = totalPower(set.validators);
  let next = turn(scaleAndCentre(set.validators, power), power);
  for (let i = 1; i < times; i++) next = turn(next.validators, power);
  return next;
}

function readChanges(changes: readonly ValidatorChange[]): readonly Validator[] | ValidatorFault {
  if (changes.some(({ publicKey }) => publicKey.length !== 32)) return "bad_key";
  const list = changes
    .map(({ publicKey, votingPower }) => ({
      address: validatorKeyAddress(publicKey),
      publicKey,
      votingPower,
      proposerPriority: 0n,
    }))
    .sort(byAddress);
  if (list.some((validator, i) => i > 0 && byAddress(validator, list[i - 1] ?? validator) === 0)) return "duplicate";
  if (list.some(({ votingPower }) => votingPower < 0n || votingPower > MAX_TOTAL_POWER)) return "bad_power";
  return list;
}

/** Validators after changes, without who proposes; CometBFT 0.38, `updateWithChangeSet`. */
function changed(
  old: readonly Validator[],
  changes: readonly ValidatorChange[],
): readonly Validator[] | ValidatorFault {
  const list = readChanges(changes);
  if (typeof list === "string") return list;
  const oldOf = (address: Uint8Array): Validator | undefined =>
    old.find((validator) => Buffer.compare(validator.address, address) === 0);
  const updates = list.filter(({ votingPower }) => votingPower > 0n);
  const removed = list.filter(({ votingPower }) => votingPower === 0n);
  if (updates.every(({ address }) => oldOf(address) !== undefined) && removed.length === old.length) return "empty";
  if (removed.some(({ address }) => oldOf(address) === undefined)) return "unknown";
  const touched = new Set(list.map(({ address }) => oldOf(address)));
  const kept = old.filter((validator) => !touched.has(validator));
  const power = totalPower(kept) + totalPower(updates);
  if (power > MAX_TOTAL_POWER) return "too_much_power";
  // Newcomers start behind all others, so that leaving and coming back gains nothing.
  const before = power + removed.reduce((sum, { address }) => sum + (oldOf(address)?.votingPower ?? 0n), 0n);
  const start = -(before + (before >> 3n));
  const merged = updates.map((validator) => ({
    ...validator,
    proposerPriority: oldOf(validator.address)?.proposerPriority ?? start,
  }));
  return scaleAndCentre([...kept, ...merged], power).toSorted(byPower);
}

/** A first set, with its first proposer chosen. */
export function createValidatorSet(validators: readonly ValidatorChange[]): ValidatorSetResult {
  if (validators.some(({ votingPower }) => votingPower === 0n)) return { ok: false, fault: "bad_power" };
  const list = changed([], validators);
  if (typeof list === "string") return { ok: false, fault: list };
  const [first] = list;
  if (first === undefined) return { ok: false, fault: "empty" };
  return { ok: true, set: rotateProposer({ validators: list, proposer: first }) };
}

/**
 * A set after changes that the application asked for. Who proposes stays until the set is moved by
 * {@link rotateProposer}, which CometBFT does right after.
 */
export function updateValidatorSet(set: ValidatorSet, changes: readonly ValidatorChange[]): ValidatorSetResult {
  if (changes.length === 0) return { ok: true, set };
  const list = changed(set.validators, changes);
  return typeof list === "string"
    ? { ok: false, fault: list }
    : { ok: true, set: { validators: list, proposer: set.proposer } };
}
