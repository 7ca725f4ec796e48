import { Type } from "typebox";
import {
  address,
  decimal,
  entry,
  integer,
  list,
  oneOf,
  overrides,
  priceUsd,
  privateKey,
  section,
  text,
  textOf,
  url,
} from "./keys.ts";

/** Where relayer keys come from. */
export const RELAYER_KEYS = {
  keysFile: Type.Optional(
    textOf(
      "File with one private key a line, mode 600; a relative path starts at the folder of the configuration file. No default: keys belong to the operator. The environment variable TURNPIKE_RELAYER_KEYS (comma separated) does the same.",
    ),
  ),
  keys: list(
    privateKey("Private key."),
    64,
    "Private keys, written here. Only with `localnet: true`: a configuration file is no place for a key.",
  ),
};

/** How a network's settlements are sent: one set for all, and each network may have its own. */
const SETTLEMENT = {
  batchWindowMs: integer(
    100,
    0,
    10_000,
    "How long a settlement waits for others to share its transaction, in milliseconds.",
  ),
  maxBatch: integer(
    50,
    1,
    200,
    "Maximum number of settlements in one transaction; 8 where the settlement contract is not deployed.",
  ),
  maxFeePerGasGwei: decimal(
    5,
    0.000001,
    100_000,
    "Most that is paid for a unit of gas, in gwei. While the chain asks for more, payments are refused before they are served, with 503.",
  ),
  maxPriorityFeePerGasGwei: decimal(0.001, 0, 10_000, "Tip for a unit of gas, in gwei."),
  bumpAfterMs: integer(
    10_000,
    500,
    600_000,
    "Time after which a transaction that is not mined is sent again with a higher fee, in milliseconds.",
  ),
  bumpPercent: integer(20, 13, 100, "By how much the fee is then raised, in percent. Nodes refuse less than 12.5."),
  maxOpenBatches: integer(16, 1, 64, "Most transactions of one key that are not mined."),
  gasPerTransfer: integer(
    120_000,
    80_000,
    1_000_000,
    "Gas limit of one transfer of a payer without a contract wallet. One that needs more fails: a first payment to a receiver takes up to 60,000 gas, and tokens differ.",
  ),
  gasPerWallet: integer(
    400_000,
    100_000,
    10_000_000,
    "Gas limit of a transfer of a payer's contract wallet. A wallet that needs more is refused before it is served.",
  ),
  gasPerDeployment: integer(
    2_000_000,
    200_000,
    15_000_000,
    "Gas limit of a transfer that first deploys the payer's contract wallet (ERC-6492). More is refused.",
  ),
  minBalanceGwei: decimal(
    1_000_000,
    0,
    1_000_000_000_000,
    "Gas money below which a relayer key settles nothing new, in gwei.",
  ),
  whenUnprofitable: oneOf(
    ["settle", "wait", "refuse"],
    "What to do with a payment whose settlement costs more than `maxCostPercent` of it. `settle`: nothing, it is settled. `refuse`: 503 `SETTLEMENT_UNPROFITABLE` before the call is made, unless it pays for a transaction by itself. `wait`: it is refused only when it would not pay its share of a full transaction; then held up to `holdMs` for others to share one. What was served is always settled. Needs `payment.networks[].relayer.coinPriceUsd`. A running gateway may change it.",
    "settle",
  ),
  maxCostPercent: integer(
    100,
    1,
    10_000,
    "Largest share of a sale that its settlement may cost, in percent. A running gateway may change it.",
  ),
  holdMs: integer(
    5_000,
    100,
    60_000,
    "With `whenUnprofitable: wait`, how long a payment is held for others to share its transaction, in milliseconds. Its buyer waits as long.",
  ),
};

/** The relayer keys of the gateway, and how they settle. */
export const RELAYER = section(
  {
    ...RELAYER_KEYS,
    ...SETTLEMENT,
    reconcileIntervalMs: integer(
      5_000,
      100,
      600_000,
      "Time between looks at finality, closed windows and free keys, in milliseconds.",
    ),
    leaseSeconds: integer(
      5,
      2,
      600,
      "Time after which a process that is not heard of loses its relayer keys, in seconds.",
    ),
  },
  "The accounts that send settlements and pay their gas.",
);

/** The same of one chain. */
const NETWORK_RELAYER = section(
  {
    keysFile: Type.Optional(
      textOf(
        "File with the gateway's relayer keys of this chain, as `payment.relayer.keysFile`. No default of its own: the keys are those of `payment.relayer`, or of TURNPIKE_RELAYER_KEYS.",
      ),
    ),
    keys: RELAYER_KEYS.keys,
    ...overrides(SETTLEMENT, "payment.relayer"),
    coinPriceUsd: Type.Optional(
      priceUsd(
        "Price of one whole coin of this chain, which gas is paid in, in US dollars. It is static: nothing looks it up, and it changes only when this file does; a running gateway reads it again with its configuration, a facilitator at its start. No default: without it the cost of settlements is not known.",
      ),
    ),
  },
  "What the relayer keys do otherwise on this chain: fees, gas, batches, keys (in place of those of `payment.relayer`), and what to do with sales that cost more than they bring.",
);

/** One payment option. */
export const NETWORK = entry(
  {
    network: Type.String({
      pattern: "^eip155:[1-9][0-9]{0,17}$",
      description: "CAIP-2 id of the settlement chain: `eip155:8453` is Base. No default: it says where money moves.",
      "x-expected": "eip155: and a chain id, such as eip155:8453",
    }),
    rpcUrls: Type.Array(url("JSON-RPC URL of a node of this chain."), {
      minItems: 1,
      maxItems: 8,
      description: "Nodes of this chain, first choice first. No default: payments rely on what the node says.",
    }),
    asset: address("Token contract that is paid in (EIP-3009). No default: it is the money."),
    name: textOf(
      "EIP-712 domain name of the token. It differs by deployment: `USD Coin` on Base, `USDC` on Base Sepolia. No default.",
    ),
    version: text("2", "EIP-712 domain version of the token."),
    decimals: integer(6, 0, 36, "Decimal places of the token."),
    payTo: address("Who is paid. No default: it is your account."),
    multicall3: address(
      "Multicall3 contract, for batches. The default is its address on almost every chain.",
      "0xcA11bde05977b3631167028862bE2a173976CA11",
    ),
    confirmations: integer(
      1,
      1,
      100,
      "Blocks that a settlement must have, its own included, before its answer is handed out.",
    ),
    finalityBlocks: integer(
      64,
      1,
      100_000,
      "Blocks after which a settlement is taken as final and no longer looked at.",
    ),
    blockTimeSeconds: decimal(2, 0.1, 600, "Usual time between blocks, in seconds."),
    maxTimeoutSeconds: integer(
      60,
      10,
      3600,
      "Time that a payer is asked to sign for, in seconds (`maxTimeoutSeconds`).",
    ),
    assetPriceUsd: priceUsd(
      "Price of one whole token in US dollars, by which a sale is valued. A running gateway may change it.",
      "1",
    ),
    relayer: NETWORK_RELAYER,
    allowedFactories: list(
      address("Factory contract."),
      64,
      "Wallet factories that may be called to check a wallet that is not deployed yet (ERC-6492). Empty: none.",
    ),
  },
  "One token on one chain that payments are taken in.",
);

/** A third party whose sales the facilitator settles. */
export const SELLER = entry(
  {
    name: Type.String({
      pattern: "^[a-z0-9][a-z0-9-]{0,31}$",
      description: "Its name in the ledger and in limits. No default.",
      "x-expected": "1 to 32 lower-case letters, digits and dashes",
    }),
    keySha256: Type.String({
      pattern: "^[0-9a-f]{64}$",
      description:
        "SHA-256 of its key in lower-case hex. The key is random, of 32 characters at least: it sends it as `Authorization: Bearer <key>`. No default.",
      "x-expected": "64 lower-case hex digits",
    }),
    payTo: list(address("Receiver."), 1_000, "Receivers of its sales. Empty: any."),
    settlementsPerDay: integer(
      10_000,
      1,
      1_000_000_000,
      "Its settlements a day (UTC); more are answered 429. A contract wallet's counts as one for each 60,000 gas.",
    ),
    settlementsPerPayer: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000_000,
        description:
          "Its settlements a day of one payer; more are answered 429. No default: a tenth of `settlementsPerDay`.",
      }),
    ),
    priceUsd: Type.Optional(
      priceUsd(
        "What it pays you for a settlement, in US dollars: that, and not the sale's amount, is what `whenUnprofitable` compares with the cost. No default: it pays nothing.",
      ),
    ),
  },
  "A third party whose sales the facilitator settles.",
);
