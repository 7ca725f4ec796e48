import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { auth, createMessage } from "@turnpike/proto";
import { addressText } from "../../state/addresses.ts";
import type { BlockInfo, Context } from "../../state/context.ts";
import { GasMeter, OutOfGas } from "../../state/gas.ts";
import { Overlay } from "../../state/overlay.ts";
import {
  type Account,
  accountsByAddress,
  addressByNumber,
  getAccount,
  packAccount,
  setAccount,
  unpackAccount,
} from "./accounts.ts";

const NOTHING = new Uint8Array(0);
const block: BlockInfo = { chainId: "pocket", heightBlocks: 1n, timeNanos: 0n, hash: NOTHING, proposer: NOTHING };
const [address, other] = [new Uint8Array(20).fill(1), new Uint8Array(20).fill(2)];
const account = (accountNumber: bigint, sequence = 0n): Account => ({
  base: createMessage(auth.BaseAccountSchema, { address: addressText(address), accountNumber, sequence }),
});
const contextOf = (limit?: bigint): Context => ({
  block,
  mode: "deliver",
  state: new Overlay({ get: () => undefined, range: () => [] }),
  gas: new GasMeter(limit),
  events: [],
});

// As the SDK's unique index does it, entry by entry.
function setByEntries(ctx: Context, changed: Account): void {
  const old = getAccount(ctx, address);
  if (old !== undefined) addressByNumber.remove(ctx, old.base.accountNumber);
  addressByNumber.has(ctx, changed.base.accountNumber);
  addressByNumber.set(ctx, changed.base.accountNumber, address);
  accountsByAddress.set(ctx, address, packAccount(changed));
}

function begun(limit?: bigint): Context {
  const ctx = contextOf();
  setAccount(ctx, address, account(300n));
  return { ...ctx, gas: new GasMeter(limit) };
}

function endOf(ctx: Context, set: () => void): string {
  try {
    set();
    return `${ctx.gas.used}`;
  } catch (error) {
    assert.ok(error instanceof OutOfGas);
    return `${error.location} ${ctx.gas.used}`;
  }
}

suite("accounts", () => {
  test("a changed account costs what its entries cost, and runs out of gas where they do", () => {
    const whole = begun();
    setByEntries(whole, account(300n, 1n));
    const ends = new Set<string>();
    for (let limit = 0n; limit <= whole.gas.used; limit += 50n) {
      const [ours, theirs] = [begun(limit), begun(limit)];
      const end = endOf(theirs, () => setByEntries(theirs, account(300n, 1n)));
      assert.equal(
        endOf(ours, () => setAccount(ours, address, account(300n, 1n))),
        end,
      );
      ends.add(end);
    }
    assert.ok(ends.size > 6);
  });

  test("it is found by its address and its number, and one with another number by that alone", () => {
    const ctx = begun();
    setAccount(ctx, address, account(300n, 1n));
    assert.equal(getAccount(ctx, address)?.base.sequence, 1n);
    assert.deepEqual(addressByNumber.get(ctx, 300n), address);
    setAccount(ctx, address, account(301n, 2n));
    assert.equal(addressByNumber.get(ctx, 300n), undefined);
    assert.deepEqual(addressByNumber.get(ctx, 301n), address);
  });

  test("attack: no account takes the number of another", () => {
    const ctx = begun();
    assert.throws(() => setAccount(ctx, other, account(300n)), { code: "INTERNAL" });
    assert.deepEqual(addressByNumber.get(ctx, 300n), address);
    assert.equal(unpackAccount(packAccount(account(300n)))?.base.accountNumber, 300n);
  });
});
