import assert from "node:assert/strict";
import { test } from "node:test";
import { type BlockOutcome, pocketMachine } from "@turnpike/chain";
import { QUICK_STATE } from "./gas.ts";
import { GAS_CASES, PLAIN_SEND, PROOF_CASES, REFUSED_TYPES } from "./gas-cases.ts";
import { type OpenGasState, openGasState } from "./gas-state.ts";

const { modules } = pocketMachine({ gasPrices: [] });
const handled = new Set(modules.flatMap(({ messages = {} }) => Object.keys(messages)));

test("every message that the chain runs has a case, and every case a name of its own", () => {
  const cases = [...GAS_CASES, ...PROOF_CASES];
  assert.deepEqual([...handled.difference(new Set(cases.map(({ typeUrl }) => typeUrl)))], []);
  const names = new Set(cases.map(({ name }) => name));
  assert.equal(names.size, cases.length);
  assert.ok(names.has(PLAIN_SEND));
});

function runBlock({ reader, block }: Pick<OpenGasState, "reader" | "block">, txs: readonly Uint8Array[]): BlockOutcome {
  const { machine } = pocketMachine({ gasPrices: [] });
  return machine.runBlock(reader, block, txs);
}

const isAccepted = ({ results }: BlockOutcome): boolean =>
  results.length > 0 && results.every(({ code }) => code === 0);

/** Faults that the end of a block saw in proofs; empty for a proof that holds. */
const proofFaults = ({ events }: BlockOutcome): string[] =>
  events
    .filter(({ type }) => type === "pocket.proof.EventProofValidityChecked")
    .flatMap(({ attributes }) => attributes.filter(({ key }) => key === "failure_reason"))
    .map(({ value }) => value);

test("every message has a case that the chain accepts, unless it is named as one that is refused", async () => {
  await using state = await openGasState(QUICK_STATE);
  const accepted = new Set<string>();
  for (const { typeUrl, txs } of GAS_CASES) {
    if (!accepted.has(typeUrl) && isAccepted(runBlock(state, txs(state, 0)))) accepted.add(typeUrl);
  }
  const proving = await state.proving();
  for (const { name, typeUrl, txs } of PROOF_CASES) {
    const submitted = txs(proving, 0);
    const outcome = runBlock(proving, submitted);
    assert.ok(isAccepted(outcome), name);
    assert.deepEqual(proofFaults(outcome), Array<string>(submitted.length).fill('""'), name);
    accepted.add(typeUrl);
  }
  assert.deepEqual([...handled.difference(accepted)].sort(), Object.keys(REFUSED_TYPES).sort());
});
