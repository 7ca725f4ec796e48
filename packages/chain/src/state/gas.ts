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

  /** @throws OutOfGas when the limit is passed */
  consume(amount: bigint, location: string): void {
    this.#used += amount;
    if (this.limit !== undefined && this.#used > this.limit) throw new OutOfGas(location);
  }
}
