import { bytesEqual } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { accountAddress } from "@turnpike/crypto";
import { ringMembers, type SessionHeader } from "@turnpike/protocol";
import { parseAddress } from "../../state/addresses.ts";
import { bytesToText } from "../../state/bytes.ts";
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

/** Addresses of those who may sign a relay of a session. */
export function ringAddresses(ctx: Context, header: SessionHeader): Outcome<ReadonlySet<string>> {
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
  return done(new Set(addresses));
}

/**
 * Those of a signature's keys whose accounts are of a ring and have that key. Looked up by the keys, which the signature's gas
 * pays for: an application may have delegated to thousands of gateways in a session. A member without a key, or with one of
 * another type, is left out: on the real chain one such member makes every proof of the application invalid.
 */
export function ringKeys(ctx: Context, addresses: ReadonlySet<string>, signatureKeys: readonly Bytes[]): Bytes[] {
  const unique = new Map(signatureKeys.map((key) => [bytesToText(key), key]));
  return [...unique.values()].filter((key) => {
    const address = accountAddress(key);
    if (!addresses.has(address)) return false;
    const stored = accountKey(ctx, address);
    return stored.ok && bytesEqual(stored.value, key);
  });
}
