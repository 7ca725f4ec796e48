import type { AccountAddress } from "@turnpike/base";
import type { SettlementEvent } from "./events.ts";
import { OP_REASON, type OpReason, type ValidatorPool } from "./reasons.ts";
import type { Operation, SettlementValidator } from "./types.ts";

/** One of a decimal of 18 places. */
const DECIMAL_ONE = 10n ** 18n;

const DELEGATOR_REASON: Readonly<Record<ValidatorPool, OpReason>> = {
  [OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_VALIDATOR_REWARD_DISTRIBUTION]:
    OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_DELEGATOR_REWARD_DISTRIBUTION,
  [OP_REASON.TLM_GLOBAL_MINT_VALIDATOR_REWARD_DISTRIBUTION]: OP_REASON.TLM_GLOBAL_MINT_DELEGATOR_REWARD_DISTRIBUTION,
};

/** A decimal of 18 places as text, all places written. */
export function decimalText(value: bigint): string {
  const digits = value.toString().padStart(19, "0");
  return `${digits.slice(0, -18)}.${digits.slice(-18)}`;
}

/**
 * Splits a total by weights with nothing left over (largest remainder): each part rounded down, then one unit more to
 * those with the largest remainders, equal ones by address. Weights are positive and add up to `totalWeight`.
 */
export function splitByWeight<Name extends string>(
  weights: ReadonlyMap<Name, bigint>,
  totalWeight: bigint,
  totalUpokt: bigint,
): Map<Name, bigint> {
  const parts = [...weights].map(([address, weight]) => ({
    address,
    amount: (weight * totalUpokt) / totalWeight,
    remainder: (weight * totalUpokt) % totalWeight,
  }));
  const amounts = new Map(parts.map(({ address, amount }) => [address, amount]));
  let left = totalUpokt - parts.reduce((sum, { amount }) => sum + amount, 0n);
  const open = parts
    .filter(({ remainder }) => remainder > 0n)
    .sort((a, b) => {
      if (a.remainder !== b.remainder) return a.remainder > b.remainder ? -1 : 1;
      return a.address < b.address ? -1 : 1;
    });
  for (const { address, amount } of open) {
    if (left === 0n) break;
    amounts.set(address, amount + 1n);
    left--;
  }
  return amounts;
}

/**
 * Tokens that shares of a validator are worth, as the staking module computes them: a quotient of 18 places, rounded to
 * even, then truncated.
 */
export function tokensFromShares(shares: bigint, validator: SettlementValidator): bigint {
  if (validator.delegatorShares === 0n) return 0n;
  const quotient = (shares * validator.tokensUpokt * DECIMAL_ONE * DECIMAL_ONE) / validator.delegatorShares;
  const whole = quotient / DECIMAL_ONE;
  const rest = (quotient % DECIMAL_ONE) * 2n;
  const up = rest > DECIMAL_ONE || (rest === DECIMAL_ONE && whole % 2n === 1n);
  return (up ? whole + 1n : whole) / DECIMAL_ONE;
}

/** What the operator keeps of its part before its delegators: rounded down. */
export function commissionUpokt(partUpokt: bigint, commissionRate: bigint): bigint {
  if (commissionRate <= 0n) return 0n;
  return commissionRate >= DECIMAL_ONE ? partUpokt : (partUpokt * commissionRate) / DECIMAL_ONE;
}

const DAO_REASON: Readonly<Record<ValidatorPool, OpReason>> = {
  [OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_VALIDATOR_REWARD_DISTRIBUTION]:
    OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_DAO_REWARD_DISTRIBUTION,
  [OP_REASON.TLM_GLOBAL_MINT_VALIDATOR_REWARD_DISTRIBUTION]: OP_REASON.TLM_GLOBAL_MINT_DAO_REWARD_DISTRIBUTION,
};

function delegatedTokens(validator: SettlementValidator): { stakes: Map<AccountAddress, bigint>; total: bigint } {
  const stakes = new Map<AccountAddress, bigint>();
  let total = 0n;
  for (const { delegatorAddress, shares } of validator.delegations) {
    const tokens = tokensFromShares(shares, validator);
    if (tokens === 0n) continue;
    stakes.set(delegatorAddress, (stakes.get(delegatorAddress) ?? 0n) + tokens);
    total += tokens;
  }
  return { stakes, total };
}

/** How one validator's part falls to itself and to its delegators. */
interface ValidatorSplit {
  readonly commission: bigint;
  readonly own: bigint;
  readonly delegators: bigint;
  readonly totalStake: bigint;
  readonly numDelegators: number;
  readonly rewards: ReadonlyMap<AccountAddress, bigint>;
}

function splitPart(validator: SettlementValidator, part: bigint): ValidatorSplit {
  const commission = commissionUpokt(part, validator.commissionRate);
  const rest = part - commission;
  const alone = { commission, own: rest, delegators: 0n, totalStake: 0n, numDelegators: 0 };
  if (rest === 0n) return { ...alone, rewards: new Map() };
  const { stakes, total } = delegatedTokens(validator);
  if (total === 0n) return { ...alone, rewards: new Map([[validator.accountAddress, rest]]) };
  const rewards = splitByWeight(stakes, total, rest);
  const own = rewards.get(validator.accountAddress);
  return {
    commission,
    own: own ?? 0n,
    delegators: rest - (own ?? 0n),
    totalStake: total,
    numDelegators: rewards.size - (own === undefined ? 0 : 1),
    rewards,
  };
}

/**
 * Pays one pool to the bonded validators by stake and, after commission, to their delegators by stake: one transfer for
 * each receiver, sorted by address, and one event for each validator that gets something, sorted likewise. An account
 * that is both validator and delegator of another is paid as validator. Without any bonded validator the DAO takes the
 * pool, which the real chain pays to no one.
 */
export function distributeValidatorRewards(
  validators: readonly SettlementValidator[],
  totalUpokt: bigint,
  pool: ValidatorPool,
  sessionEndHeight: bigint,
  daoRewardAddress: AccountAddress,
): { readonly transfers: Operation[]; readonly events: SettlementEvent[] } {
  const bonded = new Map<AccountAddress, SettlementValidator>();
  for (const validator of validators) {
    if (validator.tokensUpokt > 0n && !bonded.has(validator.accountAddress)) {
      bonded.set(validator.accountAddress, validator);
    }
  }
  const sorted = [...bonded].sort(([a], [b]) => (a < b ? -1 : 1));
  const weights = new Map(sorted.map(([address, { tokensUpokt }]) => [address, tokensUpokt]));
  const totalWeight = sorted.reduce((sum, [, { tokensUpokt }]) => sum + tokensUpokt, 0n);
  if (totalUpokt === 0n) return { transfers: [], events: [] };
  if (totalWeight === 0n) {
    const reason = DAO_REASON[pool];
    const kind = "mod_to_acct";
    const toDao: Operation = {
      kind,
      sender: "tokenomics",
      recipient: daoRewardAddress,
      reason,
      amountUpokt: totalUpokt,
    };
    return { transfers: [toDao], events: [] };
  }

  const parts = splitByWeight(weights, totalWeight, totalUpokt);
  const rewards = new Map<AccountAddress, bigint>();
  const add = (address: AccountAddress, amount: bigint) => rewards.set(address, (rewards.get(address) ?? 0n) + amount);
  const events: SettlementEvent[] = [];
  for (const [address, validator] of sorted) {
    const part = parts.get(address) ?? 0n;
    if (part === 0n) continue;
    const split = splitPart(validator, part);
    add(address, split.commission);
    for (const [delegator, amount] of split.rewards) add(delegator, amount);
    events.push({
      type: "pocket.tokenomics.EventValidatorRewardDistribution",
      value: {
        sessionEndBlockHeight: sessionEndHeight,
        opReason: pool,
        validatorOperatorAddress: validator.operatorAddress,
        validatorAccountAddress: address,
        commissionRate: decimalText(validator.commissionRate),
        poolShareUpokt: part.toString(),
        commissionUpokt: split.commission.toString(),
        selfDelegationRewardUpokt: split.own.toString(),
        delegatorsRewardUpokt: split.delegators.toString(),
        totalDelegatedStakeUpokt: split.totalStake.toString(),
        numDelegators: split.numDelegators,
      },
    });
  }
  const transfers = [...rewards]
    .filter(([, amount]) => amount > 0n)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(
      ([recipient, amountUpokt]): Operation => ({
        kind: "mod_to_acct",
        sender: "tokenomics",
        recipient,
        reason: bonded.has(recipient) ? pool : DELEGATOR_REASON[pool],
        amountUpokt,
      }),
    );
  return { transfers, events };
}
