import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { accountAddress, cosmosPublicKey, cosmosSign, moduleAddress, privateKeyFromSecret } from "@turnpike/crypto";
import {
  auth,
  bank,
  base,
  cometAbci,
  createMessage,
  cryptoSecp256k1,
  encodeMessage,
  packAny,
  signing,
  toApiJson,
  tx as txs,
} from "@turnpike/proto";
import { fc } from "@turnpike/testkit/property";
import { StateMachine } from "../app/state-machine.ts";
import { authParams, DEFAULT_AUTH_PARAMS } from "../modules/auth/accounts.ts";
import { authModule } from "../modules/auth/auth-module.ts";
import { paramsFault } from "../modules/auth/params.ts";
import { balances, getSupply } from "../modules/bank/balances.ts";
import { bankModule } from "../modules/bank/bank-module.ts";
import type { BlockInfo, Context } from "../state/context.ts";
import { GasMeter } from "../state/gas.ts";
import { Overlay } from "../state/overlay.ts";

const EMPTY = { get: () => undefined, range: () => [] };
const authority = moduleAddress("gov");
const machine = new StateMachine({ gasPrices: [] }, [
  authModule({ moduleAccounts: { fee_collector: [] }, authority }),
  bankModule({ blocked: new Set([moduleAddress("fee_collector")]), authority }),
]);
const keys = ["a", "b", "c"].map((name) => privateKeyFromSecret(Buffer.from(name)));
const addresses = keys.map((key) => accountAddress(cosmosPublicKey(key)));
const START = 1_000_000n;
const SECOND = 1_000_000_000n;
const NOW = 1_800_000_000n * SECOND;
const blockAt = (heightBlocks: bigint, timeNanos = NOW): BlockInfo => ({
  chainId: "pocket",
  heightBlocks,
  timeNanos,
  hash: new Uint8Array(0),
  proposer: new Uint8Array(0),
});
const coin = (amount: bigint): base.Coin => createMessage(base.CoinSchema, { denom: "upokt", amount: `${amount}` });

function newState(): Overlay {
  const appState = {
    auth: toApiJson(
      auth.GenesisStateSchema,
      createMessage(auth.GenesisStateSchema, {
        accounts: addresses.map((address, i) =>
          packAny(auth.BaseAccountSchema, createMessage(auth.BaseAccountSchema, { address, accountNumber: BigInt(i) })),
        ),
        params: {
          maxMemoCharacters: 256n,
          txSigLimit: 7n,
          txSizeCostPerByte: 10n,
          sigVerifyCostEd25519: 590n,
          sigVerifyCostSecp256k1: 1000n,
        },
      }),
    ),
    bank: toApiJson(
      bank.GenesisStateSchema,
      createMessage(bank.GenesisStateSchema, {
        params: { defaultSendEnabled: true },
        balances: addresses.map((address) => createMessage(bank.BalanceSchema, { address, coins: [coin(START)] })),
      }),
    ),
  };
  const state = new Overlay(EMPTY);
  for (const [key, value] of machine.initGenesis(EMPTY, blockAt(0n), appState).changes) {
    if (value !== undefined) state.set(key, value);
  }
  return state;
}

interface Wish {
  readonly from: number;
  readonly to: string;
  readonly amount: bigint;
  readonly sequence: bigint;
  readonly gas?: bigint;
  readonly memo?: string;
  readonly fee?: bigint;
  readonly timeout?: bigint;
  readonly chainId?: string;
  readonly signer?: number;
}

function signed(wish: Wish): txs.TxRaw {
  const send = createMessage(bank.MsgSendSchema, {
    fromAddress: addresses[wish.from] ?? "",
    toAddress: wish.to,
    amount: [coin(wish.amount)],
  });
  const bodyBytes = encodeMessage(
    txs.TxBodySchema,
    createMessage(txs.TxBodySchema, {
      messages: [packAny(bank.MsgSendSchema, send)],
      memo: wish.memo ?? "",
      ...(wish.timeout === undefined
        ? {}
        : {
            unordered: true,
            timeoutTimestamp: { seconds: wish.timeout / SECOND, nanos: Number(wish.timeout % SECOND) },
          }),
    }),
  );
  const key = keys[wish.signer ?? wish.from] ?? new Uint8Array(0);
  const publicKey = packAny(
    cryptoSecp256k1.PubKeySchema,
    createMessage(cryptoSecp256k1.PubKeySchema, { key: cosmosPublicKey(key) }),
  );
  const authInfoBytes = encodeMessage(
    txs.AuthInfoSchema,
    createMessage(txs.AuthInfoSchema, {
      signerInfos: [
        {
          publicKey,
          sequence: wish.sequence,
          modeInfo: { sum: { case: "single", value: { mode: signing.SignMode.DIRECT } } },
        },
      ],
      fee: { amount: wish.fee === 0n ? [] : [coin(wish.fee ?? 10n)], gasLimit: wish.gas ?? 500_000n },
    }),
  );
  const document = createMessage(txs.SignDocSchema, {
    bodyBytes,
    authInfoBytes,
    chainId: wish.chainId ?? "pocket",
    accountNumber: BigInt(wish.from),
  });
  const signature = cosmosSign(encodeMessage(txs.SignDocSchema, document), key);
  return createMessage(txs.TxRawSchema, { bodyBytes, authInfoBytes, signatures: [signature] });
}

const bytesOf = (raw: txs.TxRaw): Uint8Array => encodeMessage(txs.TxRawSchema, raw);
const tx = (wish: Partial<Wish> = {}): Uint8Array =>
  bytesOf(signed({ from: 0, to: addresses[1] ?? "", amount: 5n, sequence: 0n, ...wish }));

function sums(state: Overlay): { supply: bigint; sum: bigint } {
  const ctx: Context = { block: blockAt(1n), mode: "query", state, gas: new GasMeter(), events: [] };
  let sum = 0n;
  for (const [, amount] of balances.entries(ctx)) {
    assert.ok(amount > 0n);
    sum += amount;
  }
  return { supply: getSupply(ctx, "upokt"), sum };
}

const deliver = (state: Overlay, bytes: Uint8Array, block = blockAt(1n)): number =>
  machine.runTx(state, block, "deliver", bytes).code;

suite("hostile transactions", () => {
  test("the same bytes again, another chain's, another's key, a bent signature, a missing one", () => {
    const state = newState();
    assert.equal(deliver(state, tx({ chainId: "other" })), 4);
    assert.equal(deliver(state, tx({ signer: 1 })), 8);
    assert.equal(deliver(state, tx({ sequence: 1n })), 32);
    const raw = signed({ from: 0, to: addresses[1] ?? "", amount: 5n, sequence: 0n });
    const bent = Uint8Array.from(raw.signatures[0] ?? []);
    bent[5] = (bent[5] ?? 0) ^ 1;
    assert.equal(deliver(state, bytesOf({ ...raw, signatures: [bent] })), 4);
    assert.equal(deliver(state, bytesOf({ ...raw, signatures: [] })), 15);
    assert.equal(deliver(state, bytesOf({ ...raw, signatures: [bent, bent] })), 4);
    assert.deepEqual(sums(state), { supply: 3n * START, sum: 3n * START });
    assert.equal(deliver(state, bytesOf(raw)), 0);
    assert.equal(deliver(state, bytesOf(raw)), 32);
  });

  test("bytes that are cut, padded, unknown, not canonical or of no handled message are code 2 or 6", () => {
    const state = newState();
    const good = tx();
    const junk = [
      good.subarray(0, -1),
      Buffer.concat([good, Uint8Array.of(0x20, 0x01)]),
      Buffer.concat([good, Uint8Array.of(0x0a, 0x00)]),
      Buffer.concat([good.subarray(0, 1), Uint8Array.of((good[1] ?? 0) | 0x80, 0x81, 0x00), good.subarray(3)]),
    ];
    for (const bytes of junk) assert.equal(deliver(state, bytes), 2);
    const raw = signed({ from: 0, to: addresses[1] ?? "", amount: 5n, sequence: 0n });
    const critical = Buffer.concat([raw.bodyBytes, Uint8Array.of(0x78, 0x01)]);
    assert.equal(deliver(state, bytesOf({ ...raw, bodyBytes: critical })), 2);
    const foreign = createMessage(txs.TxBodySchema, {
      messages: [{ typeUrl: "/no.such.Msg", value: new Uint8Array(0) }],
    });
    const params = packAny(auth.ParamsSchema, createMessage(auth.ParamsSchema));
    const unhandled = createMessage(txs.TxBodySchema, { messages: [params] });
    assert.equal(deliver(state, bytesOf({ ...raw, bodyBytes: encodeMessage(txs.TxBodySchema, foreign) })), 2);
    assert.equal(deliver(state, bytesOf({ ...raw, bodyBytes: encodeMessage(txs.TxBodySchema, unhandled) })), 6);
    assert.equal(deliver(state, bytesOf({ ...raw, bodyBytes: new Uint8Array(0) })), 18);
  });

  // One such transaction ended CometBFT's connection to the mempool, and with it the chain.
  test("gas of more than 63 bits is refused, and the answer holds it as Go casts it", () => {
    for (const [gas, shown] of [
      [2n ** 63n, -(2n ** 63n)],
      [2n ** 64n - 1n, -1n],
    ] as const) {
      for (const mode of ["check", "recheck", "deliver", "simulate"] as const) {
        const result = machine.runTx(newState(), blockAt(1n), mode, tx({ gas }));
        assert.deepEqual([result.code, result.codespace], [18, "sdk"], mode);
        const answer = createMessage(cometAbci.ResponseCheckTxSchema, { ...result, events: [] });
        assert.ok(encodeMessage(cometAbci.ResponseCheckTxSchema, answer).length > 0);
        if (mode !== "simulate") assert.equal(answer.gasWanted, shown, mode);
      }
    }
  });

  test("attack: gas prices at which no answer could hold the gas used", () => {
    const most = 2n ** 64n - 1n;
    const params = createMessage(auth.ParamsSchema, {
      maxMemoCharacters: most,
      txSigLimit: most,
      txSizeCostPerByte: most,
      sigVerifyCostEd25519: most,
      sigVerifyCostSecp256k1: most,
    });
    assert.match(paramsFault(params) ?? "", /^invalid tx signature limit: 18446744073709551615, maximum 1000$/);
    assert.equal(paramsFault(DEFAULT_AUTH_PARAMS), undefined);
    for (const name of [
      "maxMemoCharacters",
      "txSizeCostPerByte",
      "sigVerifyCostEd25519",
      "sigVerifyCostSecp256k1",
    ] as const) {
      assert.match(paramsFault({ ...DEFAULT_AUTH_PARAMS, [name]: most }) ?? "", /maximum/, name);
    }
    // A state of before the bounds may have them.
    for (const mode of ["check", "recheck", "deliver", "simulate"] as const) {
      const state = newState();
      const ctx: Context = { block: blockAt(1n), mode: "deliver", state, gas: new GasMeter(), events: [] };
      authParams.set(ctx, undefined, { ...params, txSigLimit: 7n });
      const result = machine.runTx(state, blockAt(1n), mode, tx({ gas: 2n ** 63n - 1n }));
      assert.deepEqual([result.code, result.codespace], [11, "sdk"], mode);
      const answer = createMessage(cometAbci.ExecTxResultSchema, { ...result, events: [] });
      assert.ok(encodeMessage(cometAbci.ExecTxResultSchema, answer).length > 0);
      assert.equal(answer.gasUsed, 2n ** 63n - 1n);
    }
  });

  test("no bytes at all are a transaction without messages, as recorded", () => {
    const result = machine.runTx(newState(), blockAt(5n), "check", new Uint8Array(0));
    assert.deepEqual(
      [result.code, result.codespace, result.log],
      [18, "sdk", "must contain at least one message: invalid request"],
    );
  });

  test("random bytes, and random changes of a right transaction, never throw and never make money", () => {
    const state = newState();
    const good = tx();
    fc.assert(
      fc.property(fc.nat(good.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const bytes = Uint8Array.from(good);
        bytes[at] = (bytes[at] ?? 0) ^ change;
        assert.notEqual(deliver(state, bytes), 0);
      }),
      { numRuns: 150 },
    );
    // 18: bytes that say nothing, such as none.
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => assert.ok([2, 18].includes(deliver(state, bytes)))),
    );
    assert.deepEqual(sums(state), { supply: 3n * START, sum: 3n * START });
  });

  test("a message that fails, or runs out of gas, is undone; fee and sequence stay", () => {
    const state = newState();
    assert.equal(deliver(state, tx({ amount: START })), 5);
    assert.equal(deliver(state, tx({ sequence: 1n, amount: 0n })), 10);
    assert.equal(deliver(state, tx({ sequence: 2n, amount: -5n })), 10);
    assert.equal(deliver(state, tx({ sequence: 3n, to: moduleAddress("fee_collector") })), 4);
    const used = machine.runTx(new Overlay(state), blockAt(1n), "deliver", tx({ sequence: 4n })).gasUsed;
    assert.equal(deliver(state, tx({ sequence: 4n, gas: used - 1n })), 11);
    assert.equal(deliver(state, tx({ sequence: 5n, gas: 0n })), 11);
    assert.equal(deliver(state, tx({ sequence: 5n, memo: "m".repeat(257) })), 12);
    assert.equal(deliver(state, tx({ sequence: 5n, fee: 2n * START })), 5);
    assert.equal(deliver(state, tx({ sequence: 5n, to: addresses[0] ?? "" })), 0);
    assert.deepEqual(sums(state), { supply: 3n * START, sum: 3n * START });
  });

  test("an unordered transaction is taken once until its timeout, and never after", () => {
    const state = newState();
    const timeout = NOW + 60n * SECOND;
    const bytes = tx({ timeout });
    assert.equal(deliver(state, bytes), 0);
    const again = machine.runTx(state, blockAt(1n), "deliver", bytes);
    const words = `failed to add unordered nonce: sender ${addresses[0]} has already used timeout ${timeout}`;
    assert.deepEqual([again.code, again.log], [18, `${words}: invalid request`]);
    assert.equal(deliver(state, tx({ timeout, amount: 6n })), 18);
    const atTimeout = machine.runBlock(state, blockAt(2n, timeout), [bytes]);
    assert.equal(atTimeout.results[0]?.code, 18);
    assert.equal(machine.runBlock(state, blockAt(2n, timeout + 1n), [bytes]).results[0]?.code, 42);
    assert.equal(deliver(state, tx({ timeout: NOW + 600n * SECOND + 1n })), 18);
    assert.equal(deliver(state, tx({ timeout: NOW + 600n * SECOND })), 0);
    assert.equal(deliver(state, tx({ timeout: NOW - 1n })), 42);
    assert.equal(deliver(state, tx({ timeout: NOW + 1n, sequence: 7n })), 18);
    assert.equal(deliver(state, tx()), 0);
  });

  test("an unordered transaction is not taken again by a chain that begins with what this one exported", () => {
    const state = newState();
    const bytes = tx({ timeout: NOW + 60n * SECOND });
    assert.equal(deliver(state, bytes), 0);
    const exported = machine.exportGenesis(state, blockAt(1n));
    const next = new Overlay(EMPTY);
    const { changes } = machine.initGenesis(EMPTY, blockAt(0n), exported);
    for (const [key, value] of changes) if (value !== undefined) next.set(key, value);
    assert.deepEqual(next.changes(), state.changes());
    assert.equal(deliver(next, bytes), 18);
    const { auth: accounts, ...others } = exported as { auth: { unordered_nonces: unknown[] } };
    const [nonce] = accounts.unordered_nonces as { address: string; timeout_nanos: string }[];
    for (const bad of [
      [nonce, nonce],
      [{ ...nonce, address: "nobody" }],
      [{ ...nonce, timeout_nanos: "-1" }],
      [{ ...nonce, timeout_nanos: "9".repeat(19) }],
      [7],
      "x",
    ]) {
      const appState = { ...others, auth: { ...accounts, unordered_nonces: bad } };
      assert.throws(() => machine.initGenesis(EMPTY, blockAt(0n), appState), { code: "CONFIG_INVALID" });
    }
    machine.runBlock(next, blockAt(2n, NOW + 61n * SECOND), []).changes.forEach(([key, value]) => {
      if (value === undefined) next.delete(key);
      else next.set(key, value);
    });
    assert.ok(!("unordered_nonces" in (machine.exportGenesis(next, blockAt(2n))["auth"] as object)));
  });

  test("an amount that is no number of 256 bits is no transaction", () => {
    for (const amount of ["", "x", "1.5", "0x10", "1_000", " 1", "9".repeat(78)]) {
      const message = createMessage(bank.MsgSendSchema, {
        fromAddress: addresses[0] ?? "",
        toAddress: addresses[1] ?? "",
        amount: [createMessage(base.CoinSchema, { denom: "upokt", amount })],
      });
      const body = createMessage(txs.TxBodySchema, { messages: [packAny(bank.MsgSendSchema, message)] });
      const raw = signed({ from: 0, to: addresses[1] ?? "", amount: 5n, sequence: 0n });
      const bytes = bytesOf({ ...raw, bodyBytes: encodeMessage(txs.TxBodySchema, body) });
      const { code, codespace } = machine.runTx(newState(), blockAt(1n), "deliver", bytes);
      // None at all is for the message to refuse, whose signature is asked for first.
      assert.deepEqual([code, codespace], [amount === "" ? 4 : 2, "sdk"], amount);
    }
  });

  test("a time that is none is no transaction", () => {
    const raw = signed({ from: 0, to: addresses[1] ?? "", amount: 5n, sequence: 0n });
    const times = [
      { seconds: 253_402_300_800n },
      { seconds: -62_135_596_801n },
      { seconds: (1n << 63n) - 1n, nanos: 5 },
      { seconds: 1_900_000_000n, nanos: -1 },
      { seconds: 1_900_000_000n, nanos: 1_000_000_000 },
    ];
    for (const timeoutTimestamp of times) {
      const message = createMessage(bank.MsgSendSchema, { fromAddress: addresses[0] ?? "" });
      const init = { messages: [packAny(bank.MsgSendSchema, message)], timeoutTimestamp };
      const bodyBytes = encodeMessage(txs.TxBodySchema, createMessage(txs.TxBodySchema, init));
      assert.equal(deliver(newState(), bytesOf({ ...raw, bodyBytes })), 2);
    }
  });

  test("simulating needs no signature, changes nothing outside its overlay, and comes near the gas of the real run", () => {
    const state = newState();
    const raw = signed({ from: 0, to: addresses[1] ?? "", amount: 5n, sequence: 0n, gas: 0n });
    for (const signatures of [[], [new Uint8Array(0)], raw.signatures]) {
      const result = machine.runTx(new Overlay(state), blockAt(1n), "simulate", bytesOf({ ...raw, signatures }));
      assert.equal(result.code, 0, result.log);
      assert.ok(result.gasUsed > 40_000n);
    }
    assert.equal(deliver(state, tx()), 0);
  });

  test("supply is the sum of all balances after every random history", () => {
    const step = fc.record({
      from: fc.nat(2),
      to: fc.constantFrom(...addresses, moduleAddress("x"), moduleAddress("fee_collector")),
      amount: fc.bigInt(-3n, START + 10n),
      fee: fc.bigInt(0n, 2000n),
      gas: fc.constantFrom(500_000n, 60_000n, 40_000n, 5000n),
      skew: fc.nat(9),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const state = newState();
        const sequences = [0n, 0n, 0n];
        for (const { skew, ...wish } of steps) {
          const sequence = (sequences[wish.from] ?? 0n) + (skew === 0 ? 1n : 0n);
          const { events } = machine.runTx(state, blockAt(1n), "deliver", tx({ ...wish, sequence }));
          if (events.length > 0) sequences[wish.from] = sequence + 1n;
          assert.deepEqual(sums(state), { supply: 3n * START, sum: 3n * START });
        }
      }),
      { numRuns: 25 },
    );
  });
});
