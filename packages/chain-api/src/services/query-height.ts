import { GRPC_STATUS } from "@turnpike/chain";
import { parseGoInteger } from "./go-values.ts";

/** Header of requests and answers that names the height of the state that is read. */
export const HEIGHT_HEADER = "x-cosmos-block-height";

/** A height to read at, or the status and text that the SDK refuses it with. */
export type QueryHeight =
  | { readonly ok: true; readonly heightBlocks: bigint }
  | { readonly ok: false; readonly status: number; readonly text: string };

const refusal = (text: string): QueryHeight => ({ ok: false, status: GRPC_STATUS.Unknown, text });

/**
 * Reads the height that a request names (recorded, surprise 4): none and 0 are the newest.
 * @param text value of {@link HEIGHT_HEADER}; undefined: there is none
 */
export function queryHeight(text: string | undefined, latestBlocks: bigint): QueryHeight {
  const asked =
    text === undefined ? { ok: true as const, value: 0n } : parseGoInteger(text, { bits: 64, signed: true, base: 10 });
  if (!asked.ok) {
    const which = `Baseapp.RegisterGRPCServer: invalid height header "${HEIGHT_HEADER}"`;
    return refusal(`codespace sdk code 18: invalid request: ${which}: ${asked.text}`);
  }
  if (asked.value < 0n) {
    const rule = "cannot query with height < 0; please provide a valid height";
    return refusal(`codespace sdk code 18: invalid request: ${rule}`);
  }
  if (latestBlocks === 0n) {
    return refusal("codespace sdk code 26: invalid height: pocket is not ready; please wait for first block");
  }
  if (asked.value > latestBlocks) {
    const rule = "cannot query with height in the future; please provide a valid height";
    return refusal(`codespace sdk code 26: invalid height: ${rule}`);
  }
  return { ok: true, heightBlocks: asked.value === 0n ? latestBlocks : asked.value };
}
