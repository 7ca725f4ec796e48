import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, isRecord } from "@turnpike/base";
import { devRpc, setCode } from "@turnpike/localnet";
import { delegateCode, deployGasBurner, sendMined } from "@turnpike/testkit/servers";
import { encodeFunctionData, getContractAddress, slice } from "viem";
import { newPayer, openOwnBed, PRICE, signPayment } from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import { settlementBatch } from "../generated/contracts.ts";
import {
  type BatchTransfer,
  decodeAggregate3,
  decodeRevert,
  encodeSettle,
  isBehindFailed,
  isPayerWithCode,
} from "./abi.ts";
import { SETTLEMENT_BATCH_ADDRESS, SETTLEMENT_BATCH_CODE, SETTLEMENT_BATCH_DEPLOYMENT } from "./settlement-batch.ts";

const server = testServer();
const GAS_EACH = 120_000n;
/** Maximum gas of a transfer that is left out: that of its calldata, where a transaction has little beside (EIP-7623). */
const LEFT_OUT_GAS = 7_000;
const ENOUGH_GAS = 10_000_000;

async function transfer(payer = newPayer()): Promise<BatchTransfer> {
  const { key, payTo, value, validAfter, validBefore, signature } = await signPayment(payer);
  const fields = { from: key.from, to: payTo, value, validAfter, validBefore, nonce: key.nonce };
  return { token: key.asset, fields, signature };
}

test("a call of the contract has viem's encoding", async () => {
  for (const count of [0, 1, 3]) {
    const transfers = await Promise.all(Array.from({ length: count }, () => transfer()));
    const args = transfers.map(({ token, fields, signature }) => {
      const hex = `0x${Buffer.from(signature).toString("hex")}` as const;
      return { token, ...fields, v: signature[64] ?? 0, r: slice(hex, 0, 32), s: slice(hex, 32, 64) };
    });
    const expected = encodeFunctionData({ abi: settlementBatch.abi, functionName: "settle", args: [GAS_EACH, args] });
    assert.equal(encodeSettle(GAS_EACH, transfers).toLowerCase(), expected.toLowerCase());
  }
});

test("the deployment puts the contract's code at its address, whoever sends it, and a second one changes nothing", async () => {
  await using bed = await openOwnBed(server());
  const { url } = bed.anvil;
  await setCode(url, SETTLEMENT_BATCH_ADDRESS, "0x");
  const { to, data } = SETTLEMENT_BATCH_DEPLOYMENT;
  const salt = slice(data, 0, 32);
  const expected = getContractAddress({ opcode: "CREATE2", from: to, salt, bytecode: settlementBatch.bytecode });
  assert.equal(SETTLEMENT_BATCH_ADDRESS, expected.toLowerCase());
  for (let attempt = 0; attempt < 2; attempt++) {
    await sendMined(url, { to, data, gas: "0x200000" }).catch(() => undefined);
    assert.equal(await devRpc(url, "eth_getCode", [SETTLEMENT_BATCH_ADDRESS, "latest"]), SETTLEMENT_BATCH_CODE);
  }
});

test("each transfer has a result: made, refused by its token, or left out since its payer has code", async () => {
  await using bed = await openOwnBed(server());
  const { url } = bed.anvil;
  const payers = await Promise.all([PRICE, 0n, PRICE, PRICE, PRICE].map((units) => bed.payer(units)));
  const transfers = await Promise.all(payers.map((payer) => transfer(payer)));
  const [, , delegate, , last] = transfers;
  assert.ok(delegate !== undefined && last !== undefined);
  await delegateCode(url, delegate.fields.from, await deployGasBurner(url));
  // A token that burns all gas, and one that returns more than is paid for.
  const burner = await deployGasBurner(url);
  const loud: Address = newPayer().address;
  // Reverts with 100,000 bytes.
  await setCode(url, loud, "0x620186a05ffd");
  const odd = await Promise.all([burner, loud].map(async (token) => ({ ...(await transfer()), token })));
  const all = [...transfers.slice(0, 4), ...odd, last];
  const results = await call(url, all, ENOUGH_GAS);
  assert.deepEqual(
    results.map(({ success }) => success),
    [true, false, false, true, false, false, true],
  );
  assert.deepEqual(
    results.map((result) => isPayerWithCode(result)),
    [false, false, true, false, false, false, false],
  );
  assert.match(decodeRevert(results[1]?.returnData) ?? "", /exceeds balance/);
  assert.equal(results[5]?.returnData.length, 2 + 2 * 256);
});

test("behind a transfer that its payer had no funds for, the payer's following ones are left out; behind one whose nonce is used, they are not", async () => {
  await using bed = await openOwnBed(server());
  const { url } = bed.anvil;
  const [poor, rich, other] = [await bed.payer(PRICE - 1n), await bed.payer(3n * PRICE), await bed.payer(PRICE)];
  const used = await transfer(rich);
  const settled = await sendMined(url, {
    to: SETTLEMENT_BATCH_ADDRESS,
    data: encodeSettle(GAS_EACH, [used]),
    gas: "0x200000",
  });
  assert.equal(settled.status, "0x1");
  // First in the transaction, where the token's storage is cold and the refusal costs most.
  const all = [
    used,
    await transfer(rich),
    ...(await Promise.all([poor, poor, poor].map((payer) => transfer(payer)))),
    await transfer(other),
    await transfer(rich),
  ];
  const results = await call(url, all, ENOUGH_GAS);
  assert.match(decodeRevert(results[0]?.returnData) ?? "", /used or canceled/);
  assert.match(decodeRevert(results[2]?.returnData) ?? "", /exceeds balance/);
  assert.deepEqual(
    results.map(({ success }) => success),
    [false, true, false, false, false, true, true],
  );
  assert.deepEqual(
    results.map((result) => isBehindFailed(result)),
    [false, false, false, true, true, false, false],
  );
  const gasOf = async (transfers: readonly BatchTransfer[]): Promise<number> => {
    const data = encodeSettle(GAS_EACH, transfers);
    const { transactionHash } = await sendMined(url, { to: SETTLEMENT_BATCH_ADDRESS, data, gas: "0x800000" });
    const receipt = await devRpc(url, "eth_getTransactionReceipt", [transactionHash]);
    return isRecord(receipt) ? Number(receipt.gasUsed) : Number.NaN;
  };
  const failing = await Promise.all(Array.from({ length: 21 }, () => transfer(poor)));
  const extra = (await gasOf(failing)) - (await gasOf(failing.slice(0, 1)));
  assert.ok(extra / 20 <= LEFT_OUT_GAS, `${extra / 20} gas for each payment that is left out`);
});

test("a transfer that burns its gas takes none of what the others have: all that fit are made", async () => {
  await using bed = await openOwnBed(server());
  const { url } = bed.anvil;
  const burner = await deployGasBurner(url);
  const payers = await Promise.all(Array.from({ length: 4 }, () => bed.payer(PRICE)));
  const transfers = await Promise.all(payers.map((payer) => transfer(payer)));
  const burns = (await Promise.all(Array.from({ length: 4 }, () => transfer()))).map((item) => ({
    ...item,
    token: burner,
  }));
  const all = burns.flatMap((item, at) => [item, ...transfers.slice(at, at + 1)]);
  // As the engine does: 40,000, and 12,000 beside the limit of each.
  const gas = 40_000 + all.length * (Number(GAS_EACH) + 12_000);
  const results = await call(url, all, gas);
  assert.deepEqual(
    results.map(({ success }) => success),
    [false, true, false, true, false, true, false, true],
  );
});

test("short of gas, no transfer is begun that would not get its limit", async () => {
  await using bed = await openOwnBed(server());
  const { url } = bed.anvil;
  const payers = await Promise.all(Array.from({ length: 6 }, () => bed.payer(PRICE)));
  const transfers = await Promise.all(payers.map((payer) => transfer(payer)));
  let most = 0;
  for (let gas = 60_000; gas <= 700_000; gas += 40_000) {
    const results = await call(url, transfers, gas).catch(() => []);
    assert.ok(
      results.every(({ success }) => success),
      `${gas} gas: ${JSON.stringify(results)}`,
    );
    assert.ok(results.length >= most);
    most = results.length;
  }
  assert.equal(most, transfers.length);
});

test("a token that is called gets the whole limit, also with the least gas that a transfer is begun with", async () => {
  await using bed = await openOwnBed(server());
  const { url } = bed.anvil;
  // Reverts with the gas that it was called with.
  const probe: Address = newPayer().address;
  await setCode(url, probe, "0x5a60005260206000fd");
  const item = { ...(await transfer()), token: probe };
  const begin = (gas: number) => call(url, [item], gas).catch(() => []);
  // Too little to begin it, and enough.
  let [short, enough] = [Number(GAS_EACH), 2 * Number(GAS_EACH)];
  while (enough - short > 1) {
    const gas = Math.floor((short + enough) / 2);
    if ((await begin(gas)).length === 0) short = gas;
    else enough = gas;
  }
  for (const gas of [enough, enough + 1, enough + 1_000]) {
    const [result] = await begin(gas);
    // GAS itself takes 2.
    assert.equal(BigInt(result?.returnData ?? "0x0") + 2n, GAS_EACH, `${gas} gas`);
  }
});

async function call(url: string, transfers: readonly BatchTransfer[], gas: number) {
  const request = {
    from: newPayer().address,
    to: SETTLEMENT_BATCH_ADDRESS,
    data: encodeSettle(GAS_EACH, transfers),
    gas: `0x${gas.toString(16)}`,
  };
  const output = String(await devRpc(url, "eth_call", [request, "latest"]));
  const count = Number(BigInt(`0x${output.slice(2 + 64, 2 + 128)}`));
  const results = decodeAggregate3(output, count);
  assert.ok(results !== undefined && count <= transfers.length);
  return results;
}
