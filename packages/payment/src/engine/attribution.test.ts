import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Address, type FaultPoints, hexToBytes } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import {
  deployTestToken,
  devRpc,
  lyingToken,
  MULTICALL3_ADDRESS,
  setTokenBalance,
  smartWallet,
  USDC_ADDRESS,
  walletFactory,
} from "@turnpike/localnet";
import { eventually, virtualClock } from "@turnpike/testkit";
import { sendMined, type TransactionReceipt } from "@turnpike/testkit/servers";
import { createWalletClient, encodeAbiParameters, encodeDeployData, encodeFunctionData, http, parseAbi } from "viem";
import {
  ANSWER,
  type Bed,
  cancelAuthorization,
  claim,
  NETWORK,
  newPayer,
  openOwnBed,
  PAY_TO,
  type Payer,
  PRICE,
  signPayment,
  stateOf,
  timeLimit,
  untilState,
} from "../../test/engine-fixtures.ts";
import { startTestServer, type TestServer } from "../../test/ledger-fixtures.ts";
import { encodeAggregate3, encodeTransferVrs, type Hex } from "../evm/abi.ts";
import type { Ledger } from "../ledger-types.ts";
import type { Settler } from "../settler.ts";
import type { PaymentRecord } from "../types.ts";
import { createEngine } from "./engine.ts";

let server: TestServer;
let bed: Bed;

before(async () => {
  server = await startTestServer();
  bed = await openOwnBed(server);
});
after(async () => {
  await bed?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

async function send(to: string | undefined, data: string): Promise<TransactionReceipt> {
  return sendMined(bed.anvil.url, { to, data, gas: "0x200000" });
}

const cancel = (payer: Payer, payment: PaymentRecord): Promise<void> => cancelAuthorization(bed, payer, payment);

function transferData({ key, payTo, value, validAfter, validBefore, signature }: Omit<PaymentRecord, "id">): Hex {
  const fields = { from: key.from, to: payTo, value, validAfter, validBefore, nonce: key.nonce };
  return encodeTransferVrs(fields, signature);
}

/** The end of a window that no test outlives, unless it closes it. */
const shortly = async (): Promise<bigint> => BigInt((await bed.chainTime()) + 600);
/** Closes all windows that end {@link shortly}. */
const closeWindows = (blocks = "0x2"): Promise<unknown> =>
  devRpc(bed.anvil.url, "anvil_mine", [blocks, `0x${(700).toString(16)}`]);

/** Leaves the payer with this balance, between the last look at it and the transaction. */
const emptying = ({ address }: Payer, units = 1n): FaultPoints => ({
  async reach(name) {
    if (name === "engine.journal.before") await setTokenBalance(bed.anvil.url, { address, units });
  },
});

/** The same faults, at the first batch only. */
function once(faults: FaultPoints): FaultPoints {
  let isOver = false;
  return {
    async reach(name) {
      if (isOver || name !== "engine.journal.before") return;
      isOver = true;
      await faults.reach(name);
    },
  };
}

/** An engine whose clock stands still, so that this many payments wait for each other and share a transaction. */
async function oneBatch(size: number, ledger: Ledger, faults: FaultPoints): Promise<Settler> {
  const options = bed.options([await bed.relayerKey()], { maxBatch: size, batchWindowMs: 1_000 });
  return createEngine(options, bed.modules(ledger, faults, virtualClock()));
}

/** Follows a payment until its transaction is mined and looked at, and has not settled it. */
async function settleInVain(ledger: Ledger, key: Uint8Array, engine: Settler, payment: PaymentRecord): Promise<void> {
  const patience = new AbortController();
  const settling = engine.settle(payment, ANSWER, patience.signal);
  await untilState(ledger, payment, "signed");
  await eventually(
    "its batch is closed",
    async () => (await ledger.openBatches(NETWORK, privateKeyToAddress(key))).length === 0,
  );
  patience.abort();
  await settling;
}

test("in one batch, a cancelled, an unfunded and a front-run payment each get their own end", async () => {
  await using ledger = await bed.openLedger();
  const payers = await Promise.all(Array.from({ length: 5 }, () => bed.payer(PRICE)));
  const [, leaves] = payers;
  await using engine = await oneBatch(5, ledger, emptying(leaves as Payer));
  const [cancels, , frontRun, good, alsoGood] = payers as [Payer, Payer, Payer, Payer, Payer];
  const paid = await bed.balance(PAY_TO);
  const validBefore = await shortly();
  const payments = await Promise.all(payers.map((payer) => claim(ledger, payer, { validBefore })));
  const [cancelled, unfunded, taken, first, second] = payments as [
    PaymentRecord,
    PaymentRecord,
    PaymentRecord,
    PaymentRecord,
    PaymentRecord,
  ];
  await cancel(cancels, cancelled);
  const foreign = await send(USDC_ADDRESS, transferData(taken));
  const settling = payments.map((payment) => engine.settle(payment, ANSWER, timeLimit()));
  await Promise.all(settling.slice(2));
  assert.equal((await stateOf(ledger, unfunded)).state, "signed", "anybody may still put it through");
  assert.equal((await stateOf(ledger, cancelled)).state, "signed", "a re-organisation may undo the cancellation");
  await closeWindows("0x5");
  await Promise.all(settling);

  const ends = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
  assert.deepEqual(
    ends.map(({ state, reason }) => [state, reason]),
    [
      ["failed", "PAYMENT_NONCE_USED"],
      ["failed", "PAYMENT_EXPIRED"],
      ["settled", undefined],
      ["settled", undefined],
      ["settled", undefined],
    ],
  );
  assert.equal((await stateOf(ledger, taken)).evidence?.transaction, foreign.transactionHash);
  assert.equal(
    (await stateOf(ledger, first)).evidence?.transaction,
    (await stateOf(ledger, second)).evidence?.transaction,
  );
  assert.equal((await bed.balance(PAY_TO)) - paid, 3n * PRICE);
  assert.equal(await bed.balance(good.address), 0n);
  assert.equal(await bed.balance(alsoGood.address), 0n);
  assert.equal(await bed.balance(frontRun.address), 0n);
});

test("one transfer settles one payment, whatever else its transaction does with the payer's nonces", async () => {
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  const payer = await bed.payer(5n * PRICE);
  const paid = await bed.balance(PAY_TO);
  const payments = await Promise.all(Array.from({ length: 5 }, () => claim(ledger, payer)));
  const [honest, ...cheats] = payments;
  assert.ok(honest !== undefined);
  // The nonces of the others, with the payer's own authorizations: nothing, to itself.
  const nothing = await Promise.all(
    cheats.map(({ key }) => signPayment(payer, { nonce: key.nonce, to: payer.address, value: 0n })),
  );
  const half = nothing.length / 2;
  const calls = [...nothing.slice(0, half), honest, ...nothing.slice(half)].map((payment) => ({
    target: USDC_ADDRESS,
    allowFailure: false,
    callData: transferData(payment),
  }));
  const receipt = await send(MULTICALL3_ADDRESS, encodeAggregate3(calls));
  assert.equal(receipt.status, "0x1");
  const settling = payments.map((payment) => engine.settle(payment, ANSWER, timeLimit()));
  await settling[0];
  await devRpc(bed.anvil.url, "anvil_mine", ["0x5"]);
  await Promise.all(settling);
  assert.equal((await bed.balance(PAY_TO)) - paid, PRICE);
  const ends = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
  assert.deepEqual(
    ends.map(({ state }) => state),
    ["settled", "failed", "failed", "failed", "failed"],
  );
});

test("two equal payments of one payer in one batch need two transfers", async () => {
  await using ledger = await bed.openLedger();
  const payer = await bed.payer(2n * PRICE);
  await using engine = await oneBatch(2, ledger, once(emptying(payer, PRICE)));
  const validBefore = await shortly();
  const payments = [await claim(ledger, payer, { validBefore }), await claim(ledger, payer, { validBefore })];
  const settling = payments.map((payment) => engine.settle(payment, ANSWER, timeLimit()));
  await Promise.race(settling);
  await closeWindows();
  await Promise.all(settling);
  const ends = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
  assert.deepEqual(ends.map(({ state }) => state).sort(), ["failed", "settled"]);
});

test("a token that says yes without moving anything settles nothing", async () => {
  const asset: Address = "0x00000000000000000000000000000000000c0de1";
  const payer = newPayer();
  await deployTestToken(bed.anvil.url, {
    asset,
    code: lyingToken.deployedBytecode,
    holders: [{ address: payer.address, units: PRICE }],
  });
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  await using engine = await createEngine(bed.options([key]), bed.modules(ledger));
  const payment = await claim(ledger, payer, { asset, validBefore: await shortly() });
  await settleInVain(ledger, key, engine, payment);
  assert.equal((await stateOf(ledger, payment)).state, "signed");
  await closeWindows();
  const end = await untilState(ledger, payment, "failed");
  assert.equal(end.reason, "PAYMENT_EXPIRED");
});

test("contract wallets settle: deployed ones by themselves, others are deployed first", async () => {
  const deploy = async (data: string): Promise<Address> => (await send(undefined, data)).contractAddress as Address;
  const owner = newPayer();
  const abi = parseAbi(["constructor(address owner)"]);
  const wallet = await deploy(encodeDeployData({ abi, bytecode: smartWallet.bytecode, args: [owner.address] }));
  const factory = await deploy(walletFactory.bytecode);
  const factoryAbi = parseAbi([
    "function createWallet(address,bytes32) returns (address)",
    "function walletOf(address,bytes32) view returns (address)",
  ]);
  const salt = `0x${"07".repeat(32)}` as const;
  const client = createWalletClient({ transport: http(bed.anvil.url) });
  const where = await client.request({
    method: "eth_call" as never,
    params: [
      {
        to: factory,
        data: encodeFunctionData({ abi: factoryAbi, functionName: "walletOf", args: [owner.address, salt] }),
      },
      "latest",
    ] as never,
  });
  const future = `0x${String(where).slice(-40)}` as Address;
  await deployTestToken(bed.anvil.url, {
    holders: [
      { address: wallet, units: PRICE },
      { address: future, units: PRICE },
    ],
  });
  const createData = encodeFunctionData({ abi: factoryAbi, functionName: "createWallet", args: [owner.address, salt] });
  const wrap = (raw: Uint8Array): Uint8Array =>
    Buffer.concat([
      hexToBytes(
        encodeAbiParameters(
          [{ type: "address" }, { type: "bytes" }, { type: "bytes" }],
          [factory, createData, `0x${Buffer.from(raw).toString("hex")}`],
        ),
      ) ?? Buffer.alloc(0),
      Buffer.from("6492".repeat(16), "hex"),
    ]);

  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  const payments = [
    await claim(ledger, owner, { from: wallet, kind: "erc1271" }),
    await claim(ledger, owner, { from: future, kind: "erc6492", signature: wrap }),
    await claim(ledger, await bed.payer(PRICE)),
  ];
  await Promise.all(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit())));
  const ends = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
  assert.deepEqual(
    ends.map(({ state }) => state),
    ["settled", "settled", "settled"],
  );
  assert.equal(new Set(ends.map(({ evidence }) => evidence?.transaction)).size, 3);
});

test("a released payment that somebody puts on the chain is reported as owed, a failed one gets its answer", async () => {
  await using ledger = await bed.openLedger();
  await using _engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  const validBefore = await shortly();
  const released = await claim(ledger, await bed.payer(PRICE), { validBefore });
  assert.equal(await ledger.release(released.id, "SERVICE_UNAVAILABLE"), true);
  await send(USDC_ADDRESS, transferData(released));

  const failed = await claim(ledger, await bed.payer(PRICE), { validBefore });
  await ledger.journalSubmission(failed.id, ANSWER);
  await ledger.failed(failed.id, "PAYMENT_SETTLEMENT_FAILED");
  assert.equal((await send(USDC_ADDRESS, transferData(failed))).status, "0x1");

  const unused = await claim(ledger, await bed.payer(PRICE), { validBefore });
  assert.equal(await ledger.release(unused.id, "SERVICE_UNAVAILABLE"), true);
  await closeWindows("0x5");
  await untilState(ledger, released, "owed");
  await untilState(ledger, failed, "settled");
  const unswept = async (): Promise<number> => (await ledger.unswept(NETWORK, Number(validBefore), 10)).length;
  await eventually("all have been looked at", async () => (await unswept()) === 0);
  assert.equal((await stateOf(ledger, unused)).state, "released");
});

test("a payment whose transaction was mined without settling it goes into another batch once its payer can pay", async () => {
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  const payer = await bed.payer(PRICE);
  await using engine = await createEngine(bed.options([key]), bed.modules(ledger, once(emptying(payer))));
  const payment = await claim(ledger, payer);
  await settleInVain(ledger, key, engine, payment);
  const first = await stateOf(ledger, payment);
  assert.equal(first.state, "signed");
  await setTokenBalance(bed.anvil.url, { address: payer.address, units: PRICE });
  // What a node says of a block does not change: the payer's balance counts in the next one.
  await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  await engine.wait(payment, timeLimit());
  const end = await stateOf(ledger, payment);
  assert.equal(end.state, "settled");
  assert.notEqual(end.transaction, first.transaction);
});
