import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { MessageShape } from "@bufbuild/protobuf";
import { utf8ToBytes } from "@turnpike/base";
import { accountAddress, cosmosPublicKey, cosmosSign, privateKeyFromSecret } from "@turnpike/crypto";
import {
  type Any,
  application,
  authz,
  bank,
  base,
  createMessage,
  cryptoMultisig,
  encodeMessage,
  packAny,
  shared,
  signing,
  supplier,
  tx as txs,
} from "@turnpike/proto";
import { bytesOfAddress, fund } from "../../test/recorded-tx.ts";
import { pocketMachine } from "../app/pocket-machine.ts";
import { packAccountKey } from "../modules/auth/account-keys.ts";
import { createAccount } from "../modules/auth/accounts.ts";
import { addressText } from "../state/addresses.ts";
import type { BlockInfo, Context } from "../state/context.ts";
import { GasMeter } from "../state/gas.ts";
import type { TxResult } from "../state/outcome.ts";
import { Overlay } from "../state/overlay.ts";

const EMPTY = { get: () => undefined, range: () => [] };
const { machine } = pocketMachine({ gasPrices: [] });
const key = privateKeyFromSecret(utf8ToBytes("sender"));
const publicKey = cosmosPublicKey(key);
const sender = accountAddress(publicKey);
const block: BlockInfo = {
  chainId: "pocket",
  heightBlocks: 7n,
  timeNanos: 1_800_000_000_000_000_000n,
  hash: new Uint8Array(32),
  proposer: new Uint8Array(0),
};
const coin = (amount: bigint): base.Coin => createMessage(base.CoinSchema, { denom: "upokt", amount: `${amount}` });
const addressAt = (i: number): string => {
  const bytes = new Uint8Array(20);
  new DataView(bytes.buffer).setUint32(0, i + 1);
  return addressText(bytes);
};

const state = new Overlay(EMPTY);
for (const [name, value] of machine.initGenesis(EMPTY, { ...block, heightBlocks: 0n }, {}).changes) {
  if (value !== undefined) state.set(name, value);
}
const ctx: Context = { block, mode: "block", state, gas: new GasMeter(), events: [] };
const { accountNumber } = createAccount(ctx, bytesOfAddress(sender)).base;
fund(ctx, sender, 10n ** 15n);

interface TxParts {
  readonly messages: readonly Any[];
  readonly signerKey?: Any;
  readonly memo?: string;
  readonly gasLimit?: bigint;
}

function txOf({ messages, signerKey, memo = "", gasLimit = 10n ** 12n }: TxParts): Uint8Array {
  const bodyBytes = encodeMessage(txs.TxBodySchema, createMessage(txs.TxBodySchema, { messages: [...messages], memo }));
  const authInfoBytes = encodeMessage(
    txs.AuthInfoSchema,
    createMessage(txs.AuthInfoSchema, {
      signerInfos: [
        {
          publicKey: signerKey ?? packAccountKey({ kind: "single", key: publicKey }),
          modeInfo: { sum: { case: "single", value: { mode: signing.SignMode.DIRECT } } },
        },
      ],
      fee: { gasLimit, amount: [coin(1n)] },
    }),
  );
  const document = createMessage(txs.SignDocSchema, {
    bodyBytes,
    authInfoBytes,
    chainId: block.chainId,
    accountNumber,
  });
  const signature = cosmosSign(encodeMessage(txs.SignDocSchema, document), key);
  const raw = createMessage(txs.TxRawSchema, { bodyBytes, authInfoBytes, signatures: [signature] });
  return encodeMessage(txs.TxRawSchema, raw);
}

const deliver = (bytes: Uint8Array): TxResult => machine.runTx(new Overlay(state), block, "deliver", bytes);

function multiSend(outputs: number): Any {
  const message = createMessage(bank.MsgMultiSendSchema, {
    inputs: [{ address: sender, coins: [coin(BigInt(outputs))] }],
    outputs: Array.from({ length: outputs }, (_, i) => ({ address: addressAt(i), coins: [coin(1n)] })),
  });
  return packAny(bank.MsgMultiSendSchema, message);
}

function multisigKey(members: number): Any {
  const member = packAccountKey({ kind: "single", key: publicKey });
  const message = createMessage(cryptoMultisig.LegacyAminoPubKeySchema, {
    threshold: 1,
    publicKeys: Array.from({ length: members }, () => member),
  });
  return packAny(cryptoMultisig.LegacyAminoPubKeySchema, message);
}

function stake(config: Partial<MessageShape<typeof shared.SupplierServiceConfigSchema>>): supplier.MsgStakeSupplier {
  return createMessage(supplier.MsgStakeSupplierSchema, {
    signer: sender,
    ownerAddress: sender,
    operatorAddress: sender,
    stake: coin(10n ** 9n),
    services: [
      createMessage(shared.SupplierServiceConfigSchema, {
        serviceId: "svc",
        endpoints: [],
        revShare: [createMessage(shared.ServiceRevenueShareSchema, { address: sender, revSharePercentage: 100n })],
        ...config,
      }),
    ],
  });
}

const endpoint = (url: string) =>
  createMessage(shared.SupplierEndpointSchema, { url, rpcType: shared.RPCType.JSON_RPC });
const exec = (messages: readonly Any[]): Any =>
  packAny(authz.MsgExecSchema, createMessage(authz.MsgExecSchema, { grantee: sender, msgs: [...messages] }));

suite("transactions beyond every bound", () => {
  const codes = (bytes: Uint8Array): TxResult => {
    const result = deliver(bytes);
    assert.notEqual(result.code, 0);
    assert.ok(result.log.length <= 2_048, `a log of ${result.log.length} characters`);
    return result;
  };

  test("attack: a transfer to 126,000 accounts in a proposer's block gives a code and stops no node", () => {
    codes(txOf({ messages: [multiSend(126_000)] }));
    const within = txOf({ messages: [multiSend(12_000)] });
    assert.ok(within.length < 1_048_576);
    assert.match(codes(within).log, /MsgMultiSend\.outputs has more than 10000 items/);
  });

  test("attack: a multisignature key of 126,000 members gives a code", () => {
    const send = createMessage(bank.MsgSendSchema, { fromAddress: sender, toAddress: sender, amount: [coin(1n)] });
    codes(txOf({ messages: [packAny(bank.MsgSendSchema, send)], signerKey: multisigKey(126_000) }));
    codes(txOf({ messages: [packAny(bank.MsgSendSchema, send)], signerKey: multisigKey(10_000) }));
  });

  test("attack: an endpoint's URL of 20 MB gives a code", () => {
    const url = `http://${"a".repeat(20_000_000)}`;
    codes(txOf({ messages: [packAny(supplier.MsgStakeSupplierSchema, stake({ endpoints: [endpoint(url)] }))] }));
    const within = endpoint(url.slice(0, 4_000));
    codes(txOf({ messages: [packAny(supplier.MsgStakeSupplierSchema, stake({ endpoints: [within] }))] }));
  });

  test("attack: 200,000 messages with their events give a code", () => {
    const send = packAny(
      bank.MsgSendSchema,
      createMessage(bank.MsgSendSchema, { fromAddress: sender, toAddress: sender, amount: [coin(1n)] }),
    );
    codes(txOf({ messages: Array.from({ length: 60_000 }, () => send) }));
  });

  test("attack: a transaction that names 60,000 services, in one message or many, gives a code", () => {
    const ofApplication = (count: number): Any => {
      const services = Array.from({ length: count }, () => ({ serviceId: "a" }));
      const message = { address: sender, stake: coin(10n ** 9n), services };
      return packAny(
        application.MsgStakeApplicationSchema,
        createMessage(application.MsgStakeApplicationSchema, message),
      );
    };
    const ofSupplier = (services: readonly { readonly serviceId: string }[]): Any => {
      const endpoints = [endpoint("http://a")];
      const configs = services.flatMap((service) => stake({ endpoints, ...service }).services);
      return packAny(supplier.MsgStakeSupplierSchema, { ...stake({}), services: configs });
    };
    const servicesOf = (count: number) => Array.from({ length: count }, (_, i) => ({ serviceId: `s${i}` }));
    const inOne = txOf({ messages: [ofApplication(60_000)] });
    assert.ok(inOne.length <= 1_048_576);
    assert.match(codes(inOne).log, /MsgStakeApplication\.services has more than 1000 items/);
    const inMany = txOf({ messages: Array.from({ length: 60 }, () => ofApplication(1_000)) });
    assert.ok(inMany.length <= 1_048_576);
    assert.match(codes(inMany).log, /the message has more than \d+ parts/);
    // As many whole configurations as fit: each is checked, and the first that does not exist ends the transaction.
    const asManyAsFit = txOf({ messages: Array.from({ length: 14 }, () => ofSupplier(servicesOf(1_000))) });
    assert.ok(asManyAsFit.length > 700_000 && asManyAsFit.length <= 1_048_576, String(asManyAsFit.length));
    assert.match(codes(asManyAsFit).log, /service "s0" does not exist/);
    codes(txOf({ messages: [exec(Array.from({ length: 60 }, () => ofApplication(1_000)))] }));
  });

  test("attack: a genesis of 130,000 balances is read, exported and read again", () => {
    const balances = Array.from({ length: 130_000 }, (_, i) => ({
      address: addressAt(i),
      coins: [{ denom: "upokt", amount: "1" }],
    }));
    const begun = new Overlay(EMPTY);
    const genesis = { ...block, heightBlocks: 0n };
    for (const [name, value] of machine.initGenesis(EMPTY, genesis, { bank: { balances } }).changes) {
      if (value !== undefined) begun.set(name, value);
    }
    const exported = machine.exportGenesis(begun, block);
    assert.equal((exported["bank"] as { balances: unknown[] }).balances.length, 130_000);
    assert.ok(machine.initGenesis(EMPTY, genesis, exported).changes.length > 260_000);
  });

  test("a transaction of more than 1 MiB is refused by its bytes alone, in every mode", () => {
    const memo = "a".repeat(1_048_576);
    const bytes = txOf({ messages: [multiSend(1)], memo });
    for (const mode of ["check", "recheck", "deliver", "simulate"] as const) {
      const result = machine.runTx(new Overlay(state), block, mode, bytes);
      assert.deepEqual([result.code, result.codespace, result.gasUsed], [21, "sdk", 0n]);
    }
  });

  test("attack: 365,000 empty endpoints inside MsgExec are refused before they are read, with a short text", () => {
    const endpoints = Array.from({ length: 365_000 }, () => createMessage(shared.SupplierEndpointSchema));
    const message = packAny(supplier.MsgStakeSupplierSchema, stake({ endpoints }));
    codes(txOf({ messages: [exec([message])] }));
    codes(txOf({ messages: [message] }));
  });

  test("a failed message deep inside MsgExec is logged in at most 2 KB", () => {
    const endpoints = Array.from({ length: 900 }, () => endpoint("http://a"));
    let message = packAny(supplier.MsgStakeSupplierSchema, stake({ endpoints, serviceId: "none" }));
    for (let depth = 0; depth < 6; depth++) message = exec([message]);
    codes(txOf({ messages: [message] }));
  });
});
