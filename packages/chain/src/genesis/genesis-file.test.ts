import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { genesisFileText, parseGenesisFile } from "./genesis-file.ts";

const recorded = readFileSync(new URL("../../../../test/spec/recorded-chain/genesis.json", import.meta.url), "utf8");

suite("genesis.json", () => {
  test("the SDK's form is read, and CometBFT's is written and read alike", () => {
    const genesis = parseGenesisFile(recorded);
    assert.ok(genesis);
    const document = JSON.parse(recorded) as { app_state: unknown; consensus: unknown; chain_id: string };
    assert.deepEqual(genesis.app_state, document.app_state);
    assert.deepEqual(genesis.consensus, document.consensus);
    const text = genesisFileText(genesis);
    const written = JSON.parse(text) as Record<string, unknown>;
    assert.equal(written.initial_height, "1");
    assert.ok(!("validators" in written), "they come from app_state");
    assert.deepEqual(parseGenesisFile(text), { ...genesis, app_name: "turnpike", app_version: "" });
  });

  test("what CometBFT leaves out is zero", () => {
    const { consensus, ...rest } = JSON.parse(recorded) as { consensus: { params: Record<string, unknown> } };
    const { version: _, abci: __, ...params } = consensus.params;
    const read = parseGenesisFile(JSON.stringify({ ...rest, consensus_params: { ...params, version: {} } }));
    assert.equal(read?.consensus.params.version.app, "0");
    assert.equal(read?.consensus.params.abci.vote_extensions_enable_height, "0");
  });

  test("anything else is none", () => {
    const good = JSON.parse(recorded) as Record<string, unknown>;
    const bad = [{ ...good, chain_id: 5 }, { ...good, app_state: null }, { ...good, consensus: {} }, [], null, 7];
    for (const value of bad) assert.equal(parseGenesisFile(JSON.stringify(value)), undefined);
    for (const text of ["", "{", "null"]) assert.equal(parseGenesisFile(text), undefined);
  });
});
