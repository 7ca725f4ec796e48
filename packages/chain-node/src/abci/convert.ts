import { AppError } from "@turnpike/base";
import { eventMessages, type TxResult, type ValidatorUpdate } from "@turnpike/chain";
import { timestampToNs } from "@turnpike/cometbft";
import { cometAbci, cometCrypto, createMessage, type Timestamp } from "@turnpike/proto";

/** A request that cannot be answered. */
export function malformed(what: string): AppError {
  return new AppError("MALFORMED_REQUEST", { message: `The request ${what}.` });
}

/** Nanoseconds since 1970. @throws AppError MALFORMED_REQUEST when there is no time */
export function timeOf(time: Timestamp | undefined): bigint {
  const timeNanos = time && timestampToNs(time);
  if (timeNanos === undefined) throw malformed("has no time");
  return timeNanos;
}

/** The fields of a transaction's result in ABCI, the same in a block and in the mempool. */
export function resultFields(result: TxResult): Omit<TxResult, "events"> & { readonly events: cometAbci.Event[] } {
  const { code, codespace, log, data, gasWanted, gasUsed, events } = result;
  return { code, codespace, log, data, gasWanted, gasUsed, events: eventMessages(events) };
}

/** Validator updates as ABCI has them. */
export function updatesOf(updates: readonly ValidatorUpdate[]): cometAbci.ValidatorUpdate[] {
  return updates.map(({ publicKey, power }) =>
    createMessage(cometAbci.ValidatorUpdateSchema, {
      pubKey: createMessage(cometCrypto.PublicKeySchema, { sum: { case: "ed25519", value: publicKey } }),
      power,
    }),
  );
}
