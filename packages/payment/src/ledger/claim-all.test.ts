import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { eventually } from "@turnpike/testkit";
import { fc } from "@turnpike/testkit/property";
import pg from "pg";
import { ASSET, bytes32, LEDGER, NETWORK, newPayer, testServer } from "../../test/ledger-fixtures.ts";
import { auditLedger } from "./audit.ts";

const server = testServer();
const RECEIVER = `${NETWORK} ${ASSET} 0xreceiver`;
const NONCES = Array.from({ length: 12 }, bytes32);

/** A claim as the ledger's statement has it. */
interface WantedRow {
  readonly holder: string;
  readonly id: string;
  readonly payer: string;
  readonly [column: string]: string | null;
}

/** One step of a case: claims that come together, or what becomes of a payment. */
type Step =
  | { readonly kind: "claims"; readonly claims: readonly ClaimShape[] }
  | { readonly kind: "block"; readonly payer: number }
  | {
      readonly kind: "end";
      readonly at: number;
      readonly to: "release" | "submit" | "settled" | "again" | "failed" | "owed";
      readonly block: number;
    };

interface ClaimShape {
  readonly payer: number;
  readonly asset: number;
  readonly nonce: number;
  readonly value: number;
  readonly balance: number;
  readonly block: number;
  readonly identifier: string | null;
  readonly holder: string;
}

// Mostly plain claims of few payers, so that some pay for all of a group, and some nearly.
const claimShape = fc.record({
  payer: fc.nat(1),
  asset: fc.constantFrom(0, 0, 0, 1),
  nonce: fc.nat(NONCES.length - 1),
  value: fc.integer({ min: 0, max: 4 }),
  balance: fc.oneof(fc.integer({ min: 0, max: 15 }), fc.constant(100)),
  block: fc.integer({ min: 1, max: 4 }),
  identifier: fc.oneof(
    { weight: 12, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.constantFrom("one", "two") },
  ),
  holder: fc.oneof(
    { weight: 20, arbitrary: fc.constant("lives") },
    { weight: 1, arbitrary: fc.constantFrom("other", "dead", "sells nothing") },
  ),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("claims" as const),
      claims: fc.array(claimShape, { minLength: 1, maxLength: 5 }),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("end" as const),
      at: fc.nat(200),
      to: fc.constantFrom("release", "submit", "settled", "settled", "settled", "again", "failed", "owed"),
      block: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("block" as const), payer: fc.nat(1) }) },
);

const CLAIM_ALL = "select outcome, (standing).id, (standing).state from claim_all($1, $2) order by place";
/** What the version before ran for claims that came together. */
const CLAIM_EACH = `select c.outcome, (c.standing).id, (c.standing).state from rows from (jsonb_to_recordset($1::jsonb) as (
    holder text, id text, network text, asset text, payer text, nonce bytea, pay_to text, value numeric,
    valid_after numeric, valid_before numeric, signature bytea, kind text, service_id text,
    payload_digest bytea, request_hash bytea, identifier text, balance numeric, balance_block bigint
  )) with ordinality w,
  lateral claim_unless_blocked((select h.id from holders h where h.id = w.holder and h.sells @> $2::text[]),
    w.id, w.network, w.asset, w.payer, w.nonce, w.pay_to, w.value, w.valid_after, w.valid_before, w.signature, w.kind,
    w.service_id, w.payload_digest, w.request_hash, w.identifier, w.balance, w.balance_block) c
  order by w.ordinality`;

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, options: "-c search_path=ledger" });
  client.on("error", () => undefined);
  await client.connect();
  return client;
}

async function newDatabase(): Promise<string> {
  const url = await server().database();
  const client = await connect(url);
  const holder = "insert into holders (id, expires_at, sells) values ($1, clock_timestamp() + $2, $3)";
  await client.query(holder, ["lives", "1 hour", [RECEIVER]]);
  await client.query(holder, ["other", "1 hour", [RECEIVER, "another"]]);
  await client.query(holder, ["dead", "-1 second", [RECEIVER]]);
  await client.query(holder, ["sells nothing", "1 hour", []]);
  await client.end();
  return url;
}

/** Events by a trigger for each row, as the version before wrote them. */
async function formerEvents(): Promise<string> {
  const rules = await readFile(new URL("../../migrations/0002-rules.sql", import.meta.url), "utf8");
  const [made] = /create function record_event\(\).*execute function record_event\(\);/s.exec(rules) ?? [];
  return `drop trigger payments_first_event on payments; drop trigger payments_event on payments; ${made}`;
}

let ids = 0;
const wantedRow = (payer: string, asset: string, shape: Omit<ClaimShape, "payer" | "asset">): WantedRow => ({
  holder: shape.holder,
  id: `stl_${ids++}`,
  network: NETWORK,
  asset,
  payer,
  nonce: `\\x${NONCES[shape.nonce]?.slice(2)}`,
  pay_to: ASSET,
  value: String(shape.value),
  valid_after: "0",
  valid_before: "2000000000",
  signature: "\\x01",
  kind: "eoa",
  service_id: "eth",
  payload_digest: `\\x${"01".repeat(32)}`,
  request_hash: `\\x${"02".repeat(32)}`,
  identifier: shape.identifier,
  balance: String(shape.balance),
  balance_block: String(shape.block),
});

/** A ledger whose groups go through `claim_all`, and one whose claims go one after another. */
interface Pair {
  readonly all: pg.Client;
  readonly one: pg.Client;
}

/** Rows of a statement, or the code that it failed with. */
async function outcome(client: pg.Client, text: string, values: readonly unknown[]): Promise<unknown> {
  try {
    return (await client.query(text, [...values])).rows;
  } catch (error) {
    return error instanceof Error && "code" in error ? error.code : error;
  }
}

async function runSteps({ all, one }: Pair, steps: readonly Step[]): Promise<void> {
  const both = async (text: string, values: readonly unknown[], textOfOne = text): Promise<void> =>
    assert.deepEqual(await outcome(all, text, values), await outcome(one, textOfOne, values));
  const payers = Array.from({ length: 2 }, newPayer);
  const assets = [ASSET.toLowerCase(), newPayer()];
  const claims: string[] = [];
  for (const step of steps) {
    if (step.kind === "block") {
      const values = [NETWORK, payers[step.payer]];
      await both(
        "insert into blocked_payers (network, payer, reason) values ($1, $2, 'test') on conflict do nothing",
        values,
      );
    } else if (step.kind === "claims") {
      const rows = step.claims.map((shape) => wantedRow(payers[shape.payer] ?? "", assets[shape.asset] ?? "", shape));
      claims.push(...rows.map(({ id }) => id));
      const values = [JSON.stringify(rows), [RECEIVER]];
      await both(CLAIM_ALL, values, CLAIM_EACH);
    } else {
      const id = claims[step.at % Math.max(1, claims.length)] ?? "none";
      const submit = "select submit('lives', $1, 'text/plain', '\\x00', '1 hour')";
      const evidence = [`0x${id}`, step.block, `0xb${id}${step.to}`];
      const conclude = "select conclude($1, $2, null, $3, $4, $5, 0, '1 hour')";
      if (step.to === "release") await both("select release('lives', array[$1], array['TEST'])", [id]);
      else if (step.to === "submit") await both(submit, [id]);
      else if (step.to === "failed")
        await both("select conclude($1, 'failed', 'TEST', null, null, null, null, '1 hour')", [id]);
      else if (step.to === "owed") await both(conclude, [id, step.to, ...evidence]);
      else {
        await both(submit, [id]);
        await both(conclude, [id, "settled", ...evidence]);
      }
    }
  }
  const payments = `select id, network, asset, payer, encode(nonce, 'hex') as nonce, pay_to, value, valid_after, valid_before,
    encode(signature, 'hex') as signature, kind, service_id, encode(payload_digest, 'hex') as digest,
    encode(request_hash, 'hex') as hash, identifier, state, reason, holder, transaction_hash, swept
    from payments where payer = any ($1) order by id`;
  await both(payments, [payers]);
  const events = `select p.id, e.network, e.asset, from_state, from_value, to_state, e.value, detail
    from events e join payments p on p.seq = e.payment where p.payer = any ($1) order by p.id, e.seq`;
  await both(events, [payers]);
}

test("claims that come together end as they would one after another, with the same rows and events", async () => {
  const url = await newDatabase();
  const pair = { all: await connect(url), one: await connect(await newDatabase()) };
  try {
    await pair.one.query(await formerEvents());
    const steps = fc.array(step, { minLength: 3, maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(steps, (some) => runSteps(pair, some)),
      { numRuns: 200 },
    );
    assert.deepEqual(await auditLedger(url, LEDGER), { ok: true, differences: [] });
    const { rows } = await pair.all.query("select count(*)::integer as made from payments");
    assert.ok(rows[0].made > 300, `${rows[0].made} claims`);
  } finally {
    await pair.all.end();
    await pair.one.end();
  }
});

test("attack: groups of this version and of the one before, at once, never reserve more than a balance", async () => {
  const shared = await newDatabase();
  const payers = Array.from({ length: 5 }, newPayer).sort();
  const clients = await Promise.all(Array.from({ length: 4 }, () => connect(shared)));
  try {
    const groups = Array.from({ length: 40 }, () =>
      payers.flatMap((payer) =>
        [1, 2].map(() => ({
          ...wantedRow(payer, ASSET.toLowerCase(), {
            nonce: 0,
            value: 3,
            balance: 50,
            block: 1,
            identifier: null,
            holder: "lives",
          }),
          nonce: `\\x${randomBytes(32).toString("hex")}`,
        })),
      ),
    );
    await Promise.all(
      clients.map(async (client, which) => {
        for (let at = which; at < groups.length; at += clients.length) {
          await client.query(which % 2 === 0 ? CLAIM_ALL : CLAIM_EACH, [JSON.stringify(groups[at]), [RECEIVER]]);
        }
      }),
    );
    const { rows } = await (clients[0] as pg.Client).query(
      "select payer, sum(value)::integer as reserved from payments group by payer order by payer",
    );
    assert.deepEqual(
      rows,
      payers.map((payer) => ({ payer, reserved: 48 })),
    );
  } finally {
    for (const client of clients) await client.end();
  }
});

test("attack: a group sees what its payers' claims under way reserve", async () => {
  const shared = await newDatabase();
  const payers = Array.from({ length: 3 }, newPayer).sort();
  const first = await connect(shared);
  const second = await connect(shared);
  const watcher = await connect(shared);
  try {
    const shape = { value: 3, balance: 4, block: 1, identifier: null, holder: "lives" };
    const values = (nonce: number, some: readonly string[]): unknown[] => [
      JSON.stringify(some.map((payer) => wantedRow(payer, ASSET.toLowerCase(), { ...shape, nonce }))),
      [RECEIVER],
    ];
    await first.query("begin");
    await first.query(CLAIM_EACH, values(0, payers.slice(2)));
    const group = second.query(CLAIM_ALL, values(1, payers));
    await eventually("the group waits", async () => {
      const waiting = "select 1 from pg_locks where locktype = 'advisory' and not granted";
      return (await watcher.query(waiting)).rows.length > 0;
    });
    await first.query("commit");
    const outcomes = (await group).rows.map((row: { readonly outcome: string }) => row.outcome);
    assert.deepEqual(outcomes, ["claimed", "claimed", "insufficient"]);
  } finally {
    for (const client of [first, second, watcher]) await client.end();
  }
});

test("attack: the oldest balance of a group counts what was settled since", async () => {
  const shared = await newDatabase();
  const client = await connect(shared);
  try {
    const payer = newPayer();
    const claim = (nonce: number, value: number, block: number): WantedRow =>
      wantedRow(payer, ASSET.toLowerCase(), { nonce, value, balance: 4, block, identifier: null, holder: "lives" });
    const claimAll = async (rows: readonly WantedRow[]): Promise<readonly string[]> => {
      const found = await client.query<{ outcome: string }>(CLAIM_ALL, [JSON.stringify(rows), [RECEIVER]]);
      return found.rows.map(({ outcome }) => outcome);
    };
    const first = claim(0, 3, 1);
    assert.deepEqual(await claimAll([first]), ["claimed"]);
    await client.query("select submit('lives', $1, 'text/plain', '', '1 hour')", [first.id]);
    await client.query("select conclude($1, 'settled', null, '0x1', 3, '0xb', 0, '1 hour')", [first.id]);
    assert.deepEqual(await claimAll([claim(1, 1, 4), claim(2, 1, 2)]), ["claimed", "insufficient"]);
  } finally {
    await client.end();
  }
});
