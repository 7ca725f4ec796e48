import type { PocketQueries } from "@turnpike/chain-client";
import { canonicalRing } from "@turnpike/crypto";
import type { application, session as sessions, shared } from "@turnpike/proto";
import { type RpcType, ringMembers, rpcTypeOfNumber, type SessionHeader, sessionWindows } from "@turnpike/protocol";
import type { SigningKey } from "./signing-keys.ts";

/** A supplier of a session, and where it is reached. */
export interface SessionSupplier {
  readonly operatorAddress: string;
  /** 33 bytes: what its answers are checked with. */
  readonly publicKey: Uint8Array;
  /** Addresses by RPC type, as they stand on the chain. */
  readonly urls: ReadonlyMap<RpcType, string>;
}

/** A session that this gateway may use: an application pays for its relays, and one of our keys signs for it. */
export interface GatewaySession {
  readonly header: SessionHeader;
  readonly applicationAddress: string;
  /** In the session's order. */
  readonly suppliers: readonly SessionSupplier[];
  /** Last height at which suppliers still serve it. */
  readonly graceEndHeight: bigint;
  /** Compressed keys of the ring, canonical. */
  readonly ring: readonly Uint8Array[];
  readonly signer: SigningKey;
  /** True: keys of some suppliers could not be read, which are left out until they are. */
  readonly isPartial: boolean;
}

/** A session, or why it cannot be used. */
export type SessionResult =
  | { readonly ok: true; readonly session: GatewaySession }
  | { readonly ok: false; readonly fault: "refused" | "unreachable" | "busy" | "not-ours"; readonly text: string };

/** Addresses of a supplier's service; what is no URL is left out. */
function urlsOf(services: readonly shared.SupplierServiceConfig[], serviceId: string): Map<RpcType, string> {
  const urls = new Map<RpcType, string>();
  for (const { serviceId: id, endpoints } of services) {
    if (id !== serviceId) continue;
    for (const { url, rpcType } of endpoints) {
      const name = rpcTypeOfNumber(rpcType);
      if (name !== undefined && URL.canParse(url) && !urls.has(name)) urls.set(name, url);
    }
  }
  return urls;
}

/** Compressed keys of an application's ring, canonical, and which of ours is in it. */
async function ringOf(
  record: application.Application,
  endHeight: bigint,
  keys: ReadonlyMap<string, SigningKey>,
  queries: Pick<PocketQueries, "publicKey">,
): Promise<
  | { readonly ok: true; readonly ring: readonly Uint8Array[]; readonly signer: SigningKey }
  | Extract<SessionResult, { ok: false }>
> {
  const addresses = ringMembers(
    {
      address: record.address,
      delegateeGatewayAddresses: record.delegateeGatewayAddresses,
      pendingUndelegations: Object.entries(record.pendingUndelegations).map(([height, { gatewayAddresses }]) => ({
        sessionEndHeight: BigInt(height),
        gatewayAddresses,
      })),
    },
    endHeight,
  );
  const signer =
    keys.get(record.address) ?? addresses.map((address) => keys.get(address)).find((key) => key !== undefined);
  if (signer === undefined) {
    return { ok: false, fault: "not-ours", text: `${record.address} is not delegated to this gateway.` };
  }
  const members: Uint8Array[] = [];
  for (const answer of await Promise.all(addresses.map((address) => queries.publicKey(address)))) {
    if (answer.ok) members.push(answer.value);
    // A member without a key that can sign is in no ring; suppliers and chain leave it out, too.
    else if (answer.fault !== "refused") return answer;
  }
  return { ok: true, ring: canonicalRing(members), signer };
}

/** Lookups of one session at once: a start asks for many sessions, and the node's share of each is small. */
const KEYS_AT_ONCE = 4;

async function suppliersOf(
  found: sessions.Session,
  serviceId: string,
  queries: Pick<PocketQueries, "publicKey">,
): Promise<Pick<GatewaySession, "suppliers" | "isPartial">> {
  const suppliers: SessionSupplier[] = [];
  let isPartial = false;
  for (let from = 0; from < found.suppliers.length; from += KEYS_AT_ONCE) {
    const some = found.suppliers.slice(from, from + KEYS_AT_ONCE);
    const keys = await Promise.all(some.map(({ operatorAddress }) => queries.publicKey(operatorAddress)));
    for (const [at, { operatorAddress, services }] of some.entries()) {
      const urls = urlsOf(services, serviceId);
      const key = keys[at];
      // Without its key no answer of a supplier can be checked.
      if (key?.ok === true && urls.size > 0) suppliers.push({ operatorAddress, publicKey: key.value, urls });
      else if (key?.ok !== true && key?.fault !== "refused") isPartial = true;
    }
  }
  return { suppliers, isPartial };
}

/**
 * The session of an application at a height that has been reached, ready to sign for.
 *
 * @param keys ours, by address
 */
export async function loadSession(
  input: { readonly applicationAddress: string; readonly serviceId: string; readonly heightBlocks: bigint },
  keys: ReadonlyMap<string, SigningKey>,
  queries: PocketQueries,
): Promise<SessionResult> {
  const { applicationAddress, serviceId, heightBlocks } = input;
  const params = await queries.sharedParamsAt(heightBlocks);
  if (!params.ok) return params;
  const answer = await queries.session(applicationAddress, serviceId, heightBlocks);
  if (!answer.ok) return answer;
  const { header, application: record } = answer.value;
  if (header === undefined || record === undefined) {
    return { ok: false, fault: "refused", text: "The session has no header or no application." };
  }
  const ring = await ringOf(record, header.sessionEndBlockHeight, keys, queries);
  if (!ring.ok) return ring;
  return {
    ok: true,
    session: {
      header: {
        applicationAddress: header.applicationAddress,
        serviceId: header.serviceId,
        sessionId: header.sessionId,
        sessionStartBlockHeight: header.sessionStartBlockHeight,
        sessionEndBlockHeight: header.sessionEndBlockHeight,
      },
      applicationAddress,
      ...(await suppliersOf(answer.value, serviceId, queries)),
      graceEndHeight: sessionWindows(params.value, header.sessionEndBlockHeight).graceEndHeight,
      ring: ring.ring,
      signer: ring.signer,
    },
  };
}
