import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Address, hexToBytes, noMetrics, silentLog, systemClock } from "@turnpike/base";
import { devRpc, fundGas, randomNonce, setCode, setTokenBalance, smartWallet, walletFactory } from "@turnpike/localnet";
import { fc } from "@turnpike/testkit/property";
import { delegateCode, parityWallet, sendMined } from "@turnpike/testkit/servers";
import { encodeDeployData, encodeFunctionData, parseAbi, serializeErc6492Signature } from "viem";
import { overrideRpc } from "../../test/override-rpc.ts";
import {
  type Harness,
  type Key,
  NETWORK,
  newKey,
  signAuthorization,
  startHarness,
  verdict,
  verify,
  withSignature,
} from "../../test/verifier-fixtures.ts";
import { encodeTransferBytes } from "../evm/abi.ts";
import type { EvmRpc } from "../evm/rpc.ts";
import type { WalletSubjects } from "../ledger-types.ts";
import type { Authorization, DecodedPayment } from "../types.ts";
import { BackOff } from "./back-off.ts";
import { EvmVerifier } from "./verifier.ts";

const factoryAbi = parseAbi([
  "function createWallet(address owner, bytes32 salt) returns (address)",
  "function walletOf(address owner, bytes32 salt) view returns (address)",
]);
const SALT = `0x${"07".repeat(32)}` as const;

let harness: Harness;
let verifier: EvmVerifier;
let factory: Address;

before(async () => {
  harness = await startHarness();
  factory = await deploy(walletFactory.bytecode);
  verifier = harness.open({ networks: [{ ...NETWORK, allowedFactories: [factory] }] });
});
after(async () => {
  await verifier?.[Symbol.asyncDispose]();
  await harness?.[Symbol.asyncDispose]();
});

const send = (transaction: Record<string, unknown>): ReturnType<typeof sendMined> =>
  sendMined(harness.anvil.url, transaction);
async function deploy(data: `0x${string}`): Promise<Address> {
  return (await send({ data })).contractAddress;
}
async function wallet(owner: Key, units = 1_000_000n): Promise<Address> {
  const address = await deploy(
    encodeDeployData({
      abi: parseAbi(["constructor(address)"]),
      bytecode: smartWallet.bytecode,
      args: [owner.address],
    }),
  );
  await setTokenBalance(harness.anvil.url, { address, units });
  return address;
}
async function undeployed(owner: Key, units = 1_000_000n): Promise<Address> {
  const data = encodeFunctionData({ abi: factoryAbi, functionName: "walletOf", args: [owner.address, SALT] });
  const word = String(await devRpc(harness.anvil.url, "eth_call", [{ to: factory, data }, "latest"]));
  const address: Address = `0x${word.slice(-40)}`;
  await setTokenBalance(harness.anvil.url, { address, units });
  return address;
}
const payFrom = (owner: Key, from: Address, more: Partial<Authorization> = {}): DecodedPayment =>
  harness.pay(owner, { from, ...more });
function wrap(payment: DecodedPayment, owner: Key, through = factory, inner = payment.signature): DecodedPayment {
  const data = encodeFunctionData({ abi: factoryAbi, functionName: "createWallet", args: [owner.address, SALT] });
  const signature = serializeErc6492Signature({
    address: through,
    data,
    signature: `0x${Buffer.from(inner).toString("hex")}`,
  });
  return withSignature(payment, hexToBytes(signature) ?? new Uint8Array());
}

/** The harness's RPC, which notes each method, and `batch` for each exchange of several. Block polling is left out. */
function countingRpc(methods: string[]): EvmRpc {
  const { rpc } = harness;
  return overrideRpc(rpc, {
    call(method, params, signal) {
      if (method !== "eth_getBlockByNumber") methods.push(method);
      return rpc.call(method, params, signal);
    },
    batch(calls, signal) {
      methods.push("batch", ...calls.map(({ method }) => method));
      return rpc.batch(calls, signal);
    },
  });
}

test("a deployed wallet pays with its owner's signature, and nobody else's", async () => {
  const owner = newKey();
  const address = await wallet(owner, 6_000n);
  const payment = payFrom(owner, address);
  assert.deepEqual(await verifier.checkFree(payment), { ok: true, signer: "unknown" });
  const found = await verify(verifier, payment);
  assert.ok(found.ok);
  assert.equal(found.kind, "erc1271");
  assert.equal(found.balance, 6_000n);
  const forged = withSignature(payment, signAuthorization(newKey(), payment.authorization));
  assert.equal(await verdict(verifier, forged), "PAYMENT_SIGNATURE_INVALID");
  assert.equal(await verdict(verifier, withSignature(payment, new Uint8Array(200))), "PAYMENT_SIGNATURE_INVALID");
});

test("a signature above 2,048 bytes is refused without a look at the chain, unless the operator takes longer ones", async () => {
  const owner = newKey();
  const address = newKey().address;
  // Accepts every signature.
  await setCode(harness.anvil.url, address, "0x631626ba7e60e01b60005260206000f3");
  await setTokenBalance(harness.anvil.url, { address, units: 6_000n });
  const padded = (bytes: number): DecodedPayment => withSignature(payFrom(owner, address), new Uint8Array(bytes));
  assert.equal(await verdict(verifier, padded(2_048)), "erc1271");
  assert.deepEqual(await verifier.checkFree(padded(2_049)), {
    ok: false,
    code: "PAYMENT_SIGNATURE_INVALID",
    message: "The signature is longer than 2048 bytes.",
  });
  await using patient = harness.open({ maxSignatureBytes: 4_096 });
  assert.equal(await verdict(patient, padded(4_096)), "erc1271");
});

test("a deployed wallet's nonce, balance and window are told apart", async () => {
  const owner = newKey();
  const address = await wallet(owner, 5_000n);
  const payment = payFrom(owner, address);
  const data = encodeTransferBytes(payment.authorization, payment.signature);
  assert.equal((await send({ to: NETWORK.asset, data })).status, "0x1");
  assert.equal(await verdict(verifier, payment), "PAYMENT_NONCE_USED");
  assert.equal(await verdict(verifier, payFrom(owner, address)), "PAYMENT_INSUFFICIENT_FUNDS");
});

test("an account with delegated code (EIP-7702) answers by its code, not by its key", async () => {
  const key = await harness.payer();
  const payment = harness.pay(key);
  assert.equal(await verdict(verifier, payment), "eoa");
  const owner = newKey();
  const template = await wallet(owner, 0n);
  const code = String(await devRpc(harness.anvil.url, "eth_getCode", [template, "latest"])) as `0x${string}`;
  await setCode(harness.anvil.url, key.address, code);
  // Another verifier: the first one may believe for some seconds that there is no code, as the simulation does not.
  await using fresh = harness.open();
  assert.deepEqual(await fresh.checkFree(payment), { ok: true, signer: "payer" });
  assert.equal(await verdict(fresh, payment), "PAYMENT_SIGNATURE_INVALID");
  assert.equal(await verdict(verifier, payment), "PAYMENT_SIGNATURE_INVALID");
  const byOwner = withSignature(payment, signAuthorization(owner, payment.authorization));
  assert.equal(await verdict(fresh, byOwner), "erc1271");
  await setCode(harness.anvil.url, key.address, "0x");
  assert.equal(await verdict(fresh, payment), "eoa");
  assert.equal(await verdict(fresh, byOwner), "PAYMENT_SIGNATURE_INVALID");
});

test("a delegated account whose code accepts its key pays as a wallet", async () => {
  const key = await harness.payer();
  const template = await wallet(key, 0n);
  const code = String(await devRpc(harness.anvil.url, "eth_getCode", [template, "latest"])) as `0x${string}`;
  await setCode(harness.anvil.url, key.address, code);
  for (let round = 0; round < 2; round++) assert.equal(await verdict(verifier, harness.pay(key)), "erc1271");
  await setCode(harness.anvil.url, key.address, "0x");
  assert.equal(await verdict(verifier, harness.pay(key)), "eoa");
});

test("a wallet that is not deployed pays through an allowed factory", async () => {
  const owner = newKey();
  const address = await undeployed(owner, 5_500n);
  const bare = payFrom(owner, address);
  assert.equal(await verdict(verifier, bare), "PAYMENT_SIGNATURE_INVALID");
  const payment = wrap(bare, owner);
  const found = await verify(verifier, payment);
  assert.ok(found.ok);
  assert.equal(found.kind, "erc6492");
  assert.equal(found.balance, 5_500n);
  const forged = wrap(bare, owner, factory, signAuthorization(newKey(), bare.authorization));
  assert.equal(await verdict(verifier, forged), "PAYMENT_SIGNATURE_INVALID");
  const otherOwner = wrap(bare, newKey());
  assert.equal(await verdict(verifier, otherOwner), "PAYMENT_SIGNATURE_INVALID");
  const priced = wrap(payFrom(owner, await undeployed(owner, 10n)), owner);
  assert.equal(await verdict(verifier, priced), "PAYMENT_INSUFFICIENT_FUNDS");
});

test("a factory that is not on the list is refused, whatever it would do", async () => {
  const owner = newKey();
  const payment = payFrom(owner, await undeployed(owner));
  assert.equal(await verdict(verifier, wrap(payment, owner, newKey().address)), "PAYMENT_FACTORY_NOT_ALLOWED");
  assert.equal(await verdict(verifier, wrap(payment, owner, `0x${"00".repeat(20)}`)), "PAYMENT_FACTORY_NOT_ALLOWED");
  await using strict = harness.open();
  assert.equal(await verdict(strict, wrap(payment, owner)), "PAYMENT_FACTORY_NOT_ALLOWED");
});

test("a plain account does not pass by wrapping its own signature", async () => {
  const key = await harness.payer();
  assert.equal(await verdict(verifier, wrap(harness.pay(key), key)), "PAYMENT_SIGNATURE_INVALID");
});

test("once deployed, the wrapped signature counts for what is inside", async () => {
  const owner = newKey();
  const address = await undeployed(owner);
  const data = encodeFunctionData({ abi: factoryAbi, functionName: "createWallet", args: [owner.address, SALT] });
  assert.equal((await send({ to: factory, data })).status, "0x1");
  const payment = payFrom(owner, address);
  assert.equal(await verdict(verifier, payment), "erc1271");
  assert.equal(await verdict(verifier, wrap(payment, owner)), "erc1271");
  assert.equal(await verdict(verifier, wrap(payment, owner, newKey().address)), "erc1271");
  const forged = wrap(payment, owner, factory, signAuthorization(newKey(), payment.authorization));
  assert.equal(await verdict(verifier, forged), "PAYMENT_SIGNATURE_INVALID");
});

test("an ERC-6492 suffix behind anything else is a bad signature", async () => {
  const key = await harness.payer();
  const suffix = Buffer.alloc(32, Buffer.from("6492", "hex"));
  for (const body of [new Uint8Array(1), new Uint8Array(96), Buffer.from(harness.pay(key).signature)]) {
    const payment = withSignature(harness.pay(key), Buffer.concat([body, suffix]));
    assert.equal(await verdict(verifier, payment), "PAYMENT_SIGNATURE_INVALID");
  }
});

test("a wallet that burns its gas, returns floods or lies is refused and spoils nobody else's check", async () => {
  const hostile: Record<string, `0x${string}`> = {
    "burns all gas": "0x5b600056",
    "returns zeros for ever": "0x620fffff6000f3",
    "reverts with a flood": "0x620fffff6000fd",
    "invalid opcode": "0xfe",
    "returns one": "0x600160005260206000f3",
  };
  const good = await harness.payer();
  for (const [name, code] of Object.entries(hostile)) {
    const key = newKey();
    await setTokenBalance(harness.anvil.url, { address: key.address, units: 1_000_000n });
    await setCode(harness.anvil.url, key.address, code);
    const [bad, fine] = await Promise.all([
      verdict(verifier, withSignature(harness.pay(key), new Uint8Array(70))),
      verdict(verifier, harness.pay(good)),
    ]);
    assert.equal(bad, "PAYMENT_SIGNATURE_INVALID", name);
    assert.equal(fine, "eoa", name);
  }
});

test("wallet checks are bounded", async () => {
  await using narrow = harness.open({ maxWalletChecks: 2 });
  const payments = await Promise.all(
    Array.from({ length: 12 }, async () => {
      const key = newKey();
      await setCode(harness.anvil.url, key.address, "0xfe");
      return withSignature(harness.pay(key), new Uint8Array(70));
    }),
  );
  const verdicts = await Promise.all(payments.map((payment) => verdict(narrow, payment)));
  assert.equal(verdicts.filter((code) => code === "OVERLOADED").length, 4, "four times as many run or wait");
});

test("junk signatures cost one shared look at the payers' code, and take no wallet's place", async () => {
  const methods: string[] = [];
  const watched = countingRpc(methods);
  await using narrow = harness.open({ maxWalletChecks: 1, codeCacheMs: 600_000 }, undefined, watched);
  const key = newKey();
  const junk = Array.from({ length: 20 }, () => withSignature(harness.pay(newKey()), new Uint8Array(70)));
  junk.push(withSignature(harness.pay(key), signAuthorization(newKey(), harness.pay(key).authorization)));
  const codes = await Promise.all(junk.map((payment) => verdict(narrow, payment)));
  assert.deepEqual(new Set(codes), new Set(["PAYMENT_SIGNATURE_INVALID"]));
  assert.deepEqual(
    methods.filter((method) => method === "eth_call"),
    [],
  );
  assert.equal(methods.filter((method) => method === "eth_getCode").length, 21);
  assert.equal(methods.filter((method) => method === "batch").length, 1);
  assert.equal(await verdict(narrow, withSignature(harness.pay(key), new Uint8Array(70))), "PAYMENT_SIGNATURE_INVALID");
  assert.equal(methods.filter((method) => method === "eth_getCode").length, 21, "what is known is not asked again");
});

test("a wallet that agrees only in a simulation is refused: it is asked as a relayer would", async () => {
  const relayer = newKey().address;
  await fundGas(harness.anvil.url, relayer, 10n ** 18n);
  await using strict = harness.open({ networks: [{ ...NETWORK, relayers: [relayer], priorityFeeWei: 1_000_000n }] });
  // Answers ERC-1271's magic value when the opcode in front gives zero: ORIGIN, GASPRICE.
  const answers = "601457631626ba7e60e01b60005260206000f35b60206000f3";
  for (const opcode of ["32", "3a"]) {
    const key = newKey();
    await setTokenBalance(harness.anvil.url, { address: key.address, units: 1_000_000n });
    await setCode(harness.anvil.url, key.address, `0x${opcode}${answers}`);
    const payment = withSignature(harness.pay(key), new Uint8Array(70));
    assert.equal(await verdict(verifier, payment), "erc1271", "without a relayer nothing is noticed");
    assert.equal(await verdict(strict, payment), "PAYMENT_SIGNATURE_INVALID", opcode);
  }
  const owner = newKey();
  assert.equal(await verdict(strict, payFrom(owner, await wallet(owner))), "erc1271");
});

test("a wallet that accepts in blocks of one parity, time, producer or randomness only is refused", async () => {
  const conditions: Record<string, `0x${string}`> = {
    "even number": parityWallet("even"),
    "odd number": parityWallet("odd"),
    "even time": "0x42600116601757631626ba7e60e01b60005260206000f35b601756",
    "even producer": "0x41600116601757631626ba7e60e01b60005260206000f35b601756",
    "even randomness": "0x44600116601757631626ba7e60e01b60005260206000f35b601756",
  };
  for (const [name, code] of Object.entries(conditions)) {
    const key = newKey();
    await setTokenBalance(harness.anvil.url, { address: key.address, units: 1_000_000n });
    await setCode(harness.anvil.url, key.address, code);
    const found = await verdict(verifier, withSignature(harness.pay(key), new Uint8Array(70)));
    assert.ok(["PAYMENT_SIMULATION_FAILED", "PAYMENT_SIGNATURE_INVALID"].includes(found), `${name}: ${found}`);
  }
});

test("property: a wallet that accepts by the parity of any bits of a block's fields is refused", async () => {
  const fields = fc
    .record({
      // NUMBER, TIMESTAMP: a higher bit is the same in all blocks that may come soon. COINBASE, PREVRANDAO: any bit.
      "43": fc.constant(0),
      "42": fc.constant(0),
      "41": fc.nat(159),
      "44": fc.nat(255),
    })
    .chain((bits) => fc.subarray(Object.entries(bits), { minLength: 1 }));
  await fc.assert(
    fc.asyncProperty(fields, fc.boolean(), async (bits, isNegated) => {
      const key = newKey();
      // (op >> bit) of each, all of them XORed, and the lowest bit of that.
      const parity = bits.map(([op, bit]) => `${op}60${bit.toString(16).padStart(2, "0")}1c`).join("");
      const condition = `${parity}${"18".repeat(bits.length - 1)}600116${isNegated ? "15" : ""}`;
      const start = condition.length / 2;
      const hex = (at: number) => `60${(start + at).toString(16).padStart(2, "0")}`;
      // JUMPI to a loop that burns all gas, or return ERC-1271's magic value.
      const code = `0x${condition}${hex(19)}57631626ba7e60e01b60005260206000f35b${hex(19)}56` as const;
      await setTokenBalance(harness.anvil.url, { address: key.address, units: 1_000_000n });
      await setCode(harness.anvil.url, key.address, code);
      const result = await verdict(verifier, withSignature(harness.pay(key), new Uint8Array(70)));
      assert.ok(["PAYMENT_SIMULATION_FAILED", "PAYMENT_SIGNATURE_INVALID"].includes(result), `${code}: ${result}`);
    }),
    { numRuns: Number(process.env.WALLET_RUNS ?? 60) },
  );
});

test("a node without block overrides, or without a pending block, is asked for its newest block alone", async () => {
  const owner = newKey();
  const payment = payFrom(owner, await wallet(owner));
  const plainNode = overrideRpc(harness.rpc, {
    async batch(calls, signal) {
      const replies = await harness.rpc.batch(
        calls.map(({ method, params }) => ({ method, params: params.slice(0, 2) })),
        signal,
      );
      return replies.map((reply, at) =>
        calls[at]?.params[1] === "pending" ? { ok: false, code: -32_000, message: "no pending block" } : reply,
      );
    },
  });
  await using plain = harness.open({}, undefined, plainNode);
  const found = await verify(plain, payment);
  assert.ok(found.ok);
  assert.ok(found.gas !== undefined && found.gas > 50_000n && found.gas < 120_000n, String(found.gas));
});

test("payments of a payer, or of a code, whose settlements lost gas are refused with the time to wait", async () => {
  const asked: WalletSubjects[] = [];
  let pauseSeconds = 0;
  const wallets = {
    walletPauseSeconds: async (_: string, subjects: WalletSubjects) => {
      asked.push(subjects);
      return pauseSeconds;
    },
  };
  await using careful = new EvmVerifier(
    { networks: [NETWORK], workers: 0 },
    { rpc: new Map([[NETWORK.network, harness.rpc]]), clock: systemClock, log: silentLog, metrics: noMetrics, wallets },
  );
  const key = await harness.payer();
  const template = await wallet(key, 0n);
  await delegateCode(harness.anvil.url, key.address, template);
  assert.equal(await verdict(careful, harness.pay(key)), "erc1271");
  const [subjects] = asked;
  assert.equal(subjects?.payer, key.address.toLowerCase());
  assert.equal(subjects?.classes[0], `delegate:${template.toLowerCase()}`);
  assert.match(subjects?.classes[1] ?? "", /^code:[0-9a-f]{64}$/);
  pauseSeconds = 90;
  const refused = await verify(careful, harness.pay(key));
  assert.ok(!refused.ok);
  assert.deepEqual([refused.code, refused.retryAfterSeconds], ["PAYMENT_SIMULATION_FAILED", 90]);
});

test("a payer whose settlements failed is refused for a while", async () => {
  const backOff = new BackOff({}, { clock: systemClock });
  await using careful = harness.open({}, undefined, harness.rpc, backOff);
  const key = await harness.payer();
  const payer = { network: NETWORK.network, from: key.address };
  for (let round = 0; round < 3; round++) {
    assert.equal(await verdict(careful, harness.pay(key)), "eoa");
    backOff.failed({ id: randomNonce(), key: payer });
  }
  const found = await verify(careful, harness.pay(key));
  assert.ok(!found.ok);
  assert.equal(found.code, "PAYMENT_SIMULATION_FAILED");
  assert.match(found.message ?? "", /ten minutes/);
  assert.equal(await verdict(careful, harness.pay(await harness.payer())), "eoa");
});
