import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openTestPostgres, type TestPostgres } from "@turnpike/testkit";
import { type Ran, runInProcess } from "../../test/run-command.ts";

const NETWORK = "eip155:8453";
const ACCOUNT = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

let postgres: TestPostgres;
let folder: string;

before(async () => {
  postgres = await openTestPostgres();
  folder = mkdtempSync(join(tmpdir(), "turnpike-settlements-"));
  writeFileSync(join(folder, "turnpike.yaml"), `ledger:\n  url: ${JSON.stringify(postgres.url)}\n`, { mode: 0o600 });
  const migrated = await run("db", "migrate");
  assert.equal(migrated.code, 0, migrated.err);
});
after(async () => {
  if (folder !== undefined) rmSync(folder, { recursive: true });
  await postgres?.[Symbol.asyncDispose]();
});

const run = (...args: readonly string[]): Promise<Ran> =>
  runInProcess([...args, "--config", join(folder, "turnpike.yaml")]);
const settlements = (...args: readonly string[]): Promise<Ran> => run("settlements", ...args);

test("an operator blocks an account, sees it in the list, and takes it off", async () => {
  const blocked = await settlements("block", NETWORK, ACCOUNT, "--reason", "burns gas", "--for", "7d");
  assert.equal(blocked.code, 0, blocked.err);
  assert.match(blocked.out, /^Blocked until \d{4}-/);
  const listed = await settlements("blocked");
  assert.match(listed.out, new RegExp(`^${NETWORK}  ${ACCOUNT.toLowerCase()}  until .*  burns gas\n$`));
  const [entry] = JSON.parse((await settlements("blocked", "--json")).out) as { payer: string; reason: string }[];
  assert.deepEqual([entry?.payer, entry?.reason], [ACCOUNT.toLowerCase(), "burns gas"]);
  assert.equal((await settlements("unblock", NETWORK, ACCOUNT)).out, "Unblocked.\n");
  assert.equal((await settlements("blocked")).out, "There is none.\n");
});

test("what is not there is named, with the command that shows what is", async () => {
  assert.match((await settlements("transactions")).out, /^There is none/);
  const cases = [
    [
      ["cancel", NETWORK, ACCOUNT, "3"],
      /^error NOT_FOUND: No transaction .*\sSee npx turnpike settlements transactions\.\n$/,
    ],
    [["retry", "stl_none"], /^error NOT_FOUND: No signed payment .*\sOne in an open transaction .*\.\n$/],
    [["release", "stl_none"], /^error NOT_FOUND: No claimed payment .*\sSee npx turnpike db books --list claimed\.\n$/],
    [["unblock", NETWORK, ACCOUNT], /^error NOT_FOUND: .*\sSee npx turnpike settlements blocked\.\n$/],
  ] as const;
  for (const [args, said] of cases) {
    const { code, err } = await settlements(...args);
    assert.equal(code, 1, args.join(" "));
    assert.match(err, said);
  }
});

test("wrong arguments are refused before the ledger is asked", async () => {
  const cases = [
    [["cancel", "base", ACCOUNT, "3"], /^error USAGE: network: expected eip155:/],
    [["cancel", NETWORK, "0x12", "3"], /^error USAGE: relayer: expected an address/],
    [["cancel", NETWORK, ACCOUNT, "x"], /^error USAGE: nonce: expected an integer/],
    [["block", NETWORK, ACCOUNT, "--reason", "x", "--for", "soon"], /^error USAGE: --for: expected a time such as 30m/],
    [["block", NETWORK, ACCOUNT], /^error USAGE: .*--reason/],
    [["transactions", "--limit", "0"], /^error USAGE: --limit/],
  ] as const;
  for (const [args, said] of cases) {
    const { code, err } = await settlements(...args);
    assert.equal(code, 2, args.join(" "));
    assert.match(err, said);
  }
});
