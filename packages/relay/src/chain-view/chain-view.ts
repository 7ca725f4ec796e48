import type { SeenBlock } from "../families/family.ts";
import { agreedHeight, agreedMiddle, type HeightVote, quorumOf, reachedByQuorum } from "./agreed-height.ts";
import { BlockRing } from "./block-ring.ts";
import { BlockTime } from "./block-time.ts";

/** How heights are agreed on, and for how long they count. */
export interface ChainViewOptions {
  /** Blocks that a supplier may lag behind; the catalogue sets it. */
  readonly syncAllowanceBlocks: number;
  /** Blocks below the tip that count as final where no supplier says what is. */
  readonly finalDepthBlocks: number;
  /** An operator's height counts for so long. */
  readonly maxAgeMs: number;
  /** The view follows the chain down when a majority says so this long after it said otherwise. */
  readonly followDownMs: number;
  /** Heights below the tip whose hashes are kept. */
  readonly keptBlocks: number;
}

/** Bounds that suit probes every ten seconds. */
export const chainViewDefaults: ChainViewOptions = {
  syncAllowanceBlocks: 50,
  finalDepthBlocks: 128,
  maxAgeMs: 120_000,
  followDownMs: 15_000,
  keptBlocks: 256,
};

/** One operator of the set whose suppliers are asked. */
export interface ViewMember {
  readonly operator: string;
  /** It is asked for its height by probes, so that its vote can be waited for. */
  readonly isProbed: boolean;
}

interface Member {
  /** It was neither heard yet, nor has it failed to state a height. */
  isAwaited: boolean;
}

interface Operator {
  height: HeightVote;
  /** Blocks that it was behind the tip when it said its height. */
  lagBlocks: number;
  /** When its height last rose, or was first stated. */
  roseAtMs: number;
  final: HeightVote | undefined;
}

/** A height that only goes down when the chain did. */
interface Held {
  readonly heightBlocks: number;
  /** When it was last agreed to, or shown first. */
  readonly atMs: number;
  /** Votes that were known then. */
  readonly voters: number;
}

interface HeldTip extends Held {
  /** Votes for it, or for more, of those that were known then. */
  readonly support: number;
}

/** Called with the height from which on blocks were replaced; 0: all that is known may be wrong. */
export type ReorgListener = (fromBlocks: number) => void;

const MAX_OPERATORS = 64;
/** The view is made anew so often without news, because heights age. */
const RECHECK_MS = 250;
/** Blocks that a height may be ahead of the tip, besides what the chain grew since. */
const MIN_LEAD_BLOCKS = 2;
const MAX_LEAD_BLOCKS = 64;
/** One operator may be ahead of all others by what the chain can grow in this time: of a quick chain that is some blocks. */
const LONE_LEAD_MS = 500;
/** An operator whose height has not risen for this time, and for so many blocks, while another's did, is stuck. */
const STUCK_MS = 30_000;
const STUCK_BLOCKS = 8;

/**
 * What is known of one service's chain, from what its operators say: which block is the newest, which are final, who is
 * behind, what clients were shown, and when blocks were replaced. Heights are agreed on by a quorum of the set of operators,
 * also while some of it was not heard yet, so that a minority of liars moves nothing; for sets of one and two see
 * {@link agreedHeight}. Times are monotonic milliseconds.
 */
export class ChainView {
  readonly #options: ChainViewOptions;
  readonly #onServed: (heightBlocks: number) => void;
  readonly #operators = new Map<string, Operator>();
  /** The set of operators; undefined: all that are heard are of it. */
  #members: Map<string, Member> | undefined;
  readonly #ring: BlockRing;
  readonly #blockTime: BlockTime;
  readonly #listeners = new Set<ReorgListener>();
  #tip: HeldTip | undefined;
  #served: HeldTip | undefined;
  #final: Held | undefined;
  #headMark = 0;
  #forkMark = 0;
  #isNew = false;
  #recheckAtMs = 0;

  /** `onServed` is called when a client was shown a higher block than any before. */
  constructor(options: Partial<ChainViewOptions> = {}, onServed: (heightBlocks: number) => void = () => {}) {
    this.#onServed = onServed;
    this.#options = { ...chainViewDefaults, ...options };
    const { keptBlocks, maxAgeMs, syncAllowanceBlocks } = this.#options;
    this.#ring = new BlockRing({ keptBlocks, maxAgeMs });
    this.#blockTime = new BlockTime({ syncAllowanceBlocks, maxAgeMs });
  }

  /**
   * Sets whose heights count. Those who are new are waited for until they are {@link reported}, or {@link gaveNoHeight}; what
   * others said does not count any more, and what was agreed on stays until the new set has agreed.
   */
  setMembers(list: readonly ViewMember[]): void {
    const members = new Map<string, Member>();
    for (const { operator, isProbed } of list.slice(0, MAX_OPERATORS)) {
      const isAwaited = this.#members?.get(operator)?.isAwaited ?? (isProbed && !this.#operators.has(operator));
      members.set(operator, { isAwaited });
    }
    this.#members = members;
    for (const operator of this.#operators.keys()) if (!members.has(operator)) this.#operators.delete(operator);
    this.#isNew = true;
  }

  /** An operator was asked for its height and gave none: the others need not wait for it. */
  gaveNoHeight(operator: string): void {
    const member = this.#members?.get(operator);
    if (member?.isAwaited !== true) return;
    member.isAwaited = false;
    this.#isNew = true;
  }

  /** An operator serves another chain: what it said is about that. */
  isOfOtherChain(operator: string): void {
    this.gaveNoHeight(operator);
    if (this.#operators.delete(operator)) this.#isNew = true;
  }

  /** An operator said that this is its newest height: by a probe, or by an answer. What is no height is left out. */
  reported(operator: string, heightBlocks: number, nowMs: number): void {
    if (!Number.isSafeInteger(heightBlocks) || heightBlocks < 0) return;
    if (this.#members?.has(operator) === false) return;
    this.gaveNoHeight(operator);
    const height = { heightBlocks, atMs: nowMs };
    const known = this.#operators.get(operator);
    if (known === undefined) {
      if (this.#operators.size >= MAX_OPERATORS) return;
      this.#operators.set(operator, { height, lagBlocks: 0, roseAtMs: nowMs, final: undefined });
    } else {
      if (heightBlocks > known.height.heightBlocks) known.roseAtMs = nowMs;
      known.height = height;
    }
    this.#isNew = true;
    this.#refresh(nowMs);
    const own = this.#operators.get(operator);
    if (own !== undefined) own.lagBlocks = (this.#tip?.heightBlocks ?? 0) - heightBlocks;
  }

  /** An operator showed a block; its own height is at least this. */
  sawBlock(operator: string, block: SeenBlock, nowMs: number): void {
    const { heightBlocks } = block;
    if (!Number.isSafeInteger(heightBlocks) || heightBlocks < 0) return;
    const known = this.#operators.get(operator)?.height;
    if (known === undefined || known.heightBlocks < heightBlocks) this.reported(operator, heightBlocks, nowMs);
    this.#refresh(nowMs);
    const tip = this.#tip;
    if (tip === undefined || !this.#isNear(tip.heightBlocks, heightBlocks, nowMs)) return;
    const change = this.#ring.saw(operator, block, this.#operators.size, nowMs);
    if (change === undefined) return;
    // Where the fork began is known only when the block below is; it was not below what was final, else nothing is sure.
    const firstOpen = (this.#final?.heightBlocks ?? -1) + 1;
    const isDeep = change.heightBlocks < firstOpen;
    const from = change.isFork ? change.heightBlocks : isDeep ? 0 : firstOpen;
    if (isDeep) this.#final = undefined;
    if (isDeep || this.#operators.size === 1) this.#restart();
    this.#replaced(from);
    this.#isNew = true;
    this.#refresh(nowMs);
  }

  /** An operator whose height was {@link reported} said that this block cannot be undone. */
  sawFinal(operator: string, heightBlocks: number, nowMs: number): void {
    const known = this.#operators.get(operator);
    if (known === undefined || !Number.isSafeInteger(heightBlocks) || heightBlocks < 0) return;
    known.final = { heightBlocks, atMs: nowMs };
    this.#isNew = true;
  }

  /** Height of the newest block that the operators agree on; undefined while no operator has stated one. */
  tip(nowMs: number): number | undefined {
    this.#refresh(nowMs);
    return this.#tip?.heightBlocks;
  }

  /** The newest height that is known to be real: the tip, or what a client was shown. */
  newest(nowMs: number): number | undefined {
    this.#refresh(nowMs);
    return this.#tip === undefined ? undefined : this.#newestBlocks();
  }

  /** Height up to which blocks cannot be undone; never above the tip. Undefined: none is known to be. */
  final(nowMs: number): number | undefined {
    this.#refresh(nowMs);
    return this.#final?.heightBlocks;
  }

  /** The height that an operator said last; undefined when it said none lately. */
  heightOf(operator: string, nowMs: number): number | undefined {
    const height = this.#operators.get(operator)?.height;
    return height === undefined || nowMs - height.atMs > this.#options.maxAgeMs ? undefined : height.heightBlocks;
  }

  /** True when an operator was further behind the tip than it may be when it said its height. Unknown is not behind. */
  isBehind(operator: string, nowMs: number): boolean {
    this.#refresh(nowMs);
    const own = this.#operators.get(operator);
    if (own === undefined) return false;
    // A node that syncs says 0 for long, and may have said so before others were known.
    const lag = own.height.heightBlocks === 0 ? (this.#tip?.heightBlocks ?? 0) : own.lagBlocks;
    return lag > this.#options.syncAllowanceBlocks;
  }

  /**
   * True when a block is in the chain, and an operator's height is below it: its `null` or `[]` for that block says
   * nothing about the chain.
   */
  isBeyond(operator: string, heightBlocks: number, nowMs: number): boolean {
    const height = this.heightOf(operator, nowMs);
    const newest = this.newest(nowMs);
    return height !== undefined && newest !== undefined && heightBlocks <= newest && heightBlocks > height;
  }

  /** True when some operator said this height or a higher one. None may have, where only clients of other processes saw it. */
  isReached(heightBlocks: number, nowMs: number): boolean {
    this.#refresh(nowMs);
    return [...this.#operators.values()].some(({ height }) => height.heightBlocks >= heightBlocks);
  }

  /** The highest height that a client was shown; undefined while none was. */
  served(nowMs: number): number | undefined {
    this.#refresh(nowMs);
    return this.#served?.heightBlocks;
  }

  /**
   * False when an answer with this height as the newest would go back behind what a client was shown, or is too high to be
   * true: another supplier is asked. Call {@link reported} before. When no supplier has a better one, the lower is served.
   */
  mayServe(heightBlocks: number, nowMs: number): boolean {
    this.#refresh(nowMs);
    if (this.#served !== undefined && heightBlocks < this.#served.heightBlocks) return false;
    return !this.isTooHigh(heightBlocks, nowMs);
  }

  /** True when a height cannot be true by what was agreed on. */
  isTooHigh(heightBlocks: number, nowMs: number): boolean {
    this.#refresh(nowMs);
    return this.#tip !== undefined && heightBlocks > this.#highestBlocks(this.#tip, nowMs);
  }

  /** True while nothing is agreed on, since votes of the set are outstanding: no height can be distinguished from a lie. */
  isOpen(nowMs: number): boolean {
    this.#refresh(nowMs);
    if (this.#tip !== undefined) return false;
    const { votes, outstanding } = this.#voting();
    return outstanding > 0 && votes.length + outstanding > 2;
  }

  /** A client was shown this height as the newest. Heights that cannot be true are left out. */
  wasServed(heightBlocks: number, nowMs: number): void {
    this.#refresh(nowMs);
    const tip = this.#tip;
    if (tip === undefined || heightBlocks > this.#highestBlocks(tip, nowMs)) return;
    if (this.#served !== undefined && heightBlocks <= this.#served.heightBlocks) return;
    const before = this.#newestBlocks();
    this.#served = { ...tip, heightBlocks, atMs: nowMs };
    if (this.#newestBlocks() !== before) this.#headMark++;
    this.#onServed(heightBlocks);
  }

  /** Another number whenever what is known about the newest block may no longer be true. */
  headMark(nowMs: number): number {
    this.#refresh(nowMs);
    return this.#headMark;
  }

  /** Another number whenever blocks were replaced. */
  get forkMark(): number {
    return this.#forkMark;
  }

  /** Something was written through us: what is known about the newest block may no longer be true. */
  wrote(): void {
    this.#headMark++;
  }

  /** Time between two blocks, measured or guessed. */
  get blockTimeMs(): number {
    return this.#blockTime.blockTimeMs;
  }

  /** Calls a listener whenever blocks were replaced; the result ends it. */
  onReorg(listener: ReorgListener): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  #newestBlocks(): number {
    return Math.max(this.#tip?.heightBlocks ?? -1, this.#served?.heightBlocks ?? -1);
  }

  /** Blocks by which a true height may be above the tip now: operators differ, and the chain grew since it was said. */
  #headroomBlocks(nowMs: number): number {
    return this.#leadBlocks + this.#blockTime.growthBlocks(nowMs);
  }

  /** The highest that a true height may be now. Operators said theirs at different times, and went on since. */
  #highestBlocks(tip: Held, nowMs: number): number {
    const highest = tip.heightBlocks + this.#headroomBlocks(nowMs);
    const votes = this.#voting().votes.filter(({ height }) => height.heightBlocks > 0);
    // Of two one may lie, and there is no middle.
    if (votes.length < 3) return highest;
    const now = votes.map(({ height }) => height.heightBlocks + this.#blockTime.grownBlocks(nowMs - height.atMs));
    const allowed = Math.max(highest, this.#leadBlocks + (agreedMiddle(now) ?? 0));
    return Math.min(allowed, this.#highestOfOne(tip, votes, nowMs));
  }

  /**
   * The highest that one operator alone may say, which may lie: little above what a second one says. Of those who said the
   * same, the last to speak is nearest to what is true now.
   */
  #highestOfOne(tip: Held, votes: readonly Operator[], nowMs: number): number {
    const heights = votes.map(({ height }) => height);
    const [, second] = heights.toSorted((a, b) => b.heightBlocks - a.heightBlocks || b.atMs - a.atMs);
    const grown = second === undefined ? 0 : second.heightBlocks + this.#blockTime.grownBlocks(nowMs - second.atMs);
    return Math.max(tip.heightBlocks, grown) + Math.max(MIN_LEAD_BLOCKS, this.#blockTime.grownBlocks(LONE_LEAD_MS));
  }

  get #leadBlocks(): number {
    return Math.min(MAX_LEAD_BLOCKS, Math.max(MIN_LEAD_BLOCKS, this.#options.syncAllowanceBlocks));
  }

  #isNear(tipBlocks: number, heightBlocks: number, nowMs: number): boolean {
    return (
      heightBlocks > tipBlocks - this.#options.keptBlocks && heightBlocks <= tipBlocks + this.#headroomBlocks(nowMs)
    );
  }

  #replaced(fromBlocks: number): void {
    this.#headMark++;
    this.#forkMark++;
    for (const listener of this.#listeners) listener(fromBlocks);
  }

  /** The chain began anew: what was held is worth no more than what operators say now. */
  #restart(): void {
    const atMs = Number.NEGATIVE_INFINITY;
    if (this.#tip !== undefined) this.#tip = { ...this.#tip, atMs };
    if (this.#served !== undefined) this.#served = { ...this.#served, atMs };
  }

  #refresh(nowMs: number): void {
    if (!this.#isNew && nowMs < this.#recheckAtMs) return;
    const isNew = this.#isNew;
    this.#isNew = false;
    this.#recheckAtMs = nowMs + RECHECK_MS;
    const { maxAgeMs } = this.#options;
    for (const [name, { height }] of this.#operators) {
      if (nowMs - height.atMs > maxAgeMs) this.#operators.delete(name);
    }
    const before = this.#newestBlocks();
    this.#followTip(nowMs, isNew);
    this.#followServed(nowMs);
    this.#followFinal(nowMs);
    if (this.#newestBlocks() !== before) this.#headMark++;
  }

  /** The votes that count, and how many operators are waited for. */
  #voting(): { readonly votes: readonly Operator[]; readonly outstanding: number } {
    if (this.#members === undefined) return { votes: [...this.#operators.values()], outstanding: 0 };
    const votes: Operator[] = [];
    let outstanding = 0;
    for (const [name, { isAwaited }] of this.#members) {
      const operator = this.#operators.get(name);
      if (operator !== undefined) votes.push(operator);
      else if (isAwaited) outstanding++;
    }
    return { votes, outstanding };
  }

  /** The height that the set agrees on, by what was said since a time. */
  #agreed(sinceMs: number, beforeBlocks: number | undefined, nowMs: number): number | undefined {
    const { votes, outstanding } = this.#voting();
    const since = votes.filter(({ height }) => height.atMs >= sinceMs);
    const voters = votes.length + outstanding;
    // One or two need not wait for those who said nothing since, unless they are half.
    const least = voters <= 2 ? Math.max(1, quorumOf(votes.length)) : quorumOf(voters);
    if (since.length < least) return undefined;
    const facts = {
      beforeBlocks,
      headroomBlocks: this.#headroomBlocks(nowMs),
      reachBlocks: this.#leadBlocks + this.#blockTime.reachBlocks(nowMs),
    };
    const heightsOf = (list: readonly Operator[]): readonly number[] => list.map(({ height }) => height.heightBlocks);
    const agreed = agreedHeight(heightsOf(since), { ...facts, outstanding: voters - since.length });
    if (agreed !== undefined || voters > since.length) return agreed;
    // Halves against each other at the start: those that stay where they are while others go on are stuck.
    const moving = since.filter((one) => !this.#isStuck(one, since, nowMs));
    return moving.length < since.length ? agreedHeight(heightsOf(moving), { ...facts, outstanding: 0 }) : undefined;
  }

  #isStuck({ roseAtMs }: Operator, votes: readonly Operator[], nowMs: number): boolean {
    const leastMs = Math.max(STUCK_MS, STUCK_BLOCKS * this.#blockTime.blockTimeMs);
    return nowMs - roseAtMs >= leastMs && votes.some((other) => other.roseAtMs - roseAtMs >= leastMs / 2);
  }

  /** Where there are more than two, the middle of them is sure; two have to be near each other. */
  #isSure(nowMs: number): boolean {
    const [one, other, ...more] = this.#voting().votes.map(({ height }) => height.heightBlocks);
    if (one === undefined || other === undefined || more.length > 0) return true;
    return Math.abs(one - other) <= this.#headroomBlocks(nowMs);
  }

  #followTip(nowMs: number, isNew: boolean): void {
    // A second operator's height need not follow from one that a single operator stated.
    const past = this.#tip !== undefined && this.#tip.voters >= 2 ? this.#tip.heightBlocks : undefined;
    const agreed = this.#agreed(Number.NEGATIVE_INFINITY, past, nowMs);
    const { votes, outstanding } = this.#voting();
    const voters = votes.length;
    const tip = this.#tip;
    if (agreed === undefined) {
      // A set that is heard again, or anew, goes on from what was agreed on; not from what one operator said.
      const isHeld = tip !== undefined && tip.voters >= 2 && nowMs - tip.atMs <= this.#options.maxAgeMs;
      if (!isHeld || voters + outstanding === 0) this.#tip = undefined;
    } else if (tip === undefined || agreed >= tip.heightBlocks) {
      const isChanged = agreed !== tip?.heightBlocks;
      if (isNew || isChanged) this.#tip = this.#tipOf(agreed, votes, nowMs);
      if (tip === undefined) this.#measureLags(agreed);
      if (isChanged) {
        this.#blockTime.advanced(agreed, nowMs, this.#isSure(nowMs));
        this.#ring.keep(agreed - this.#options.keptBlocks, agreed + MAX_LEAD_BLOCKS);
      }
    } else {
      const lower = this.#lower(tip, agreed, nowMs);
      if (lower === undefined) return;
      this.#tip = this.#tipOf(lower, votes, nowMs);
      this.#measureLags(lower);
      this.#blockTime.restart(lower, nowMs);
      if (this.#final !== undefined && lower < this.#final.heightBlocks) {
        this.#final = undefined;
        this.#replaced(0);
      }
    }
  }

  #tipOf(heightBlocks: number, votes: readonly Operator[], nowMs: number): HeldTip {
    const least = heightBlocks - this.#headroomBlocks(nowMs);
    const support = votes.filter(({ height }) => height.heightBlocks >= least).length;
    return { heightBlocks, atMs: nowMs, voters: votes.length, support };
  }

  /** No operator is behind a height that was not the chain's, and it is known again who is behind the one that is. */
  #measureLags(tipBlocks: number): void {
    for (const operator of this.#operators.values()) operator.lagBlocks = tipBlocks - operator.height.heightBlocks;
  }

  /** What a held height has to go down to; undefined: it stays. */
  #lower(held: HeldTip, agreed: number | undefined, nowMs: number): number | undefined {
    // It was the height of one or two, or of fewer than a quorum of those known now, and cannot be true by what more of them say.
    const voters = this.#voting().votes.length;
    const isMore = voters > held.voters && (held.voters < 3 || held.support < quorumOf(voters));
    if (isMore && agreed !== undefined && held.heightBlocks > agreed + this.#headroomBlocks(nowMs)) return agreed;
    const later = this.#agreed(held.atMs + this.#options.followDownMs, held.heightBlocks, nowMs);
    return later !== undefined && later < held.heightBlocks ? later : undefined;
  }

  #followServed(nowMs: number): void {
    const served = this.#served;
    const tip = this.#tip?.heightBlocks;
    if (served === undefined || tip === undefined) return;
    const lower = served.heightBlocks > tip ? this.#lower(served, tip, nowMs) : undefined;
    if (lower === undefined && served.atMs !== Number.NEGATIVE_INFINITY) return;
    this.#served = { ...served, heightBlocks: lower ?? served.heightBlocks, atMs: nowMs };
  }

  #followFinal(nowMs: number): void {
    const tip = this.#tip?.heightBlocks;
    if (tip === undefined) {
      this.#final = undefined;
      return;
    }
    const { maxAgeMs, finalDepthBlocks } = this.#options;
    const { votes, outstanding } = this.#voting();
    const said: number[] = [];
    const heights: number[] = [];
    for (const { final, height } of votes) {
      if (height.heightBlocks > 0) heights.push(height.heightBlocks);
      if (final !== undefined && nowMs - final.atMs <= maxAgeMs) said.push(final.heightBlocks);
    }
    // Fewer may lie; then only the depth counts.
    const voters = votes.length + outstanding;
    const agreed =
      reachedByQuorum(said, voters) ??
      Math.min(tip, reachedByQuorum(heights, heights.length) ?? tip) - finalDepthBlocks;
    const held = this.#final;
    // A height of one or two, or of half of those known now, is not held against more of them.
    const isHeld = held !== undefined && (voters <= held.voters || (held.voters >= 3 && held.voters > voters / 2));
    const next = Math.min(tip, isHeld ? Math.max(agreed, held.heightBlocks) : agreed);
    if (next < 0) this.#final = undefined;
    else if (!isHeld || next !== held.heightBlocks) this.#final = { heightBlocks: next, atMs: nowMs, voters };
  }
}
