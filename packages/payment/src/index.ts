export type { Books, Ledger } from "./ledger-types.ts";
export type { Settler } from "./settler.ts";
export type { Admission, PaymentStage, SettlementStatus } from "./stage-types.ts";
export type {
  Authorization,
  DecodedPayment,
  Evidence,
  Outcome,
  PaymentKey,
  PaymentOption,
  PaymentRecord,
  PaymentState,
  PresentedPayment,
  Receipt,
  StoredAnswer,
  Verification,
  Verifier,
} from "./types.ts";
