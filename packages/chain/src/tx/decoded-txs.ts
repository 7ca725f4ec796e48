import type { Bytes } from "@turnpike/chain-store";
import type { ExecutionMode } from "../state/context.ts";
import type { DecodedTx } from "./decode.ts";
import { factsOf, type TxFacts } from "./tx-facts.ts";

const NOTHING: Bytes = new Uint8Array(0);
/** Longest transaction that is kept whole: a full mempool of them takes some 50 MB. Of a longer one the messages are left out. */
const MOST_BYTES = 4_096;

/**
 * What the mempool's check read of a transaction, kept until a block has run it. The key is the array itself, not its
 * content: nothing is compared or hashed, and what the mempool drops is collected with its bytes. The caller must not
 * change the bytes. Decoding depends on nothing else, so that it changes no result.
 */
export class DecodedTxs {
  readonly #kept = new WeakMap<Bytes, DecodedTx>();
  readonly #outlines = new WeakMap<Bytes, DecodedTx>();
  readonly #facts = new WeakMap<Bytes, TxFacts>();

  /** What was kept of these bytes. A block runs them once: kept blocks must not hold what was read of all their transactions. */
  find(bytes: Bytes, mode: ExecutionMode): DecodedTx | undefined {
    const decoded = this.#kept.get(bytes);
    if (decoded !== undefined && mode === "deliver") this.#kept.delete(bytes);
    return decoded ?? (mode === "recheck" ? this.outline(bytes) : undefined);
  }

  /** A long transaction that a check has read, without its messages: those of a waiting transaction were read once, and not run. */
  outline(bytes: Bytes): DecodedTx | undefined {
    return this.#outlines.get(bytes);
  }

  /** Facts of a long transaction that a check has read. */
  facts(bytes: Bytes): TxFacts | undefined {
    return this.#facts.get(bytes);
  }

  /** Keeps what a check of the mempool read. */
  keep(bytes: Bytes, mode: ExecutionMode, decoded: DecodedTx): void {
    if (mode !== "check" && mode !== "recheck") return;
    if (bytes.length <= MOST_BYTES) {
      this.#kept.set(bytes, decoded);
      return;
    }
    this.#facts.set(bytes, factsOf(decoded));
    this.#outlines.set(bytes, outlineOf(decoded));
  }
}

// Signatures and signers are bounded by the check of the account's parameters: what is kept does not grow with the messages.
function outlineOf(tx: DecodedTx): DecodedTx {
  const raw = { ...tx.raw, bodyBytes: NOTHING, authInfoBytes: NOTHING };
  return { ...tx, raw, body: { ...tx.body, messages: [] }, messages: [] };
}
