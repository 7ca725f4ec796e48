import type { ChainAnswer, PocketQueries } from "@turnpike/chain-client";
import { PLACEHOLDER_RING_KEY } from "@turnpike/crypto";
import type { application } from "@turnpike/proto";
import { ringMembers } from "@turnpike/protocol";

/** Keys that may sign for an application, or why they are not known. */
export type RingKeys =
  | { readonly ok: true; readonly keys: readonly Uint8Array[] }
  | { readonly ok: false; readonly fault: Extract<ChainAnswer<never>, { ok: false }>["fault"]; readonly text: string };

/**
 * The compressed keys that may stand in a relay's ring: the application's, those of its gateways, and of gateways that it
 * undelegated in this session or later; the placeholder when there is no gateway.
 */
export async function ringKeys(
  applicationRecord: application.Application,
  sessionEndHeight: bigint,
  queries: Pick<PocketQueries, "publicKey">,
): Promise<RingKeys> {
  const { addresses, placeholder } = ringMembers(
    {
      address: applicationRecord.address,
      delegateeGatewayAddresses: applicationRecord.delegateeGatewayAddresses,
      pendingUndelegations: Object.entries(applicationRecord.pendingUndelegations).map(
        ([height, { gatewayAddresses }]) => ({
          sessionEndHeight: BigInt(height),
          gatewayAddresses,
        }),
      ),
    },
    sessionEndHeight,
  );
  const found = await Promise.all(addresses.map((address) => queries.publicKey(address)));
  const keys: Uint8Array[] = placeholder ? [PLACEHOLDER_RING_KEY] : [];
  for (const answer of found) {
    if (!answer.ok) return { ok: false, fault: answer.fault, text: answer.text };
    keys.push(answer.value);
  }
  return { ok: true, keys };
}
