import { application, createMessage } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import { collectionPage } from "../../state/collection-page.ts";
import { goQuoted } from "../../state/go-text.ts";
import { refuse } from "../../state/grpc-status.ts";
import { type QueryHandler, queryHandler } from "../../state/module.ts";
import { fail } from "../../state/outcome.ts";
import { APPLICATION } from "./errors.ts";
import { applications, getApplication, getApplicationParams } from "./state.ts";

const path = (method: string): string => `/pocket.application.Query/${method}`;

/** The applications' queries, by gRPC path. */
export const APPLICATION_QUERIES: Readonly<Record<string, QueryHandler>> = {
  [path("Params")]: queryHandler(
    application.QueryParamsRequestSchema,
    application.QueryParamsResponseSchema,
    (ctx) => ({
      ok: true,
      value: createMessage(application.QueryParamsResponseSchema, { params: getApplicationParams(ctx) }),
    }),
  ),
  [path("Application")]: queryHandler(
    application.QueryGetApplicationRequestSchema,
    application.QueryGetApplicationResponseSchema,
    (ctx, { address }) => {
      const found = getApplication(ctx, address);
      if (found === undefined) {
        return refuse("NotFound", fail(APPLICATION.notFound, `app address: ${address}`).fault.text);
      }
      const value = createMessage(application.QueryGetApplicationResponseSchema, { application: found });
      return { ok: true, value };
    },
  ),
  [path("AllApplications")]: queryHandler(
    application.QueryAllApplicationsRequestSchema,
    application.QueryAllApplicationsResponseSchema,
    (ctx, { pagination, delegateeGatewayAddress: gateway }) => {
      const fault = gateway === "" ? undefined : addressFault(gateway);
      if (fault !== undefined) {
        const { text } = fail(APPLICATION.queryInvalidGatewayAddress, `${goQuoted(gateway)}; (${fault})`).fault;
        return refuse("InvalidArgument", text);
      }
      const page = collectionPage(ctx, applications, { request: pagination, item: (_, found) => found });
      if (!page.ok) return refuse("Internal", page.text);
      // A page counts every application, and shows those of the gateway (recorded, "list by gateway").
      const shown = page.items.filter(
        ({ delegateeGatewayAddresses }) => gateway === "" || delegateeGatewayAddresses.includes(gateway),
      );
      const value = createMessage(application.QueryAllApplicationsResponseSchema, {
        applications: shown,
        pagination: page.pagination,
      });
      return { ok: true, value };
    },
  ),
};
