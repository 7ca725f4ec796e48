import { bytesToHex } from "@turnpike/base";
import type { PresentedPayment } from "../types.ts";
import type { EarlierAdmission } from "./types.ts";

/** Copies of one payment that may wait at once: each holds a request open. */
const MAX_COPIES = 64;
const FULL: EarlierAdmission = { kind: "refused", ok: false, code: "PAYMENT_IN_PROGRESS" };

/** Names a payment for a request: byte-equal copies have the same name. */
export function joinName({ payloadDigest }: PresentedPayment, requestHash: Uint8Array): string {
  return `${bytesToHex(payloadDigest)}.${bytesToHex(requestHash)}`;
}

/** Bounds the copies that wait at once, over all payments. */
export class CopyLimit {
  readonly #maxWaiting: number;
  #waiting = 0;

  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting;
  }

  /** Runs `work` where there is room for a copy that waits, and `full` where there is none. */
  async run<T>(work: () => Promise<T>, full: () => T | Promise<T>): Promise<T> {
    if (this.#waiting >= this.#maxWaiting) return full();
    this.#waiting++;
    try {
      return await work();
    } finally {
      this.#waiting--;
    }
  }
}

interface Joined {
  readonly admission: Promise<EarlierAdmission>;
  copies: number;
}

/** Payments that this process works on, by {@link joinName}: copies wait for the end of the first one's work. */
export class JoinedPayments {
  readonly #copies: CopyLimit;
  readonly #joined = new Map<string, Joined>();

  constructor(copies: CopyLimit) {
    this.#copies = copies;
  }

  /** What comes of the byte-equal payment that is worked on here; undefined when there is none. */
  join(name: string): Promise<EarlierAdmission> | undefined {
    const first = this.#joined.get(name);
    if (first === undefined) return undefined;
    if (first.copies >= MAX_COPIES) return Promise.resolve(FULL);
    first.copies++;
    return this.#copies.run(
      () => first.admission,
      () => FULL,
    );
  }

  /** Copies join this one until it has ended, or {@link end} says so. */
  begin(name: string, admission: Promise<EarlierAdmission>): void {
    const entry: Joined = { admission, copies: 0 };
    this.#joined.set(name, entry);
    const leave = (): void => {
      if (this.#joined.get(name) === entry) this.#joined.delete(name);
    };
    admission.then(leave, leave);
  }

  /** From now on copies ask the ledger. Those that wait are served by the first one. */
  end(name: string): void {
    this.#joined.delete(name);
  }
}
