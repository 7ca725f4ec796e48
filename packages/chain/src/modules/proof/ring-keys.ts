import type { Bytes } from "@turnpike/chain-store";
import { PLACEHOLDER_RING_KEY } from "@turnpike/crypto";
import { ringMembers } from "@turnpike/protocol";
import { parseAddress } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { done, fail, type Outcome } from "../../state/outcome.ts";
import { getApplication } from "../application/state.ts";
import { readAccountKey } from "../auth/account-keys.ts";
import { getAccount } from "../auth/accounts.ts";
import { PROOF } from "./errors.ts";

const RING_HEAD_BYTES = 69;
const RING_MEMBER_BYTES = 65;

/** How many members a ring signature of this length may have. */
export function ringMemberCount(signature: Bytes): number {
  return Math.ceil(Math.max(0, signature.length - RING_HEAD_BYTES) / RING_MEMBER_BYTES);
}

/** The public key that an account has on the chain: 33 bytes. */
export function accountKey(ctx: Context, text: string): Outcome<Bytes> {
  const address = parseAddress(text);
  if (!address.ok) return address;
  const account = getAccount(ctx, address.value);
  if (account === undefined) return fail(PROOF.accountNotFound, `account not found for address ${text}`);
  const { pubKey } = account.base;
  if (pubKey === undefined) return fail(PROOF.keyNotFound);
  const key = readAccountKey(pubKey);
  if (key?.kind !== "single") {
    return fail({ codespace: "rings", code: 1, text: "key is not a secp256k1 public key" });
  }
  return done(key.key);
}

/** The keys that may be in a ring signature of an application's relay in the session that ends at a height. */
export function ringKeys(ctx: Context, applicationAddress: string, sessionEndHeight: bigint): Outcome<Bytes[]> {
  const application = getApplication(ctx, applicationAddress);
  if (application === undefined) {
    return fail({ codespace: "application", code: 1104, text: "application not found" }, applicationAddress);
  }
  const { addresses, placeholder } = ringMembers(
    {
      address: application.address,
      delegateeGatewayAddresses: application.delegateeGatewayAddresses,
      pendingUndelegations: Object.entries(application.pendingUndelegations).map(([height, undelegated]) => ({
        sessionEndHeight: BigInt(height),
        gatewayAddresses: undelegated.gatewayAddresses,
      })),
    },
    sessionEndHeight,
  );
  const keys: Bytes[] = placeholder ? [PLACEHOLDER_RING_KEY] : [];
  for (const address of addresses) {
    const key = accountKey(ctx, address);
    if (!key.ok) return key;
    keys.push(key.value);
  }
  return done(keys);
}
