import { AppError } from "@turnpike/base";
import {
  type BlockInfo,
  CHAIN_PROFILES,
  ChainApp,
  chainStartOf,
  type GrpcAnswer,
  PROTOCOL_VERSION,
  pocketMachine,
  type StateReads,
} from "@turnpike/chain";
import { signTx, unsignedTx } from "@turnpike/chain-client";
import { openChainStore } from "@turnpike/chain-store";
import { type Any, createMessage, encodeMessage, session, tx as txs } from "@turnpike/proto";
import { drawSuppliers, sessionAt, sessionId, sessionPreimage, sessionWindows } from "@turnpike/protocol";
import {
  bySupplier,
  claimMessage,
  delegationsOf,
  type ProofSession,
  type ProofWork,
  proofMessage,
  proofWorks,
} from "./gas-proofs.ts";
import {
  type Account,
  CHAIN_ID,
  type Ground,
  type GroundOptions,
  makeGround,
  PROVEN_SERVICE_ID,
  SERVICE_ID,
  scratchFolder,
} from "./ground.ts";
import { getSession } from "./suppliers.ts";

/** Windows of the chain's first session. */
const WINDOWS = sessionWindows(CHAIN_PROFILES.fast.shared, 1n);
const { startHeight, endHeight } = sessionAt(CHAIN_PROFILES.fast.shared, 1n);
const BLOCK_NANOS = 1_000_000_000n;
/** By the genesis' parameters. */
const SUPPLIERS_PER_SESSION = 15;
/** A whole block's gas. */
const GAS_LIMIT = 400_000_000n;
/** The blocks of the bench have no bound. */
const SETUP_GAS_LIMIT = 10_000_000_000n;
const FIRST = { kind: "ordered", sequence: 0n } as const;
const FEE = [{ denom: "upokt", amount: 1n }];

/** A session that the bench drew. */
export interface DrawnSession {
  readonly header: session.SessionHeader;
  readonly suppliers: readonly Account[];
}

/** A chain before its first block with claims, on which each case is run and nothing is written. */
export interface GasState extends Ground {
  readonly reader: StateReads;
  /** The block that a case is run in. */
  readonly block: BlockInfo;
  /** Answers a query. @throws AppError when it is refused */
  query(path: string, request: Uint8Array): Uint8Array;
  /** The first session of an application, which ended. */
  session(application: Account): session.Session;
  /** The same, drawn by the bench: the chain draws it anew with its first claim. */
  drawn(application: Account): DrawnSession;
  /** A signed transaction of an account that sent none before. */
  sign(account: Account, messages: readonly Any[], sequence?: bigint): Uint8Array;
  /** Bytes of a transaction without a signature. */
  unsigned(messages: readonly Any[]): Uint8Array;
}

/** A state that is closed in the end. */
export interface OpenGasState extends GasState, AsyncDisposable {
  /** Work of the chain's sessions, none of which is claimed. */
  readonly works: readonly ProofWork[];
  /** Claims all works, and runs blocks until they can be proven. This state's session queries read the newer one then. */
  proving(): Promise<ProvingState>;
}

/** The chain before its first block with proofs: {@link GasState.sign} is for accounts that sent nothing but claims. */
export interface ProvingState extends GasState {
  /** Suppliers of a session of `PROOF_SESSIONS`, each with the message that proves its work. */
  proofs(session: string): readonly { readonly account: Account; readonly message: Any }[];
  /** Proves all works, and runs blocks until they are settled. */
  settling(): Promise<SettlingState>;
}

/** The block that settles all works, and the one before. */
export interface SettlingState {
  readonly numClaims: number;
  readonly quiet: Pick<GasState, "reader" | "block">;
  readonly settling: Pick<GasState, "reader" | "block">;
}

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
  const runTo = async (height: bigint, firstTxs: readonly Uint8Array[]): Promise<void> => {
    let blockTxs = firstTxs;
    for (let next = application.latestHeightBlocks() + 1n; next <= height; next++, blockTxs = []) {
      const { outcome } = application.run(blockAt(next, start.timeNanos), blockTxs);
      const refused = outcome.results.find(({ code }) => code !== 0);
      if (refused !== undefined) throw new AppError("INTERNAL", { message: refused.log });
      await application.commit([]);
    }
  };
  const before = (height: bigint): Pick<GasState, "reader" | "block"> => ({
    reader: store.at(height - 1n),
    block: blockAt(height, start.timeNanos),
  });
  const { claimOpenHeight, proofOpenHeight, settlementHeight } = WINDOWS;
  const hasProvers = ground.provers.length > 0;
  for (let height = startHeight; hasProvers && height <= endHeight; height++) {
    await runTo(
      height,
      delegationsOf(ground, height).map(({ account, messages }) =>
        sign(account, messages, height - 1n, SETUP_GAS_LIMIT),
      ),
    );
  }
  await runTo(claimOpenHeight - 1n, []);
  const sessionOf = ({ signer: { address } }: Account, { isLargeService }: ProofSession): session.Session =>
    getSession({ application }, address, startHeight, isLargeService === true ? SERVICE_ID : PROVEN_SERVICE_ID);
  const works = hasProvers ? proofWorks(ground, sessionOf) : [];
  const candidates = ground.suppliers.map((account) => ({ operatorAddress: account.signer.address, account }));
  const state: GasState = {
    ...ground,
    ...before(claimOpenHeight),
    query: (path, request) => answeredValue(application.grpcQuery(path, request)),
    session: ({ signer }) => getSession({ application }, signer.address, 1n),
    drawn: (account) => drawnSession(candidates, account, blockAt(startHeight, start.timeNanos).hash),
    sign,
    unsigned: (messages) =>
      encodeMessage(
        txs.TxSchema,
        unsignedTx({ messages, chainId: CHAIN_ID, accountNumber: 0n, order: FIRST, gasLimit: GAS_LIMIT, fee: FEE }),
      ),
  };
  const seedBlockHash = blockAt(proofOpenHeight - 1n, start.timeNanos).hash;
  const proofOf = (work: ProofWork): Any => proofMessage(work, seedBlockHash);
  const settling = async (): Promise<SettlingState> => {
    const proofs = bySupplier(works, proofOf);
    await runTo(
      settlementHeight - 1n,
      proofs.map(({ account, messages }) => sign(account, messages, 1n)),
    );
    return { numClaims: works.length, quiet: before(settlementHeight - 1n), settling: before(settlementHeight) };
  };
  const proving = async (): Promise<ProvingState> => {
    const claims = bySupplier(works, claimMessage);
    await runTo(
      proofOpenHeight - 1n,
      claims.map(({ account, messages }) => sign(account, messages)),
    );
    return {
      ...state,
      ...before(proofOpenHeight),
      proofs: (name) =>
        works.flatMap((work) => (work.session === name ? [{ account: work.supplier, message: proofOf(work) }] : [])),
      settling,
    };
  };
  const close = owned.move();
  return { ...state, works, proving, [Symbol.asyncDispose]: () => close.disposeAsync() };
}

function drawnSession(
  candidates: readonly { readonly operatorAddress: string; readonly account: Account }[],
  { signer: { address: applicationAddress } }: Account,
  blockHash: Uint8Array,
): DrawnSession {
  const preimage = sessionPreimage({ blockHash, serviceId: SERVICE_ID, applicationAddress, startHeight });
  const header = createMessage(session.SessionHeaderSchema, {
    applicationAddress,
    serviceId: SERVICE_ID,
    sessionId: sessionId(preimage),
    sessionStartBlockHeight: startHeight,
    sessionEndBlockHeight: endHeight,
  });
  const drawn = drawSuppliers(preimage, candidates, SUPPLIERS_PER_SESSION);
  return { header, suppliers: drawn.map(({ account }) => account) };
}

function sign(
  { signer, number: accountNumber }: Account,
  messages: readonly Any[],
  sequence = 0n,
  gasLimit = GAS_LIMIT,
): Uint8Array {
  const order = { kind: "ordered", sequence } as const;
  return signTx({ messages, chainId: CHAIN_ID, accountNumber, order, gasLimit, fee: FEE }, signer);
}

function answeredValue(answer: GrpcAnswer): Uint8Array {
  if (answer.ok) return answer.value;
  throw new AppError("INTERNAL", { message: answer.text });
}
