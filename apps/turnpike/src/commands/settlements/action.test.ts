import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type Address, type NetworkId, noFaults, noMetrics, type ServiceId, silentLog } from "@turnpike/base";
import { deployTestToken, setCode, startAnvil, USDC_ADDRESS } from "@turnpike/localnet";
import { createLedger } from "@turnpike/payment";
import { openTestPostgres, sendMined, type TestPostgres } from "@turnpike/testkit/servers";
import { type Ran, runInProcess } from "../../../test/run-command.ts";

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

test("an operator sees which chains have the settlement contract, and the call that deploys it", async () => {
  await using anvil = await startAnvil();
  await deployTestToken(anvil.url, { holders: [] });
  const network = { network: "eip155:84532", rpcUrls: [anvil.url], asset: USDC_ADDRESS, name: "USDC", payTo: ACCOUNT };
  const file = join(folder, "chain.yaml");
  writeFileSync(file, JSON.stringify({ payment: { networks: [network] } }), { mode: 0o600 });
  const show = (): Promise<Ran> => runInProcess(["settlements", "contract", "--json", "--config", file]);
  const first = await show();
  assert.equal(first.code, 0, first.err);
  const { contract, deployment, networks } = JSON.parse(first.out) as {
    readonly contract: Address;
    readonly deployment: Readonly<Record<"to" | "data", `0x${string}`>>;
    readonly networks: Readonly<Record<string, string>>;
  };
  assert.deepEqual(networks, { "eip155:84532": "deployed" });
  await setCode(anvil.url, contract, "0x");
  assert.deepEqual(JSON.parse((await show()).out).networks, { "eip155:84532": "deployable" });
  await sendMined(anvil.url, { ...deployment, gas: "0x200000" });
  assert.deepEqual(JSON.parse((await show()).out).networks, networks);
  await setCode(anvil.url, contract, "0x");
  await setCode(anvil.url, deployment.to, "0x");
  const { out } = await runInProcess(["settlements", "contract", "--config", file]);
  assert.ok(out.startsWith("eip155:84532  missing\n") && out.includes(deployment.data), out);
  const unreachable = { ...network, network: "eip155:8453", rpcUrls: ["http://127.0.0.1:9"] };
  writeFileSync(file, JSON.stringify({ payment: { networks: [unreachable, network] } }), { mode: 0o600 });
  assert.deepEqual(JSON.parse((await show()).out).networks, {
    "eip155:8453": "unreachable",
    "eip155:84532": "missing",
  });
});

test("what is not there is named, with the command that shows what is", async () => {
  assert.match((await settlements("transactions")).out, /^There is none/);
  const cases = [
    [
      ["cancel", NETWORK, ACCOUNT, "3"],
      /^error NOT_FOUND: No transaction .*\sSee npx turnpike settlements transactions\.\n$/,
    ],
    [["retry", "stl_none"], /^error NOT_FOUND: No signed payment .*\sSee npx turnpike db ledger --id stl_none\. .*\n$/],
    [
      ["release", "stl_none"],
      /^error NOT_FOUND: No claimed payment .*\sSee npx turnpike db ledger --list claimed\.\n$/,
    ],
    [["unblock", NETWORK, ACCOUNT], /^error NOT_FOUND: .*\sSee npx turnpike settlements blocked\.\n$/],
  ] as const;
  for (const [args, said] of cases) {
    const { code, err } = await settlements(...args);
    assert.equal(code, 1, args.join(" "));
    assert.match(err, said);
  }
  assert.match(
    (await run("db", "books", "--id", "stl_none")).err,
    /^error NOT_FOUND: No payment has the id stl_none\./,
  );
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

test("a block of a network that the configuration does not have is refused, since it would block nothing", async () => {
  const file = join(folder, "networks.yaml");
  const network = `{ network: "${NETWORK}", rpcUrls: ["http://127.0.0.1:1"], asset: "${ACCOUNT}", name: x, payTo: "${ACCOUNT}" }`;
  writeFileSync(file, `ledger: { url: ${JSON.stringify(postgres.url)} }\npayment: { networks: [${network}] }\n`, {
    mode: 0o600,
  });
  const block = (where: string) =>
    runInProcess(["settlements", "block", where, ACCOUNT, "--reason", "x", "--config", file]);
  const { code, err } = await block("eip155:845");
  assert.equal(code, 2, err);
  assert.match(err, /^error USAGE: network: eip155:845 is not in payment\.networks, which has eip155:8453\.\n/);
  assert.equal((await settlements("blocked")).out, "There is none.\n");
  assert.equal((await block(NETWORK)).code, 0);
  assert.equal((await settlements("unblock", NETWORK, ACCOUNT)).code, 0);
});

test("a list of payments shows when each was created, when its window closes, and why it ended", async () => {
  const opts = {
    url: postgres.url,
    schema: "turnpike",
    poolSize: 2,
    answerRetentionSeconds: 3_600,
    releasedRetentionSeconds: 86_400,
    holderTtlMs: 600_000,
    heartbeatMs: 60_000,
  };
  const modules = { log: silentLog, metrics: noMetrics, faults: noFaults };
  await using ledger = await createLedger(opts, modules);
  const claim = async (nonce: string, validBefore: bigint) => {
    const made = await ledger.claim({
      key: { network: NETWORK as NetworkId, asset: ACCOUNT, from: ACCOUNT, nonce: `0x${nonce.repeat(64)}` },
      payTo: ACCOUNT as Address,
      value: 5_000n,
      validAfter: 0n,
      validBefore,
      signature: new Uint8Array(65),
      kind: "eoa",
      serviceId: "eth" as ServiceId,
      payloadDigest: new Uint8Array(32),
      requestHash: new Uint8Array(32),
      identifier: undefined,
      balance: 1_000_000n,
      balanceBlock: 100n,
    });
    assert.equal(made.kind, "claimed");
    return made.kind === "claimed" ? made.id : assert.fail();
  };
  const endless = await claim("1", 2n ** 256n - 1n);
  const id = await claim("2", 2_000_000_000n);
  const list = (...args: readonly string[]) => run("db", "books", "--list", ...args);
  const [first, second] = (await list("claimed")).out.split("\n");
  const created = "created \\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z";
  assert.match(first ?? "", new RegExp(`^${id}  claimed  .*  ${created}  window until 2033-05-18T03:33:20\\.000Z$`));
  assert.match(second ?? "", new RegExp(`^${endless}  claimed  .*  ${created}  window without end$`));
  const [entry] = JSON.parse((await list("claimed", "--json")).out) as { validBefore: string }[];
  assert.equal(entry?.validBefore, "2000000000");
  assert.equal((await settlements("release", id)).code, 0);
  assert.match((await list("released")).out, new RegExp(`^${id}  released SERVICE_UNAVAILABLE  payer `));
});
