import type { ChainAnswer, PocketQueries } from "@turnpike/chain-client";
import type { application } from "@turnpike/proto";
import { ringMembers } from "@turnpike/protocol";

/** Keys that may sign for an application, or why they are not known. */
export type RingKeys =
  | { readonly ok: true; readonly keys: readonly Uint8Array[] }
  | { readonly ok: false; readonly fault: Extract<ChainAnswer<never>, { ok: false }>["fault"]; readonly text: string };

/**
 * The compressed keys that may stand in a relay's ring: the application's, those of its gateways, and of gateways that it
 * undelegated in this session or later. Members without a key that can sign are left out, as the chain does.
 */
export async function ringKeys(
  applicationRecord: application.Application,
  sessionEndHeight: bigint,
  queries: Pick<PocketQueries, "publicKey">,
): Promise<RingKeys> {
  const addresses = ringMembers(
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
  const keys: Uint8Array[] = [];
  let keyless = "";
  for (const answer of found) {
    if (answer.ok) keys.push(answer.value);
    else if (answer.fault === "refused") keyless = answer.text;
    else return { ok: false, fault: answer.fault, text: answer.text };
  }
  return keys.length > 0 ? { ok: true, keys } : { ok: false, fault: "refused", text: keyless };
}
