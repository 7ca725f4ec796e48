import { createMessage, shared } from "@turnpike/proto";
import { refuse } from "../../state/grpc-status.ts";
import { type QueryHandler, queryHandler } from "../../state/module.ts";
import { getSharedParams, getSharedParamsAt } from "./state.ts";

const path = (method: string): string => `/pocket.shared.Query/${method}`;

/** Answers of the module's queries, by gRPC path. A height to come is answered by what is known to hold then. */
export const SHARED_QUERIES: Record<string, QueryHandler> = {
  [path("Params")]: queryHandler(shared.QueryParamsRequestSchema, shared.QueryParamsResponseSchema, (ctx) => ({
    ok: true,
    value: createMessage(shared.QueryParamsResponseSchema, { params: getSharedParams(ctx) }),
  })),
  [path("ParamsAtHeight")]: queryHandler(
    shared.QueryParamsAtHeightRequestSchema,
    shared.QueryParamsAtHeightResponseSchema,
    (ctx, { height }) => {
      if (height < 0n) return refuse("InvalidArgument", "height must be non-negative");
      const params = getSharedParamsAt(ctx, height);
      return { ok: true, value: createMessage(shared.QueryParamsAtHeightResponseSchema, { params }) };
    },
  ),
};
