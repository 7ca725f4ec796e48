/** Coins that a message may take from an account. */
export interface Spending {
  /** As it stands in the message. */
  readonly address: string;
  /** Maximum. */
  readonly upokt: bigint;
}

/** More than any account has. */
export const ALL_COINS: bigint = 1n << 256n;
