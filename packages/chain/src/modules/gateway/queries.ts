import { createMessage, gateway } from "@turnpike/proto";
import { collectionPage } from "../../state/collection-page.ts";
import { refuse } from "../../state/grpc-status.ts";
import { type QueryHandler, queryHandler } from "../../state/module.ts";
import { gateways, getGateway, getGatewayParams } from "./state.ts";

const path = (method: string): string => `/pocket.gateway.Query/${method}`;
const shown = (found: gateway.Gateway, dehydrated: boolean): gateway.Gateway =>
  dehydrated ? { ...found, metadata: undefined } : found;

/** The gateways' queries, by gRPC path. */
export const GATEWAY_QUERIES: Readonly<Record<string, QueryHandler>> = {
  [path("Params")]: queryHandler(gateway.QueryParamsRequestSchema, gateway.QueryParamsResponseSchema, (ctx) => ({
    ok: true,
    value: createMessage(gateway.QueryParamsResponseSchema, { params: getGatewayParams(ctx) }),
  })),
  [path("Gateway")]: queryHandler(
    gateway.QueryGetGatewayRequestSchema,
    gateway.QueryGetGatewayResponseSchema,
    (ctx, { address, dehydrated }) => {
      const found = getGateway(ctx, address);
      if (found === undefined) return refuse("NotFound", `gateway not found: address ${address}`);
      const value = createMessage(gateway.QueryGetGatewayResponseSchema, { gateway: shown(found, dehydrated) });
      return { ok: true, value };
    },
  ),
  [path("AllGateways")]: queryHandler(
    gateway.QueryAllGatewaysRequestSchema,
    gateway.QueryAllGatewaysResponseSchema,
    (ctx, { pagination, dehydrated }) => {
      const page = collectionPage(ctx, gateways, { request: pagination, item: (_, found) => found });
      if (!page.ok) return refuse("Internal", page.text);
      const value = createMessage(gateway.QueryAllGatewaysResponseSchema, {
        gateways: page.items.map((found) => shown(found, dehydrated)),
        pagination: page.pagination,
      });
      return { ok: true, value };
    },
  ),
};
