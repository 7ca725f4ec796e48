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

/** Who may sign a relay. */
export interface RingMembers {
  /** Bech32 addresses without repetition, sorted. */
  readonly addresses: readonly string[];
  /** True when no gateway is in the ring: the placeholder key of the crypto package is its second one. */
  readonly placeholder: boolean;
}

/**
 * The members of an application's ring for a session: itself, its gateways, and those that it undelegated in that
 * session or later. A verifier asks only that every key of a signature is one of theirs.
 */
export function ringMembers(application: Delegations, sessionEndHeight: bigint): RingMembers {
  const gateways = new Set(application.delegateeGatewayAddresses);
  for (const pending of application.pendingUndelegations) {
    if (pending.sessionEndHeight < sessionEndHeight) continue;
    for (const address of pending.gatewayAddresses) gateways.add(address);
  }
  const placeholder = gateways.size === 0;
  return { addresses: [...gateways.add(application.address)].sort(), placeholder };
}
