/** Thrown by a meter whose limit is passed; it undoes what the transaction did so far, and never leaves the runner. */
export class OutOfGas extends Error {
  /** What was being paid for, such as `ReadPerByte`. */
  readonly location: string;

  constructor(location: string) {
    super(`out of gas in location: ${location}`);
    this.location = location;
  }
}

/** Gas of the SDK's key-value stores. */
export const STORE_GAS = {
  has: 1000n,
  delete: 1000n,
  readFlat: 1000n,
  readPerByte: 3n,
  writeFlat: 2000n,
  writePerByte: 30n,
  nextFlat: 30n,
} as const;

/** Gas of writing an entry. */
export const writeGas = (keyBytes: number, valueBytes: number): bigint =>
  STORE_GAS.writeFlat + STORE_GAS.writePerByte * BigInt(keyBytes + valueBytes);

/** Entries that an iterator passes: their sizes are of key and value. */
export interface WalkedEntries {
  /** Bytes of all of them. */
  readonly bytes: number;
  readonly firstBytes: number;
  readonly entries: number;
}

/** Gas of an iterator: opening it costs the first entry, and each step the entry that it leaves. */
export function walkGas({ bytes, firstBytes, entries }: WalkedEntries): bigint {
  return STORE_GAS.readPerByte * BigInt(bytes + firstBytes) + STORE_GAS.nextFlat * BigInt(entries + 1);
}

/** Gas of an iterator that passes entries of these sizes. */
export function iteratorGas(entryBytes: readonly number[]): bigint {
  const bytes = entryBytes.reduce((sum, entry) => sum + entry, 0);
  return walkGas({ bytes, firstBytes: entryBytes[0] ?? 0, entries: entryBytes.length });
}

/** Maximum gas that a meter counts: a result holds it as 64 bits with a sign, in the answers of both engines. */
const MAX_GAS = (1n << 63n) - 1n;

/** Counts gas up to a limit. */
export class GasMeter {
  /** Undefined: no limit. */
  readonly limit: bigint | undefined;
  #used = 0n;

  constructor(limit?: bigint) {
    this.limit = limit;
  }

  get used(): bigint {
    return this.#used;
  }

  /** @throws OutOfGas when the limit is passed, or what can be counted, as the SDK ends a transaction whose gas overflows */
  consume(amount: bigint, location: string): void {
    const used = this.#used + amount;
    this.#used = used > MAX_GAS ? MAX_GAS : used;
    if (used > (this.limit ?? MAX_GAS) || used > MAX_GAS) throw new OutOfGas(location);
  }
}
