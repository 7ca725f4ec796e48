import assert from "node:assert/strict";
import { test } from "node:test";
import { virtualClock } from "@turnpike/testkit";
import { PayerFunds } from "./payer-funds.ts";
import type { VerifiedPayment } from "./types.ts";

const paymentOf = (value: bigint): VerifiedPayment =>
  ({
    payment: { option: { network: "eip155:1", asset: "0xA" }, authorization: { from: "0xF", value } },
  }) as unknown as VerifiedPayment;
const nonceOf = (at: number): `0x${string}` => `0x${at.toString(16).padStart(64, "0")}`;

/** Funds of one account, and how often they were read. */
function funds({ balance, inFlight }: { balance: bigint; inFlight: readonly { value: bigint; used: boolean }[] }) {
  const clock = virtualClock();
  const chain = { balance, reads: 0 };
  const payerFunds = new PayerFunds({
    clock,
    ledger: { inFlight: async () => inFlight.map(({ value }, at) => ({ nonce: nonceOf(at), value })) },
    verifier: {
      async readFunds(_account, nonces) {
        chain.reads++;
        return { balance: chain.balance, used: nonces.map((nonce) => inFlight[Number(nonce)]?.used === true) };
      },
    },
  });
  return { payerFunds, clock, chain };
}

test("what is settled by the chain already is not taken from the balance again; what is still to be settled is", async () => {
  const settled = funds({ balance: 1_000n, inFlight: [{ value: 1_000n, used: true }] });
  assert.equal(await settled.payerFunds.carry(paymentOf(1_000n)), true);
  const open = funds({ balance: 1_000n, inFlight: [{ value: 1_000n, used: false }] });
  assert.equal(await open.payerFunds.carry(paymentOf(1_000n)), false);
  const some = { value: 400n, used: false };
  const both = funds({ balance: 1_000n, inFlight: [some, { value: 5_000n, used: true }] });
  assert.equal(await both.payerFunds.carry(paymentOf(600n)), true);
  assert.equal(await both.payerFunds.carry(paymentOf(601n)), false);
});

test("attack: a thousand payments of one account that come together are one look at the chain", async () => {
  const { payerFunds, clock, chain } = funds({ balance: 1_000n, inFlight: [{ value: 1_000n, used: false }] });
  const all = Array.from({ length: 1_000 }, () => payerFunds.carry(paymentOf(1n)));
  assert.ok((await Promise.all(all)).every((may) => !may));
  assert.equal(chain.reads, 1);
  chain.balance = 2_000n;
  clock.advance(1_000);
  assert.equal(await payerFunds.carry(paymentOf(1_000n)), true);
  assert.equal(chain.reads, 2);
});

test("attack: a payment behind more in flight than are looked at does not wait", async () => {
  const inFlight = Array.from({ length: 200 }, () => ({ value: 1n, used: false }));
  const { payerFunds, chain } = funds({ balance: 0n, inFlight });
  assert.equal(await payerFunds.carry(paymentOf(1n)), false);
  assert.equal(chain.reads, 0);
});
