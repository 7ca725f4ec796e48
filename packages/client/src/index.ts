export { newPrivateKey, signerFromKey, tokenBalance } from "./account.ts";
export { listedPriceUsd } from "./budget.ts";
export { createClient } from "./client.ts";
export { memoryJournal, type SpendJournalModules } from "./journal.ts";
export { openSpendJournal, removeSpendJournal } from "./journal-file.ts";
export { isJournalInUse } from "./journal-lock.ts";
export { listServices } from "./listing.ts";
export { isEvmNetwork, isTestNetwork } from "./networks.ts";
export { untakeableFromMs } from "./payment-header.ts";
export type {
  Budget,
  CallOptions,
  ClaimedReceipt,
  Client,
  ClientModules,
  ClientOptions,
  CountedPayment,
  DollarAsset,
  ExpiredPayment,
  ListedService,
  OpenPayment,
  Price,
  PurchaseReceipt,
  PurchaseResult,
  PurchaseState,
  Quote,
  ResumedPayment,
  SignedCall,
  Signer,
  SpendEnd,
  Spending,
  SpendJournal,
  SpendOutcome,
  SpendReservation,
} from "./types.ts";
