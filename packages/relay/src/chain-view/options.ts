/** Options of a chain view. */
export interface ChainViewOptions {
  /** Blocks that a supplier may lag behind, as the catalogue has it. */
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
