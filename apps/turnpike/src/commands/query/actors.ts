import type { application, gateway, supplier } from "@turnpike/proto";
import type { FlagRow } from "../tx/row.ts";
import type { QueryInput } from "./input.ts";
import { paramsRow, type QueryTable, query } from "./row.ts";

const ADDRESS = (whose: string) => ({ name: "<address>", says: `address of the ${whose}, or the name of its key` });
const DEHYDRATED: FlagRow = { flags: "--dehydrated [yes]", says: "leave the long parts out" };
const RAW: FlagRow = { flags: "--raw", says: "the card's own bytes, not indented" };

const APPLICATION: QueryTable = {
  module: "application",
  says: "staked applications",
  shape: "compact",
  rows: [
    {
      name: "list-application",
      says: "Lists the staked applications.",
      flags: [{ flags: "--delegatee-gateway-address <address>", says: "those that are delegated to this gateway" }],
      pages: "plain",
      example: "--limit 10",
      ask: async (input) =>
        query<typeof application.Query.method.allApplications>("/pocket.application.Query/AllApplications", {
          ...input.page(),
          delegateeGatewayAddress: await input.address(input.text("delegateeGatewayAddress")),
        }),
    },
    {
      name: "show-application",
      says: "Shows a staked application.",
      args: [ADDRESS("application")],
      example: "application-1",
      ask: async (input) =>
        query<typeof application.Query.method.application>("/pocket.application.Query/Application", {
          address: await input.address(input.args[0]),
        }),
    },
    paramsRow("application"),
  ],
};

const askGateway = async (input: QueryInput) =>
  query<typeof gateway.Query.method.gateway>("/pocket.gateway.Query/Gateway", {
    address: await input.address(input.args[0]),
    dehydrated: input.yes("dehydrated"),
  });

const GATEWAY: QueryTable = {
  module: "gateway",
  says: "staked gateways",
  shape: "compact",
  rows: [
    {
      name: "list-gateway",
      says: "Lists the staked gateways.",
      flags: [DEHYDRATED],
      pages: "plain",
      example: "--dehydrated",
      ask: (input) =>
        query<typeof gateway.Query.method.allGateways>("/pocket.gateway.Query/AllGateways", {
          ...input.page(),
          dehydrated: input.yes("dehydrated"),
        }),
    },
    {
      name: "show-gateway",
      says: "Shows a staked gateway.",
      args: [ADDRESS("gateway")],
      flags: [DEHYDRATED],
      example: "gateway-1",
      ask: askGateway,
    },
    {
      name: "card",
      says: "Shows a gateway's card.",
      args: [ADDRESS("gateway")],
      flags: [RAW],
      isCard: true,
      example: "gateway-2",
      ask: askGateway,
    },
    paramsRow("gateway"),
  ],
};

const SUPPLIER: QueryTable = {
  module: "supplier",
  says: "staked suppliers",
  shape: "indented",
  rows: [
    {
      name: "list-suppliers",
      aliases: ["suppliers", "ls"],
      says: "Lists the staked suppliers.",
      flags: [
        { flags: "--service-id <id>", says: "those of this service" },
        { flags: "--operator-address <address>", says: "those of this operator" },
        { flags: "--owner-address <address>", says: "those of this owner" },
        DEHYDRATED,
      ],
      pages: "page",
      example: "--service-id eth --dehydrated",
      ask: async (input) =>
        query<typeof supplier.Query.method.allSuppliers>("/pocket.supplier.Query/AllSuppliers", {
          ...input.page(),
          serviceId: input.text("serviceId"),
          operatorAddress: await input.address(input.text("operatorAddress")),
          ownerAddress: await input.address(input.text("ownerAddress")),
          dehydrated: input.yes("dehydrated"),
        }),
    },
    {
      name: "show-supplier",
      aliases: ["supplier", "s"],
      says: "Shows a staked supplier.",
      args: [ADDRESS("operator")],
      flags: [DEHYDRATED],
      example: "supplier-1",
      ask: async (input) =>
        query<typeof supplier.Query.method.supplier>("/pocket.supplier.Query/Supplier", {
          operatorAddress: await input.address(input.args[0]),
          dehydrated: input.yes("dehydrated"),
        }),
    },
    paramsRow("supplier"),
  ],
};

/** Queries of who stakes. */
export const ACTOR_QUERY_TABLES: readonly QueryTable[] = [APPLICATION, GATEWAY, SUPPLIER];
