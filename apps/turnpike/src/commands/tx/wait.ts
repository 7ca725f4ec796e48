import { AppError, isAppError } from "@turnpike/base";
import type { ChainClient, IncludedTx } from "@turnpike/chain-client";

/** How long --wait waits, in seconds: a block of the real network takes a minute. */
export const WAIT_SECONDS = 180;
const PROGRESS_SECONDS = 10;
const MS = 1_000;

export interface WaitShownOptions {
  readonly hash: string;
  /** Called with progress, in words. */
  readonly say: (text: string) => void;
  /** 180 by default. */
  readonly limitSeconds?: number;
  /** Time between two calls of `say`; 10 by default. */
  readonly progressSeconds?: number;
}

/**
 * Waits until a transaction is in a block, and says meanwhile at which block the chain is.
 * @throws AppError TX_UNKNOWN with the newest block when the time is over, CHAIN_UNREACHABLE
 */
export async function waitShown(
  { hash, say, limitSeconds = WAIT_SECONDS, progressSeconds = PROGRESS_SECONDS }: WaitShownOptions,
  { client }: { readonly client: Pick<ChainClient, "waitForTx" | "status"> },
): Promise<IncludedTx> {
  let first: bigint | undefined;
  for (let waited = 0; ; ) {
    const turn = Math.min(progressSeconds, limitSeconds - waited);
    try {
      return await client.waitForTx(hash, turn * MS);
    } catch (cause) {
      if (!isAppError(cause, "TX_UNKNOWN")) throw cause;
      waited += turn;
      const { latestHeightBlocks: newest } = await client.status();
      first ??= newest;
      if (waited < limitSeconds) {
        say(`waits     the newest block is ${newest}; ${waited} s of at most ${limitSeconds} s`);
        continue;
      }
      const stands = newest === first && limitSeconds > progressSeconds;
      const where = stands ? `the chain stands at block ${newest}` : `the newest block is ${newest}`;
      const message = `${hash} is in no block after ${limitSeconds} s of --wait; ${where}.`;
      throw new AppError("TX_UNKNOWN", { message, detail: { hash }, cause });
    }
  }
}
