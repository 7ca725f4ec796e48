import { bytesToBase64, type Clock, utf8ToBytes } from "@turnpike/base";
import {
  authModule,
  authzModule,
  bankModule,
  type Context,
  type GasPrice,
  type GenesisDocument,
  type Module,
  moduleGenesis,
  StateMachine,
  type ValidatorUpdate,
} from "@turnpike/chain";
import { type EmbeddedNodeModules, type EmbeddedNodeOptions, openEmbeddedNode } from "@turnpike/chain-node";
import type { Bytes, ChainStore } from "@turnpike/chain-store";
import {
  accountAddress,
  cosmosPublicKey,
  cosmosSign,
  createEd25519Signer,
  type Ed25519Signer,
  moduleAddress,
  privateKeyFromSecret,
  sha256,
} from "@turnpike/crypto";
import {
  type Any,
  auth,
  authz,
  bank,
  base,
  createMessage,
  cryptoSecp256k1,
  encodeMessage,
  packAny,
  signing,
  staking,
  toApiJson,
  tx as txs,
} from "@turnpike/proto";

export { LOCAL_GENESIS, LOCAL_SIGNERS, LOCAL_VALIDATOR, SESSION_BLOCKS } from "./local-genesis.ts";

/** The test chain's id. */
export const CHAIN_ID = "engine-test";
/** Coins of every account in the beginning. */
export const START_AMOUNT = 1_000_000n;
const GENESIS_TIME = "2026-11-21T14:10:44.08093512Z";
const GENESIS_TIME_MS = Date.parse(GENESIS_TIME);
const authority = moduleAddress("gov");

/** Private keys of the test's accounts, and their addresses. */
export const KEYS = ["a", "b", "c"].map((name) => privateKeyFromSecret(utf8ToBytes(name)));
export const ADDRESSES = KEYS.map((key) => accountAddress(cosmosPublicKey(key)));

/** A validator's key. */
export const VALIDATOR: Ed25519Signer = createEd25519Signer(sha256(utf8ToBytes("validator")));
export const NODE: Ed25519Signer = createEd25519Signer(sha256(utf8ToBytes("node")));

/** Changes of the validators at the end of blocks. */
export type UpdatesAt = (heightBlocks: bigint) => readonly ValidatorUpdate[];

// The staking module's genesis in small: the unbonding time of its parameters is not looked at.
function validatorsModule(updatesAt: UpdatesAt): Module {
  return {
    name: "staking",
    genesis: moduleGenesis(staking.GenesisStateSchema, {
      init: (_: Context, state) =>
        state.lastValidatorPowers.map(({ address, power }) => ({
          publicKey: Uint8Array.from(Buffer.from(address, "base64")),
          power,
        })),
      export: () => createMessage(staking.GenesisStateSchema),
    }),
    endBlock: (ctx) => updatesAt(ctx.block.heightBlocks),
  };
}

const coin = (amount: bigint): base.Coin => createMessage(base.CoinSchema, { denom: "upokt", amount: `${amount}` });

/** The machine of the test chain. */
export function testMachine(gasPrices: readonly GasPrice[] = [], updatesAt: UpdatesAt = () => []): StateMachine {
  const coins = bankModule({ blocked: new Set([moduleAddress("fee_collector")]), authority });
  const handlers = new Map(Object.entries(coins.messages ?? {}));
  return new StateMachine({ gasPrices }, [
    authModule({ moduleAccounts: { fee_collector: [] }, authority }),
    coins,
    authzModule({ handlers: () => handlers }),
    validatorsModule(updatesAt),
  ]);
}

/** What tests change of the genesis. */
export interface GenesisChange {
  readonly initialHeight?: number;
  readonly maxBytes?: string;
  readonly maxGas?: string;
  readonly appVersion?: string;
  readonly validators?: readonly (readonly [publicKey: Uint8Array, power: bigint])[];
}

/** The genesis of the test chain. */
export function testGenesis(change: GenesisChange = {}): GenesisDocument {
  const validators = change.validators ?? [[VALIDATOR.publicKey, 10n]];
  const accounts: Any[] = ADDRESSES.map((address, i) =>
    packAny(auth.BaseAccountSchema, createMessage(auth.BaseAccountSchema, { address, accountNumber: BigInt(i) })),
  );
  return {
    app_name: "turnpike",
    app_version: "",
    genesis_time: GENESIS_TIME,
    chain_id: CHAIN_ID,
    initial_height: change.initialHeight ?? 1,
    app_hash: null,
    app_state: {
      auth: toApiJson(auth.GenesisStateSchema, createMessage(auth.GenesisStateSchema, { accounts })),
      bank: toApiJson(
        bank.GenesisStateSchema,
        createMessage(bank.GenesisStateSchema, {
          params: { defaultSendEnabled: true },
          balances: ADDRESSES.map((address) =>
            createMessage(bank.BalanceSchema, { address, coins: [coin(START_AMOUNT)] }),
          ),
        }),
      ),
      staking: {
        last_validator_powers: validators.map(([key, power]) => ({ address: bytesToBase64(key), power: `${power}` })),
      },
    },
    consensus: {
      params: {
        block: { max_bytes: change.maxBytes ?? "22020096", max_gas: change.maxGas ?? "-1" },
        evidence: { max_age_num_blocks: "100000", max_age_duration: "172800000000000", max_bytes: "1048576" },
        validator: { pub_key_types: ["ed25519"] },
        version: { app: change.appVersion ?? "0" },
        abci: { vote_extensions_enable_height: "0" },
      },
    },
  };
}

/** A clock that a test moves. */
export interface TestClock extends Clock {
  nowMsValue: number;
}

/** A clock that begins a second after the genesis and goes on by a second with every reading. */
export function tickingClock(): TestClock {
  const clock: TestClock = {
    nowMsValue: GENESIS_TIME_MS,
    nowMs: () => (clock.nowMsValue += 1000),
    monotonicMs: () => clock.nowMsValue,
  };
  return clock;
}

/** What tests open a node with. */
export interface TestNodeOptions
  extends Partial<EmbeddedNodeOptions>,
    Partial<Omit<EmbeddedNodeModules, "validatorSigner" | "nodeSigner" | "store">> {
  readonly folder: string;
  /** The validator's; {@link VALIDATOR} by default. */
  readonly signer?: Ed25519Signer;
}

/** Opens a node of the test chain whose blocks are made by hand. */
export function openTestNode(
  { signer, ...given }: TestNodeOptions,
  store?: ChainStore,
): ReturnType<typeof openEmbeddedNode> {
  return openEmbeddedNode(
    { genesis: testGenesis(), moniker: "test", version: "0.1.35", ...given },
    {
      machine: testMachine(),
      validatorSigner: signer ?? VALIDATOR,
      nodeSigner: NODE,
      clock: tickingClock(),
      ...(store === undefined ? {} : { store }),
      ...given,
    },
  );
}

/** What a test's transaction says. */
export interface Wish {
  readonly from: number;
  readonly to?: string;
  readonly amount?: bigint;
  readonly sequence: bigint;
  readonly gas?: bigint;
  readonly fee?: bigint;
  readonly memo?: string;
  readonly timeoutHeight?: bigint;
  /** Nanoseconds since 1970; makes it an unordered transaction. */
  readonly timeoutNs?: bigint;
  /** How often it sends; once by default. */
  readonly messages?: number;
  /** Accounts for whom it sends within a `MsgExec`, with or without their grants; it sends for itself by default. */
  readonly forAccounts?: readonly number[];
}

function messagesOf(wish: Wish): Any[] {
  const sendOf = (from: number): Any =>
    packAny(
      bank.MsgSendSchema,
      createMessage(bank.MsgSendSchema, {
        fromAddress: ADDRESSES[from] ?? "",
        toAddress: wish.to ?? ADDRESSES[(from + 1) % ADDRESSES.length] ?? "",
        amount: [coin(wish.amount ?? 5n)],
      }),
    );
  if (wish.forAccounts === undefined) {
    const send = sendOf(wish.from);
    return Array.from({ length: wish.messages ?? 1 }, () => send);
  }
  const exec = { grantee: ADDRESSES[wish.from] ?? "", msgs: wish.forAccounts.map(sendOf) };
  return [packAny(authz.MsgExecSchema, createMessage(authz.MsgExecSchema, exec))];
}

/** A signed bank send. */
export function sendTx(wish: Wish): Bytes {
  const { timeoutNs } = wish;
  const bodyBytes = encodeMessage(
    txs.TxBodySchema,
    createMessage(txs.TxBodySchema, {
      messages: messagesOf(wish),
      memo: wish.memo ?? "",
      timeoutHeight: wish.timeoutHeight ?? 0n,
      ...(timeoutNs === undefined
        ? {}
        : {
            unordered: true,
            timeoutTimestamp: { seconds: timeoutNs / 1_000_000_000n, nanos: Number(timeoutNs % 1_000_000_000n) },
          }),
    }),
  );
  const key = KEYS[wish.from] ?? new Uint8Array(0);
  const publicKey = packAny(
    cryptoSecp256k1.PubKeySchema,
    createMessage(cryptoSecp256k1.PubKeySchema, { key: cosmosPublicKey(key) }),
  );
  const modeInfo = { sum: { case: "single" as const, value: { mode: signing.SignMode.DIRECT } } };
  const authInfoBytes = encodeMessage(
    txs.AuthInfoSchema,
    createMessage(txs.AuthInfoSchema, {
      signerInfos: [{ publicKey, sequence: wish.sequence, modeInfo }],
      fee: { amount: [coin(wish.fee ?? 10n)], gasLimit: wish.gas ?? 500_000n },
    }),
  );
  const document = createMessage(txs.SignDocSchema, {
    bodyBytes,
    authInfoBytes,
    chainId: CHAIN_ID,
    accountNumber: BigInt(wish.from),
  });
  const signature = cosmosSign(encodeMessage(txs.SignDocSchema, document), key);
  const raw = createMessage(txs.TxRawSchema, { bodyBytes, authInfoBytes, signatures: [signature] });
  return encodeMessage(txs.TxRawSchema, raw);
}
