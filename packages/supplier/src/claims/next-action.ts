import { bytesEqual } from "@turnpike/base";
import { CLAIM_STATUS, type SessionWindows } from "@turnpike/protocol";
import type { SessionHead, SessionOutcome, SessionState } from "../evidence/types.ts";

/** A claim in the chain's state. */
export interface ChainClaim {
  readonly rootHash: Uint8Array;
  /** One of CLAIM_STATUS of the protocol package. */
  readonly status: number;
}

/**
 * Settlement of a claim that is not on the chain any more. `none`: no block has an event about it; `gone`: no block that the
 * node keeps has one.
 */
export type SettlementFact =
  | { readonly kind: "outcome"; readonly outcome: SessionOutcome }
  | { readonly kind: "none" | "gone" };

/** What is known of the chain, as far as it matters to one session. What is not known is undefined. */
export interface ChainFacts {
  /** Of the newest block. A transaction that is sent now is in the next one at the earliest. */
  readonly heightBlocks: bigint;
  /** The session's claim in a state, and that state's height. */
  readonly onChain: { readonly heightBlocks: bigint; readonly claim: ChainClaim | undefined } | undefined;
  /** Whether the claim needs a proof by the parameters of now. */
  readonly isProofRequired: boolean | undefined;
  readonly settlement: SettlementFact | undefined;
}

/** What is known of this process and its operator's wishes. */
export interface LocalFacts {
  /** Relays of the session whose answers have not left. */
  readonly inFlight: number;
  /** True when the claim is worth less than its fees and the operator does not want such claims. */
  readonly isUnwanted: boolean;
}

/** The next step of a session. The first four need more than a note. */
export type Action =
  | { readonly kind: "wait" }
  | { readonly kind: "seal" }
  /** Send the claim, or see to it that a transaction with it gets into a block. */
  | { readonly kind: "claim" }
  | { readonly kind: "prove" }
  /** Write a change of the state down. */
  | { readonly kind: "note"; readonly change: Partial<SessionState> };

/** Heights between which a session's transactions are sent: each lands a block later at the earliest. */
export interface SendHeights {
  readonly sealFrom: bigint;
  /** From here on the session is sealed also with relays in flight. */
  readonly sealBy: bigint;
  readonly claimFrom: bigint;
  /** Last height at which sending a claim is of use. */
  readonly claimTo: bigint;
  readonly proveFrom: bigint;
  readonly proveTo: bigint;
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const most = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/** Last blocks of the proof window in which a proof is sent although it is not known whether one is required. */
const UNKNOWN_PROOF_BLOCKS = 2n;

/** Blocks that are left for a claim when relays in flight are not waited for any longer. */
const CLAIM_RESERVE_BLOCKS = 2n;

/** The heights at which things are sent, of a session with these windows. */
export function sendHeights(windows: SessionWindows): SendHeights {
  const claimTo = windows.claimCloseHeight - 1n;
  // In a window of one block only what was sent before it is in time.
  const claimFrom = least(windows.claimOpenHeight, claimTo);
  const sealBy = most(claimFrom, windows.claimCloseHeight - CLAIM_RESERVE_BLOCKS);
  const proveTo = windows.proofCloseHeight - 1n;
  return {
    sealFrom: least(most(claimFrom, windows.graceEndHeight + 1n), sealBy),
    sealBy,
    claimFrom,
    claimTo,
    proveFrom: least(windows.proofOpenHeight, proveTo),
    proveTo,
  };
}

const WAIT: Action = { kind: "wait" };

function lost(outcome: Omit<Extract<SessionOutcome, { kind: "lost" }>, "kind" | "penaltyUpokt">): Action {
  return finish({ kind: "lost", penaltyUpokt: 0n, ...outcome });
}

function finish(outcome: SessionOutcome): Action {
  return { kind: "note", change: { phase: outcome.kind, outcome } };
}

/** The end of a session that is due, once the chain shows how its claim was settled. */
function settled(state: SessionState, { heightBlocks, settlement }: ChainFacts): Action {
  if (settlement === undefined) return WAIT;
  if (settlement.kind === "outcome") return finish(settlement.outcome);
  if (state.claimedHeightBlocks === undefined) {
    const text =
      settlement.kind === "none"
        ? "No block of the claim window has the claim."
        : "The claim was not seen on the chain, and the node does not keep the blocks that may have settled it.";
    return lost({ heightBlocks, why: "claim-window-missed", text });
  }
  return lost({ heightBlocks, why: "settlement-unknown", text: "The node does not say how the claim was settled." });
}

function claiming(state: SessionState, windows: SessionWindows, chain: ChainFacts, local: LocalFacts): Action {
  const { heightBlocks: height, onChain } = chain;
  const { claimFrom, claimTo } = sendHeights(windows);
  const { claim } = state;
  if (claim === undefined) return WAIT;
  if (claim.relays === 0n) {
    return lost({ heightBlocks: height, why: "nothing-mined", text: "No relay met the difficulty." });
  }
  const found = onChain?.claim;
  if (found !== undefined && onChain !== undefined && bytesEqual(found.rootHash, claim.rootHash)) {
    return { kind: "note", change: { phase: "claimed", claimedHeightBlocks: onChain.heightBlocks } };
  }
  if (onChain !== undefined && found === undefined && onChain.heightBlocks >= windows.claimCloseHeight) {
    if (onChain.heightBlocks >= windows.settlementHeight) return settled(state, chain);
    return lost({
      heightBlocks: height,
      why: "claim-window-missed",
      text: "No block of the claim window has the claim.",
    });
  }
  if (height >= claimFrom && height <= claimTo) {
    // Once it may have been sent it may be included, and then a proof may be required.
    if (local.isUnwanted && state.isClaimSent !== true && found === undefined) {
      if (onChain !== undefined) {
        return lost({ heightBlocks: height, why: "unprofitable", text: "The claim is worth less than its fees." });
      }
      if (height < claimTo) return WAIT;
    }
    return { kind: "claim" };
  }
  // Another claim than ours stands there, and the window is over: only its settlement shows how that ends.
  return height >= windows.settlementHeight ? settled(state, chain) : WAIT;
}

function proving(state: SessionState, windows: SessionWindows, chain: ChainFacts): Action {
  const { heightBlocks: height, onChain, isProofRequired } = chain;
  const { claimFrom, claimTo, proveFrom, proveTo } = sendHeights(windows);
  const found = onChain?.claim;
  const isOurs = found !== undefined && state.claim !== undefined && bytesEqual(found.rootHash, state.claim.rootHash);
  if (isOurs && found.status === CLAIM_STATUS.validated && state.phase === "claimed") {
    return { kind: "note", change: { phase: "proven", provenHeightBlocks: onChain?.heightBlocks ?? height } };
  }
  if (height >= windows.settlementHeight) return settled(state, chain);
  // Another process has put its own claim there, or the chain was replaced by one without it.
  if (onChain !== undefined && !isOurs && height >= claimFrom && height <= claimTo) return { kind: "claim" };
  if (isProofRequired !== undefined && isProofRequired !== state.isProofRequired) {
    return { kind: "note", change: { isProofRequired } };
  }
  const isProven = isOurs ? found.status === CLAIM_STATUS.validated : state.phase === "proven";
  const isTime = height >= proveFrom && height <= proveTo;
  // A fee costs less than the penalty of a required proof that is missing.
  const isRequired = isProofRequired ?? state.isProofRequired ?? height > proveTo - UNKNOWN_PROOF_BLOCKS;
  return isTime && !isProven && isRequired ? { kind: "prove" } : WAIT;
}

/**
 * What a session needs next. It depends on nothing but what it is given, and asks for the same again until the chain shows
 * it: a crash, a lost transaction or a dead node between any two steps changes when a step is made, not whether.
 */
export function nextAction(head: SessionHead, state: SessionState, chain: ChainFacts, local: LocalFacts): Action {
  const { windows } = head.terms;
  switch (state.phase) {
    case "open": {
      const { sealFrom, sealBy } = sendHeights(windows);
      const isDue = chain.heightBlocks >= sealFrom && (local.inFlight === 0 || chain.heightBlocks >= sealBy);
      return isDue ? { kind: "seal" } : WAIT;
    }
    case "sealed":
      return claiming(state, windows, chain, local);
    case "claimed":
    case "proven":
      return proving(state, windows, chain);
    case "settled":
    case "lost":
      return WAIT;
  }
}

/** What of the chain has to be asked for {@link nextAction} at a height: not every block needs every question. */
export interface NeededFacts {
  readonly onChain: boolean;
  /** Gas of a claim by the supplier's configurations. */
  readonly claimGas: boolean;
  readonly isProofRequired: boolean;
  readonly settlement: boolean;
}

/** Which facts matter to a session at a height. */
export function neededFacts(head: SessionHead, { phase, isProofRequired }: SessionState, height: bigint): NeededFacts {
  const { windows } = head.terms;
  const { claimFrom, proveFrom, claimTo } = sendHeights(windows);
  const isSealed = phase === "sealed";
  const isClaimed = phase === "claimed" || phase === "proven";
  const isOver = height >= windows.settlementHeight;
  const isProofTime = phase === "claimed" && height >= least(proveFrom, windows.proofOpenHeight - 1n) && !isOver;
  return {
    claimGas: height >= claimFrom && height <= claimTo,
    onChain:
      ((isSealed || phase === "open") && height >= claimFrom) ||
      // A claim that waits for a later block is still there.
      (isClaimed && isOver) ||
      (isClaimed && ((height >= claimFrom && height <= claimTo) || (isProofTime && isProofRequired !== false))),
    // A parameter may change so that a proof is required after all.
    isProofRequired: isProofTime,
    settlement: (isSealed || isClaimed) && isOver,
  };
}
