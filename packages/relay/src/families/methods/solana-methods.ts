import { isRecord } from "@turnpike/base";
import { memberAt } from "../family.ts";
import type { BlockRef, CacheRule, MethodTraits } from "../method-traits.ts";
import {
  all,
  atHeight,
  byBlock,
  decimalHeight,
  FOREVER,
  found,
  methodTable,
  own,
  paramAt,
  read,
  SUBSCRIPTION,
  tip,
  WRITE,
} from "./rules.ts";

/**
 * Heights are slots, and the newest block is the newest finalised one: that is what calls ask for that name no
 * commitment. Slots are shorter than the time between two looks at the height, so what is about the newest is not kept.
 */
const NOT_KEPT: CacheRule = { by: "never" };

/** True when the call asks for finalised state: its configuration names no other commitment. */
function isFinalized(params: unknown): boolean {
  const list = Array.isArray(params) ? (params as readonly unknown[]) : [];
  return list.every((one) => !isRecord(one) || one.commitment === undefined || one.commitment === "finalized");
}

const slotRef = (params: unknown): readonly BlockRef[] | undefined => all(atHeight(decimalHeight(paramAt(params, 0))));
const BY_SLOT = byBlock(slotRef);
const inSlot = found((result) => decimalHeight(memberAt(result, "slot")));

const slot = own(NOT_KEPT);
const newestSlot = tip(NOT_KEPT, decimalHeight);
const slotChoice = (params: unknown): MethodTraits => (isFinalized(params) ? newestSlot : slot);
const epoch = tip(NOT_KEPT, (result) => decimalHeight(memberAt(result, "absoluteSlot")));
const epochChoice = (params: unknown): MethodTraits => (isFinalized(params) ? epoch : slot);

/** Solana's JSON-RPC, of Agave. */
export const SOLANA_METHODS = methodTable(
  [
    ["getGenesisHash getEpochSchedule", read(FOREVER)],
    ["getBlock getBlockTime", read(BY_SLOT)],
    ["getTransaction", read(inSlot)],
    ["getSlot", slotChoice],
    ["getEpochInfo", epochChoice],
    // A node that keeps less gives a shorter list.
    ["getBlocks getBlocksWithLimit getConfirmedBlocks getConfirmedBlocksWithLimit", own()],
    ["getSignaturesForAddress getSignatureStatuses getInflationReward", own()],
    ["getAccountInfo getBalance getMultipleAccounts getProgramAccounts getLargestAccounts", own()],
    ["getTokenAccountBalance getTokenAccountsByDelegate getTokenAccountsByOwner getTokenLargestAccounts", own()],
    ["getTokenSupply getSupply getStakeActivation getStakeMinimumDelegation getVoteAccounts", own()],
    ["getLatestBlockhash getRecentBlockhash getFees getFeeForMessage isBlockhashValid", own()],
    ["getBlockHeight getTransactionCount getBlockProduction getBlockCommitment getSlotLeader getSlotLeaders", own()],
    ["getInflationGovernor getInflationRate getLeaderSchedule getMinimumBalanceForRentExemption", own()],
    ["getRecentPerformanceSamples getRecentPrioritizationFees simulateTransaction", own()],
    ["getClusterNodes getHealth getIdentity getVersion getHighestSnapshotSlot getFirstAvailableBlock", own()],
    ["getMaxRetransmitSlot getMaxShredInsertSlot minimumLedgerSlot", own()],
    ["sendTransaction requestAirdrop", WRITE],
    ["accountSubscribe accountUnsubscribe blockSubscribe blockUnsubscribe logsSubscribe logsUnsubscribe", SUBSCRIPTION],
    ["programSubscribe programUnsubscribe rootSubscribe rootUnsubscribe", SUBSCRIPTION],
    ["signatureSubscribe signatureUnsubscribe slotSubscribe slotUnsubscribe", SUBSCRIPTION],
    ["slotsUpdatesSubscribe slotsUpdatesUnsubscribe voteSubscribe voteUnsubscribe", SUBSCRIPTION],
  ],
  /^(?:get|is|minimum|simulate)[A-Z]/,
);
