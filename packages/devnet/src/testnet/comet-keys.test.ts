import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { CHAIN_PROFILES } from "@turnpike/chain";
import { chainHome, loadValidatorKey } from "@turnpike/chain-node";
import { writeTestnet } from "./write-testnet.ts";

const folder = mkdtempSync(join(tmpdir(), "turnpike testnet-"));
after(() => rmSync(folder, { recursive: true }));

test("CometBFT reads the keys as we do", async (t) => {
  const program = process.env.COMETBFT ?? "cometbft";
  if (spawnSync(program, ["version"]).status !== 0) return t.skip("cometbft is not installed");
  const { layout, testnet } = await writeTestnet({
    home: join(folder, "read"),
    chainId: "one-1",
    profile: CHAIN_PROFILES.fast,
    genesisTime: "2026-11-22T00:00:00Z",
    services: [{ id: "eth", name: "Ethereum" }],
    supplierUrls: ["http://127.0.0.1:1", "http://127.0.0.1:2"],
    validators: 1,
  });
  const shown = spawnSync(program, ["show-node-id", "--home", layout.nodeFolder("node0")], { encoding: "utf8" });
  assert.equal(shown.stdout.trim(), testnet.nodes[0]?.nodeId, shown.stderr);
  const key = spawnSync(program, ["show-validator", "--home", layout.nodeFolder("node0")], { encoding: "utf8" });
  const { publicKey } = await loadValidatorKey(chainHome(layout.nodeFolder("node0")).validatorKeyFile);
  assert.equal((JSON.parse(key.stdout) as { value: string }).value, Buffer.from(publicKey).toString("base64"));
});
