import type { ChainAnswer } from "@turnpike/chain-client";
import type { PricingParams, SessionHeader, SessionWindows } from "@turnpike/protocol";

/** What holds for all relays of a session, from its first block on: parameters that change meanwhile are for later ones. */
export interface SessionTerms {
  readonly computeUnitsPerRelay: bigint;
  /** A relay is mined when its hash is below; 32 bytes. */
  readonly targetHash: Uint8Array;
  readonly windows: SessionWindows;
  readonly pricing: PricingParams;
}

/** One supplier's part of one session. */
export interface SessionHead {
  readonly operatorAddress: string;
  readonly header: SessionHeader;
  readonly terms: SessionTerms;
}

/** Where the terms of a session come from. */
export type TermsSource = (header: SessionHeader) => Promise<ChainAnswer<SessionTerms>>;

/** A relay whose signed answer is about to leave. */
export interface ServedRelay {
  readonly operatorAddress: string;
  readonly header: SessionHeader;
  /** Both messages, as `relayBytes` of the protocol package gives them. */
  readonly relay: Uint8Array;
}

/**
 * What became of a relay. `mined`: it is in the evidence, and survives the process. `below-difficulty`: it is counted, and not
 * paid by itself. `sealed`: the session is being claimed. `full`: it could not be written down. `too-large`: no proof of it
 * would fit into a transaction. In the last three cases its answer must not leave.
 */
export type AppendResult = "mined" | "below-difficulty" | "sealed" | "full" | "too-large";

/** Why a relay cannot begin. `unavailable`: the chain's facts about the session are not known. */
export type BeginFault = "sealed" | "full" | "unavailable";

/** A relay that is being served: its session is not sealed before it ends, as long as the claim's window allows. */
export interface InFlight extends Disposable {
  /**
   * Writes an answer of it down; a stream has several.
   * @param requestName what the request is remembered by; it is written down where the relay itself is not
   */
  append(relay: Uint8Array, requestName?: string): Promise<AppendResult>;
}

/** A relay that may be served, or why not. */
export type BegunRelay =
  | { readonly ok: true; readonly relay: InFlight }
  | { readonly ok: false; readonly fault: BeginFault; readonly text: string };

/** What was served of a session before this process served it. */
export interface ServedBefore {
  readonly relays: bigint;
  /** Requests of the mined ones, by name. */
  readonly requests: readonly string[];
}

/** How many relays of a session were served, and what became of them. */
export interface RelayCounts {
  readonly served: number;
  readonly mined: number;
  readonly belowDifficulty: number;
  /** Served again with the same bytes: one leaf, one reward. */
  readonly repeated: number;
}

/** Why a session earned nothing, or not what it should have. */
export type LossReason =
  /** No relay met the difficulty. */
  | "nothing-mined"
  /** The claim was not included in its window. */
  | "claim-window-missed"
  /** The operator's option: the claim was worth less than its fees. */
  | "unprofitable"
  /** The relays cannot be read any more, so that a claim of them could not be proven. */
  | "evidence-damaged"
  /** A required proof was not included in its window. */
  | "proof-missing"
  /** The chain found the proof to be wrong. */
  | "proof-invalid"
  /** The chain dropped the claim. */
  | "discarded"
  /** The chain settled it, and the node has not kept how. */
  | "settlement-unknown";

/** What a claim commits to. */
export interface SealedClaim {
  readonly rootHash: Uint8Array;
  readonly relays: bigint;
  readonly computeUnits: bigint;
  /** What it is worth by the session's terms, before the chain's caps. */
  readonly expectedUpokt: bigint;
}

/** How a session ended. */
export type SessionOutcome =
  | {
      readonly kind: "settled";
      readonly heightBlocks: bigint;
      /** What the application was charged for the work. */
      readonly settledUpokt: bigint;
      /** What the claim was worth before the application's limits. */
      readonly claimedUpokt: bigint;
      /** upokt by address, of those who share the supplier's revenue. */
      readonly rewards: Readonly<Record<string, bigint>>;
    }
  | {
      readonly kind: "lost";
      readonly heightBlocks: bigint;
      readonly why: LossReason;
      readonly text: string;
      /** Cut from the supplier's stake. */
      readonly penaltyUpokt: bigint;
    };

/** Progress of the search for the block that settles a session's claim. */
export interface SettlementSearch {
  /** Height up to which no block settled the claim, as far as their events could be read. */
  readonly readToBlocks: bigint;
  /** Height of the first state that was read without the claim: a block up to it has removed it. */
  readonly absentAtBlocks?: bigint;
  /** True when the node had not kept the events of a block. */
  readonly isIncomplete?: boolean;
}

/** How far a session is. */
export type SessionPhase = "open" | "sealed" | "claimed" | "proven" | "settled" | "lost";

/** What is known of a session besides its relays; written down at every change. */
export interface SessionState {
  readonly phase: SessionPhase;
  /** Since it was sealed. */
  readonly claim?: SealedClaim;
  /** True once a transaction with the claim may have been sent: then it may be included at any time. */
  readonly isClaimSent?: boolean;
  /** Height of the state in which the claim was first seen. */
  readonly claimedHeightBlocks?: bigint;
  /** Whether the chain wants a proof, once that can be known. */
  readonly isProofRequired?: boolean;
  /** Height of the state in which the proof was first seen as valid. */
  readonly provenHeightBlocks?: bigint;
  /** From the height of its settlement on, until it has an outcome. */
  readonly settlementSearch?: SettlementSearch;
  readonly outcome?: SessionOutcome;
  /** When the outcome was known: milliseconds since 1970, by this machine's clock. */
  readonly finishedAtMs?: number;
  /** Fees that its claim and proof have cost, its part of shared transactions. */
  readonly feesUpokt: bigint;
}
