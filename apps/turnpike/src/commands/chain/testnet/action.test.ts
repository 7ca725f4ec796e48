import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { runCommand } from "../../../../test/chain-part.ts";
import { start } from "./action.ts";

const folder = mkdtempSync(join(tmpdir(), "turnpike testnets-"));
const run = (...args: readonly string[]) => runCommand(["chain", "testnet", ...args]);

async function refused(...args: readonly string[]): Promise<string> {
  const { error } = await run(...args);
  return isAppError(error) ? `${error.code} ${error.message}` : assert.fail(String(error));
}

suite("turnpike chain testnet", { timeout: 180_000 }, () => {
  after(() => rmSync(folder, { recursive: true, force: true }));

  test("every command has help", async () => {
    for (const command of [[], ["join"], ["start"], ["stop"]]) {
      const { out } = await run(...command, "--help");
      assert.match(out, /Usage: turnpike chain testnet/);
      assert.match(out, /--home <folder>/);
      assert.match(out, /--json/);
    }
    assert.match(
      (await run("--help")).out,
      /--validators <number>[\s\S]*--hosts <list>[\s\S]*join[\s\S]*start[\s\S]*stop/,
    );
  });

  test("writes a testnet, once, and says what is where", async () => {
    const home = join(folder, "two");
    const { out, error } = await run("--home", home, "--validators", "2", "--chain-id", "two-1", "--json");
    assert.equal(error, undefined);
    const told = JSON.parse(out) as { chainId: string; nodes: { rpc: string; namespace: string }[]; accounts: object };
    assert.equal(told.chainId, "two-1");
    assert.deepEqual(
      told.nodes.map(({ rpc, namespace }) => [/^http:\/\/10\.\d+\.\d+\.[12]:26657$/.test(rpc), namespace.slice(-6)]),
      [
        [true, "-node0"],
        [true, "-node1"],
      ],
    );
    assert.ok("validator-1" in told.accounts && !("validator-2" in told.accounts));
    assert.match(await refused("--home", home), /^CHAIN_HOME .* has a testnet already/);
    const people = await run("--home", join(folder, "a b"), "--hosts", "192.0.2.1, 192.0.2.2");
    assert.match(people.out, /node1 +http:\/\/192\.0\.2\.2:26657 [\s\S]*Copy each folder to its machine/);
    const here = await run("--home", join(folder, "c d"));
    assert.match(here.out, /node3 [\s\S]*chain testnet start --home '[^']+c d'/);
  });

  test("what is called wrongly is refused by name", async () => {
    const home = join(folder, "none");
    assert.match(await refused("--home", home, "--validators", "many"), /^USAGE --validators: expected 1 to 16\.$/);
    assert.match(await refused("--home", home, "--validators", "17"), /^USAGE --validators: expected/);
    assert.match(await refused("--home", home, "--chain-id", "no spaces"), /^USAGE --chain-id: /);
    assert.match(await refused("--home", home, "--listen", "here"), /^USAGE --listen: /);
    assert.match(await refused("--home", home, "--hosts", "a,,b"), /^USAGE --hosts: "" is neither/);
    for (const command of ["start", "stop", "join"]) {
      assert.match(await refused(command, "--home", home), /^CHAIN_HOME .*testnet\.json is missing; make a testnet/);
    }
  });

  test("start and join name what they lack", async () => {
    const [here, elsewhere] = [join(folder, "here"), join(folder, "elsewhere")];
    await run("--home", here, "--validators", "1");
    await run("--home", elsewhere, "--hosts", "127.0.0.1");
    assert.match(await refused("start", "--home", elsewhere), /^USAGE The nodes of .* are for machines of their own/);
    assert.match(
      await refused("start", "--home", here, "--node", "node7"),
      /^USAGE node7 is no node; there are: node0/,
    );
    assert.match(await refused("join", "--home", elsewhere), /^USAGE --host: expected the address or name/);
    const nobody = ["--rpc", "http://127.0.0.1:1"];
    assert.match(
      await refused("join", "--home", here, ...nobody),
      /^CHAIN_UNREACHABLE None of http:\/\/127\.0\.0\.1:1 answers/,
    );
    const context = { env: { COMETBFT: join(folder, "no-comet") }, exitWith: () => {}, kill: () => assert.fail() };
    // Without root it says so first.
    const lacks = process.getuid?.() === 0 ? /no-comet is missing; install CometBFT 0\.38|ip is missing/ : /need root/;
    await assert.rejects(start({ home: here }, context), { code: "DEPENDENCY_MISSING", message: lacks });
  });

  test("a count of validators that cannot be is refused in one way", async () => {
    for (const count of ["0", "17", "four", "99999999999"]) {
      assert.equal(
        await refused("--home", join(folder, "net"), "--validators", count),
        "USAGE --validators: expected 1 to 16.",
      );
    }
  });
});
