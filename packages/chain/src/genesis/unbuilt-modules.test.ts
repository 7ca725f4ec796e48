import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { pocketMachine } from "../app/pocket-machine.ts";
import { UNBUILT_MODULES } from "./unbuilt-modules.ts";

const FILE = new URL("../../../../test/spec/recorded-chain/genesis.json", import.meta.url);

test("every module that a real node's genesis has a section for has one here, and what is not built is as the real one's", () => {
  const { app_state: real } = JSON.parse(readFileSync(FILE, "utf8")) as { app_state: Record<string, unknown> };
  const built = new Set(pocketMachine({ gasPrices: [] }).modules.map(({ name }) => name));
  const expected = Object.entries(real).filter(([name, section]) => section !== null && !built.has(name));
  assert.deepEqual(UNBUILT_MODULES, Object.fromEntries(expected));
});
