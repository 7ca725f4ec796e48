import { getAccount, setAccount, unorderedNonces } from "../modules/auth/accounts.ts";
import type { Context } from "../state/context.ts";
import type { DecodedTx } from "./decode.ts";
import { changedAccount } from "./signatures.ts";
import { timeoutNanosOf } from "./times.ts";

/**
 * Makes room for a transaction in a state where one with the same sequences, or the same timeout, was checked: its signers'
 * sequences become those that it names. Fees stay taken.
 */
export function rewind(ctx: Context, { body, signers, authInfo }: DecodedTx): void {
  const timeout = timeoutNanosOf(body) ?? 0n;
  for (const [i, signer] of signers.entries()) {
    if (body.unordered) {
      unorderedNonces.remove(ctx, [timeout, signer]);
      continue;
    }
    const account = getAccount(ctx, signer);
    const sequence = authInfo.signerInfos[i]?.sequence ?? 0n;
    if (account !== undefined) setAccount(ctx, signer, changedAccount(account, { sequence }));
  }
}
