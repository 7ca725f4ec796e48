import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AppError, bytesToHex0x } from "@turnpike/base";
import { devRpc, setTokenBalance } from "@turnpike/localnet";
import { virtualClock } from "@turnpike/testkit";
import { delegateCode, deployGasBurner, sendMined } from "@turnpike/testkit/servers";
import { cancelAuthorization } from "../../test/engine-fixtures.ts";
import { overrideRpc } from "../../test/override-rpc.ts";
import {
  type Harness,
  type Key,
  NETWORK,
  newKey,
  signAuthorization,
  startHarness,
  startOwnHarness,
  verdict,
  verify,
  withSignature,
} from "../../test/verifier-fixtures.ts";
import { encodeTransferVrs } from "../evm/abi.ts";
import type { EvmVerifier } from "./verifier.ts";

let harness: Harness;
let verifier: EvmVerifier;
before(async () => {
  harness = await startHarness();
  verifier = harness.open();
});
after(async () => {
  await verifier?.[Symbol.asyncDispose]();
  await harness?.[Symbol.asyncDispose]();
});
const ORDER = BigInt("0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");

test("a good payment of a plain account is verified, with its balance and block", async () => {
  const key = await harness.payer(7_000n);
  const payment = harness.pay(key);
  const height = async (): Promise<bigint> => BigInt(String(await devRpc(harness.anvil.url, "eth_blockNumber")));
  const before = await height();
  const found = await verify(verifier, payment);
  assert.ok(found.ok);
  assert.equal(found.kind, "eoa");
  assert.equal(found.balance, 7_000n);
  assert.equal(found.payment, payment);
  // Other files may make blocks meanwhile.
  assert.ok(found.blockNumber >= before && found.blockNumber <= (await height()), `${found.blockNumber}`);
  // How exact it is stands in the tests of the chain's clock: blocks of a busy machine are seen late, and of a chain that
  // makes several in a second they run ahead of the machine's clock.
  const asked = [`0x${found.blockNumber.toString(16)}`, false];
  const { timestamp } = (await devRpc(harness.anvil.url, "eth_getBlockByNumber", asked)) as { timestamp: string };
  const lateSeconds = found.chainTimeSeconds - Number(timestamp);
  assert.ok(lateSeconds >= -1 && lateSeconds < 60, `${lateSeconds}`);
});

test("an account's funds are read with which of its nonces are used", async () => {
  const key = await harness.payer(7_000n);
  const [settled, open] = [harness.pay(key), harness.pay(key)];
  const data = encodeTransferVrs(settled.authorization, settled.signature);
  assert.equal((await sendMined(harness.anvil.url, { to: NETWORK.asset, data, gas: "0x40000" })).status, "0x1");
  const account = { network: NETWORK.network, asset: NETWORK.asset, from: key.address };
  const nonces = [settled.authorization.nonce, open.authorization.nonce];
  assert.deepEqual(await verifier.readFunds(account, nonces), { balance: 2_000n, used: [true, false] });
  assert.deepEqual(await verifier.readFunds(account, []), { balance: 2_000n, used: [] });
});

test("attack: a nonce that its payer has cancelled is not used: it moved no money", async () => {
  const key = await harness.payer(7_000n);
  const { nonce } = harness.pay(key).authorization;
  const payer = { privateKey: bytesToHex0x(key.secret), address: key.address };
  await cancelAuthorization(harness, payer, { key: { nonce } });
  const account = { network: NETWORK.network, asset: NETWORK.asset, from: key.address };
  assert.deepEqual(await verifier.readFunds(account, [nonce]), { balance: 7_000n, used: [false] });
});

test("free checks refuse another receiver, price or window before anything is asked", async () => {
  const key = newKey();
  const clock = virtualClock();
  const now = BigInt(Math.floor(clock.nowMs() / 1_000));
  const asked: string[] = [];
  const silent = (...methods: readonly string[]): Promise<never> => {
    asked.push(...methods);
    return Promise.reject(new AppError("SETTLEMENT_UNAVAILABLE"));
  };
  const rpc = overrideRpc(harness.rpc, {
    call: (method) => silent(method),
    batch: (calls) => silent(...calls.map(({ method }) => method)),
  });
  await using free = harness.open({}, clock, rpc);
  const cases = [
    [{ to: key.address }, "PAYMENT_RECEIVER_MISMATCH"],
    [{ value: 4_999n }, "PAYMENT_VALUE_MISMATCH"],
    [{ value: 5_001n }, "PAYMENT_VALUE_MISMATCH"],
    [{ validAfter: now + 30n }, "PAYMENT_NOT_YET_VALID"],
    [{ validAfter: 2n ** 256n - 1n }, "PAYMENT_NOT_YET_VALID"],
    [{ validBefore: now + 4n }, "PAYMENT_EXPIRED"],
    [{ validBefore: now - 100n }, "PAYMENT_EXPIRED"],
    [{ validBefore: 0n }, "PAYMENT_EXPIRED"],
    [{ validBefore: now + 600n + 300n + 30n }, "PAYMENT_WINDOW_TOO_LONG"],
    [{ validBefore: 2n ** 256n - 1n }, "PAYMENT_WINDOW_TOO_LONG"],
  ] as const;
  for (const [more, code] of cases) {
    const found = await free.checkFree(harness.pay(key, more));
    assert.equal(found.ok ? "ok" : found.code, code);
  }
  const spelled = harness.pay(key, { to: harness.option.payTo.toLowerCase() as `0x${string}` });
  assert.deepEqual(await free.checkFree(spelled), { ok: true, signer: "payer" });
  const skewed = harness.pay(key, { validBefore: now + 600n + 270n });
  assert.deepEqual(await free.checkFree(skewed), { ok: true, signer: "payer" }, "a payer's clock may be ahead");
  assert.deepEqual(new Set(asked), new Set(["eth_getBlockByNumber"]), "for the chain's time, and for no payment");
});

test("what checkSigner finds stands for a second recovery, and for no other check", async () => {
  const key = await harness.payer();
  const payment = harness.pay(key);
  const forged = withSignature(payment, signAuthorization(newKey(), payment.authorization));
  assert.deepEqual(await verifier.checkSigner(payment), { ok: true, signer: "payer" });
  assert.deepEqual(await verifier.checkSigner(forged), { ok: false, code: "PAYMENT_SIGNATURE_INVALID" });
  assert.deepEqual(await verifier.checkFree(payment, "payer"), { ok: true, signer: "payer" });
  // By what it was given: it does not look at the signature again.
  assert.deepEqual(await verifier.checkFree(payment, "unknown"), { ok: true, signer: "unknown" });
  const cheap = harness.pay(key, { value: 4_999n });
  const found = await verifier.checkFree(cheap, "payer");
  assert.equal(found.ok ? "ok" : found.code, "PAYMENT_VALUE_MISMATCH");
});

test("a signature that is not the payer's in the form tokens take is nobody's", async () => {
  const key = await harness.payer();
  const payment = harness.pay(key);
  const { signature } = payment;
  const bent = (change: (bytes: Uint8Array) => void): Uint8Array => {
    const bytes = Uint8Array.from(signature);
    change(bytes);
    return bytes;
  };
  const s = BigInt(bytesToHex0x(signature.subarray(32, 64)));
  const highS = bent((bytes) => {
    bytes.set(Buffer.from((ORDER - s).toString(16).padStart(64, "0"), "hex"), 32);
    bytes[64] = bytes[64] === 27 ? 28 : 27;
  });
  const forms: Record<string, Uint8Array> = {
    forged: signAuthorization(newKey(), payment.authorization),
    "high s": highS,
    "v of 0 or 1": bent((bytes) => bytes.set([(bytes[64] ?? 0) - 27], 64)),
    "v flipped": bent((bytes) => bytes.set([55 - (bytes[64] ?? 0)], 64)),
    "v of 29": bent((bytes) => bytes.set([29], 64)),
    "r of zero": bent((bytes) => bytes.fill(0, 0, 32)),
    "64 bytes": signature.subarray(0, 64),
    "66 bytes": Buffer.concat([signature, Uint8Array.of(0)]),
    "1 byte": Uint8Array.of(27),
    "other domain": signAuthorization(key, payment.authorization, "USD Coin"),
    "other nonce": signAuthorization(key, { ...payment.authorization, nonce: `0x${"00".repeat(32)}` }),
  };
  for (const [form, other] of Object.entries(forms)) {
    const copy = withSignature(payment, other);
    assert.deepEqual(await verifier.checkFree(copy), { ok: true, signer: "unknown" }, form);
    assert.equal(await verdict(verifier, copy), "PAYMENT_SIGNATURE_INVALID", form);
  }
  assert.equal(await verdict(verifier, payment), "eoa");
});

test("a used nonce, a forged copy of it, and a short balance are told apart", async () => {
  const key = await harness.payer(5_000n);
  const payment = harness.pay(key);
  const later = harness.pay(key);
  assert.equal(await verdict(verifier, payment), "eoa");
  const data = encodeTransferVrs(payment.authorization, payment.signature);
  assert.equal((await sendMined(harness.anvil.url, { to: NETWORK.asset, data })).status, "0x1");
  assert.equal(await verdict(verifier, payment), "PAYMENT_NONCE_USED");
  const forged = withSignature(payment, signAuthorization(newKey(), payment.authorization));
  assert.equal(await verdict(verifier, forged), "PAYMENT_SIGNATURE_INVALID");
  assert.equal(await verdict(verifier, later), "PAYMENT_INSUFFICIENT_FUNDS");
  await setTokenBalance(harness.anvil.url, { address: key.address, units: 4_999n });
  assert.equal(await verdict(verifier, later), "PAYMENT_INSUFFICIENT_FUNDS");
  await setTokenBalance(harness.anvil.url, { address: key.address, units: 5_000n });
  assert.equal(await verdict(verifier, later), "eoa");
});

test("payments of many and of one payer at once do not see each other", async () => {
  const many = await Promise.all(Array.from({ length: 60 }, () => harness.payer(5_000n)));
  const one = await harness.payer(5_000n);
  const poor = await harness.payer(10n);
  const payments = [
    ...many.map((key) => harness.pay(key)),
    ...Array.from({ length: 20 }, () => harness.pay(one)),
    harness.pay(poor),
  ];
  const copy = payments[0];
  assert.ok(copy);
  const copies = Array.from({ length: 10 }, () => ({ ...copy }));
  const verdicts = await Promise.all([...payments, ...copies].map((payment) => verdict(verifier, payment)));
  assert.deepEqual(verdicts.splice(80, 1), ["PAYMENT_INSUFFICIENT_FUNDS"]);
  assert.deepEqual(new Set(verdicts), new Set(["eoa"]));
});

test("accounts whose delegated code burns all gas (EIP-7702) spoil no payment that is verified beside them", async () => {
  const burner = await deployGasBurner(harness.anvil.url);
  const delegated = async (units: bigint): Promise<Key> => {
    const key = await harness.payer(units);
    await delegateCode(harness.anvil.url, key.address, burner);
    return key;
  };
  const honest = await Promise.all(Array.from({ length: 20 }, () => harness.payer(5_000n)));
  const unfunded = await Promise.all(Array.from({ length: 10 }, () => delegated(0n)));
  const funded = await Promise.all(Array.from({ length: 10 }, () => delegated(5_000n)));
  // Twice: what an account's first payment teaches must not be needed, nor harm its second.
  for (let round = 0; round < 2; round++) {
    const payments = Array.from({ length: 20 }, (_, at) => [honest[at], at < 10 ? unfunded[at] : funded[at - 10]]);
    const keys = payments.flat().filter((key) => key !== undefined);
    const verdicts = await Promise.all(keys.map((key) => verdict(verifier, harness.pay(key))));
    assert.deepEqual(
      verdicts,
      payments.flatMap((_, at) => ["eoa", at < 10 ? "PAYMENT_INSUFFICIENT_FUNDS" : "PAYMENT_SIGNATURE_INVALID"]),
    );
  }
});

test("an account that delegates after it was seen without code (EIP-7702) spoils no payment beside it", async () => {
  await using patient = harness.open({ codeCacheMs: 600_000 });
  const burner = await deployGasBurner(harness.anvil.url);
  const attacker = await harness.payer(5_000n);
  assert.equal(await verdict(patient, harness.pay(attacker)), "eoa");
  await delegateCode(harness.anvil.url, attacker.address, burner);
  const honest = await Promise.all(Array.from({ length: 20 }, () => harness.payer(5_000n)));
  const verdicts = await Promise.all([attacker, ...honest].map((key) => verdict(patient, harness.pay(key))));
  assert.deepEqual(verdicts, ["PAYMENT_SIGNATURE_INVALID", ...honest.map(() => "eoa")]);
});

test("a payment whose window opened after the newest block is taken", async () => {
  // A chain that makes no blocks while idle.
  await using idle = await startOwnHarness();
  const key = await idle.payer();
  const blockTime = await idle.blockTime();
  await using later = idle.open({}, virtualClock((blockTime + 60) * 1_000));
  const window = { validAfter: BigInt(blockTime) + 50n, validBefore: BigInt(blockTime) + 600n };
  const known = idle.pay(key, { validBefore: window.validBefore });
  assert.equal(await verdict(later, known), "eoa", "the newest block has been seen");
  assert.equal(await verdict(later, idle.pay(key, window)), "eoa");
  assert.equal(await idle.blockTime(), blockTime, "the newest block is still the one before the window");
  const tooEarly = idle.pay(key, { ...window, validAfter: BigInt(blockTime) + 90n });
  assert.equal(await verdict(later, tooEarly), "PAYMENT_NOT_YET_VALID");
});

test("an option of an unknown network or token is refused", async () => {
  const payment = harness.pay(newKey());
  const option = { ...harness.option, asset: newKey().address };
  assert.equal(await verdict(verifier, { ...payment, option }), "PAYMENT_OPTION_UNKNOWN");
});

test("a signal ends the wait of one caller alone", async () => {
  const payment = harness.pay(await harness.payer());
  const controller = new AbortController();
  const gone = verifier.checkChain(payment, "payer", controller.signal);
  const stays = verifier.checkChain(payment, "payer");
  const reason = new Error("gone");
  controller.abort(reason);
  await assert.rejects(gone, reason);
  assert.equal((await stays).ok, true);
  await assert.rejects(verifier.checkChain(payment, "payer", controller.signal), reason);
});
