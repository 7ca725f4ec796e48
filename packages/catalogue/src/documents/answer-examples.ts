import { compileSchema } from "../check.ts";
import type { JsonSchema, Operation, Service } from "../types.ts";
import { schemaSample } from "./schema-sample.ts";

/**
 * What a service answers to its example request, by its id, without `query`, which comes from the request. A schema that
 * has `examples` of its own needs no row here.
 */
const ANSWERS: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "document-digest": {
    bytes: 19,
    characters: 19,
    words: 4,
    lines: 1,
    digests: { sha256: "5cac4f980fedc3d3f1f99b4be3472c9b30d56523e632d151237ec9309048bda9" },
  },
  "drug-labels": {
    labels: [
      {
        id: "ibuprofen-200-tablet",
        name: "Ibuprofen 200 mg tablets",
        substances: ["ibuprofen"],
        indications: "Temporary relief of minor aches and pains, and of fever.",
        warnings: ["May cause severe stomach bleeding."],
        interactions: ["Ask a doctor before use with blood thinners."],
        updated: "2025-03-01",
      },
    ],
  },
  "sanctions-screening": {
    matches: [
      {
        id: "list-1842",
        name: "ACME TRADING LLC",
        score: 0.91,
        list: "example-list",
        aliases: ["Acme Trade"],
        programs: [],
      },
    ],
    lists: [{ name: "example-list", updated: "2026-01-31" }],
  },
  "company-registry": {
    companies: [
      {
        number: "01234567",
        name: "EXAMPLE LTD",
        country: "GB",
        status: "active",
        founded: "1998-04-02",
        address: "1 Example Street, London",
        officers: [{ name: "Jane Doe", role: "director" }],
      },
    ],
  },
  "exchange-rates": { base: "USD", date: "2026-01-30", rates: { EUR: "0.9213", JPY: "148.72" } },
  "paper-metadata": {
    papers: [
      {
        title: "Practical Byzantine Fault Tolerance",
        authors: [
          { name: "Miguel Castro", orcid: null },
          { name: "Barbara Liskov", orcid: null },
        ],
        year: 1999,
        doi: null,
        venue: "OSDI",
        abstract: null,
        citations: 4200,
      },
    ],
  },
  "cve-lookup": {
    vulnerabilities: [
      {
        id: "CVE-2021-23337",
        summary: "Command injection in lodash through the template function.",
        severity: "high",
        cvss: 7.2,
        fixed_versions: ["4.17.21"],
        references: ["https://nvd.nist.gov/vuln/detail/CVE-2021-23337"],
      },
    ],
  },
  "text-embedding": { model: "example-embedding-1", dimensions: 4, embeddings: [[0.12, -0.03, 0.4, 0.08]] },
};

const HASH = "4E1F6A0F3C7B5D2E8A9B0C1D2E3F405162738495A6B7C8D9EAFB0C1D2E3F4051";

/** Results of methods that the networks' examples call; of one name the first that fits the declared schema is shown. */
const RESULTS: Readonly<Record<string, readonly unknown[]>> = {
  eth_blockNumber: ["0x1b4"],
  status: [
    {
      node_info: {
        protocol_version: { p2p: "8", block: "11", app: "0" },
        id: HASH.slice(0, 40).toLowerCase(),
        listen_addr: "tcp://0.0.0.0:26656",
        network: "example-1",
        version: "0.38.12",
        moniker: "node-1",
      },
      sync_info: {
        latest_block_hash: HASH,
        latest_app_hash: HASH,
        latest_block_height: "21034511",
        latest_block_time: "2026-01-31T12:00:00.123456789Z",
        catching_up: false,
      },
      validator_info: { address: HASH.slice(0, 40), pub_key: null, voting_power: "0" },
    },
    { chain_id: "mainnet", sync_info: { latest_block_height: 141_592_653, syncing: false } },
  ],
  getSlot: [287_654_321],
  sui_getLatestCheckpointSequenceNumber: ["98765432"],
  getblockcount: [876_543],
  "POST /status/gateway-status": [
    {
      ledger_state: {
        network: "mainnet",
        state_version: 212_345_678,
        proposer_round_timestamp: "2026-01-31T12:00:00.000Z",
        epoch: 165_432,
        round: 871,
      },
    },
  ],
  "GET /eth/v1/node/syncing": [
    { data: { head_slot: "10987654", sync_distance: "0", is_syncing: false, is_optimistic: false, el_offline: false } },
  ],
};

function fits(schema: JsonSchema | undefined, value: unknown): boolean {
  if (schema === undefined || typeof schema === "boolean") return schema !== false;
  return compileSchema(schema).validate(value);
}

function membersOf(schema: JsonSchema | undefined, key: "properties" | "examples"): Readonly<Record<string, unknown>> {
  const members = typeof schema === "object" ? schema[key] : undefined;
  return typeof members === "object" && members !== null ? (members as Record<string, unknown>) : {};
}

/**
 * What an operation may answer to a body: the JSON-RPC object, or the whole body with `rest`. It fits the declared
 * schema; undefined when none could be made that does.
 */
export function exampleAnswer(
  service: Service,
  operation: Operation,
  body: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> | undefined {
  const { result: schema } = operation;
  const known = operation.name === "POST /" ? ANSWERS[service.id] : undefined;
  const own =
    known === undefined ? [] : ["query" in membersOf(schema, "properties") ? { query: body.query, ...known } : known];
  const written = Object.values(membersOf(schema, "examples"));
  const candidates = [...written, ...own, ...(RESULTS[operation.name] ?? [])];
  const sampled = (): unknown => (typeof schema === "object" ? schemaSample({ ...schema, examples: [] }) : {});
  const found = candidates.find((value) => fits(schema, value)) ?? sampled();
  if (!fits(schema, found)) return undefined;
  if (operation.rpcType !== "rest") return { jsonrpc: "2.0", id: 1, result: found };
  return typeof found === "object" && found !== null ? (found as Record<string, unknown>) : undefined;
}
