/** What an application's record says of who may sign for it. */
export interface Delegations {
  /** Bech32 address of the application. */
  readonly address: string;
  readonly delegateeGatewayAddresses: readonly string[];
  /** Gateways that were undelegated, by the last height of the session in which that was. */
  readonly pendingUndelegations: readonly {
    readonly sessionEndHeight: bigint;
    readonly gatewayAddresses: readonly string[];
  }[];
}

/**
 * Members of an application's ring for a session, as bech32 addresses without repetition, sorted: itself, its gateways, and
 * those that it undelegated in that session or later. A verifier asks only that every key of a signature is one of theirs.
 * A member whose account has no secp256k1 key cannot sign and is left out of the keys.
 *
 * The real chain adds a placeholder's key for an application without gateways. Its private key is public, so that everyone
 * could sign for the application: clients repeat the application's own key instead.
 */
export function ringMembers(application: Delegations, sessionEndHeight: bigint): string[] {
  const gateways = new Set(application.delegateeGatewayAddresses);
  for (const pending of application.pendingUndelegations) {
    if (pending.sessionEndHeight < sessionEndHeight) continue;
    for (const address of pending.gatewayAddresses) gateways.add(address);
  }
  return [...gateways.add(application.address)].sort();
}
