import { moduleAddressBytes } from "@turnpike/crypto";
import type { Context } from "../../state/context.ts";
import { STAKE_DENOM } from "../../state/stakes.ts";
import { getBalance } from "./balances.ts";

/**
 * Why a genesis cannot have these stakes: the module's account does not hold them, so that who unbonds last could not be
 * paid. Undefined when it does; more than the stakes is right, as fees stay there, too.
 */
export function poolFault(ctx: Context, moduleName: string, stakedUpokt: bigint): string | undefined {
  const held = getBalance(ctx, moduleAddressBytes(moduleName), STAKE_DENOM);
  if (held >= stakedUpokt) return undefined;
  return `the account of the module ${moduleName} has ${held}${STAKE_DENOM}, and the stakes are ${stakedUpokt}${STAKE_DENOM}`;
}
