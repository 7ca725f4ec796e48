import { createMessage, session } from "@turnpike/proto";
import { nextSessionStartHeight } from "@turnpike/protocol";
import { addressFault } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { goQuoted, goTypeOfValue } from "../../state/go-text.ts";
import { fail, SDK, type TxFault } from "../../state/outcome.ts";
import { authorityFault } from "../shared/params.ts";
import { getSharedParamsAt } from "../shared/state.ts";
import { SESSION } from "./errors.ts";
import { getSessionParams, sessionParams, sessionParamsHistory } from "./state.ts";

const NUM_SUPPLIERS = "num_suppliers_per_session";

/** The parameters of a genesis that names none. */
export const DEFAULT_SESSION_PARAMS: session.Params = createMessage(session.ParamsSchema, {
  numSuppliersPerSession: 15n,
});

/** What is wrong with a whole set of parameters; undefined when nothing is. */
export function sessionParamsFault({ numSuppliersPerSession: number }: session.Params): TxFault | undefined {
  if (number >= 1n) return undefined;
  const text = `number of suppliers per session (${number}) MUST be greater than or equal to 1`;
  return fail(SESSION.paramInvalid, text).fault;
}

/** What is wrong with the change of one parameter, before any state is asked. */
export function updateParamFault({ authority, name, asType }: session.MsgUpdateParam): TxFault | undefined {
  const address = addressFault(authority);
  if (address !== undefined) return fail(SDK.invalidAddress, `invalid authority address (${address})`).fault;
  if (name !== NUM_SUPPLIERS) return fail(SESSION.paramInvalid, `unsupported param ${goQuoted(name)}`).fault;
  if (asType.case !== "asUint64") {
    const [wanted, got] = [goTypeOfValue("asUint64"), goTypeOfValue(asType.case)];
    const text = `invalid type for param ${goQuoted(name)} expected ${wanted}, got ${got}`;
    return fail(SESSION.paramInvalid, text).fault;
  }
  return sessionParamsFault(createMessage(session.ParamsSchema, { numSuppliersPerSession: asType.value }));
}

/** What is wrong with the change of all parameters, before any state is asked. */
export function updateParamsFault({ authority, params }: session.MsgUpdateParams): TxFault | undefined {
  return authorityFault(authority) ?? sessionParamsFault(params ?? createMessage(session.ParamsSchema));
}

function hasHistory(ctx: Context): boolean {
  for (const _ of sessionParamsHistory.entries(ctx)) return true;
  return false;
}

/**
 * Makes changed parameters today's, and notes them from the start of the next session on. The first change notes what
 * held before from this block on only: of blocks before it the chain does not know.
 */
export function changeParams(ctx: Context, changed: session.Params): void {
  const height = ctx.block.heightBlocks;
  const before = getSessionParams(ctx);
  if (!hasHistory(ctx)) sessionParamsHistory.set(ctx, height, before);
  sessionParamsHistory.set(ctx, nextSessionStartHeight(getSharedParamsAt(ctx, height), height), changed);
  sessionParams.set(ctx, undefined, changed);
}
