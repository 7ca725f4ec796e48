import type { AccountAddress } from "@turnpike/base";
import type { SettlementEvent } from "./events.ts";
import { coinText, type OpReason } from "./reasons.ts";
import type { Operation, RevenueShare, SettlementSupplier } from "./types.ts";

/** Amounts by receiver, or why the list of shares cannot be used. */
export type ShareAmounts =
  | { readonly ok: true; readonly amounts: ReadonlyMap<AccountAddress, bigint> }
  | { readonly ok: false; readonly reason: string };

/** Splits an amount by percentages, each rounded down; what is left goes to the first of the list. */
export function splitByRevenueShare(shares: readonly RevenueShare[], amountUpokt: bigint): ShareAmounts {
  const first = shares[0];
  if (first === undefined) return { ok: false, reason: "empty revshare list" };
  const amounts = new Map<AccountAddress, bigint>();
  let percentages = 0n;
  let shared = 0n;
  for (const { address, revSharePercentage } of shares) {
    if (amounts.has(address)) {
      return { ok: false, reason: `duplicate revshare recipient address: ${JSON.stringify(address)}` };
    }
    percentages = BigInt.asUintN(64, percentages + revSharePercentage);
    const amount = (amountUpokt * revSharePercentage) / 100n;
    amounts.set(address, amount);
    shared += amount;
  }
  if (percentages !== 100n) return { ok: false, reason: `revshare percentage sum ${percentages} != required 100` };
  amounts.set(first.address, (amounts.get(first.address) ?? 0n) + amountUpokt - shared);
  return { ok: true, amounts };
}

/** What a supplier's part of a claim becomes. */
export type SupplierPayout =
  | { readonly ok: true; readonly transfers: readonly Operation[]; readonly events: readonly SettlementEvent[] }
  | { readonly ok: false; readonly error: string };

/**
 * Pays a supplier's part to its share holders, sorted by address. A list that cannot be used sends all of it to the
 * owner, with an event. A service that the supplier has no shares for is an error: the claim is discarded.
 */
export function payShareholders(options: {
  readonly supplier: SettlementSupplier;
  readonly serviceId: string;
  readonly shares: readonly RevenueShare[];
  readonly sessionEndHeight: bigint;
  readonly reason: OpReason;
  readonly amountUpokt: bigint;
}): SupplierPayout {
  const { supplier, serviceId, shares, reason, amountUpokt } = options;
  if (shares.length === 0) {
    return {
      ok: false,
      error: `SHOULD NEVER HAPPEN: service ${JSON.stringify(serviceId)} not found for supplier ${supplier.operatorAddress}: constraint violation`,
    };
  }
  const transfer = (recipient: AccountAddress, amount: bigint): Operation => ({
    kind: "mod_to_acct",
    sender: "supplier",
    recipient,
    reason,
    amountUpokt: amount,
  });
  const split = splitByRevenueShare(shares, amountUpokt);
  if (split.ok) {
    const transfers = [...split.amounts]
      .filter(([, amount]) => amount > 0n)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([address, amount]) => transfer(address, amount));
    return { ok: true, transfers, events: [] };
  }
  return {
    ok: true,
    transfers: [transfer(supplier.ownerAddress, amountUpokt)],
    events: [
      {
        type: "pocket.tokenomics.EventSupplierRevShareFallbackDistribution",
        value: {
          supplierOperatorAddress: supplier.operatorAddress,
          supplierOwnerAddress: supplier.ownerAddress,
          serviceId,
          sessionEndBlockHeight: options.sessionEndHeight,
          amount: coinText(amountUpokt),
          opReason: reason,
          observedSumPercentage: shares.reduce(
            (sum, { revSharePercentage }) => BigInt.asUintN(64, sum + revSharePercentage),
            0n,
          ),
          reason: split.reason,
        },
      },
    ],
  };
}
