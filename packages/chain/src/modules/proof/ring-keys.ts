import type { Bytes } from "@turnpike/chain-store";
import { ringMembers, type SessionHeader } from "@turnpike/protocol";
import { parseAddress } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { done, fail, type Outcome } from "../../state/outcome.ts";
import { readAccountKey } from "../auth/account-keys.ts";
import { getAccount } from "../auth/accounts.ts";
import { SessionFacts } from "../session/facts.ts";
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

/**
 * The keys that may be in a ring signature of a relay of a session: those of its members who can sign. Who has no key, or
 * one of another type, is left out: on the real chain one such member makes every proof of the application invalid.
 */
export function ringKeys(ctx: Context, header: SessionHeader): Outcome<Bytes[]> {
  const record = new SessionFacts(ctx, header).application();
  if (record === undefined) {
    return fail({ codespace: "application", code: 1104, text: "application not found" }, header.applicationAddress);
  }
  const addresses = ringMembers(
    {
      address: record.address,
      delegateeGatewayAddresses: record.delegateeGatewayAddresses,
      pendingUndelegations: Object.entries(record.pendingUndelegations).map(([height, undelegated]) => ({
        sessionEndHeight: BigInt(height),
        gatewayAddresses: undelegated.gatewayAddresses,
      })),
    },
    header.sessionEndBlockHeight,
  );
  const keys = addresses.flatMap((address) => {
    const key = accountKey(ctx, address);
    return key.ok ? [key.value] : [];
  });
  return done(keys);
}
