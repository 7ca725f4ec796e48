import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, suite, test } from "node:test";
import { runInNewContext } from "node:vm";
import { type Anvil, LOCAL_CHAIN_ID, startAnvil } from "@turnpike/localnet";
import { type ReplayNode, readDocumented, readRecordedCosmos, startReplayNode } from "../support/replay-node.ts";
import { type RelayRig, rpcAt, startRelay } from "./relay-rig.ts";

const root = new URL("../../", import.meta.url);
const page = readFileSync(new URL("docs/read.md", root), "utf8");
const rows = [...page.matchAll(/^\| `([^`]+)` \| ([0-9.]+) \| `([^`]+)` \|$/gm)].map(
  ([, name = "", version = "", line = ""]) => ({ name, version, line }),
);

/** A first read of each client, as its own documents show it. */
const FIRST_READS: Readonly<Record<string, readonly [read: string, wanted: string]>> = {
  viem: ["client.getChainId()", String(LOCAL_CHAIN_ID)],
  ethers: ["client.getBlockNumber()", "0"],
  web3: ["client.eth.getChainId()", String(LOCAL_CHAIN_ID)],
  "@cosmjs/stargate": ["client.getChainId()", "pocket"],
  "@solana/kit": ["client.getGenesisHash().send()", "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"],
  "near-api-js": ["client.viewNodeStatus().then((status) => status.chain_id)", "testnet"],
  "@mysten/sui/jsonRpc": ["client.getLatestCheckpointSequenceNumber()", "507021"],
  tronweb: ["client.trx.getCurrentBlock().then((block) => block.block_header.raw_data.number)", "66987627"],
  "@radixdlt/babylon-gateway-api-sdk": [
    "client.status.getCurrent().then((status) => status.ledger_state.state_version)",
    "5151578",
  ],
};

suite("docs/read.md: each client's line is run as it stands", () => {
  const nodes: ReplayNode[] = [];
  let anvil: Anvil;
  let rig: RelayRig;

  before(async () => {
    // Its own: what is read of it has to be at its first block.
    anvil = await startAnvil({});
    const cosmos = await startReplayNode(readRecordedCosmos());
    nodes.push(cosmos);
    const at = async (network: string, ...types: readonly string[]) => {
      const node = await startReplayNode(readDocumented(network));
      nodes.push(node);
      return [{ operator: "one", urls: Object.fromEntries(types.map((type) => [type, node.url])) }];
    };
    rig = await startRelay(
      {
        eth: rpcAt(anvil.url),
        pocket: [{ operator: "one", urls: { comet_bft: cosmos.url } }],
        solana: await at("solana", "json_rpc"),
        near: await at("near", "json_rpc"),
        sui: await at("sui", "json_rpc"),
        tron: await at("tron", "rest"),
        radix: await at("radix", "rest"),
      },
      { chainId: LOCAL_CHAIN_ID, timeoutMs: 5_000 },
    );
  });
  after(async () => {
    await rig?.[Symbol.asyncDispose]();
    for (const node of nodes) await node?.[Symbol.asyncDispose]();
    await anvil?.[Symbol.asyncDispose]();
  });

  test("the page shows every client that is tested, and no other", () => {
    assert.deepEqual(rows.map(({ name }) => name).sort(), Object.keys(FIRST_READS).sort());
  });

  for (const { name, version, line } of rows) {
    test(`${name}: ${line}`, async () => {
      const folder = name === "@mysten/sui/jsonRpc" ? "@mysten/sui" : name;
      const manifest = readFileSync(new URL(`node_modules/${folder}/package.json`, root), "utf8");
      assert.equal((JSON.parse(manifest) as { version: string }).version, version);
      const [read, wanted] = FIRST_READS[name] ?? [];
      const names = (await import(name)) as Readonly<Record<string, unknown>>;
      const setUp = line.replace(/https:\/\/([a-z]+)\.relay\.example/, `${rig.url}/relay/$1`);
      assert.notEqual(setUp, line);
      const code = `(async () => { const client = ${setUp}; return { client, got: String(await ${read}) }; })()`;
      const { client, got } = (await runInNewContext(code, { ...names })) as { client: unknown; got: string };
      assert.equal(got, wanted);
      // ethers keeps its network detection going.
      (client as { destroy?: () => void }).destroy?.();
    });
  }
});
