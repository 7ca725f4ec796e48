import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { bytesEqual } from "@turnpike/base";
import { CLAIM_STATUS, type SessionWindowParams, sessionWindows } from "@turnpike/protocol";
import { fc } from "@turnpike/testkit/property";
import { OPERATOR, testHeader, testTerms } from "../../test/sessions.ts";
import type { SealedClaim, SessionHead, SessionOutcome, SessionState } from "../evidence/types.ts";
import { type ChainClaim, type ChainFacts, neededFacts, nextAction, sendHeights } from "./next-action.ts";

const SESSION_END = 6n;

const windowParams: fc.Arbitrary<SessionWindowParams> = fc
  .tuple(fc.bigInt(0n, 4n), fc.bigInt(0n, 4n), fc.bigInt(0n, 6n), fc.bigInt(0n, 3n), fc.bigInt(0n, 6n))
  .map(([grace, claimOpen, claimClose, proofOpen, proofClose]) => ({
    numBlocksPerSession: 6n,
    sessionGridAnchorHeight: 1n,
    sessionNumberAtAnchor: 1n,
    gracePeriodEndOffsetBlocks: grace,
    claimWindowOpenOffsetBlocks: claimOpen,
    claimWindowCloseOffsetBlocks: claimClose,
    proofWindowOpenOffsetBlocks: proofOpen,
    proofWindowCloseOffsetBlocks: proofClose,
  }))
  // The chain refuses parameters without any of the four, and a proof that could be sent before its claim is there.
  .filter((params) => params.proofWindowOpenOffsetBlocks + params.proofWindowCloseOffsetBlocks >= 2n);

/** What happens around one block. */
interface BlockWeather {
  /** The node answers after this block. */
  readonly isReachable: boolean;
  /** Transactions of the mempool are lost before the next block. */
  readonly losesTxs: boolean;
  /** After so many steps of this block's work the process is killed, and starts again at the next block. */
  readonly killedAfter: number | undefined;
  /** A relay in flight does not end before this block. */
  readonly isRelayOpen: boolean;
}

const weather: fc.Arbitrary<BlockWeather> = fc.record({
  isReachable: fc.boolean(),
  losesTxs: fc.boolean(),
  killedAfter: fc.option(fc.integer({ min: 0, max: 4 }), { nil: undefined, freq: 2 }),
  isRelayOpen: fc.boolean(),
});

interface Sent {
  readonly kind: "claim" | "prove";
  readonly rootHash: Uint8Array;
}

/** A chain as far as one claim matters to it, and a supplier that follows {@link nextAction}. */
class World {
  readonly head: SessionHead;
  readonly isRequired: boolean;
  state: SessionState = { phase: "open", feesUpokt: 0n };
  height = 1n;
  onChain: ChainClaim | undefined;
  mempool: Sent[] = [];
  settlement: SessionOutcome | undefined;
  readonly rootsOnChain: string[] = [];
  /** Heights at which a transaction was sent and not lost. */
  readonly good: Record<Sent["kind"], bigint[]> = { claim: [], prove: [] };
  sealedAt: bigint | undefined;
  provesNotRequired = 0;
  relays = 3n;

  constructor(params: SessionWindowParams, isRequired: boolean) {
    this.head = {
      operatorAddress: OPERATOR,
      header: testHeader(),
      terms: testTerms({ windows: sessionWindows(params, SESSION_END) }),
    };
    this.isRequired = isRequired;
  }

  get windows() {
    return this.head.terms.windows;
  }

  /** The next block includes what is in the mempool, as the chain's windows allow. */
  block(losesTxs: boolean): void {
    this.height++;
    const { claimOpenHeight, claimCloseHeight, proofOpenHeight, proofCloseHeight, settlementHeight } = this.windows;
    for (const { kind, rootHash } of losesTxs ? [] : this.mempool) {
      if (kind === "claim" && this.height >= claimOpenHeight && this.height <= claimCloseHeight) {
        this.onChain = { rootHash, status: CLAIM_STATUS.pending };
        this.rootsOnChain.push(Buffer.from(rootHash).toString("hex"));
      }
      const isTime = this.height >= proofOpenHeight && this.height <= proofCloseHeight;
      if (kind === "prove" && isTime && this.onChain !== undefined) {
        if (!this.isRequired) this.provesNotRequired++;
        const isRight = bytesEqual(this.onChain.rootHash, rootHash);
        this.onChain = { ...this.onChain, status: isRight ? CLAIM_STATUS.validated : CLAIM_STATUS.invalid };
      }
    }
    this.mempool = [];
    if (this.height !== settlementHeight || this.onChain === undefined) return;
    const { heightBlocks } = { heightBlocks: this.height };
    const isPaid = !this.isRequired || this.onChain.status === CLAIM_STATUS.validated;
    this.settlement = isPaid
      ? { kind: "settled", heightBlocks, settledUpokt: 1n, claimedUpokt: 1n, rewards: {} }
      : { kind: "lost", heightBlocks, why: "proof-missing", text: "", penaltyUpokt: 1n };
    this.onChain = undefined;
  }

  #facts(): ChainFacts {
    const needed = neededFacts(this.head, this.state, this.height);
    const isKnown = this.height >= this.windows.proofOpenHeight - 1n;
    return {
      heightBlocks: this.height,
      onChain: needed.onChain ? { heightBlocks: this.height, claim: this.onChain } : undefined,
      isProofRequired: needed.isProofRequired && isKnown ? this.isRequired : undefined,
      settlement: !needed.settlement
        ? undefined
        : this.settlement === undefined
          ? { kind: "none" }
          : { kind: "outcome", outcome: this.settlement },
    };
  }

  #sealed(): SealedClaim {
    const rootHash = new Uint8Array(48).fill(Number(this.relays));
    return { rootHash, relays: this.relays, computeUnits: this.relays * 100n, expectedUpokt: this.relays };
  }

  /** What the supplier does after a block. */
  work({ isReachable, killedAfter, isRelayOpen }: BlockWeather): void {
    if (!isReachable) return;
    const inFlight = isRelayOpen ? 1 : 0;
    for (let steps = 0; ; steps++) {
      if (steps === killedAfter) return;
      const facts = this.#facts();
      const action = nextAction(this.head, this.state, facts, { inFlight, isUnwanted: false });
      assert.ok(steps < 10, "the work on one block ends");
      if (action.kind === "wait") return;
      if (action.kind === "note") {
        this.state = { ...this.state, ...action.change };
        continue;
      }
      if (action.kind === "seal") {
        this.sealedAt ??= this.height;
        this.state = { ...this.state, phase: "sealed", claim: this.#sealed() };
        continue;
      }
      this.state = { ...this.state, isClaimSent: true };
      // Killed between noting the intent and sending.
      if (steps + 1 === killedAfter) return;
      this.mempool.push({ kind: action.kind, rootHash: this.state.claim?.rootHash ?? new Uint8Array(48) });
      return;
    }
  }
}

function run(params: SessionWindowParams, isRequired: boolean, days: readonly BlockWeather[]): World {
  const world = new World(params, isRequired);
  const calm: BlockWeather = { isReachable: true, losesTxs: false, killedAfter: undefined, isRelayOpen: false };
  while (world.height <= world.windows.settlementHeight + 40n) {
    const day = days[Number(world.height - SESSION_END)] ?? calm;
    world.work(day);
    const { mempool, height } = world;
    for (const { kind } of day.losesTxs ? [] : mempool) world.good[kind].push(height);
    world.block(day.losesTxs);
  }
  return world;
}

/** True when the process could do everything after a block, and what it sent got through. */
const isGood = (day: BlockWeather | undefined): boolean =>
  day === undefined || (day.isReachable && !day.losesTxs && (day.killedAfter ?? 9) > 4);

const days = fc.array(weather, { maxLength: 40 });

suite("nextAction", () => {
  test("whatever is killed, lost or dead: a claim that could be in its window is, with one root", () => {
    fc.assert(
      fc.property(windowParams, fc.boolean(), days, (params, isRequired, all) => {
        const world = run(params, isRequired, all);
        const { claimFrom, claimTo, sealFrom } = sendHeights(world.windows);
        const chances: bigint[] = [];
        for (let height = claimFrom; height <= claimTo; height++) {
          const day = all[Number(height - SESSION_END)];
          // A relay in flight is waited for, unless there is no time.
          const mayWait =
            height < sealFrom || (day?.isRelayOpen === true && height < world.windows.claimCloseHeight - 2n);
          if (isGood(day) && !mayWait) chances.push(height);
        }
        if (chances.length > 0) assert.ok(world.rootsOnChain.length > 0, `a chance at ${chances.join()} was missed`);
        assert.ok(new Set(world.rootsOnChain).size <= 1);
      }),
      { numRuns: 3_000 },
    );
  });

  test("whatever is killed, lost or dead: a proof that is required and possible is there, and none that is not required", () => {
    fc.assert(
      fc.property(windowParams, fc.boolean(), days, (params, isRequired, all) => {
        const world = run(params, isRequired, all);
        assert.equal(world.provesNotRequired, 0);
        if (!isRequired || world.rootsOnChain.length === 0) return;
        const { proveFrom, proveTo, claimTo } = sendHeights(world.windows);
        const chances: bigint[] = [];
        for (let height = proveFrom; height <= proveTo; height++) {
          // The claim must have been there before: it is included a block after its last chance at the latest.
          if (height > claimTo && isGood(all[Number(height - SESSION_END)])) chances.push(height);
        }
        if (chances.length === 0) return;
        assert.equal(world.settlement?.kind, "settled", `a chance at ${chances.join()} was missed`);
      }),
      { numRuns: 3_000 },
    );
  });

  test("every session ends, and as the chain has it", () => {
    fc.assert(
      fc.property(windowParams, fc.boolean(), days, (params, isRequired, all) => {
        const world = run(params, isRequired, all);
        const { outcome, phase } = world.state;
        assert.equal(phase, outcome?.kind);
        if (world.settlement !== undefined) assert.deepEqual(outcome, world.settlement);
        else assert.ok(outcome?.kind === "lost" && outcome.why === "claim-window-missed");
      }),
      { numRuns: 2_000 },
    );
  });

  test("relays in flight are waited for until two blocks before the window closes, and no longer", () => {
    const params: SessionWindowParams = {
      numBlocksPerSession: 6n,
      sessionGridAnchorHeight: 1n,
      sessionNumberAtAnchor: 1n,
      gracePeriodEndOffsetBlocks: 1n,
      claimWindowOpenOffsetBlocks: 1n,
      claimWindowCloseOffsetBlocks: 6n,
      proofWindowOpenOffsetBlocks: 1n,
      proofWindowCloseOffsetBlocks: 6n,
    };
    const stuck: BlockWeather = { isReachable: true, losesTxs: false, killedAfter: undefined, isRelayOpen: true };
    const waits = run(
      params,
      true,
      Array.from({ length: 40 }, () => stuck),
    );
    assert.equal(waits.sealedAt, waits.windows.claimCloseHeight - 2n);
    assert.equal(waits.state.phase, "settled");
    const free = run(params, true, []);
    assert.equal(free.sealedAt, free.windows.claimOpenHeight);
    assert.deepEqual(free.good, { claim: [8n], prove: [15n] });
  });

  test("a claim that is not wanted is left out only before it may have been sent, and never its proof", () => {
    const { head } = new World(
      {
        numBlocksPerSession: 6n,
        sessionGridAnchorHeight: 1n,
        sessionNumberAtAnchor: 1n,
        gracePeriodEndOffsetBlocks: 1n,
        claimWindowOpenOffsetBlocks: 1n,
        claimWindowCloseOffsetBlocks: 6n,
        proofWindowOpenOffsetBlocks: 1n,
        proofWindowCloseOffsetBlocks: 6n,
      },
      true,
    );
    const claim = { rootHash: new Uint8Array(48).fill(1), relays: 1n, computeUnits: 100n, expectedUpokt: 1n };
    const sealed: SessionState = { phase: "sealed", feesUpokt: 0n, claim };
    const facts = (heightBlocks: bigint, found?: ChainClaim): ChainFacts => ({
      heightBlocks,
      onChain: { heightBlocks, claim: found },
      isProofRequired: true,
      settlement: undefined,
    });
    const unwanted = { inFlight: 0, isUnwanted: true };
    const skipped = nextAction(head, sealed, facts(8n), unwanted);
    assert.ok(skipped.kind === "note" && skipped.change.outcome?.kind === "lost");
    assert.equal(nextAction(head, { ...sealed, isClaimSent: true }, facts(8n), unwanted).kind, "claim");
    // Whether it is there already is not known.
    const unknown = (heightBlocks: bigint): ChainFacts => ({ ...facts(heightBlocks), onChain: undefined });
    assert.equal(nextAction(head, sealed, unknown(8n), unwanted).kind, "wait");
    assert.equal(nextAction(head, sealed, unknown(13n), unwanted).kind, "claim");
    const claimed: SessionState = { ...sealed, phase: "claimed", claimedHeightBlocks: 9n, isProofRequired: true };
    const there = { rootHash: claim.rootHash, status: CLAIM_STATUS.pending };
    assert.equal(nextAction(head, claimed, facts(15n, there), unwanted).kind, "prove");
    const wrong = { ...there, status: CLAIM_STATUS.invalid };
    assert.equal(nextAction(head, claimed, facts(16n, wrong), unwanted).kind, "prove");
  });

  test("a proof is sent also while the proof parameters cannot be read: a fee costs less than a penalty", () => {
    const head: SessionHead = { operatorAddress: OPERATOR, header: testHeader(), terms: testTerms() };
    const claim = { rootHash: new Uint8Array(48).fill(1), relays: 1n, computeUnits: 100n, expectedUpokt: 1n };
    const claimed: SessionState = { phase: "claimed", feesUpokt: 0n, claim, claimedHeightBlocks: 10n };
    const there = { rootHash: claim.rootHash, status: CLAIM_STATUS.pending };
    const provenAt = (state: SessionState): bigint[] =>
      Array.from({ length: 8 }, (_, i) => 14n + BigInt(i)).filter((heightBlocks) => {
        const onChain = { heightBlocks, claim: there };
        const chain: ChainFacts = { heightBlocks, onChain, isProofRequired: undefined, settlement: undefined };
        return nextAction(head, state, chain, { inFlight: 0, isUnwanted: false }).kind === "prove";
      });
    assert.deepEqual(provenAt({ ...claimed, isProofRequired: true }), [15n, 16n, 17n, 18n, 19n, 20n, 21n]);
    // Never known: the parameters may still be read before the last two chances.
    assert.deepEqual(provenAt(claimed), [20n, 21n]);
    assert.deepEqual(provenAt({ ...claimed, isProofRequired: false }), []);
  });

  test("another root than ours on the chain is replaced while the window is open", () => {
    const { head } = new World(
      {
        numBlocksPerSession: 6n,
        sessionGridAnchorHeight: 1n,
        sessionNumberAtAnchor: 1n,
        gracePeriodEndOffsetBlocks: 1n,
        claimWindowOpenOffsetBlocks: 1n,
        claimWindowCloseOffsetBlocks: 6n,
        proofWindowOpenOffsetBlocks: 1n,
        proofWindowCloseOffsetBlocks: 6n,
      },
      true,
    );
    const claim = { rootHash: new Uint8Array(48).fill(1), relays: 1n, computeUnits: 100n, expectedUpokt: 1n };
    const other = { rootHash: new Uint8Array(48).fill(2), status: CLAIM_STATUS.pending };
    for (const phase of ["sealed", "claimed"] as const) {
      const at = (heightBlocks: bigint) =>
        nextAction(
          head,
          { phase, feesUpokt: 0n, claim },
          { heightBlocks, onChain: { heightBlocks, claim: other }, isProofRequired: undefined, settlement: undefined },
          { inFlight: 0, isUnwanted: false },
        ).kind;
      assert.deepEqual([at(9n), at(13n), at(14n)], ["claim", "claim", "wait"], phase);
    }
  });
});
