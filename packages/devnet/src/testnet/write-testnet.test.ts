import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { CHAIN_PROFILES, ChainApp, PROTOCOL_VERSION, parseGenesisFile, pocketMachine } from "@turnpike/chain";
import { chainHome, loadNodeKey, loadValidatorKey, nodeIdOf } from "@turnpike/chain-node";
import { openChainStore } from "@turnpike/chain-store";
import { loadConfig } from "@turnpike/config";
import { cometConfigText } from "./node-files.ts";
import { namespaceAddress, networkNames } from "./plan.ts";
import { readTestnet, testnetLayout } from "./testnet-file.ts";
import { sharedInput, type WriteTestnetOptions, writeTestnet } from "./write-testnet.ts";

const folder = mkdtempSync(join(tmpdir(), "turnpike testnet-"));
const textOf = (...parts: string[]): string => readFileSync(join(...parts), "utf8");

function wish(name: string, more: Partial<WriteTestnetOptions> = {}): WriteTestnetOptions {
  return {
    home: join(folder, name),
    chainId: "four-1",
    profile: CHAIN_PROFILES.fast,
    genesisTime: "2026-11-22T00:00:00Z",
    services: [{ id: "eth", name: "Ethereum" }],
    supplierUrls: ["http://127.0.0.1:1", "http://127.0.0.1:2"],
    ...more,
  };
}

/** Keys of a TOML file by section: all values here are texts, numbers or booleans of one line. */
function tomlOf(text: string): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  let section = "";
  for (const line of text.split("\n")) {
    const [, name] = /^\[([a-z0-9]+)\]$/.exec(line) ?? [];
    if (name !== undefined) section = `${name}.`;
    else if (line !== "" && !line.startsWith("#")) {
      const [, key, value] = /^([a-z_]+) = (.+)$/.exec(line) ?? assert.fail(line);
      values[`${section}${key}`] = JSON.parse(value ?? "");
    }
  }
  return values;
}

async function refused(options: WriteTestnetOptions): Promise<string> {
  try {
    await writeTestnet(options);
  } catch (error) {
    if (isAppError(error)) return `${error.code} ${error.message}`;
    throw error;
  }
  assert.fail("nothing was refused");
}

suite("a written testnet", { timeout: 180_000 }, () => {
  after(() => rmSync(folder, { recursive: true, force: true }));

  test("has a folder for each node, and all of them one genesis that begins with every validator", async () => {
    const { testnet, layout, accounts } = await writeTestnet(wish("four", { validators: 4 }));
    assert.deepEqual(
      testnet.nodes.map(({ name }) => name),
      ["node0", "node1", "node2", "node3"],
    );
    const texts = testnet.nodes.map(({ name }) => textOf(chainHome(layout.nodeFolder(name)).genesisFile));
    assert.equal(new Set(texts).size, 1);
    const genesis = parseGenesisFile(texts[0] ?? "");
    assert.ok(genesis !== undefined);
    await using store = await openChainStore({ folder: join(folder, "store") });
    const { machine } = pocketMachine({ gasPrices: [] });
    const app = new ChainApp({ version: PROTOCOL_VERSION, maxBlockGas: -1n }, { machine, store });
    const { validatorUpdates } = await app.start({
      chainId: genesis.chain_id,
      initialHeightBlocks: 1n,
      timeNanos: BigInt(Date.parse(genesis.genesis_time)) * 1_000_000n,
      appState: genesis.app_state,
    });
    const keys = testnet.nodes.map(async ({ name }) => {
      const { publicKey } = await loadValidatorKey(chainHome(layout.nodeFolder(name)).validatorKeyFile);
      return Buffer.from(publicKey).toString("hex");
    });
    const found = validatorUpdates.map(({ publicKey }) => Buffer.from(publicKey).toString("hex"));
    assert.deepEqual(found.sort(), (await Promise.all(keys)).sort());
    assert.equal(new Set(validatorUpdates.map(({ power }) => power)).size, 1);
    for (const name of ["validator", "validator-1", "validator-2", "validator-3", "faucet"]) {
      const { address } = JSON.parse(textOf(layout.keysFolder, `${name}.json`)) as { address: string };
      assert.equal(accounts[name], address);
    }
  });

  test("nobody else reads the keys, and nothing names the folder, so that it may be copied", async () => {
    const { layout, testnet } = await writeTestnet(wish("modes", { validators: 2 }));
    const secret = [
      ...readdirSync(layout.keysFolder).map((name) => join(layout.keysFolder, name)),
      ...testnet.nodes.flatMap(({ name }) => {
        const home = chainHome(layout.nodeFolder(name));
        return [home.validatorKeyFile, home.nodeKeyFile];
      }),
    ];
    for (const file of secret) assert.equal(statSync(file).mode & 0o777, 0o600, file);
    const all = readdirSync(layout.folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    assert.ok(all.length > 20);
    for (const { parentPath, name } of all) assert.ok(!textOf(parentPath, name).includes(folder), name);
    const copy = join(folder, "copied");
    cpSync(layout.nodeFolder("node1"), copy, { recursive: true });
    const { chain } = loadConfig({ file: join(copy, "turnpike.yaml"), env: {} });
    assert.deepEqual(
      [chain.home, chain.engine, chain.abciAddress, chain.cometRpcUrl],
      [".", "cometbft", "tcp://127.0.0.1:26658", "http://127.0.0.1:26657"],
    );
    assert.deepEqual(
      [chain.snapshots, chain.metrics],
      [
        { everyBlocks: 100, keep: 2 },
        { host: "0.0.0.0", port: 9094 },
      ],
    );
  });

  test("each node's config.toml names the others by the ids of their keys", async () => {
    const options = wish("peers", { validators: 3, times: { commitMs: 300 }, listen: "127.0.0.1" });
    const { layout, testnet } = await writeTestnet(options);
    const ids = await Promise.all(
      testnet.nodes.map(async ({ name }) => {
        const home = chainHome(layout.nodeFolder(name));
        return nodeIdOf((await loadNodeKey(home.nodeKeyFile)).publicKey);
      }),
    );
    assert.deepEqual(
      testnet.nodes.map(({ nodeId }) => nodeId),
      ids,
    );
    const config = tomlOf(textOf(layout.nodeFolder("node1"), "config/config.toml"));
    const peer = (index: number) => `${ids[index]}@${testnet.nodes[index]?.host}:26656`;
    assert.deepEqual(config, {
      proxy_app: "tcp://127.0.0.1:26658",
      moniker: "node1",
      "rpc.laddr": "tcp://127.0.0.1:26657",
      "p2p.laddr": "tcp://0.0.0.0:26656",
      "p2p.external_address": `${testnet.nodes[1]?.host}:26656`,
      "p2p.persistent_peers": `${peer(0)},${peer(2)}`,
      "p2p.persistent_peers_max_dial_period": "10s",
      "p2p.addr_book_strict": false,
      "consensus.timeout_propose": "3000ms",
      "consensus.timeout_commit": "300ms",
      "instrumentation.prometheus": true,
      "instrumentation.prometheus_listen_addr": "127.0.0.1:26660",
    });
  });

  test("on machines of their own the nodes have the names that were given, and look up none of themselves", async () => {
    const hosts = ["validator-0.example", "192.0.2.7"];
    const { layout, testnet } = await writeTestnet(wish("hosts", { hosts }));
    assert.equal(testnet.place, "hosts");
    const [first, second] = testnet.nodes.map(({ name }) =>
      tomlOf(textOf(layout.nodeFolder(name), "config/config.toml")),
    );
    assert.equal(first?.["p2p.persistent_peers"], `${testnet.nodes[1]?.nodeId}@192.0.2.7:26656`);
    assert.equal(first?.["p2p.external_address"], undefined);
    assert.equal(second?.["p2p.external_address"], "192.0.2.7:26656");
    assert.equal(second?.["p2p.persistent_peers"], `${testnet.nodes[0]?.nodeId}@validator-0.example:26656`);
    const file = JSON.parse(textOf(layout.file)) as Record<string, unknown>;
    assert.deepEqual([file.bridge, file.place], [undefined, "hosts"]);
  });

  test("a node that joins gets the block to trust", async () => {
    const { testnet } = await writeTestnet(wish("trust", { validators: 1 }));
    const node = { name: "node1", isValidator: false, host: "10.0.0.9", nodeId: "ab".repeat(20) };
    const trusted = { heightBlocks: 77n, hash: "AB".repeat(32), rpcServers: ["http://a:26657", "http://b:26657"] };
    const config = tomlOf(cometConfigText({ ...sharedInput({}, 1_000), testnet, node, trusted }));
    assert.deepEqual(
      [config["statesync.enable"], config["statesync.trust_height"], config["statesync.trust_hash"]],
      [true, 77, "AB".repeat(32)],
    );
    assert.equal(config["statesync.rpc_servers"], "http://a:26657,http://b:26657");
  });

  test("what cannot be is refused, and nothing is written twice", async () => {
    for (const [more, text] of [
      [{ validators: 0 }, /^USAGE --validators: expected 1 to 16/],
      [{ validators: 17 }, /^USAGE --validators: expected 1 to 16/],
      [{ validators: 3, hosts: ["a", "b"] }, /^USAGE --hosts: expected 3, .* there are 2/],
      [{ hosts: ["a", "b c"] }, /^USAGE --hosts: "b c" is neither an address nor a name/],
      [{ hosts: ["a", "a"] }, /^USAGE --hosts: expected each only once/],
    ] as const) {
      assert.match(await refused(wish("refused", more)), text);
    }
    assert.ok(!readdirSync(folder).includes("refused"));
    const { layout } = await writeTestnet(wish("twice", { validators: 1 }));
    const before = textOf(layout.file);
    assert.match(
      await refused(wish("twice")),
      /^CHAIN_HOME .* has a testnet already; name an empty folder with --home/,
    );
    assert.equal(textOf(layout.file), before);
  });

  test("two testnets have other names and addresses, and links have at most 15 letters", async () => {
    const [one, other] = await Promise.all(
      ["one", "other"].map((name) => writeTestnet(wish(name, { validators: 16 }))),
    );
    assert.ok(one !== undefined && other !== undefined);
    const all = [one, other].flatMap(({ testnet }) =>
      testnet.nodes.flatMap((node) => Object.values(networkNames(testnet, node))),
    );
    assert.equal(new Set(all).size, all.length);
    const addresses = ["000000", "000100", "010000", "7fff00"].map((id) => namespaceAddress(id, 0));
    assert.deepEqual(addresses, ["10.64.0.1", "10.64.1.1", "10.65.0.1", "10.191.255.1"]);
    for (const { testnet } of [one, other]) {
      for (const node of testnet.nodes) assert.ok(networkNames(testnet, node).link.length <= 15);
    }
  });

  test("a testnet.json that is none is refused", async () => {
    const layout = testnetLayout(join(folder, "junk"));
    await assert.rejects(readTestnet(layout), {
      code: "CHAIN_HOME",
      message: /testnet\.json is missing; make a testnet/,
    });
    const { layout: good } = await writeTestnet(wish("good", { validators: 1 }));
    const text = textOf(good.file);
    assert.ok(await readTestnet(good));
    const bad = [
      "",
      "[]",
      "{}",
      text.replace('"node0"', '"node0; x"'),
      text.replace(/"id": "......"/, '"id": "../../"'),
    ];
    for (const junk of bad.concat(text.replace(/"host": "[^"]+"/, '"host": "-n x"'))) {
      assert.notEqual(junk, text);
      rmSync(layout.folder, { recursive: true, force: true });
      mkdirSync(layout.folder);
      writeFileSync(layout.file, junk);
      await assert.rejects(readTestnet(layout), {
        code: "CHAIN_HOME",
        message: /describes no testnet of this version/,
      });
    }
  });
});
