import assert from "node:assert/strict";
import { test } from "node:test";
import { pocketMachine } from "@turnpike/chain";
import { GAS_CASES, PLAIN_SEND } from "./gas-cases.ts";

test("every message that the chain runs has a case, and every case a name of its own", () => {
  const { modules } = pocketMachine({ gasPrices: [] });
  const handled = new Set(modules.flatMap(({ messages = {} }) => Object.keys(messages)));
  const missing = handled.difference(new Set(GAS_CASES.map(({ typeUrl }) => typeUrl)));
  assert.deepEqual([...missing], []);
  const names = new Set(GAS_CASES.map(({ name }) => name));
  assert.equal(names.size, GAS_CASES.length);
  assert.ok(names.has(PLAIN_SEND));
});
