import assert from "node:assert/strict";
import { test } from "node:test";
import type { Address, NetworkId, ServiceId, SettlementId } from "@turnpike/base";
import type { PaymentRecord } from "../types.ts";
import { settleRequest } from "./client.ts";
import type { RemoteNetwork } from "./options.ts";

const FIRST: Address = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const SECOND: Address = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const PAYEE: Address = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const NETWORK = "eip155:84532" as NetworkId;

const record = (asset: Address): PaymentRecord => ({
  id: "stl_x" as SettlementId,
  key: { network: NETWORK, asset, from: PAYEE, nonce: `0x${"11".repeat(32)}` },
  payTo: PAYEE,
  value: 5_000n,
  validAfter: 0n,
  validBefore: 100n,
  signature: new Uint8Array(65),
  kind: "eoa",
  serviceId: "eth" as ServiceId,
  payloadDigest: new Uint8Array(32),
  requestHash: new Uint8Array(32),
  identifier: undefined,
  state: "claimed",
  reason: undefined,
  transaction: undefined,
  evidence: undefined,
  answerExpiresAtMs: undefined,
  createdAtMs: 0,
  updatedAtMs: 0,
});

test("the terms are those of the payment's own token, also the time that its payer signed for", () => {
  const network: RemoteNetwork = {
    network: NETWORK,
    confirmations: 1,
    finalityBlocks: 1,
    blockTimeSeconds: 1,
    assets: [
      { address: FIRST, name: "USDC", version: "2", maxTimeoutSeconds: 60 },
      { address: SECOND, name: "USD Coin", version: "2", maxTimeoutSeconds: 120 },
    ],
  };
  const terms = (asset: Address) => {
    const { paymentRequirements } = settleRequest(record(asset), network);
    const { asset: named, maxTimeoutSeconds, extra } = paymentRequirements as Record<string, unknown>;
    return { named, maxTimeoutSeconds, extra };
  };
  assert.deepEqual(terms(FIRST), { named: FIRST, maxTimeoutSeconds: 60, extra: { name: "USDC", version: "2" } });
  assert.deepEqual(terms(SECOND), { named: SECOND, maxTimeoutSeconds: 120, extra: { name: "USD Coin", version: "2" } });
});
