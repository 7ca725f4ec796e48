import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { openTestPostgres, superuserUrl, type TestPostgres } from "@turnpike/testkit/servers";
import pg from "pg";
import { type Ran, runInProcess } from "../../../test/run-command.ts";

// SQL of the pages for operators, and their commands that use the database, are run as the roles that they describe:
// the plain owner of docs/operate/gateway.md, and the gateway's role of docs/operate/ledger.md. Neither is a superuser.

const PAGES = new URL("../../../../../docs/operate/", import.meta.url);
const SCHEMA = "turnpike";
const ACCOUNT = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

interface Snippet {
  readonly page: string;
  readonly text: string;
}

const pages = readdirSync(PAGES)
  .filter((name) => name.endsWith(".md"))
  .map((page) => ({ page, text: readFileSync(new URL(page, PAGES), "utf8") }));

/** SQL of the pages' blocks, apart from what makes roles and databases. */
const sqlBlocks: readonly Snippet[] = pages.flatMap(({ page, text }) =>
  [...text.matchAll(/```sql\n(.*?)```/gs)].map(([, block = ""]) => ({ page, text: block })),
);

/** Commands of the pages that use the ledger, as arguments. */
const commands: readonly Snippet[] = pages.flatMap(({ page, text }) =>
  [...text.matchAll(/npx turnpike ((?:db (?:migrate|ledger|doctor)|settlements)\b[^`\n#]*)/g)].map(
    ([, command = ""]) => ({
      page,
      text: command.trim(),
    }),
  ),
);

function argumentsOf(text: string): readonly string[] {
  const words = [...text.matchAll(/"([^"]*)"|\S+/g)].map(([word, quoted]) => quoted ?? word);
  const at = words.indexOf("--config");
  const plain = at === -1 ? words : [...words.slice(0, at), ...words.slice(at + 2)];
  return plain.map((word) => (word === "stl_…" ? "stl_none" : word === "0x…" ? ACCOUNT : word));
}

async function run(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, options: `-c search_path=${SCHEMA}` });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

suite("the pages for operators, as roles that are not superusers", () => {
  let postgres: TestPostgres;
  let folder: string;
  const gateway = `gateway_${randomBytes(6).toString("hex")}`;
  const configFile = (url: string): string => {
    const file = join(folder, `${randomBytes(6).toString("hex")}.yaml`);
    writeFileSync(file, `ledger:\n  url: ${JSON.stringify(url)}\n  schema: ${SCHEMA}\n`, { mode: 0o600 });
    return file;
  };
  const call = (url: string, ...args: readonly string[]): Promise<Ran> =>
    runInProcess([...args, "--config", configFile(url)]);
  let gatewayUrl: string;

  before(async () => {
    postgres = await openTestPostgres();
    folder = mkdtempSync(join(tmpdir(), "turnpike-operate-"));
    const migrated = await call(postgres.url, "db", "migrate");
    assert.equal(migrated.code, 0, migrated.err);
    await run(superuserUrl(postgres.url), `create role ${gateway} login password 'g'`);
    const url = new URL(postgres.url);
    url.username = gateway;
    url.password = "g";
    gatewayUrl = url.href;
  });
  after(async () => {
    if (folder !== undefined) rmSync(folder, { recursive: true });
    await run(superuserUrl(postgres.url), `drop owned by ${gateway}; drop role ${gateway}`);
    await postgres?.[Symbol.asyncDispose]();
  });

  test("there is SQL and there are commands to run", () => {
    assert.ok(sqlBlocks.some(({ text }) => text.includes("grant ")) && sqlBlocks.length >= 3);
    for (const name of ["db migrate", "db ledger", "db doctor", "settlements transactions"]) {
      assert.ok(
        commands.some(({ text }) => text.startsWith(name)),
        name,
      );
    }
  });

  test("each block of SQL runs as the owner", async () => {
    for (const { page, text } of sqlBlocks) {
      const statements = text.replaceAll("turnpike_gateway", gateway);
      await run(postgres.url, statements).catch((error: unknown) => assert.fail(`${page}: ${String(error)}\n${text}`));
    }
  });

  test("each command does its work as the owner, and as the gateway's role once it has the grants of the page", async () => {
    for (const url of [postgres.url, gatewayUrl]) {
      for (const { page, text } of commands) {
        const { code, err } = await call(url, ...argumentsOf(text));
        // Examples of a page name payments that are not there.
        const isDone = code === 0 || /^error (NOT_FOUND|USAGE: Expected a command)/.test(err);
        assert.ok(isDone || (text === "settlements" && code !== 0), `${page}: ${text}: ${code} ${err}`);
      }
      assert.match((await call(url, "db", "doctor")).out, /^gateway: whole$/m);
    }
  });

  test("the doctor says what is missing and ends with 1; a start refuses the same", async () => {
    await run(postgres.url, "alter table payments disable trigger payments_guard");
    const { code, out } = await call(postgres.url, "db", "doctor");
    assert.equal(code, 1);
    assert.match(
      out,
      /^gateway: 1 to repair\n {2}different: trigger payments\.payments_guard\n {4}if it was disabled: /,
    );
    const json = JSON.parse((await call(postgres.url, "db", "doctor", "--json")).out);
    assert.deepEqual([json.whole, json.faults.gateway.length], [false, 1]);
    for (const command of ["migrate", "ledger"]) {
      assert.match(
        (await call(postgres.url, "db", command)).err,
        /^error LEDGER_SCHEMA: .*not whole: different: trigger/,
      );
    }
    await run(postgres.url, "alter table payments enable trigger payments_guard");
    assert.equal((await call(postgres.url, "db", "doctor")).code, 0);
  });
});

test("management data are migrated and looked at as an owner with CREATEROLE, and without it the grants are named", async () => {
  for (const createsRoles of [true, false]) {
    await using postgres = await openTestPostgres({ isOwn: true, createsRoles });
    const of = (user: string): string => {
      const url = new URL(postgres.url);
      url.username = user;
      url.password = `${user}-of-the-tests`;
      return url.href;
    };
    const folder = mkdtempSync(join(tmpdir(), "turnpike-operate-"));
    try {
      const file = join(folder, "turnpike.yaml");
      const portalDb = { ownerUrl: postgres.url, url: of("portal_authenticator"), gatewayUrl: of("portal_gateway") };
      writeFileSync(file, JSON.stringify({ portalDb }), { mode: 0o600 });
      const migrated = await runInProcess(["db", "migrate", "--config", file]);
      if (createsRoles) {
        assert.equal(migrated.code, 0, migrated.err);
        const { code, out } = await runInProcess(["db", "doctor", "--config", file]);
        assert.deepEqual([code, out], [0, "portal: whole\n"]);
        await run(postgres.url, "revoke select on portal.networks from portal_reader");
        const revoked = await runInProcess(["db", "doctor", "--config", file]);
        assert.equal(revoked.code, 1);
        assert.match(revoked.out, /missing: right of portal_reader to select on networks/);
      } else {
        assert.match(
          migrated.err,
          /^error PORTAL_DB_SCHEMA: .* may not make the roles .* create role portal_authenticator/,
        );
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
});
