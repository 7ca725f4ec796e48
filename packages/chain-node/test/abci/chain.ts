import { base64ToBytes, silentLog } from "@turnpike/base";
import {
  authModule,
  bankModule,
  ChainApp,
  type ChainAppOptions,
  type Module,
  moduleGenesis,
  StateMachine,
} from "@turnpike/chain";
import type { ChainStore } from "@turnpike/chain-store";
import { accountAddress, cosmosPublicKey, cosmosSign, moduleAddress, privateKeyFromSecret } from "@turnpike/crypto";
import {
  type Any,
  bank,
  base,
  cometAbci,
  createMessage,
  cryptoSecp256k1,
  encodeMessage,
  packAny,
  signing,
  tx as txs,
} from "@turnpike/proto";
import { must } from "@turnpike/testkit/fixtures";

/** Name of the chain. */
export const CHAIN_ID = "abci-test";
const keys = ["a", "b"].map((name) => privateKeyFromSecret(Buffer.from(name)));
/** Accounts of the genesis, by number. */
export const ADDRESSES: readonly string[] = keys.map((key) => accountAddress(cosmosPublicKey(key)));
/** What each of them has in the genesis. */
export const START = 1_000_000n;
const DENOM = "upokt";

/** Block at whose end the validator's power becomes {@link LATER_POWER}. */
export const POWER_CHANGES_AT = 3n;
/** The validator's power two blocks after {@link POWER_CHANGES_AT}. */
export const LATER_POWER = 11n;

const VALIDATOR_KEY = Buffer.from("validator/key");

// Names the chain's one validator, as the staking module does for the real chain.
const validatorModule: Module = {
  name: "validator",
  genesis: moduleGenesis(cometAbci.ValidatorUpdateSchema, {
    init(ctx, { pubKey, power }) {
      if (pubKey?.sum.case !== "ed25519") return undefined;
      ctx.state.set(VALIDATOR_KEY, pubKey.sum.value);
      return [{ publicKey: pubKey.sum.value, power }];
    },
    export: () => createMessage(cometAbci.ValidatorUpdateSchema),
  }),
  endBlock(ctx) {
    const publicKey = ctx.state.get(VALIDATOR_KEY);
    if (publicKey === undefined || ctx.block.heightBlocks !== POWER_CHANGES_AT) return undefined;
    return [{ publicKey, power: LATER_POWER }];
  },
};

/** A state machine of auth, bank and one validator. */
export function testMachine(): StateMachine {
  const authority = moduleAddress("gov");
  return new StateMachine({ gasPrices: [] }, [
    authModule({ moduleAccounts: { fee_collector: [] }, authority }),
    bankModule({ blocked: new Set([moduleAddress("fee_collector")]), authority }),
    validatorModule,
  ]);
}

/** The application on a store. @param bounds of blocks; none by default */
export function testApp(
  store: ChainStore,
  bounds: Pick<ChainAppOptions, "maxBlockGas" | "maxBlockBytes"> = {},
): ChainApp {
  return new ChainApp({ version: "0.1.35", ...bounds }, { machine: testMachine(), store, log: silentLog });
}

/** `app_state` with this validator. @param publicKey base64 of its ed25519 key */
export function testAppState(publicKey: string): Record<string, unknown> {
  return {
    auth: {
      accounts: ADDRESSES.map((address, number) => ({
        "@type": "/cosmos.auth.v1beta1.BaseAccount",
        address,
        pub_key: null,
        account_number: `${number}`,
        sequence: "0",
      })),
      params: {
        max_memo_characters: "256",
        tx_sig_limit: "7",
        tx_size_cost_per_byte: "10",
        sig_verify_cost_ed25519: "590",
        sig_verify_cost_secp256k1: "1000",
      },
    },
    bank: {
      params: { send_enabled: [], default_send_enabled: true },
      balances: ADDRESSES.map((address) => ({ address, coins: [{ denom: DENOM, amount: `${START}` }] })),
    },
    validator: { pub_key: { ed25519: publicKey }, power: "10" },
  };
}

/** Bytes of a validator's key that is nobody's. */
export const NO_VALIDATOR: string = Buffer.alloc(32, 7).toString("base64");

/** Parts of a transfer that tests change. */
export interface SendOptions {
  readonly memo?: string;
  /** Number of the account that sends; the first by default. */
  readonly from?: 0 | 1;
  /** 0 by default. */
  readonly fee?: bigint;
  readonly gas?: bigint;
}

/** A signed transfer from one account to the other. */
export function sendTx(sequence: bigint, amount: bigint, options: SendOptions = {}): Uint8Array {
  const { memo = "", from = 0, fee = 0n, gas = 500_000n } = options;
  const key = keys[from];
  const [fromAddress, toAddress] = [ADDRESSES[from], ADDRESSES[1 - from]];
  const send = createMessage(bank.MsgSendSchema, {
    fromAddress: must(fromAddress),
    toAddress: must(toAddress),
    amount: [createMessage(base.CoinSchema, { denom: DENOM, amount: `${amount}` })],
  });
  const body = createMessage(txs.TxBodySchema, { messages: [packAny(bank.MsgSendSchema, send)], memo });
  const bodyBytes = encodeMessage(txs.TxBodySchema, body);
  const publicKey: Any = packAny(
    cryptoSecp256k1.PubKeySchema,
    createMessage(cryptoSecp256k1.PubKeySchema, { key: cosmosPublicKey(must(key)) }),
  );
  const modeInfo = { sum: { case: "single", value: { mode: signing.SignMode.DIRECT } } } as const;
  const authInfo = createMessage(txs.AuthInfoSchema, {
    signerInfos: [{ publicKey, sequence, modeInfo }],
    fee: {
      gasLimit: gas,
      amount: fee === 0n ? [] : [createMessage(base.CoinSchema, { denom: DENOM, amount: `${fee}` })],
    },
  });
  const authInfoBytes = encodeMessage(txs.AuthInfoSchema, authInfo);
  const document = createMessage(txs.SignDocSchema, {
    bodyBytes,
    authInfoBytes,
    chainId: CHAIN_ID,
    accountNumber: BigInt(from),
  });
  const signature = cosmosSign(encodeMessage(txs.SignDocSchema, document), must(key));
  return encodeMessage(
    txs.TxRawSchema,
    createMessage(txs.TxRawSchema, { bodyBytes, authInfoBytes, signatures: [signature] }),
  );
}

/** gRPC path and request that ask for an account's balance. */
export function balanceQuery(address: string): { readonly path: string; readonly data: Uint8Array } {
  const request = createMessage(bank.QueryBalanceRequestSchema, { address, denom: DENOM });
  return { path: "/cosmos.bank.v1beta1.Query/Balance", data: encodeMessage(bank.QueryBalanceRequestSchema, request) };
}

/** Bytes of a base64 text. */
export const fromBase64 = (text: string): Uint8Array => must(base64ToBytes(text));
