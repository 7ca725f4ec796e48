import { concatBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { authz, createMessage, encodeMessage } from "@turnpike/proto";
import { addressFault, parseAddress } from "../../state/addresses.ts";
import { lengthPrefixedCodec } from "../../state/codecs.ts";
import { collectionPage } from "../../state/collection-page.ts";
import { type QueryRefusal, refuse } from "../../state/grpc-status.ts";
import { type QueryHandler, queryHandler } from "../../state/module.ts";
import { AUTHZ } from "./errors.ts";
import { getGrant, grants, grantsByGrantee, shownGrant } from "./grants.ts";

const path = (method: string): string => `/cosmos.authz.v1beta1.Query/${method}`;

type Parsed = { readonly ok: true; readonly value: Bytes } | QueryRefusal;
function addressOf(text: string): Parsed {
  const address = parseAddress(text);
  return address.ok ? address : refuse("Unknown", addressFault(text) ?? "");
}

/** The queries about grants, by gRPC path. */
export const AUTHZ_QUERIES: Readonly<Record<string, QueryHandler>> = {
  [path("Grants")]: queryHandler(authz.QueryGrantsRequestSchema, authz.QueryGrantsResponseSchema, (ctx, request) => {
    const granter = addressOf(request.granter);
    if (!granter.ok) return granter;
    const grantee = addressOf(request.grantee);
    if (!grantee.ok) return grantee;
    const { msgTypeUrl: typeUrl } = request;
    if (typeUrl !== "") {
      const grant = getGrant(ctx, { granter: granter.value, grantee: grantee.value, typeUrl });
      if (grant === undefined) {
        const { codespace, code, text } = AUTHZ.noAuthorization;
        const what = `authorization not found for ${typeUrl} type`;
        return refuse("Unknown", `codespace ${codespace} code ${code}: ${text}: ${what}`);
      }
      return { ok: true, value: createMessage(authz.QueryGrantsResponseSchema, { grants: [grant] }) };
    }
    const within = concatBytes(lengthPrefixedCodec.encode(granter.value), lengthPrefixedCodec.encode(grantee.value));
    const found = collectionPage(ctx, grants, { within, request: request.pagination, item: (_, grant) => grant });
    if (!found.ok) return refuse("Unknown", found.text);
    const { items, pagination } = found;
    return { ok: true, value: createMessage(authz.QueryGrantsResponseSchema, { grants: [...items], pagination }) };
  }),
  [path("GranterGrants")]: queryHandler(
    authz.QueryGranterGrantsRequestSchema,
    authz.QueryGranterGrantsResponseSchema,
    (ctx, request) => {
      const granter = addressOf(request.granter);
      if (!granter.ok) return granter;
      const within = lengthPrefixedCodec.encode(granter.value);
      const found = collectionPage(ctx, grants, {
        within,
        request: request.pagination,
        item: ([from, [to]], grant) => shownGrant(from, to, grant),
      });
      if (!found.ok) return refuse("Unknown", found.text);
      const { items, pagination } = found;
      const value = createMessage(authz.QueryGranterGrantsResponseSchema, { grants: [...items], pagination });
      return { ok: true, value };
    },
  ),
  [path("GranteeGrants")]: queryHandler(
    authz.QueryGranteeGrantsRequestSchema,
    authz.QueryGranteeGrantsResponseSchema,
    (ctx, request) => {
      const grantee = addressOf(request.grantee);
      if (!grantee.ok) return grantee;
      const within = lengthPrefixedCodec.encode(grantee.value);
      const found = collectionPage(ctx, grantsByGrantee, {
        within,
        bytesOf: (grant: authz.GrantAuthorization) => encodeMessage(authz.GrantAuthorizationSchema, grant).length,
        request: request.pagination,
        item: ([to, [from, typeUrl]]) => {
          const grant = getGrant(ctx, { granter: from, grantee: to, typeUrl });
          return grant === undefined ? undefined : shownGrant(from, to, grant);
        },
      });
      if (!found.ok) return refuse("Unknown", found.text);
      const { items, pagination } = found;
      const value = createMessage(authz.QueryGranteeGrantsResponseSchema, { grants: [...items], pagination });
      return { ok: true, value };
    },
  ),
};
