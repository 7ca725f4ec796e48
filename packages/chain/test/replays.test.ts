import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { LATER_RULES } from "@turnpike/testkit/later-program";
import { pocketMachine } from "../src/app/pocket-machine.ts";
import { assertReplays, makeReplay, type Replay } from "./replays.ts";

const FOLDER = new URL("../../../test/spec/replays/", import.meta.url);
const records = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));

suite("chains that versions made", () => {
  for (const name of records) {
    test(`${name} runs from its genesis to the same hashes`, async () => {
      await assertReplays(JSON.parse(readFileSync(new URL(name, FOLDER), "utf8")) as Replay);
    });
  }

  test("one that is made now has every message that the chain takes, and runs again; over an upgrade, too", async () => {
    const replay = await makeReplay();
    await assertReplays(replay);
    const bytes = Buffer.from(replay.blocks.flatMap(({ txs }) => txs).join(""), "hex");
    const typeUrls = pocketMachine({ gasPrices: [] }).modules.flatMap(({ messages }) => Object.keys(messages ?? {}));
    assert.deepEqual(
      typeUrls.filter((typeUrl) => !typeUrl.startsWith("/cosmos.upgrade.") && !bytes.includes(typeUrl)),
      [],
    );
    const results = replay.blocks.flatMap((block) => block.results);
    const accepted = results.filter((result) => result.startsWith("0 ")).length;
    assert.ok(accepted >= 20 && results.length - accepted >= 20, `${accepted} of ${results.length} accepted`);
    const crossing = await makeReplay(LATER_RULES);
    assert.notEqual(crossing.blocks.at(-1)?.appHash, replay.blocks.at(-1)?.appHash);
    await assertReplays(crossing, LATER_RULES);
    await assert.rejects(assertReplays(crossing), /UPGRADE "dearer-sends" NEEDED at height: 24/);
  });

  test("a change that has no name is seen: another gas, another hash", async () => {
    const replay = await makeReplay();
    const [block] = replay.blocks.filter(({ txs }) => txs.length > 0);
    const results = block?.results.map((result) => `${result}0`) ?? [];
    const blocks = replay.blocks.map((one) => (one === block ? { ...one, results } : one));
    await assert.rejects(assertReplays({ ...replay, blocks }), /code and gas of the transactions of block/);
  });
});
