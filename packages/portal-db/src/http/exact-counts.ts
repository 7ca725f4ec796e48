import type { Caller, TableRequest } from "../types.ts";

/**
 * The request as it is planned for this caller. The planner's estimates are of the whole table: row security does not
 * reach them, so a token that is bound to an account would learn how many rows another account has. It is given exact
 * counts in the place of planned and estimated ones.
 */
export function withSafeCount(request: TableRequest, { accountId }: Pick<Caller, "accountId">): TableRequest {
  const { count } = request.preferences;
  if (accountId === undefined || count === undefined || count === "exact") return request;
  return { ...request, preferences: { ...request.preferences, count: "exact" } };
}
