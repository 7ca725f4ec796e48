export { newPrivateKey, signerFromKey, tokenBalance } from "./account.ts";
export { createClient } from "./client.ts";
export { type ListedService, listServices } from "./listing.ts";
export type {
  Client,
  ClientModules,
  ClientOptions,
  DollarAsset,
  Price,
  Purchase,
  PurchaseReceipt,
  PurchaseResult,
  Quote,
  Signer,
} from "./types.ts";
