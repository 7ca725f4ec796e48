export { nestedJson } from "./hostile-seller/answer-modes.ts";
export type { PaidCall, SellerMode, SellerModes, SellerRequest, UnpaidCall } from "./hostile-seller/mode.ts";
export { modesOf, SELLER_MODES } from "./hostile-seller/modes.ts";
export { honestOption } from "./hostile-seller/options.ts";
export {
  type ChainNode,
  type ChainTransfer,
  type NodeTruth,
  type PaymentsChain,
  readSignedPayment,
  type SignedPayment,
  startChainNode,
} from "./hostile-seller/payments-chain.ts";
export { type HostileSeller, startHostileSeller } from "./hostile-seller/seller.ts";
