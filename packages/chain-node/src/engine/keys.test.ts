import assert from "node:assert/strict";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { verifyEd25519 } from "@turnpike/crypto";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { loadNodeKey, loadValidatorKey, nodeIdOf } from "./keys.ts";

suite("key files", () => {
  test("a missing file is made once, for its owner alone, in CometBFT's shape", async () => {
    await using folder = await scratchFolder();
    const path = join(folder.path, "config", "priv_validator_key.json");
    const signers = await Promise.all([1, 2, 3].map(() => loadValidatorKey(path)));
    const [signer] = signers;
    assert.ok(signer);
    for (const other of signers) assert.deepEqual(other.publicKey, signer.publicKey);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    const file = JSON.parse(await readFile(path, "utf8"));
    assert.deepEqual(Object.keys(file), ["address", "pub_key", "priv_key"]);
    assert.match(file.address, /^[0-9A-F]{40}$/);
    assert.equal(file.address.toLowerCase(), nodeIdOf(signer.publicKey));
    assert.equal(file.pub_key.type, "tendermint/PubKeyEd25519");
    assert.equal(file.priv_key.type, "tendermint/PrivKeyEd25519");
    assert.equal(Buffer.from(file.priv_key.value, "base64").length, 64);
    assert.ok(verifyEd25519(Uint8Array.of(1), signer.sign(Uint8Array.of(1)), signer.publicKey));
    assert.deepEqual(await readdir(join(folder.path, "config")), ["priv_validator_key.json"]);
    const node = await loadNodeKey(join(folder.path, "node_key.json"));
    assert.deepEqual((await loadNodeKey(join(folder.path, "node_key.json"))).publicKey, node.publicKey);
    assert.notDeepEqual(node.publicKey, signer.publicKey);
  });

  test("a key of CometBFT is read, and gives its id", async () => {
    await using folder = await scratchFolder();
    const path = join(folder.path, "node_key.json");
    // RFC 8032, test 1.
    const key = Buffer.from(
      "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
      "hex",
    ).toString("base64");
    await writeFile(path, JSON.stringify({ priv_key: { type: "tendermint/PrivKeyEd25519", value: key } }));
    assert.equal(nodeIdOf((await loadNodeKey(path)).publicKey), "21fe31dfa154a261626bf854046fd2271b7bed4b");
  });

  test("a file that holds no such key is refused, and not quoted", async () => {
    await using folder = await scratchFolder();
    const path = join(folder.path, "key.json");
    const good = Buffer.alloc(64, 7).toString("base64");
    for (const text of [
      "",
      "secret",
      "[]",
      "{}",
      JSON.stringify({ priv_key: { type: "tendermint/PrivKeySecp256k1", value: good } }),
      JSON.stringify({ priv_key: { type: "tendermint/PrivKeyEd25519", value: "secret" } }),
      JSON.stringify({ priv_key: { type: "tendermint/PrivKeyEd25519", value: good } }),
      JSON.stringify({ priv_key: { type: "tendermint/PrivKeyEd25519", value: good.slice(0, 40) } }),
    ]) {
      await writeFile(path, text);
      await assert.rejects(
        loadValidatorKey(path),
        (error) => isAppError(error, "CONFIG_INVALID") && !error.message.includes("secret"),
      );
      assert.equal(await readFile(path, "utf8"), text);
    }
    await assert.rejects(loadValidatorKey(folder.path), {
      code: "CONFIG_INVALID",
      message: /cannot be read \(EISDIR\)/,
    });
  });
});
