import { type Address, bytesToHex0x } from "@turnpike/base";
import { privateKeyToAddress, sha256, sign } from "@turnpike/crypto";
import {
  balanceSlot,
  LOCAL_CHAIN_ID,
  LOCAL_NETWORK,
  randomNonce,
  setTokenBalance,
  USDC_ADDRESS,
} from "@turnpike/localnet";
import { domainSeparator, type PaymentOption, transferDigest } from "@turnpike/payment";
import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { numberToHex } from "viem";

/** A payer of a benchmark. */
export interface Payer {
  readonly secret: Uint8Array;
  readonly address: Address;
}

/** Who is paid. */
export const PAY_TO: Address = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
/** Units of one payment. */
export const PRICE = 5_000n;
/** Balance of every payer: enough for all its payments, so that no balance slot becomes zero. */
const BALANCE = 10_000_000_000n;
/** A little less than our verifier takes: `maxTimeoutSeconds` and five minutes. */
const WINDOW_SECONDS = 330;

const REQUIREMENTS = {
  scheme: "exact",
  network: LOCAL_NETWORK,
  amount: String(PRICE),
  asset: USDC_ADDRESS,
  payTo: PAY_TO,
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
} as const;

/** The only option that is offered, for our packages. */
export const OPTION: PaymentOption = REQUIREMENTS;
/** The same for the reference packages. */
export const REFERENCE_REQUIREMENTS: PaymentRequirements = {
  ...REQUIREMENTS,
  network: `eip155:${LOCAL_CHAIN_ID}`,
  extra: { ...REQUIREMENTS.extra },
};

const SEPARATOR = domainSeparator({ name: "USDC", version: "2", chainId: LOCAL_CHAIN_ID, asset: USDC_ADDRESS });
const known = new Map<number, Payer>();

/** A payer by number: the same key in every process. Known keys, for a throw-away chain only. */
export function payerOf(index: number): Payer {
  const found = known.get(index);
  if (found !== undefined) return found;
  const secret = sha256(Buffer.from(`turnpike bench payer ${index}`));
  const payer = { secret, address: privateKeyToAddress(secret) };
  known.set(index, payer);
  return payer;
}

/** A key that sends transactions, by number. */
export function relayerKey(index: number): Uint8Array {
  return sha256(Buffer.from(`turnpike bench relayer ${index}`));
}

/** Signs a payment with a fresh nonce, as an x402 v2 client would send it. */
export function signPayment(payer: Payer, accepted: PaymentRequirements = REFERENCE_REQUIREMENTS): PaymentPayload {
  const nowSeconds = BigInt(Math.floor(Date.now() / 1_000));
  const nonce = randomNonce();
  const authorization = {
    from: payer.address,
    to: PAY_TO,
    value: PRICE,
    validAfter: nowSeconds - 600n,
    validBefore: nowSeconds + BigInt(WINDOW_SECONDS),
    nonce,
  };
  const { r, s, yParity } = sign(transferDigest(SEPARATOR, authorization), payer.secret);
  const signature = bytesToHex0x(Buffer.concat([r, s, Uint8Array.of(27 + yParity)]));
  return {
    x402Version: 2,
    accepted,
    payload: {
      signature,
      authorization: {
        ...authorization,
        value: String(authorization.value),
        validAfter: String(authorization.validAfter),
        validBefore: String(authorization.validBefore),
      },
    },
  };
}

/** The PAYMENT-SIGNATURE header of a payment. */
export function headerOf(payload: PaymentPayload): string {
  return Buffer.from(JSON.stringify(payload)).toString("base64");
}

/** Gives payers `0` to `count - 1` and the receiver a balance, in few exchanges. */
export async function fundPayers(rpcUrl: string, count: number): Promise<void> {
  const word = numberToHex(BALANCE, { size: 32 });
  const calls = Array.from({ length: count }, (_, id) => ({
    jsonrpc: "2.0",
    id,
    method: "anvil_setStorageAt",
    params: [USDC_ADDRESS, balanceSlot(payerOf(id).address), word],
  }));
  for (let at = 0; at < calls.length; at += 250) {
    const response = await fetch(rpcUrl, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(calls.slice(at, at + 250)),
    });
    await response.arrayBuffer();
  }
  await setTokenBalance(rpcUrl, { address: PAY_TO, units: 1_000_000n });
}
