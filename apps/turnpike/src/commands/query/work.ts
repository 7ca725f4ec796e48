import type { proof, service, session, shared } from "@turnpike/proto";
import type { FlagRow } from "../tx/row.ts";
import type { QueryInput } from "./input.ts";
import { paramsRow, type QueryRow, type QueryTable, query } from "./row.ts";

const ADDRESS = (whose: string) => ({ name: "<address>", says: `address of the ${whose}, or the name of its key` });
const ID = { name: "<service-id>", says: "id of the service" };
const HEIGHT = { name: "<height>", says: "height of the block" };
const DEHYDRATED: FlagRow = { flags: "--dehydrated [yes]", says: "leave the long parts out" };
const RAW: FlagRow = { flags: "--raw", says: "the card's own bytes, not indented" };

const SERVICE: QueryTable = {
  module: "service",
  says: "services, their difficulty and their compute units",
  shape: "indented",
  rows: [
    {
      name: "all-services",
      says: "Lists the services, without their cards unless --dehydrated=false.",
      flags: [DEHYDRATED],
      pages: "page",
      example: "--page-limit 10",
      ask: (input) =>
        query<typeof service.Query.method.allServices>("/pocket.service.Query/AllServices", {
          ...input.page(),
          dehydrated: input.yes("dehydrated", true),
        }),
    },
    {
      name: "show-service",
      says: "Shows a service and its owner.",
      args: [ID],
      flags: [DEHYDRATED],
      example: "eth",
      ask: (input) =>
        query<typeof service.Query.method.service>("/pocket.service.Query/Service", {
          id: input.args[0] ?? "",
          dehydrated: input.yes("dehydrated"),
        }),
    },
    {
      name: "card",
      says: "Shows a service's card.",
      args: [ID],
      flags: [RAW],
      isCard: true,
      example: "eth",
      ask: ({ args: [id = ""] }) => query<typeof service.Query.method.service>("/pocket.service.Query/Service", { id }),
    },
    {
      name: "relay-mining-difficulty",
      says: "Shows how hard it is to mine a service's relays.",
      args: [ID],
      example: "eth",
      ask: ({ args: [serviceId = ""] }) =>
        query<typeof service.Query.method.relayMiningDifficulty>("/pocket.service.Query/RelayMiningDifficulty", {
          serviceId,
        }),
    },
    {
      name: "relay-mining-difficulty-all",
      says: "Shows the difficulties of all services that were used.",
      pages: "page",
      example: "",
      ask: (input) =>
        query<typeof service.Query.method.relayMiningDifficultyAll>(
          "/pocket.service.Query/RelayMiningDifficultyAll",
          input.page(),
        ),
    },
    {
      name: "relay-mining-difficulty-at-height",
      says: "Shows a service's difficulty at a height.",
      args: [ID, HEIGHT],
      example: "eth 100",
      ask: (input) =>
        query<typeof service.Query.method.relayMiningDifficultyAtHeight>(
          "/pocket.service.Query/RelayMiningDifficultyAtHeight",
          { serviceId: input.args[0] ?? "", blockHeight: input.whole(input.args[1], "height") },
        ),
    },
    {
      name: "relay-mining-difficulty-history",
      says: "Shows a service's difficulties and since when they hold.",
      args: [ID],
      pages: "page",
      example: "eth",
      ask: (input) =>
        query<typeof service.Query.method.relayMiningDifficultyHistory>(
          "/pocket.service.Query/RelayMiningDifficultyHistory",
          { ...input.page(), serviceId: input.args[0] ?? "" },
        ),
    },
    {
      name: "compute-units-per-relay-at-height",
      says: "Shows a service's compute units of a relay at a height.",
      args: [ID, HEIGHT],
      example: "eth 100",
      ask: (input) =>
        query<typeof service.Query.method.computeUnitsPerRelayAtHeight>(
          "/pocket.service.Query/ComputeUnitsPerRelayAtHeight",
          { serviceId: input.args[0] ?? "", blockHeight: input.whole(input.args[1], "height") },
        ),
    },
    {
      name: "compute-units-per-relay-history",
      says: "Shows how a service's compute units of a relay changed.",
      args: [ID],
      pages: "page",
      example: "eth",
      ask: (input) =>
        query<typeof service.Query.method.computeUnitsPerRelayHistory>(
          "/pocket.service.Query/ComputeUnitsPerRelayHistory",
          { ...input.page(), serviceId: input.args[0] ?? "" },
        ),
    },
    paramsRow("service"),
  ],
};

const SESSION: QueryTable = {
  module: "session",
  says: "sessions",
  shape: "compact",
  rows: [
    {
      name: "get-session",
      says: "Shows the session of an application and a service, with its suppliers.",
      args: [ADDRESS("application"), ID, { name: "[height]", says: "height of a block of it; without one the newest" }],
      example: "application-1 eth",
      ask: async (input) =>
        query<typeof session.Query.method.getSession>("/pocket.session.Query/GetSession", {
          applicationAddress: await input.address(input.args[0]),
          serviceId: input.args[1] ?? "",
          blockHeight: input.whole(input.args[2], "height"),
        }),
    },
    paramsRow("session"),
  ],
};

const CLAIM_FILTERS: readonly FlagRow[] = [
  { flags: "--session-id <id>", says: "those of this session" },
  { flags: "--session-end-height <height>", says: "those of sessions that end at this height" },
  { flags: "--supplier-operator-address <address>", says: "those of this supplier" },
];

async function claimFilter(input: QueryInput) {
  const [id, height, supplierAddress] = ["sessionId", "sessionEndHeight", "supplierOperatorAddress"].map((flag) =>
    input.text(flag),
  );
  const filter = input.oneOf(
    [
      id ? ({ case: "sessionId", value: id } as const) : undefined,
      height ? ({ case: "sessionEndHeight", value: input.whole(height, "--session-end-height") } as const) : undefined,
      supplierAddress
        ? ({ case: "supplierOperatorAddress", value: await input.address(supplierAddress) } as const)
        : undefined,
    ],
    "--session-id, --session-end-height and --supplier-operator-address",
  );
  return { ...input.page(), ...(filter === undefined ? {} : { filter }) };
}

const CLAIM_ARGS = [{ name: "<session-id>", says: "id of the session, in hex" }, ADDRESS("supplier")];
const SESSION_ID = "6f5e4c0d1b2a39485766758493a2b1c0d9e8f7061524334251606f7e8d9cabba";

const PROOF: QueryTable = {
  module: "proof",
  says: "claims and proofs",
  shape: "compact",
  rows: [
    {
      name: "list-claims",
      says: "Lists the claims that are not settled.",
      flags: CLAIM_FILTERS,
      pages: "plain",
      example: "--supplier-operator-address supplier-1",
      ask: async (input) =>
        query<typeof proof.Query.method.allClaims>("/pocket.proof.Query/AllClaims", await claimFilter(input)),
    },
    {
      name: "list-proofs",
      says: "Lists the proofs that were not checked yet: none, since the block that holds one checks it.",
      flags: CLAIM_FILTERS,
      pages: "plain",
      example: "",
      ask: async (input) =>
        query<typeof proof.Query.method.allProofs>("/pocket.proof.Query/AllProofs", await claimFilter(input)),
    },
    {
      name: "show-claim",
      says: "Shows a claim that is not settled.",
      args: CLAIM_ARGS,
      example: `${SESSION_ID} supplier-1`,
      ask: async (input) =>
        query<typeof proof.Query.method.claim>("/pocket.proof.Query/Claim", {
          sessionId: input.args[0] ?? "",
          supplierOperatorAddress: await input.address(input.args[1]),
        }),
    },
    {
      name: "show-proof",
      says: "Shows a proof that was not checked yet.",
      args: CLAIM_ARGS,
      example: `${SESSION_ID} supplier-1`,
      ask: async (input) =>
        query<typeof proof.Query.method.proof>("/pocket.proof.Query/Proof", {
          sessionId: input.args[0] ?? "",
          supplierOperatorAddress: await input.address(input.args[1]),
        }),
    },
    paramsRow("proof"),
  ],
};

const paramsAtHeight: QueryRow = {
  name: "params-at-height",
  says: "Shows the parameters that hold at a height.",
  args: [HEIGHT],
  example: "100",
  ask: (input) =>
    query<typeof shared.Query.method.paramsAtHeight>("/pocket.shared.Query/ParamsAtHeight", {
      height: input.whole(input.args[0], "height"),
    }),
};

/** Queries of what is relayed, claimed and paid. */
export const WORK_QUERY_TABLES: readonly QueryTable[] = [
  SERVICE,
  SESSION,
  PROOF,
  {
    module: "shared",
    says: "parameters of sessions and windows",
    shape: "indented",
    rows: [paramsRow("shared"), paramsAtHeight],
  },
  { module: "tokenomics", says: "parameters of settlement", shape: "compact", rows: [paramsRow("tokenomics")] },
];
