import { AppError } from "@turnpike/base";
import {
  type BlockInfo,
  ChainApp,
  chainStartOf,
  type GrpcAnswer,
  PROTOCOL_VERSION,
  pocketMachine,
  type StateReads,
} from "@turnpike/chain";
import { signTx, unsignedTx } from "@turnpike/chain-client";
import { openChainStore } from "@turnpike/chain-store";
import { type Any, encodeMessage, type session, tx as txs } from "@turnpike/proto";
import { type Account, CHAIN_ID, type Ground, type GroundOptions, makeGround, scratchFolder } from "./ground.ts";
import { getSession } from "./suppliers.ts";

/** First block in which sessions of the profile `fast` are claimed for. */
const CLAIM_HEIGHT = 22n;
const BLOCK_NANOS = 1_000_000_000n;
/** A whole block's gas. */
const GAS_LIMIT = 400_000_000n;
const FIRST = { kind: "ordered", sequence: 0n } as const;
const FEE = [{ denom: "upokt", amount: 1n }];

/** A chain before its first block with claims, on which each case is run and nothing is written. */
export interface GasState extends Ground {
  readonly reader: StateReads;
  /** The block that a case is run in. */
  readonly block: BlockInfo;
  /** Answers a query. @throws AppError when it is refused */
  query(path: string, request: Uint8Array): Uint8Array;
  /** The first session of an application, which ended. */
  session(application: Account): session.Session;
  /** A signed transaction of an account that sent none before. */
  sign(account: Account, messages: readonly Any[], sequence?: bigint): Uint8Array;
  /** Bytes of a transaction without a signature. */
  unsigned(messages: readonly Any[]): Uint8Array;
}

/** A state that is closed in the end. */
export type OpenGasState = GasState & AsyncDisposable;

function blockAt(heightBlocks: bigint, genesisNanos: bigint): BlockInfo {
  const hash = new Uint8Array(32).fill(Number(heightBlocks));
  const timeNanos = genesisNanos + heightBlocks * BLOCK_NANOS;
  return { chainId: CHAIN_ID, heightBlocks, timeNanos, hash, proposer: new Uint8Array(20) };
}

/** Makes a chain of this size and its blocks until sessions can be claimed for. */
export async function openGasState(options: GroundOptions): Promise<OpenGasState> {
  const ground = makeGround(options);
  await using owned = new AsyncDisposableStack();
  const folder = owned.use(await scratchFolder());
  const store = owned.use(await openChainStore({ folder: folder.path }));
  const { machine } = pocketMachine({ gasPrices: [] });
  const application = new ChainApp({ version: PROTOCOL_VERSION }, { machine, store });
  const start = chainStartOf(ground.genesis);
  await application.start(start);
  for (let height = 1n; height < CLAIM_HEIGHT; height++) {
    application.run(blockAt(height, start.timeNanos), []);
    await application.commit([]);
  }
  const close = owned.move();
  return {
    ...ground,
    reader: store.at(CLAIM_HEIGHT - 1n),
    block: blockAt(CLAIM_HEIGHT, start.timeNanos),
    query: (path, request) => answeredValue(application.grpcQuery(path, request)),
    session: ({ signer }) => getSession({ application }, signer.address, 1n),
    sign: ({ signer, number: accountNumber }, messages, sequence = 0n) =>
      signTx(
        {
          messages,
          chainId: CHAIN_ID,
          accountNumber,
          order: { kind: "ordered", sequence },
          gasLimit: GAS_LIMIT,
          fee: FEE,
        },
        signer,
      ),
    unsigned: (messages) =>
      encodeMessage(
        txs.TxSchema,
        unsignedTx({ messages, chainId: CHAIN_ID, accountNumber: 0n, order: FIRST, gasLimit: GAS_LIMIT, fee: FEE }),
      ),
    [Symbol.asyncDispose]: () => close.disposeAsync(),
  };
}

function answeredValue(answer: GrpcAnswer): Uint8Array {
  if (answer.ok) return answer.value;
  throw new AppError("INTERNAL", { message: answer.text });
}
