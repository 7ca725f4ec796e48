import type { LookupFunction } from "node:net";
import { AppError, checkedLookup, type ResolveHost } from "@turnpike/base";

/** A lookup for connections that may reach public addresses only; they fail with SUPPLIERS_UNREACHABLE. */
export function publicLookup(resolve?: ResolveHost): LookupFunction {
  return checkedLookup({
    resolve,
    refuse: (_, hostname, cause) =>
      new AppError("SUPPLIERS_UNREACHABLE", { message: `${hostname} has no public address.`, cause }),
  });
}
