/** Names of the points at which tests kill a supplier: between any two things that it writes down or sends. */
export const SUPPLIER_FAULT_POINTS = [
  "supplier.session.created",
  "supplier.relay.written",
  "supplier.seal.begins",
  "supplier.sealed",
  "supplier.claim.intended",
  "supplier.claim.signed",
  "supplier.claim.sent",
  "supplier.claimed",
  "supplier.proof.signed",
  "supplier.proof.sent",
  "supplier.proven",
  "supplier.settled",
  "supplier.sums.added",
] as const;

/** One of {@link SUPPLIER_FAULT_POINTS}. */
export type SupplierFaultPoint = (typeof SUPPLIER_FAULT_POINTS)[number];
