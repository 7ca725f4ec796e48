import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { bank } from "@turnpike/proto";
import { block, contextOf, machineThatSends, newState, signedTx, signer } from "../../test/one-signer.ts";
import { bytesOfAddress } from "../../test/recorded-tx.ts";
import type { StateMachine } from "../app/state-machine.ts";
import { getAccount } from "../modules/auth/accounts.ts";
import type { ExecutionMode } from "../state/context.ts";
import { messageHandler } from "../state/module.ts";

/** A chain one of whose messages throws. */
function machineThatThrows(run: () => never): StateMachine {
  return machineThatSends(
    messageHandler(bank.MsgSendSchema, bank.MsgSendResponseSchema, {
      signers: ({ fromAddress }) => [fromAddress],
      run,
    }),
  );
}

const overflow = (): never => {
  overflow();
  throw new TypeError("not reached");
};
const readsNothing = (): never => {
  readFileSync("/nowhere/at/all");
  throw new TypeError("not reached");
};
const isWrong = (): never => {
  throw new TypeError("a fault of the program");
};

suite("errors of JavaScript in a transaction", () => {
  for (const [what, run] of [
    ["the stack's end", overflow],
    ["a failed read", readsNothing],
  ] as const) {
    test(`${what}, which other machines may not meet, stops the block and leaves no result`, () => {
      const machine = machineThatThrows(run);
      const state = newState(machine);
      assert.throws(() => machine.runBlock(state, block, [signedTx([[]])]), { code: "CHAIN_ENGINE_LIMIT" });
    });

    test(`${what} stops nothing where no block depends on it`, () => {
      const machine = machineThatThrows(run);
      assert.equal(machine.runTx(newState(machine), block, "simulate", signedTx([[]])).code, 111_222);
    });
  }

  test("a fault of the program, the same on every machine, is recovered from as the SDK does; the fee stays taken", () => {
    const machine = machineThatThrows(isWrong);
    const modes: readonly Extract<ExecutionMode, "deliver" | "simulate">[] = ["deliver", "simulate"];
    for (const mode of modes) {
      const state = newState(machine);
      const { code, codespace, log } = machine.runTx(state, block, mode, signedTx([[]]));
      assert.deepEqual([code, codespace, log], [111_222, "sdk", "recovered: panic"]);
      assert.equal(getAccount(contextOf(state), bytesOfAddress(signer))?.base.sequence, 1n);
    }
  });
});
