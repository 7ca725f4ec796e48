import { type ChainSigner, packPublicKey, signTx } from "@turnpike/chain-client";
import { ACCOUNT_PREFIX, encodeBech32 } from "@turnpike/crypto";
import {
  type Any,
  bank,
  createMessage,
  cryptoMultisig,
  encodeMessage,
  packAny,
  shared,
  signing,
  supplier,
  tx as txs,
} from "@turnpike/proto";

/** Account that signs what a byzantine proposer puts into its blocks. */
export interface ByzantineAccount {
  readonly signer: ChainSigner;
  readonly accountNumber: bigint;
  readonly chainId: string;
}

/** Block that CometBFT offers to a proposer. */
export interface OfferedBlock {
  readonly heightBlocks: bigint;
  readonly timeNanos: bigint;
  readonly txs: readonly Uint8Array[];
}

type MakeBlock = (offered: OfferedBlock, account: ByzantineAccount) => Uint8Array[];

const MANY = 126_000;
const SHORT_ADDRESS = encodeBech32(ACCOUNT_PREFIX, Uint8Array.of(7));
const TIMEOUT_NANOS = 60_000_000_000n;
const FEE = [{ denom: "upokt", amount: 1n }];
const SEND_GAS = 300_000n;
const BIG_GAS = 390_000_000n;
const MAX_UINT64 = 2n ** 64n - 1n;
let mark = 0n;

function signed(
  messages: readonly Any[],
  { timeNanos }: OfferedBlock,
  { signer, accountNumber, chainId }: ByzantineAccount,
  gasLimit: bigint,
): Uint8Array {
  // The chain tells an account's unordered transactions apart by this time alone.
  const order = { kind: "unordered", timeoutNanos: timeNanos + TIMEOUT_NANOS + mark++ } as const;
  return signTx({ messages, chainId, accountNumber, order, gasLimit, fee: FEE }, signer);
}

const coins = (amount: number) => [{ denom: "upokt", amount: `${amount}` }];

function sendOf({ signer: { address } }: ByzantineAccount): Any {
  const send = { fromAddress: address, toAddress: address, amount: coins(1) };
  return packAny(bank.MsgSendSchema, createMessage(bank.MsgSendSchema, send));
}

const manyOutputs: MakeBlock = (offered, account) => {
  const { address } = account.signer;
  // A short address keeps the block small enough to reach the others in time.
  const output = createMessage(bank.OutputSchema, { address: SHORT_ADDRESS, coins: coins(1) });
  const send = createMessage(bank.MsgMultiSendSchema, {
    inputs: [{ address, coins: coins(MANY) }],
    outputs: Array.from({ length: MANY }, () => output),
  });
  return [signed([packAny(bank.MsgMultiSendSchema, send)], offered, account, BIG_GAS)];
};

const manyMembers: MakeBlock = (offered, account) => {
  const key = packPublicKey(account.signer.publicKey);
  const multisig = createMessage(cryptoMultisig.LegacyAminoPubKeySchema, {
    threshold: 1,
    publicKeys: Array.from({ length: MANY }, () => key),
  });
  const raw = signed([sendOf(account)], offered, account, SEND_GAS);
  const modeInfo = { sum: { case: "single" as const, value: { mode: signing.SignMode.DIRECT } } };
  const publicKey = packAny(cryptoMultisig.LegacyAminoPubKeySchema, multisig);
  const authInfoBytes = encodeMessage(
    txs.AuthInfoSchema,
    createMessage(txs.AuthInfoSchema, {
      signerInfos: [{ publicKey, modeInfo, sequence: 0n }],
      // Gas for all bytes, so that the key is read.
      fee: { amount: coins(1), gasLimit: BIG_GAS },
    }),
  );
  return [replaceAuthInfo(raw, authInfoBytes)];
};

function replaceAuthInfo(bytes: Uint8Array, authInfoBytes: Uint8Array): Uint8Array {
  // Field 1 of TxRaw comes first: the body with its length.
  const bodyEnd = 1 + lengthAt(bytes, 1);
  const body = bytes.subarray(0, bodyEnd);
  const otherFields = createMessage(txs.TxRawSchema, { authInfoBytes, signatures: [new Uint8Array(64)] });
  return Buffer.concat([body, encodeMessage(txs.TxRawSchema, otherFields)]);
}

/** Bytes of a length prefix and of what it counts. */
function lengthAt(bytes: Uint8Array, start: number): number {
  let [length, shift, at] = [0, 0, start];
  for (;;) {
    const byte = bytes[at++] ?? 0;
    length += (byte & 0x7f) * 2 ** shift;
    if (byte < 128) return at - start + length;
    shift += 7;
  }
}

const longUrl: MakeBlock = (offered, account) => {
  const { address } = account.signer;
  const stake = createMessage(supplier.MsgStakeSupplierSchema, {
    signer: address,
    ownerAddress: address,
    operatorAddress: address,
    stake: { denom: "upokt", amount: "1000000000" },
    services: [
      {
        serviceId: "eth",
        endpoints: [{ url: `http://${"a".repeat(9_000_000)}`, rpcType: shared.RPCType.JSON_RPC }],
        revShare: [{ address, revSharePercentage: 100n }],
      },
    ],
  });
  return [signed([packAny(supplier.MsgStakeSupplierSchema, stake)], offered, account, BIG_GAS)];
};

const duplicates: MakeBlock = (offered, account) => {
  const tx = offered.txs[0] ?? signed([sendOf(account)], offered, account, SEND_GAS);
  return [...Array.from({ length: 50 }, () => tx), ...offered.txs, ...offered.txs];
};

const noise: MakeBlock = ({ heightBlocks, txs: offered }) => {
  const random = (length: number, fill: number): Uint8Array =>
    Uint8Array.from({ length }, (_, index) => (index * fill + Number(heightBlocks % 251n)) % 256);
  const broken = offered.map((tx) => tx.subarray(0, tx.length >> 1));
  return [new Uint8Array(0), new Uint8Array(0), random(1, 1), random(33, 7), random(5_000, 13), ...broken];
};

const gasOverflow: MakeBlock = (offered, account) =>
  [2n ** 63n - 1n, 2n ** 63n - 1n, 2n ** 63n, MAX_UINT64, MAX_UINT64, 2n, 1n].map((gasLimit) =>
    signed([sendOf(account)], offered, account, gasLimit),
  );

const manySmall: MakeBlock = () => Array.from({ length: 50_000 }, (_, index) => Uint8Array.of(index % 256));

const fullOfNoise: MakeBlock = () => Array.from({ length: 8 }, (_, index) => new Uint8Array(1_000_000).fill(index + 1));

const justTooLarge: MakeBlock = () => [new Uint8Array(1_048_577).fill(10)];

const manySends: MakeBlock = (offered, account) =>
  Array.from({ length: 300 }, () => signed([sendOf(account)], offered, account, SEND_GAS));

const inReverse: MakeBlock = ({ txs: offered }) => [...offered].reverse();

/** Blocks of a byzantine proposer by kind, in the order in which it proposes them; every other block is an honest one. */
export const BYZANTINE_BLOCKS: Readonly<Record<string, MakeBlock>> = {
  "a send to 126,000 outputs": manyOutputs,
  duplicates,
  "bytes that are no transaction": noise,
  "a multisignature key of 126,000 members": manyMembers,
  "gas sums that overflow": gasOverflow,
  "an endpoint URL of 9 MB": longUrl,
  "50,000 transactions of a byte": manySmall,
  "a transaction of 1 MiB and a byte": justTooLarge,
  "8 MB of noise": fullOfNoise,
  "300 sends that no mempool has seen": manySends,
  "the mempool in reverse": inReverse,
};
