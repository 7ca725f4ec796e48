import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress, moduleAddressBytes } from "@turnpike/crypto";
import { bank, createMessage } from "@turnpike/proto";
import { fund } from "../../../test/recorded-tx.ts";
import type { Context } from "../../state/context.ts";
import { GasMeter } from "../../state/gas.ts";
import { Overlay } from "../../state/overlay.ts";
import { getBalance, getSupply, sendEnabled } from "./balances.ts";
import { bankMessages } from "./messages.ts";
import { burnCoins, mintCoins, sendCoins } from "./transfers.ts";

const authority = moduleAddress("gov");
const MOST = (1n << 256n) - 1n;

function newContext(): Context {
  const block = {
    chainId: "pocket",
    heightBlocks: 1n,
    timeNanos: 0n,
    hash: new Uint8Array(0),
    proposer: new Uint8Array(0),
  };
  const state = new Overlay({ get: () => undefined, range: () => [] });
  return { block, mode: "block", state, gas: new GasMeter(), events: [] };
}

suite("the bank at its bounds", () => {
  test("a supply never leaves 256 bits, so that sending never fails for what the receiver has", () => {
    const ctx = newContext();
    const upokt = (amount: bigint) => [{ denom: "upokt", amount }];
    fund(ctx, moduleAddress("a"), MOST - 10n);
    assert.ok(mintCoins(ctx, "b", upokt(10n)).ok);
    const over = { ...ctx, state: new Overlay(ctx.state) };
    const minted = mintCoins(over, "c", upokt(1n));
    assert.ok(!minted.ok && minted.fault.code === 10, JSON.stringify(minted));
    assert.ok(sendCoins(ctx, moduleAddressBytes("a"), moduleAddressBytes("b"), upokt(MOST - 10n)).ok);
    assert.equal(getBalance(ctx, moduleAddressBytes("b"), "upokt"), MOST);
    assert.ok(burnCoins(ctx, "b", upokt(MOST)).ok);
    assert.equal(getSupply(ctx, "upokt"), 0n);
  });

  test("what may be sent is set for denominations alone, each once", () => {
    const handler = bankMessages({ blocked: new Set(), authority })["/cosmos.bank.v1beta1.MsgSetSendEnabled"];
    const ctx = newContext();
    const set = (init: { sendEnabled?: { denom: string; enabled: boolean }[]; useDefaultFor?: string[] }) =>
      (handler ?? assert.fail()).run(ctx, createMessage(bank.MsgSetSendEnabledSchema, { authority, ...init }));
    const entry = { denom: "upokt", enabled: false };
    for (const bad of [
      { sendEnabled: [entry, entry] },
      { sendEnabled: [{ ...entry, denom: "x".repeat(600) }] },
      { useDefaultFor: ["a\0b"] },
    ]) {
      const ran = set(bad);
      assert.ok(!ran.ok && ran.fault.code === 18, JSON.stringify(ran));
    }
    assert.ok(set({ sendEnabled: [entry] }).ok);
    assert.equal(sendEnabled.get(ctx, "upokt"), false);
    assert.ok(set({ useDefaultFor: ["upokt"] }).ok);
    assert.equal(sendEnabled.get(ctx, "upokt"), undefined);
  });
});
