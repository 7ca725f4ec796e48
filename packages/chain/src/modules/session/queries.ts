import { createMessage, session } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import { refuse } from "../../state/grpc-status.ts";
import { type QueryHandler, queryHandler } from "../../state/module.ts";
import { fail, type TxFault } from "../../state/outcome.ts";
import { serviceIdFault } from "../shared/services.ts";
import { SESSION } from "./errors.ts";
import { hydrateSession } from "./hydrate.ts";
import { getSessionParams } from "./state.ts";

const path = (method: string): string => `/pocket.session.Query/${method}`;

function requestFault(request: session.QueryGetSessionRequest): TxFault | undefined {
  const address = addressFault(request.applicationAddress);
  if (address !== undefined) return fail(SESSION.invalidApplicationAddress, address).fault;
  const service = serviceIdFault(request.serviceId);
  if (service !== undefined) return service;
  if (request.blockHeight >= 0n) return undefined;
  const text = `invalid block height for session being retrieved ${request.blockHeight};`;
  return fail(SESSION.invalidBlockHeight, text).fault;
}

/** Answers of the module's queries, by gRPC path. A session that there is none of is an internal error there. */
export const SESSION_QUERIES: Record<string, QueryHandler> = {
  [path("Params")]: queryHandler(session.QueryParamsRequestSchema, session.QueryParamsResponseSchema, (ctx) => ({
    ok: true,
    value: createMessage(session.QueryParamsResponseSchema, { params: getSessionParams(ctx) }),
  })),
  [path("GetSession")]: queryHandler(
    session.QueryGetSessionRequestSchema,
    session.QueryGetSessionResponseSchema,
    (ctx, request) => {
      const wrong = requestFault(request);
      if (wrong !== undefined) return refuse("InvalidArgument", wrong.text);
      const { applicationAddress, serviceId, blockHeight } = request;
      const height = blockHeight > 0n ? blockHeight : ctx.block.heightBlocks;
      const found = hydrateSession(ctx, applicationAddress, serviceId, height);
      if (!found.ok) return refuse("Internal", found.fault.text);
      return { ok: true, value: createMessage(session.QueryGetSessionResponseSchema, { session: found.value }) };
    },
  ),
};
