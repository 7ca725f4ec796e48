import type { SellerMode, SellerModes } from "./mode.ts";
import { honestOption } from "./options.ts";

const BASE_USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";

const terms = (...accepts: readonly unknown[]): SellerMode => ({
  kind: "terms",
  unpaid: (call) => call.terms(accepts),
});

/** Terms that a buyer of the test network, who was shown 0.005 USD, must not sign. */
export const TERMS_MODES: SellerModes = {
  "terms-main-network": terms(
    honestOption({ network: "eip155:8453", asset: BASE_USDC, extra: { name: "USD Coin", version: "2" } }),
  ),
  "terms-main-network-of-the-test-token": terms(honestOption({ network: "eip155:8453" })),
  "terms-network-proto": terms(honestOption({ network: "__proto__" })),
  "terms-ten-times-the-listed-price": terms(honestOption({ amount: "50000" })),
  "terms-own-decimals": terms(honestOption({ amount: "5000000000000000", decimals: 18, extra: { decimals: 18 } })),
  "terms-own-name": terms(honestOption({ extra: { name: "Test Dollar", version: "2" } })),
  "terms-own-version": terms(honestOption({ extra: { name: "USDC", version: "9" } })),
  "terms-own-token": terms(honestOption({ asset: `0x${"aa".repeat(20)}` })),
};
