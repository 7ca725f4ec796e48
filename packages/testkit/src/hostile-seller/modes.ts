import { ANSWER_MODES } from "./answer-modes.ts";
import type { SellerMode, SellerModes } from "./mode.ts";
import { RECEIPT_MODES } from "./receipt-modes.ts";
import { TIMING_MODES } from "./timing-modes.ts";

/** Every mode of the hostile seller, by name. */
export const SELLER_MODES: SellerModes = {
  honest: { kind: "answer" },
  ...ANSWER_MODES,
  ...RECEIPT_MODES,
  ...TIMING_MODES,
};

/** The modes of some kinds, for a test's table. */
export function modesOf(
  ...kinds: readonly SellerMode["kind"][]
): readonly (readonly [name: string, mode: SellerMode])[] {
  return Object.entries(SELLER_MODES).filter(([, { kind }]) => kinds.includes(kind));
}
