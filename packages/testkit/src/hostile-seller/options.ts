/** The payment option of an honest seller, with some of its members changed. */
export const honestOption = (change: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, unknown>> => ({
  scheme: "exact",
  network: "eip155:84532",
  amount: "5000",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
  ...change,
});
