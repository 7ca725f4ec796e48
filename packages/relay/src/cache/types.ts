import type { UpstreamAnswer } from "../answers/upstream-answer.ts";
import type { ReorgListener } from "../chain-view/chain-view.ts";
import type { BlockRef, CacheRule } from "../families/method-traits.ts";
import type { CallKey } from "./call-key.ts";
import type { Subject } from "./policy.ts";

/** What the cache has to know of a chain; a `ChainView` is one. */
export interface ChainFactsSource {
  newest(nowMs: number): number | undefined;
  final(nowMs: number): number | undefined;
  heightOf(operator: string, nowMs: number): number | undefined;
  headMark(nowMs: number): number;
  readonly forkMark: number;
  readonly blockTimeMs: number;
  onReorg(listener: ReorgListener): () => void;
}

/** One call, as the cache sees it. */
export interface CacheQuery {
  /** `callKey` of the call. */
  readonly key: CallKey;
  readonly rule: CacheRule;
  /** The blocks that it names; undefined where its rule does not read them, or cannot. */
  readonly refs: readonly BlockRef[] | undefined;
  /** Raw JSON text of the caller's own id; undefined for calls without one. */
  readonly id: string | undefined;
}

/** Nothing is kept for a call; hand it back with the answer. It holds what was known when the call was sent. */
export interface CacheMiss {
  readonly kind: "miss";
  readonly key: CallKey;
  readonly hasId: boolean;
  readonly subject: Subject;
  readonly headMark: number;
  readonly forkMark: number;
  readonly clearMark: number;
  readonly finalBlocks: number | undefined;
}

/** A kept answer, with the caller's id. */
export interface CacheHit {
  readonly kind: "hit";
  readonly answer: UpstreamAnswer;
  /** Time since the answer came. */
  readonly ageMs: number;
}
