import type { PaymentRefusal } from "../types.ts";
import type { Admission, PaymentStage } from "./types.ts";

const REFUSAL: PaymentRefusal = { ok: false, code: "SETTLEMENT_UNAVAILABLE", message: "Nothing is sold here." };

function nothingIsPaid(): Promise<never> {
  return Promise.reject(new Error("nothing was admitted that could be settled or released"));
}

/**
 * The payment stage of a gateway that sells nothing: none of its routes is paid, so it is not asked. A call all the
 * same is refused before anything is served, and nothing is missing for its readiness.
 */
export const noPayments: PaymentStage = {
  decode: () => REFUSAL,
  admit: (): Promise<Admission> => Promise.resolve({ kind: "refused", ...REFUSAL }),
  earlierOutcome: () => Promise.resolve(undefined),
  settle: nothingIsPaid,
  release: nothingIsPaid,
  status: () => Promise.resolve(undefined),
  missing: () => [],
  [Symbol.asyncDispose]: () => Promise.resolve(),
};
