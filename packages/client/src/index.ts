export { newPrivateKey, signerFromKey, tokenBalance } from "./account.ts";
export { createClient } from "./client.ts";
export { memoryJournal, type SpendJournalModules } from "./journal.ts";
export { openSpendJournal } from "./journal-file.ts";
export { listServices } from "./listing.ts";
export { untakeableFromMs } from "./payment-header.ts";
export type {
  Budget,
  CallOptions,
  Client,
  ClientModules,
  ClientOptions,
  DollarAsset,
  ListedService,
  OpenPayment,
  Price,
  PurchaseReceipt,
  PurchaseResult,
  PurchaseState,
  Quote,
  RefusedPayment,
  SignedCall,
  Signer,
  SpendEnd,
  Spending,
  SpendJournal,
  SpendOutcome,
  SpendReservation,
} from "./types.ts";
