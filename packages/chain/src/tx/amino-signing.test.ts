import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  createMultisigThresholdPubkey,
  encodeSecp256k1Pubkey,
  type MultisigThresholdPubkey,
  pubkeyToAddress,
  Secp256k1Wallet,
} from "@cosmjs/amino";
import { encodePubkey, Registry, type TsProtoGeneratedType } from "@cosmjs/proto-signing";
import {
  AminoTypes,
  createDefaultAminoConverters,
  defaultRegistryTypes,
  type SignerData,
  SigningStargateClient,
} from "@cosmjs/stargate";
import { cosmosPublicKey, moduleAddress, privateKeyFromSecret } from "@turnpike/crypto";
import {
  type Any,
  AnySchema,
  createMessage,
  cryptoMultisig,
  cryptoMultisigV1,
  cryptoSecp256k1,
  decodeMessage,
  encodeMessage,
  gateway,
  packAny,
  signing,
  TimestampSchema,
  tx as txs,
} from "@turnpike/proto";
import { bytesOfAddress, fund } from "../../test/recorded-tx.ts";
import { StateMachine } from "../app/state-machine.ts";
import { createAccount } from "../modules/auth/accounts.ts";
import { authModule } from "../modules/auth/auth-module.ts";
import { getBalance } from "../modules/bank/balances.ts";
import { bankModule } from "../modules/bank/bank-module.ts";
import { gatewayModule } from "../modules/gateway/gateway-module.ts";
import type { BlockInfo, Context } from "../state/context.ts";
import { GasMeter } from "../state/gas.ts";
import type { TxResult } from "../state/outcome.ts";
import { Overlay } from "../state/overlay.ts";

const authority = moduleAddress("gov");
const machine = new StateMachine({ gasPrices: [] }, [
  authModule({ moduleAccounts: { fee_collector: [] }, authority }),
  bankModule({ blocked: new Set(), authority }),
  gatewayModule({ authority }),
]);
const CHAIN_ID = "pocket";
const block: BlockInfo = {
  chainId: CHAIN_ID,
  heightBlocks: 7n,
  timeNanos: 1_800_000_000_000_000_000n,
  hash: new Uint8Array(0),
  proposer: new Uint8Array(0),
};
const FUNDS = 1_000_000n;
const keys = ["a", "b", "c", "d"].map((name) => privateKeyFromSecret(Buffer.from(name)));
const pubkeys = keys.map((key) => encodeSecp256k1Pubkey(cosmosPublicKey(key)));
const wallets = await Promise.all(keys.map((key) => Secp256k1Wallet.fromKey(key, "pokt")));
const addresses = await Promise.all(wallets.map(async (wallet) => (await wallet.getAccounts())[0]?.address ?? ""));
const [me = "", receiver = ""] = addresses;
const group = createMultisigThresholdPubkey(pubkeys.slice(0, 3), 2, true);
const groupAddress = pubkeyToAddress(group, "pokt");

const UNSTAKE = "/pocket.gateway.MsgUnstakeGateway";
const unstakeType = {
  encode: (message: { readonly address: string }) => ({
    finish: () =>
      encodeMessage(gateway.MsgUnstakeGatewaySchema, createMessage(gateway.MsgUnstakeGatewaySchema, message)),
  }),
  decode: () => ({}),
  fromPartial: (message: object) => message,
} as unknown as TsProtoGeneratedType;
const registry = new Registry([...defaultRegistryTypes, [UNSTAKE, unstakeType]]);
const aminoTypes = new AminoTypes({
  ...createDefaultAminoConverters(),
  [UNSTAKE]: { aminoType: UNSTAKE, toAmino: (value: object) => value, fromAmino: (value: object) => value },
});

function contextOf(state: Overlay): Context {
  return { block, mode: "query", state, gas: new GasMeter(), events: [] };
}

/** A chain with these accounts, each with its place as number. */
function newState(owners: readonly string[] = [...addresses, groupAddress]): Overlay {
  const empty = { get: () => undefined, range: () => [] };
  const state = new Overlay(empty);
  const { changes } = machine.initGenesis(empty, { ...block, heightBlocks: 0n }, {});
  for (const [key, value] of changes) if (value !== undefined) state.set(key, value);
  for (const owner of owners) {
    createAccount(contextOf(state), bytesOfAddress(owner));
    fund(contextOf(state), owner, FUNDS);
  }
  return state;
}

// The first number is the fee collector's.
const numberOf = (address: string): bigint => BigInt([...addresses, groupAddress].indexOf(address) + 1);
const balanceOf = (state: Overlay, address: string): bigint =>
  getBalance(contextOf(state), bytesOfAddress(address), "upokt");
const deliver = (state: Overlay, bytes: Uint8Array): TxResult => machine.runTx(state, block, "deliver", bytes);
const sendFrom = (fromAddress: string, amount = "5"): { typeUrl: string; value: object } => ({
  typeUrl: "/cosmos.bank.v1beta1.MsgSend",
  value: { fromAddress, toAddress: receiver, amount: [{ denom: "upokt", amount }] },
});
const fee = (gas = "300000"): { amount: { denom: string; amount: string }[]; gas: string } => ({
  amount: [{ denom: "upokt", amount: "10" }],
  gas,
});
const signerData = (address: string, change: Partial<SignerData> = {}): SignerData => ({
  accountNumber: numberOf(address),
  sequence: 0,
  chainId: CHAIN_ID,
  ...change,
});

interface Wish {
  readonly messages?: readonly { typeUrl: string; value: object }[];
  readonly memo?: string;
  readonly data?: Partial<SignerData>;
  readonly timeoutHeight?: bigint;
}

async function signed({
  messages = [sendFrom(me)],
  memo = "",
  data = {},
  timeoutHeight,
}: Wish = {}): Promise<txs.TxRaw> {
  const wallet = wallets[0];
  assert.ok(wallet);
  const client = await SigningStargateClient.offline(wallet, { registry, aminoTypes });
  const raw = await client.sign(me, messages, fee(), memo, signerData(me, data), timeoutHeight);
  return createMessage(txs.TxRawSchema, raw);
}

const bytesOf = (raw: txs.TxRaw): Uint8Array => encodeMessage(txs.TxRawSchema, raw);

suite("a wallet that signs amino JSON alone (cosmjs Secp256k1Wallet)", () => {
  test("spends, with every member of the document that can be empty set and not set", async () => {
    const state = newState();
    const plain = deliver(state, bytesOf(await signed()));
    assert.equal(plain.code, 0, plain.log);
    const full = await signed({
      messages: [
        sendFrom(me),
        {
          typeUrl: "/cosmos.bank.v1beta1.MsgMultiSend",
          value: {
            inputs: [{ address: me, coins: [{ denom: "upokt", amount: "2" }] }],
            outputs: [{ address: receiver, coins: [{ denom: "upokt", amount: "2" }] }],
          },
        },
      ],
      memo: 'a <b> & "c" \\ é',
      data: { sequence: 1 },
      timeoutHeight: 9n,
    });
    const result = deliver(state, bytesOf(full));
    assert.equal(result.code, 0, result.log);
    assert.equal(balanceOf(state, receiver), FUNDS + 12n);
  });

  test("signs a message of the protocol under its type URL, which is what it has for an amino name", async () => {
    const raw = await signed({ messages: [{ typeUrl: UNSTAKE, value: { address: me } }] });
    const { code, log } = deliver(newState(), bytesOf(raw));
    assert.match(log, /failed to execute message; message index: 0: .*not found/);
    assert.equal(code, 1);
  });

  test("for another chain, account or sequence, and bent, is refused with the words that name the sequence", async () => {
    const refused =
      "signature verification failed; please verify account number (1), sequence (0) and chain-id (pocket)";
    for (const data of [{ chainId: "other" }, { accountNumber: 2n }]) {
      const { code, log } = deliver(newState(), bytesOf(await signed({ data })));
      assert.deepEqual([code, log], [4, `${refused}: unauthorized`]);
    }
    assert.equal(deliver(newState(), bytesOf(await signed({ data: { sequence: 1 } }))).code, 32);
    const raw = await signed();
    const bent = Uint8Array.from(raw.signatures[0] ?? []);
    bent[3] = (bent[3] ?? 0) ^ 1;
    assert.equal(deliver(newState(), bytesOf({ ...raw, signatures: [bent] })).code, 4);
  });

  test("what is not in the document cannot be added to what was signed", async () => {
    const raw = await signed();
    const unknown = Buffer.concat([raw.bodyBytes, Uint8Array.of(0xf2, 0x7f, 0x01, 0x30)]);
    assert.equal(deliver(newState(), bytesOf({ ...raw, bodyBytes: unknown })).code, 4);
    const body = decodeMessage(txs.TxBodySchema, raw.bodyBytes);
    assert.ok(body.ok);
    const later = createMessage(TimestampSchema, { seconds: 1_800_000_009n });
    const changes: readonly Partial<txs.TxBody>[] = [
      { memo: "other" },
      { timeoutHeight: 99n },
      { timeoutTimestamp: later },
      { unordered: true, timeoutTimestamp: later },
      {
        nonCriticalExtensionOptions: [
          packAny(cryptoSecp256k1.PubKeySchema, createMessage(cryptoSecp256k1.PubKeySchema)),
        ],
      },
    ];
    for (const change of changes) {
      const changed: Uint8Array = encodeMessage(
        txs.TxBodySchema,
        createMessage(txs.TxBodySchema, { ...body.message, ...change }),
      );
      assert.equal(deliver(newState(), bytesOf({ ...raw, bodyBytes: changed })).code, 4);
    }
  });
});

async function memberSignatures(
  by: readonly number[],
  change: Partial<SignerData> = {},
  address = groupAddress,
): Promise<{ bodyBytes: Uint8Array; signatures: Map<string, Uint8Array> }> {
  const signatures = new Map<string, Uint8Array>();
  let bodyBytes: Uint8Array = new Uint8Array(0);
  for (const i of by) {
    const wallet = wallets[i];
    assert.ok(wallet);
    const client = await SigningStargateClient.offline(wallet, { registry, aminoTypes });
    const data = { accountNumber: numberOf(groupAddress), sequence: 0, chainId: CHAIN_ID, ...change };
    const raw = await client.sign(addresses[i] ?? "", [sendFrom(address)], fee(), "", data);
    bodyBytes = raw.bodyBytes;
    signatures.set(addresses[i] ?? "", raw.signatures[0] ?? new Uint8Array(0));
  }
  return { bodyBytes, signatures };
}

/**
 * What cosmjs' `makeMultisignedTx` makes, field by field. It cannot be used itself: it decodes an address, which this release
 * of cosmjs cannot with the release of `@scure/base` that it brings.
 */
function multisigned(
  pubkey: MultisigThresholdPubkey,
  sequence: number,
  bodyBytes: Uint8Array,
  signatures: ReadonlyMap<string, Uint8Array>,
): { readonly bodyBytes: Uint8Array; readonly authInfo: txs.AuthInfo; readonly signatures: readonly Uint8Array[] } {
  const members = pubkey.value.pubkeys.map((member) => signatures.get(pubkeyToAddress(member, "pokt")));
  const elems = new Uint8Array(Math.ceil(members.length / 8));
  for (const [i, member] of members.entries()) {
    if (member !== undefined) elems[i >> 3] = (elems[i >> 3] ?? 0) | (0x80 >> (i % 8));
  }
  const given = members.filter((member) => member !== undefined);
  const mode = signing.SignMode.LEGACY_AMINO_JSON;
  const modeInfos = given.map(() => createMessage(txs.ModeInfoSchema, { sum: { case: "single", value: { mode } } }));
  const bitarray = createMessage(cryptoMultisigV1.CompactBitArraySchema, {
    elems,
    extraBitsStored: members.length % 8,
  });
  const modeInfo = createMessage(txs.ModeInfoSchema, { sum: { case: "multi", value: { bitarray, modeInfos } } });
  const publicKey = createMessage(AnySchema, encodePubkey(pubkey));
  const authInfo = createMessage(txs.AuthInfoSchema, {
    signerInfos: [{ publicKey, modeInfo, sequence: BigInt(sequence) }],
    fee: { amount: fee().amount, gasLimit: BigInt(fee().gas) },
  });
  return { bodyBytes, authInfo, signatures: given };
}

function multisignedBytes({ bodyBytes, authInfo, signatures }: ReturnType<typeof multisigned>): Uint8Array {
  const together = createMessage(cryptoMultisigV1.MultiSignatureSchema, { signatures: [...signatures] });
  return bytesOf(
    createMessage(txs.TxRawSchema, {
      bodyBytes,
      authInfoBytes: encodeMessage(txs.AuthInfoSchema, authInfo),
      signatures: [encodeMessage(cryptoMultisigV1.MultiSignatureSchema, together)],
    }),
  );
}

async function groupTx(by: readonly number[], change: Partial<SignerData> = {}): Promise<Uint8Array> {
  const { bodyBytes, signatures } = await memberSignatures(by, change);
  return multisignedBytes(multisigned(group, change.sequence ?? 0, bodyBytes, signatures));
}

/** The group's transaction, its signer's info and its signatures changed. */
async function bentGroupTx(
  by: readonly number[],
  bend: (info: txs.SignerInfo, signatures: readonly Uint8Array[]) => readonly Uint8Array[] | undefined,
): Promise<Uint8Array> {
  const { bodyBytes, signatures } = await memberSignatures(by);
  const parts = multisigned(group, 0, bodyBytes, signatures);
  const [info] = parts.authInfo.signerInfos;
  assert.ok(info);
  return multisignedBytes({ ...parts, signatures: bend(info, parts.signatures) ?? parts.signatures });
}

function multiOf(info: txs.SignerInfo): txs.ModeInfo_Multi {
  const sum = info.modeInfo?.sum;
  assert.ok(sum?.case === "multi");
  return sum.value;
}

suite("an account of a multisig key (cosmjs multisig tools)", () => {
  test("receives, and spends with as many signatures as its threshold says, whichever members they are", async () => {
    const state = newState();
    for (const [sequence, by] of [
      [0, 1],
      [1, 2],
      [0, 2],
      [0, 1, 2],
    ].entries()) {
      const { code, log, events } = deliver(state, await groupTx(by, { sequence }));
      assert.equal(code, 0, log);
      // One event for each signature, and one for all of them together.
      const shown = events.filter(({ attributes }) => attributes[0]?.key === "signature");
      assert.equal(shown.length, by.length + 1);
    }
    assert.equal(balanceOf(state, receiver), FUNDS + 20n);
    assert.equal(balanceOf(state, groupAddress), FUNDS - 60n);
  });

  test("takes the gas of each signature that is verified", async () => {
    const [two, three] = [await groupTx([0, 1]), await groupTx([0, 1, 2])];
    const used = [two, three].map((bytes) => deliver(newState(), bytes).gasUsed);
    const perByte = 10n * BigInt(three.length - two.length);
    assert.equal((used[1] ?? 0n) - (used[0] ?? 0n), 1000n + perByte);
  });

  test("is not spent by fewer, by others, by one twice, or with a signature for another chain", async () => {
    const words = "signature verification failed; please verify account number (5), sequence (0) and chain-id (pocket)";
    const cases: readonly (readonly [why: string, tx: Promise<Uint8Array>])[] = [
      ["one of two", groupTx([0])],
      ["another chain", groupTx([0, 1], { chainId: "other" })],
      ["bits for two, one signature for both", bentGroupTx([0, 1], (_, [first]) => first && [first, first])],
      ["the other order", bentGroupTx([0, 1], (_, signatures) => signatures.toReversed())],
      [
        "more bits than keys",
        bentGroupTx([0, 1], (info) => {
          multiOf(info).bitarray = createMessage(cryptoMultisigV1.CompactBitArraySchema, {
            elems: Uint8Array.of(0xc0),
          });
          return undefined;
        }),
      ],
    ];
    for (const [why, tx] of cases) {
      const state = newState();
      const { code, log } = deliver(state, await tx);
      assert.deepEqual([code, log], [4, `${words}: unauthorized`], why);
      assert.equal(balanceOf(state, groupAddress), FUNDS);
    }
  });

  test("forms that the SDK panics at are refused", async () => {
    const forms: readonly ((
      info: txs.SignerInfo,
      signatures: readonly Uint8Array[],
    ) => readonly Uint8Array[] | undefined)[] = [
      (_, [first]) => first && [first],
      (info) => {
        multiOf(info).modeInfos.pop();
        return undefined;
      },
      (info) => {
        info.modeInfo = createMessage(txs.ModeInfoSchema);
        return undefined;
      },
      (info) => {
        multiOf(info).bitarray = createMessage(cryptoMultisigV1.CompactBitArraySchema, { extraBitsStored: 3 });
        return undefined;
      },
      (info) => {
        const mode = signing.SignMode.LEGACY_AMINO_JSON;
        info.modeInfo = createMessage(txs.ModeInfoSchema, { sum: { case: "single", value: { mode } } });
        return undefined;
      },
    ];
    for (const bend of forms) {
      const { code, codespace } = deliver(newState(), await bentGroupTx([0, 1], bend));
      assert.deepEqual([code, codespace], [1, "undefined"]);
    }
  });

  test("needs a threshold, at most as many keys as signatures may be, and no deeper nesting than the SDK unpacks", async () => {
    const anyOf = (threshold: number, members: readonly Any[]): Any =>
      packAny(
        cryptoMultisig.LegacyAminoPubKeySchema,
        createMessage(cryptoMultisig.LegacyAminoPubKeySchema, { threshold, publicKeys: [...members] }),
      );
    const members = pubkeys.slice(0, 3).map((pubkey) => {
      const { typeUrl, value } = encodePubkey(pubkey);
      return packAny(cryptoSecp256k1.PubKeySchema, must(decodeMessage(cryptoSecp256k1.PubKeySchema, value), typeUrl));
    });
    let nested = anyOf(1, members);
    for (let i = 0; i < 90; i++) nested = anyOf(1, [nested]);
    const refused = [
      [anyOf(0, members), 8],
      [anyOf(4, members), 8],
      [nested, 2],
      [anyOf(2, members.toReversed()), 8],
    ] as const;
    for (const [publicKey, code] of refused) {
      const tx = await bentGroupTx([0, 1], (info) => {
        info.publicKey = publicKey;
        return undefined;
      });
      assert.equal(deliver(newState(), tx).code, code);
    }
    const many = createMultisigThresholdPubkey(
      Array.from({ length: 8 }, () => pubkeys[0] ?? assert.fail()),
      1,
      true,
    );
    const address = pubkeyToAddress(many, "pokt");
    const { bodyBytes, signatures } = await memberSignatures([0], {}, address);
    const tx = multisignedBytes(multisigned(many, 0, bodyBytes, signatures));
    const { code, log } = deliver(newState([...addresses, address]), tx);
    assert.deepEqual([code, log], [14, "signatures: 8, limit: 7: maximum number of signatures exceeded"]);
  });

  test("is simulated without signatures, and the gas is enough for the transaction", async () => {
    const bytes = await bentGroupTx([0, 1], () => [new Uint8Array(0), new Uint8Array(0)]);
    const simulated = machine.runTx(newState(), block, "simulate", bytes);
    assert.equal(simulated.code, 0, simulated.log);
    assert.ok(simulated.gasUsed >= deliver(newState(), await groupTx([0, 1])).gasUsed);
  });
});

function must<T>(decoded: { readonly ok: true; readonly message: T } | { readonly ok: false }, what: string): T {
  assert.ok(decoded.ok, what);
  return decoded.message;
}
