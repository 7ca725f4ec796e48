import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { must } from "@turnpike/testkit/fixtures";
import { LATER_RULES } from "@turnpike/testkit/later-program";
import { pocketMachine } from "../src/app/pocket-machine.ts";
import { BLOCKS } from "./random-actions.ts";
import { SCENE_EVENTS } from "./replay-scenes.ts";
import { assertReplays, isReleased, makeReplay, type Replay, releasedVersions } from "./replays.ts";

const FOLDER = new URL("../../../test/spec/replays/", import.meta.url);
const records = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));

interface Made {
  readonly replay: Replay;
  /** Types of its events. */
  readonly types: ReadonlySet<string>;
}

async function make(): Promise<Made> {
  const types = new Set<string>();
  const replay = await makeReplay({
    onBlock({ events, results }) {
      for (const { type } of [...events, ...results.flatMap((result) => result.events)]) types.add(type);
    },
  });
  return { replay, types };
}

suite("chains that versions made", () => {
  let made: Promise<Made> | undefined;
  const madeOnce = (): Promise<Made> => {
    made ??= make();
    return made;
  };

  for (const name of records) {
    test(`${name} runs from its genesis to the same hashes`, async () => {
      await assertReplays(JSON.parse(readFileSync(new URL(name, FOLDER), "utf8")) as Replay);
    });
  }

  test("one that is made now has every message that the chain takes, and runs again; over an upgrade, too", async () => {
    const { replay, types } = await madeOnce();
    await assertReplays(replay);
    assert.deepEqual(
      SCENE_EVENTS.filter((type) => !types.has(type)),
      [],
    );
    const bytes = Buffer.from(replay.blocks.flatMap(({ txs }) => txs).join(""), "hex");
    const typeUrls = pocketMachine({ gasPrices: [] }).modules.flatMap(({ messages }) => Object.keys(messages ?? {}));
    assert.deepEqual(
      typeUrls.filter((typeUrl) => !typeUrl.startsWith("/cosmos.upgrade.") && !bytes.includes(typeUrl)),
      [],
    );
    const results = replay.blocks.flatMap((block) => block.results);
    const accepted = results.filter((result) => result.startsWith("0 ")).length;
    assert.ok(accepted >= 20 && results.length - accepted >= 20, `${accepted} of ${results.length} accepted`);
    const crossing = await makeReplay({ rules: LATER_RULES, lastBlock: BLOCKS });
    const { appHash } = must(crossing.blocks.at(-1));
    assert.notEqual(appHash, replay.blocks[crossing.blocks.length - 1]?.appHash);
    await assertReplays(crossing, LATER_RULES);
    await assert.rejects(assertReplays(crossing), /UPGRADE "dearer-sends" NEEDED at height: 24/);
  });

  test("each released version has a record, and one that is not released may be made anew", () => {
    const changelog = readFileSync(new URL("../../../CHANGELOG.md", import.meta.url), "utf8");
    const missing = releasedVersions(changelog).filter((version) => !records.includes(`${version}.json`));
    assert.deepEqual(missing, []);
    const released = "# Changelog\n\n## Unreleased\n\n## 0.2.0 (2027-01-01)\n\n## 0.1.0\n";
    assert.deepEqual(releasedVersions(released), ["0.2.0", "0.1.0"]);
    assert.equal(isReleased(released, "0.1.0"), true);
    assert.equal(isReleased("## Unreleased\n\n- Changed 0.1.0\n", "0.1.0"), false);
  });

  test("a change that has no name is seen: another gas, another hash", async () => {
    const { replay } = await madeOnce();
    const [block] = replay.blocks.filter(({ txs }) => txs.length > 0);
    const results = block?.results.map((result) => `${result}0`) ?? [];
    const blocks = replay.blocks.map((one) => (one === block ? { ...one, results } : one));
    await assert.rejects(assertReplays({ ...replay, blocks }), /code and gas of the transactions of block/);
  });
});
