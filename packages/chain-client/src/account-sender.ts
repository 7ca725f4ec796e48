import { isAppError } from "@turnpike/base";
import type { Any } from "@turnpike/proto";
import { type ChainClient, txRefused } from "./chain-client.ts";
import { orderedAt, prepareTx } from "./prepare-tx.ts";
import { signTx } from "./sign-tx.ts";
import type { ChainSigner } from "./signer.ts";
import type { Broadcast, IncludedTx, SendOptions, TxOptions } from "./types.ts";

const MOST_ATTEMPTS = 4;

/** How {@link AccountSender.send} sends. */
export type OrderedSendOptions = Omit<SendOptions, "order">;

/** How {@link AccountSender.broadcast} sends. */
export type OrderedTxOptions = Omit<TxOptions, "order">;

/** Sequence that the chain expects, as its refusal (SDK code 32) says it; undefined of any other text. */
export function expectedSequence(text: string): bigint | undefined {
  const [, expected] = /account sequence mismatch, expected (\d{1,20}), got \d+/.exec(text) ?? [];
  return expected === undefined ? undefined : BigInt(expected);
}

/**
 * Sends ordered transactions of one account, any number of them before the next block. They are signed and sent one after
 * the other, with a sequence that is counted here; when the chain expects another one, that is taken and the transaction
 * signed again. Who else sends for the account meanwhile costs attempts, not transactions.
 */
export class AccountSender {
  readonly #signer: ChainSigner;
  readonly #client: ChainClient;
  /** Next sequence; undefined until it is known. */
  #sequence: bigint | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor({ signer }: { readonly signer: ChainSigner }, { client }: { readonly client: ChainClient }) {
    this.#signer = signer;
    this.#client = client;
  }

  /**
   * Sends messages behind all that were sent before, and waits until they are in a block.
   * @throws AppError TX_FAILED, TX_UNKNOWN, CHAIN_UNREACHABLE
   */
  async send(messages: readonly Any[], options: OrderedSendOptions): Promise<IncludedTx> {
    const sent = await this.broadcast(messages, options);
    const included = await this.#client.waitForTx(sent.hash, options.timeoutMs, options.signal);
    if (included.code !== 0) throw txRefused(included);
    return included;
  }

  /** The same; waits for the mempool's check alone. @throws AppError TX_FAILED, CHAIN_UNREACHABLE */
  broadcast(messages: readonly Any[], options: OrderedTxOptions = {}): Promise<Broadcast> {
    const turn = this.#last.then(() => this.#sendInTurn(messages, options));
    this.#last = turn.catch(() => {});
    return turn;
  }

  async #sendInTurn(messages: readonly Any[], options: OrderedTxOptions): Promise<Broadcast> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#attempt(messages, options);
      } catch (error) {
        // Whether a transaction arrived is not known after a fault: the account is asked again.
        this.#sequence = isAppError(error, "TX_FAILED") ? expectedSequence(error.message) : undefined;
        if (this.#sequence === undefined || attempt === MOST_ATTEMPTS) throw error;
      }
    }
  }

  async #attempt(messages: readonly Any[], options: OrderedTxOptions): Promise<Broadcast> {
    const sequence = this.#sequence;
    const order = sequence === undefined ? {} : { order: orderedAt(sequence, options.timeoutNanos) };
    const unsigned = await prepareTx(this.#client, this.#signer, messages, { ...options, ...order });
    const sent = await this.#client.broadcast(signTx(unsigned, this.#signer), options.signal);
    if (sent.code !== 0) throw txRefused(sent);
    this.#sequence = unsigned.order.kind === "ordered" ? unsigned.order.sequence + 1n : undefined;
    return sent;
  }
}
