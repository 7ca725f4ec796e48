import assert from "node:assert/strict";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { runCommand, startTestChain, type TestChain } from "../../../test/chain-part.ts";

const DAO = "pokt10d07y265gmmuvt4z0w9aw880jnsr700j8yv32t";
let chain: TestChain;
before(async () => {
  chain = await startTestChain();
});
after(() => chain?.[Symbol.asyncDispose]());

const address = (role: string): string =>
  (JSON.parse(readFileSync(join(chain.home, "keys", `${role}.json`), "utf8")) as { address: string }).address;

/** A file in the chain's folder. */
function file(name: string, content: string): string {
  const path = join(chain.home, name);
  writeFileSync(path, content);
  return path;
}

const places = (): string[] => ["--node", chain.url, "--home", chain.home];

/** Asks; the answer's JSON. */
// biome-ignore lint/suspicious/noExplicitAny: answers are looked into by each test
async function query(...args: readonly string[]): Promise<any> {
  const { out, error } = await runCommand(["query", ...args, ...places()]);
  assert.equal(error, undefined, `${args.join(" ")}: ${String(error)}`);
  return JSON.parse(out);
}

/** Sends, and makes a block. */
async function send(...args: readonly string[]): Promise<void> {
  const where = args[0] === "broadcast" ? ["--node", chain.url] : places();
  const { out, error } = await runCommand(["tx", ...args, ...where, "-o", "json"]);
  assert.equal(error, undefined, `${args.join(" ")}: ${String(error)}`);
  const { txhash, code } = JSON.parse(out) as { txhash: string; code: number };
  assert.equal(code, 0, out);
  await chain.produce();
  const included = await query("tx", txhash);
  assert.equal(included.code, 0, included.raw_log);
}

/** What a command that fails says. */
async function failure(args: readonly string[], code: "TX_FAILED" | "CHAIN_QUERY_FAILED" | "USAGE"): Promise<string> {
  const { error } = await runCommand([...args, ...places()]);
  assert.ok(isAppError(error, code), String(error));
  return error.message;
}

const upokt = async (who: string): Promise<bigint> =>
  BigInt((await query("bank", "balance", who)).balance.amount as string);

suite("every transaction's command does what its query then shows", { concurrency: false }, () => {
  test("bank: send, multi-send", async () => {
    const receivers = ["application-1", "application-2"] as const;
    const [one, two] = [await upokt(receivers[0]), await upokt(receivers[1])];
    await send("bank", "send", "faucet", address("application-1"), "1000upokt");
    await send("bank", "multi-send", "faucet", "application-1", "application-2", "10upokt");
    await send("bank", "multi-send", "faucet", "application-1", "application-2", "11upokt", "--split");
    assert.deepEqual([await upokt(receivers[0]), await upokt(receivers[1])], [one + 1015n, two + 15n]);
    assert.equal((await query("bank", "balances", "application-1")).balances[0].denom, "upokt");
    assert.ok(BigInt((await query("bank", "total")).supply[0].amount as string) > 0n);
  });

  test("application: stake, delegate, undelegate, stake-and-delegate, transfer, unstake", async () => {
    const stake = file(
      "app.yaml",
      "stake_amount: 100000000upokt\nservice_ids: [eth]\nper_session_spend_limit: 2000000upokt\n",
    );
    const from = ["--from", "delegator"];
    const shown = async (who: string) => (await query("application", "show-application", who)).application;
    await send("application", "stake-application", "--config", stake, ...from);
    assert.equal((await shown("delegator")).per_session_spend_limit.amount, "2000000");
    await send("application", "delegate-to-gateway", "gateway-1", ...from);
    assert.deepEqual((await shown("delegator")).delegatee_gateway_addresses, [address("gateway-1")]);
    const list = await query("application", "list-application", "--delegatee-gateway-address", "gateway-1");
    assert.equal(list.applications.length, 2);
    await send("application", "undelegate-from-gateway", address("gateway-1"), ...from);
    assert.deepEqual((await shown("delegator")).delegatee_gateway_addresses, []);
    const more = `stake_amount: 200000000upokt\nservice_ids: [base]\ngateway_addresses: [${address("gateway-2")}]\n`;
    await send("application", "stake-and-delegate", "--config", file("more.yaml", more), ...from);
    const after = await shown("delegator");
    assert.deepEqual(after.delegatee_gateway_addresses, [address("gateway-2")]);
    assert.deepEqual([after.stake.amount, after.service_configs[0].service_id], ["200000000", "base"]);
    await send("application", "transfer", "delegator", address("validator"), ...from);
    assert.equal((await shown("delegator")).pending_transfer.destination_address, address("validator"));
    await send("application", "unstake-application", "--from", "application-2");
    assert.notEqual((await shown("application-2")).unstake_session_end_height, "0");
  });

  test("gateway: stake, card, unstake", async () => {
    const from = ["--from", "service-owner"];
    await send("gateway", "stake-gateway", "--config", file("gw.yaml", "stake_amount: 3000000upokt"), ...from);
    assert.equal((await query("gateway", "show-gateway", "service-owner")).gateway.stake.amount, "3000000");
    await send("gateway", "update-gateway-metadata", "--card-file", file("card.json", '{"name":"ours"}'), ...from);
    assert.deepEqual(await query("gateway", "card", "service-owner"), { name: "ours" });
    await send("gateway", "unstake-gateway", ...from);
    const { gateway } = await query("gateway", "show-gateway", "service-owner");
    assert.notEqual(gateway.unstake_session_end_height, "0");
    assert.equal((await query("gateway", "list-gateway", "--limit", "1")).gateways.length, 1);
    assert.match(await failure(["query", "gateway", "card", "gateway-1"], "CHAIN_QUERY_FAILED"), /^It has no card/);
  });

  test("supplier: stake, unstake; answers are indented and without empty fields", async () => {
    const text = `owner_address: ${address("dao")}
stake_amount: 1000000000upokt
services:
  - service_id: base
    endpoints:
      - publicly_exposed_url: http://127.0.0.1:8545
        rpc_type: json_rpc
`;
    await send("supplier", "stake-supplier", "--config", file("supplier.yaml", text), "--from", "dao");
    const ran = await runCommand(["query", "supplier", "show-supplier", "dao", ...places()]);
    assert.match(ran.out, /^\{\n {2}"supplier": \{\n {4}"owner_address"/);
    const { supplier } = JSON.parse(ran.out);
    assert.deepEqual(supplier.services ?? supplier.service_config_history[0].service.endpoints[0].rpc_type, "JSON_RPC");
    assert.ok(!("unstake_session_end_height" in supplier));
    assert.equal((await query("supplier", "ls", "--service-id", "eth", "--page-limit", "1")).supplier.length, 1);
    const whole = await query("supplier", "suppliers", "--dehydrated", "--json");
    assert.ok("unstake_session_end_height" in whole.supplier[0]);
    await send("supplier", "unstake-supplier", "dao", "--from", "dao");
    const { supplier: left } = await query("supplier", "supplier", "dao");
    assert.ok(BigInt(left.unstake_session_end_height as string) > 0n);
  });

  test("service: add, edit, card, transfer", async () => {
    const from = ["--from", "supplier-1"];
    await send("service", "add-service", "made", "A made one", "7", ...from);
    await send("service", "add-service", "made-2", "Another", "--card-base64", btoa('{"name":"two"}'), ...from);
    const shown = async (id: string) => (await query("service", "show-service", id)).service;
    assert.deepEqual((await shown("made")).compute_units_per_relay, "7");
    assert.equal((await shown("made-2")).compute_units_per_relay, "1");
    assert.deepEqual(await query("service", "card", "made-2"), { name: "two" });
    const bad = ["tx", "service", "add-service", "made-3", "Third", "--card-base64", btoa("no JSON"), ...from];
    assert.match(await failure(bad, "USAGE"), /is no JSON object; fix it, or send it as it is with --skip-card-/);
    await send(...bad.slice(1), "--skip-card-validation");
    assert.match(await failure(["query", "service", "card", "made-3"], "CHAIN_QUERY_FAILED"), /bytes with --raw/);
    file("made.json", '{"name":"one"}');
    const edits = `services:
  - { service_id: made, compute_units_per_relay: 8, card_file: made.json }
  - { service_id: made-2, compute_units_per_relay: 1 }
`;
    await send("service", "edit-service", "--config", file("edits.yaml", edits), ...from);
    assert.equal((await shown("made")).compute_units_per_relay, "8");
    assert.equal((await shown("made")).name, "A made one");
    assert.deepEqual(await query("service", "card", "made"), { name: "one" });
    const nothing = await runCommand([
      "tx",
      "service",
      "edit-service",
      "--config",
      join(chain.home, "edits.yaml"),
      ...from,
      ...places(),
    ]);
    assert.match(nothing.out, /^Nothing is to be changed/);
    // Each by itself: sequences are counted here, since no block comes between.
    const both = edits
      .replace("units_per_relay: 8", "units_per_relay: 9")
      .replace("units_per_relay: 1 ", "units_per_relay: 3 ");
    const editing = ["tx", "service", "edit-service", "--config", file("both.yaml", both), "--disable-batch-msgs"];
    const apart = await runCommand([...editing, ...from, ...places()]);
    assert.equal(apart.error, undefined);
    assert.equal([...apart.out.matchAll(/^sent /gm)].length, 2);
    await chain.produce();
    const units = [await shown("made"), await shown("made-2")].map((one) => one.compute_units_per_relay);
    assert.deepEqual(units, ["9", "3"]);
    await send("service", "transfer-service", "made", "dao", ...from);
    assert.equal((await shown("made")).owner_address, address("dao"));
    const history = await query("service", "compute-units-per-relay-history", "made");
    assert.ok(JSON.stringify(history).includes('"made"'));
    await query("service", "compute-units-per-relay-at-height", "made", "5");
    for (const name of ["", "-history"]) await query("service", `relay-mining-difficulty${name}`, "made");
    await query("service", "relay-mining-difficulty-at-height", "made", "5");
    await query("service", "relay-mining-difficulty-all");
    assert.ok((await query("service", "all-services", "--page-limit", "2")).service.length === 2);
  });

  test("authz: the DAO changes a parameter; grant, exec, revoke", async () => {
    const update = {
      "@type": "/pocket.gateway.MsgUpdateParam",
      authority: DAO,
      name: "min_stake",
      as_coin: { denom: "upokt", amount: "2000000" },
    };
    await send("authz", "exec", file("update.json", JSON.stringify(update)), "--from", "dao");
    assert.equal((await query("gateway", "params")).params.min_stake.amount, "2000000");
    const type = "/cosmos.bank.v1beta1.MsgSend";
    const grant = ["authz", "grant", "supplier-2", "generic", "--msg-type", type, "--expiration", "4000000000"];
    await send(...grant, "--from", "supplier-1");
    const granted = async () => (await query("authz", "grants", "supplier-1", "supplier-2")).grants as unknown[];
    assert.equal((await granted()).length, 1);
    assert.equal((await query("authz", "grants-by-grantee", "supplier-2")).grants.length, 1);
    const paying = ["tx", "bank", "send", "supplier-1", "gateway-1", "5upokt", "--generate-only"];
    const made = await runCommand([...paying, ...places()]);
    const had = await upokt("gateway-1");
    await send("authz", "exec", file("sent.json", made.out), "--from", "supplier-2");
    assert.equal(await upokt("gateway-1"), had + 5n);
    await send("authz", "revoke", "supplier-2", type, "--from", "supplier-1");
    assert.deepEqual(await granted(), []);
  });

  test("staking: what is delegated could not be undelegated, so nothing is taken, not even a fee", async () => {
    const { validators } = await query("staking", "validators");
    const validator = validators[0].operator_address as string;
    const had = await upokt("delegator");
    const delegating = ["tx", "staking", "delegate", validator, "1234upokt", "--from", "delegator"];
    for (const gas of ["auto", "200000"]) {
      const text = await failure([...delegating, "--gas", gas], "TX_FAILED");
      assert.match(text, /cannot undelegate yet, so it accepts no delegation.*keep them in the account/);
    }
    assert.equal(await upokt("delegator"), had);
    assert.deepEqual((await query("staking", "delegations", "delegator")).delegation_responses, []);
    assert.equal((await query("staking", "delegations-to", validator)).delegation_responses.length, 1);
    assert.equal((await query("staking", "validator", validator)).validator.operator_address, validator);
  });

  test("proof: a claim by hand, and a proof that is refused with the module's own text first", async () => {
    const got = await query("session", "get-session", "application-1", "eth");
    const end = Number(got.session.header.session_end_block_height);
    const newest = Number((await query("block")).block.header.height);
    // The window opens two blocks behind the session's end; simulations see the newest block, not the next one.
    await chain.produce(end + 2 - newest);
    const header = file("header.json", JSON.stringify(got));
    // 32 bytes of a digest, then the sum of compute units and the count of relays.
    const root = Buffer.alloc(48, 7);
    root.writeBigUInt64BE(300n, 32);
    root.writeBigUInt64BE(3n, 40);
    await send("proof", "create-claim", header, root.toString("base64"), "--from", "supplier-1");
    const { claims } = await query("proof", "list-claims", "--supplier-operator-address", "supplier-1");
    assert.equal(claims[0].root_hash, root.toString("base64"));
    const id = got.session.header.session_id as string;
    assert.equal((await query("proof", "show-claim", id, "supplier-1")).claim.session_header.session_id, id);
    assert.equal((await query("proof", "list-claims", "--session-end-height", `${end}`)).claims.length, 1);
    const two = ["query", "proof", "list-claims", "--session-id", id, "--session-end-height", `${end}`];
    assert.match(await failure(two, "USAGE"), /^Give one of --session-id/);
    assert.deepEqual((await query("proof", "list-proofs")).proofs, []);
    const text = btoa(JSON.stringify(got.session.header));
    const refused = await failure(["tx", "proof", "submit-proof", text, "AAAA", "--from", "supplier-1"], "TX_FAILED");
    assert.match(refused, /^(?!failed|rpc).*proof.*\(.*code \d+/);
    assert.match(
      await failure(["query", "proof", "show-proof", id, "supplier-1"], "CHAIN_QUERY_FAILED"),
      /^session ID .* proof not found: .*\(NotFound, /,
    );
  });
});

suite("what else the commands do", { concurrency: false }, () => {
  const pay = ["tx", "bank", "send", "gateway-2", "faucet", "1upokt"];

  test("parameters of every module, and the shape of their JSON", async () => {
    for (const module of [
      "application",
      "gateway",
      "supplier",
      "service",
      "session",
      "proof",
      "shared",
      "tokenomics",
    ]) {
      const { out, error } = await runCommand(["query", module, "params", ...places()]);
      assert.equal(error, undefined);
      const isIndented = ["supplier", "service", "shared"].includes(module);
      assert.equal(out.trimEnd().includes("\n"), isIndented, module);
    }
    const text = await runCommand(["query", "session", "params", "-o", "text", ...places()]);
    assert.match(text.out, /^params:\n {2}num_suppliers_per_session: /);
    assert.equal((await query("shared", "params-at-height", "1")).params.num_blocks_per_session, "20");
  });

  test("an older state with --height, and refusals with the chain's own text first", async () => {
    const { accounts } = await query("auth", "accounts", "--page-limit", "3");
    assert.equal(accounts.length, 3);
    const old = await query("bank", "balance", "faucet", "--height", "1");
    assert.notEqual(old.balance.amount, `${await upokt("faucet")}`);
    const future = ["query", "bank", "balance", "faucet", "--height", "999999"];
    assert.match(await failure(future, "CHAIN_QUERY_FAILED"), /^cannot query with height in the future/);
    const { error } = await runCommand([...future, ...places()]);
    assert.match(isAppError(error) ? `${error.advice}` : "", /^Ask for a height up to \d+, which is the newest\.$/);
    const unknown = ["query", "application", "show-application", "gateway-1"];
    assert.match(await failure(unknown, "CHAIN_QUERY_FAILED"), /^app address: .* \(NotFound, code 22 of sdk\)$/);
  });

  test("gas, fees, note and timeout are as asked, ordered and unordered; --wait shows what became of it", async () => {
    const flags = ["--gas", "90000", "--gas-prices", "0.01upokt", "--note", "hello", "--timeout-height", "9999"];
    const sent = await runCommand([...pay, ...flags, ...places(), "--json"]);
    await chain.produce();
    const found = await query("tx", JSON.parse(sent.out).txhash as string);
    assert.equal(found.gas_wanted, "90000");
    assert.deepEqual(found.tx.auth_info.fee.amount, [{ denom: "upokt", amount: "900" }]);
    assert.deepEqual([found.tx.body.memo, found.tx.body.timeout_height], ["hello", "9999"]);
    const waiting = runCommand([
      ...pay,
      "--unordered",
      "--timeout-duration",
      "1m30s",
      "--wait",
      "-o",
      "json",
      ...places(),
    ]);
    const { latest } = { latest: Date.parse((await query("block")).block.header.time as string) };
    const included = JSON.parse((await chain.during(waiting)).out);
    assert.equal(included.tx.body.unordered, true);
    assert.equal(included.tx.auth_info.signer_infos[0].sequence, "0");
    const until = Date.parse(included.tx.body.timeout_timestamp as string);
    assert.ok(until > latest && until < latest + 150_000, `${until} behind ${latest}`);
    const txs = await query("txs", "--query", `tx.height=${included.height}`);
    assert.deepEqual([txs.total_count, txs.txs[0].txhash], ["1", included.txhash]);
  });

  test("--offline signs without a node, and broadcast sends it", async () => {
    const { account } = await query("auth", "account", "gateway-2");
    const known = ["--chain-id", "pocket", "-a", account.account_number as string, "-s", account.sequence as string];
    const offline = await runCommand([
      ...pay,
      "--offline",
      ...known,
      "--home",
      chain.home,
      "--node",
      "http://127.0.0.1:1",
    ]);
    assert.equal(offline.error, undefined, String(offline.error));
    await send("broadcast", file("signed.json", offline.out));
    const again = await runCommand(["tx", "broadcast", join(chain.home, "signed.json"), "--node", chain.url]);
    assert.ok(isAppError(again.error, "TX_FAILED"));
    assert.match(again.error.message, /tx already exists in cache/);
    assert.match(await failure([...pay, "--offline"], "USAGE"), /^--offline: say --chain-id/);
    const unsigned = await runCommand([...pay, "--generate-only", ...places()]);
    const notSigned = await runCommand(["tx", "broadcast", file("unsigned.json", unsigned.out), "--node", chain.url]);
    assert.match(String(notSigned.error), /is not signed; sign it with the command that made it, with --offline/);
  });

  test("what the mempool refuses is printed with its keys, and ends with the module's own text first", async () => {
    const keys = ["height", "txhash", "codespace", "code", "data", "raw_log", "logs", "info", "gas_wanted", "gas_used"];
    const { out, error } = await runCommand([...pay, "-s", "999", "--gas", "90000", "-o", "json", ...places()]);
    assert.deepEqual(Object.keys(JSON.parse(out)), [...keys, "tx", "timestamp", "events"]);
    assert.equal(JSON.parse(out).code, 32);
    assert.ok(isAppError(error, "TX_FAILED"));
    assert.match(error.message, /^account sequence mismatch, expected \d+, got 999.* \(code 32 of sdk\)$/);
    const poor = ["tx", "bank", "send", "gateway-2", "faucet", "99999999999999999upokt"];
    assert.match(
      await failure(poor, "TX_FAILED"),
      /^spendable balance .* insufficient funds \(message 0, code 6 of sdk\)$/,
    );
    // With a given limit of gas nothing is simulated: the block refuses it.
    const waiting = runCommand([...poor, "--gas", "90000", "--wait", ...places()]);
    const { error: late } = await chain.during(waiting);
    assert.ok(isAppError(late, "TX_FAILED"));
    assert.match(late.message, /^spendable balance .* \(message 0, code 5 of sdk\)$/);
  });

  test("who signs: names, addresses, --key-file; keys are never shown", async () => {
    const keyFile = join(chain.home, "keys", "gateway-2.json");
    const { privateKey } = JSON.parse(readFileSync(keyFile, "utf8")) as { privateKey: string };
    const empty = ["--home", join(chain.home, "none"), "--node", chain.url, "--generate-only", "--offline"];
    const faucet = address("faucet");
    const byFile = ["tx", "bank", "send", "gateway-2", faucet, "1upokt", "--key-file", keyFile, ...empty];
    const hexFile = file("gateway-2.hex", `${privateKey}\n`);
    const byHex = byFile.with(7, hexFile);
    const open = await runCommand(byHex);
    assert.ok(isAppError(open.error, "CONFIG_INVALID"), String(open.error));
    assert.match(open.error.message, /^--key-file: other users can read .*gateway-2\.hex; run chmod 600/);
    chmodSync(hexFile, 0o600);
    for (const args of [byFile, byHex]) {
      const { out, error } = await runCommand(args);
      assert.equal(error, undefined, String(error));
      assert.equal(JSON.parse(out).body.messages[0].from_address, address("gateway-2"));
      assert.ok(!out.includes(privateKey));
    }
    const none = ["tx", "application", "unstake-application"];
    assert.match(await failure(none, "USAGE"), /^Say who signs, with --from/);
    assert.match(await failure([...none, "--from", "aplication-1"], "USAGE"), /did you mean application-1\?/);
    assert.match(await failure([...none, "--from", "../secret"], "USAGE"), /is no address and no key of/);
    assert.match(await failure([...none, "--from", DAO], "USAGE"), /^There is no key of pokt10d07/);
    chmodSync(join(chain.home, "app.yaml"), 0o600);
    assert.match(await failure([...none, "--key-file", join(chain.home, "app.yaml")], "USAGE"), /holds no private key/);
    assert.match(await failure([...pay, "--from", "faucet"], "USAGE"), /^gateway-2 signs, since it pays/);
    assert.match(await failure([...pay, "--fees", "x"], "USAGE"), /"x" is no amount; expected such as 1000upokt/);
    assert.match(await failure([...pay, "--unordered", "-s", "3"], "USAGE"), /unordered transaction has no --sequence/);
  });

  test("a key of another chain: the error names its file", async () => {
    const home = join(chain.home, "other");
    const made = await runCommand(["chain", "key", "faucet", "--home", home]);
    assert.equal(made.error, undefined);
    const args = ["tx", "bank", "send", "faucet", DAO, "123upokt", "--node", chain.url, "--home", home];
    const { error } = await runCommand(args);
    assert.ok(isAppError(error, "TX_FAILED"), String(error));
    assert.equal(
      error.message,
      `${made.out.trim()} has no account on the chain; send it coins first. Its key is ${join(home, "keys/faucet.json")}; ` +
        "--home names the folder above the keys of another chain.",
    );
  });

  test("with --key-file alone, names are those beside it", async () => {
    const args = ["tx", "bank", "send", "gateway-2", "dao", "1upokt", "--generate-only", "--offline"];
    const { out, error } = await runCommand([...args, "--key-file", join(chain.home, "keys/gateway-2.json")]);
    assert.equal(error, undefined, String(error));
    assert.equal(JSON.parse(out).body.messages[0].to_address, address("dao"));
  });

  test("a node that does not answer is named", async () => {
    const { error } = await runCommand(["query", "shared", "params", "--node", "http://127.0.0.1:1"]);
    assert.ok(isAppError(error, "CHAIN_UNREACHABLE"));
    assert.match(error.message, /127\.0\.0\.1:1/);
  });
});
