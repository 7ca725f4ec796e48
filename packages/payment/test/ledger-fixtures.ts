import { randomBytes } from "node:crypto";
import { after, before } from "node:test";
import {
  type Address,
  bytesToHex0x,
  type FaultPoints,
  type NetworkId,
  noFaults,
  noMetrics,
  type ServiceId,
  type SettlementId,
  silentLog,
} from "@turnpike/base";
import { openTestPostgres, type TestPostgres } from "@turnpike/testkit/servers";
import pg from "pg";
import { createLedger, type LedgerOptions } from "../src/ledger/ledger.ts";
import { migrate } from "../src/ledger/migrate.ts";
import type { JournaledTransaction, Ledger, NewClaim, RelayerLease } from "../src/ledger-types.ts";
import type { Evidence, PaymentKey, StoredAnswer } from "../src/types.ts";

/** What tests pay on. */
export const NETWORK = "eip155:84532" as NetworkId;
/** What tests pay with. */
export const ASSET: Address = "0x036cbd53842c5426634e7929541ec2318f3dcf7e";
/** What tests settle with, spelled with capitals as a configuration may. */
export const RELAYER: Address = "0xAbCd00000000000000000000000000000000Ef01";

/** A PostgreSQL for one test file, and databases for its tests. */
export interface TestServer extends AsyncDisposable {
  readonly postgres: TestPostgres;
  /** URL of a new, migrated database. */
  database(): Promise<string>;
}

/** Limits of time that only a hang reaches, in milliseconds. */
export const PATIENT = {
  holderTtlMs: 600_000,
  heartbeatMs: 60_000,
  statementTimeoutMs: 60_000,
  connectTimeoutMs: 60_000,
} as const;

/** A ledger as its configuration has it, but for the schema's name, fewer connections, and times that are {@link PATIENT}. */
export const LEDGER = {
  schema: "ledger",
  poolSize: 5,
  answerRetentionSeconds: 3_600,
  releasedRetentionSeconds: 86_400,
  ...PATIENT,
} as const;

/** Opens the file's PostgreSQL: see `openTestPostgres`. */
export async function startTestServer(): Promise<TestServer> {
  const postgres = await openTestPostgres();
  let made = 0;
  let migrated: Promise<string> | undefined;
  // Copying a migrated database is a fraction of migrating each.
  const migrateOne = async (): Promise<string> => {
    await migrate(postgres.url, LEDGER);
    return postgres.url;
  };
  return {
    postgres,
    async database() {
      migrated ??= migrateOne();
      return postgres.createDatabase(`ledger_${made++}`, await migrated);
    },
    [Symbol.asyncDispose]: () => postgres[Symbol.asyncDispose](),
  };
}

/** What `open` opens before the tests of the file that calls this, and closes after them. */
function ofFile<T extends AsyncDisposable>(open: () => Promise<T>): () => T {
  let opened: T | undefined;
  before(async () => {
    opened = await open();
  });
  after(() => opened?.[Symbol.asyncDispose]());
  return () => {
    if (opened === undefined) throw new TypeError("it is opened before the tests, not before their hooks");
    return opened;
  };
}

/** The PostgreSQL of the test file that calls this. */
export function testServer(): () => TestServer {
  return ofFile(startTestServer);
}

/** One ledger for all tests of the file that calls this. */
export function testLedger(opts: Partial<LedgerOptions> = {}): () => Ledger {
  return ofFile(async () => {
    await using owned = new AsyncDisposableStack();
    const server = owned.use(await startTestServer());
    const ledger = owned.use(await newLedger(server, opts));
    const resources = owned.move();
    return { ...ledger, [Symbol.asyncDispose]: () => resources.disposeAsync() };
  });
}

/** Opens a ledger that is as {@link LEDGER} unless `opts` says otherwise. */
export function openLedger(
  url: string,
  opts: Partial<LedgerOptions> = {},
  faults: FaultPoints = noFaults,
): Promise<Ledger> {
  return createLedger({ url, ...LEDGER, ...opts }, { log: silentLog, metrics: noMetrics, faults });
}

/** A ledger in a database of its own. */
export async function newLedger(server: TestServer, opts: Partial<LedgerOptions> = {}): Promise<Ledger> {
  return openLedger(await server.database(), opts);
}

/** Runs SQL as an operator would, behind the ledger's back. */
export async function sql<Row extends object>(url: string, text: string, values: unknown[] = []): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, options: "-c search_path=ledger" });
  // The server may end while this connection does.
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}

export const bytes32 = (): `0x${string}` => bytesToHex0x(randomBytes(32));
export const newPayer = (): Address => bytesToHex0x(randomBytes(20));
export const newKey = (from: Address = newPayer()): PaymentKey => ({
  network: NETWORK,
  asset: ASSET,
  from,
  nonce: bytes32(),
});

/** A claim with enough balance; `over` replaces its fields. */
export function newClaim(over: Partial<NewClaim> = {}): NewClaim {
  return {
    key: newKey(),
    payTo: "0xPayTo0000000000000000000000000000000000" as Address,
    value: 5_000n,
    validAfter: 0n,
    validBefore: 2_000_000_000n,
    signature: randomBytes(65),
    kind: "eoa",
    serviceId: "eth" as ServiceId,
    payloadDigest: randomBytes(32),
    requestHash: randomBytes(32),
    identifier: undefined,
    balance: 1_000_000n,
    balanceBlock: 100n,
    ...over,
  };
}

/** Claims, and fails the test unless it is ours. */
export async function claimed(ledger: Ledger, over: Partial<NewClaim> = {}): Promise<SettlementId> {
  const result = await ledger.claim(newClaim(over));
  if (result.kind !== "claimed") throw new TypeError(`expected claimed, got ${result.kind}`);
  return result.id;
}

/** Leases the test's relayer, and fails the test unless it is free. */
export async function leased(ledger: Ledger, relayer: Address = RELAYER): Promise<RelayerLease> {
  const lease = await ledger.leaseRelayer(NETWORK, relayer, 0);
  if (lease === undefined) throw new TypeError("the relayer is held");
  return lease;
}

export const newTransaction = (): JournaledTransaction => ({
  cancels: false,
  hash: bytes32(),
  raw: randomBytes(300),
  maxFeePerGas: 2_000_000_000n,
  maxPriorityFeePerGas: 1_000_000n,
});

export const newAnswer = (text = '{"result":"0x1"}'): StoredAnswer => ({
  contentType: "application/json",
  body: new Uint8Array(Buffer.from(text)),
});

export const newEvidence = (blockNumber = 101n): Evidence => ({
  transaction: bytes32(),
  blockNumber,
  blockHash: bytes32(),
  logIndex: 3,
});

/** Journals one batch of these payments. */
export function journaled(
  ledger: Ledger,
  lease: RelayerLease,
  nonce: number,
  ids: readonly SettlementId[],
  transaction: JournaledTransaction = newTransaction(),
): Promise<{ readonly batchId: bigint }> {
  const items = ids.map((id) => ({ id, answer: newAnswer(id) }));
  return ledger.journal({ lease, nonce, gasLimit: 500_000n, transaction, items });
}
