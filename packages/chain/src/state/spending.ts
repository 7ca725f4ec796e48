/** Coins that a message may take from an account. */
export interface Spending {
  /** As it stands in the message. */
  readonly address: string;
  /** Maximum. */
  readonly upokt: bigint;
  /** Grants without which it is not taken: none where the account signs itself. */
  readonly grants?: readonly NamedGrant[];
}

/** A grant as a message needs it, which may not be in the state: anybody can name one. */
export interface NamedGrant {
  readonly granter: string;
  readonly grantee: string;
  readonly typeUrl: string;
}

/** More than any account has. */
export const ALL_COINS: bigint = 1n << 256n;
