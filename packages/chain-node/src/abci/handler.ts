import { AppError, type FaultPoints, type Log } from "@turnpike/base";
import {
  type AbciQuerier,
  type DrivenApplication,
  eventMessages,
  fail,
  MAX_TX_BYTES,
  SDK,
  type TxResult,
} from "@turnpike/chain";
import { cometAbci, createMessage } from "@turnpike/proto";
import type { Mempool } from "../mempool/mempool.ts";
import { malformed, resultFields, timeOf, updatesOf } from "./convert.ts";
import type { SnapshotRequests } from "./snapshot-requests.ts";

export interface AbciHandlerModules {
  readonly application: DrivenApplication;
  readonly queries: AbciQuerier;
  readonly log: Log;
  readonly faults: FaultPoints;
  readonly snapshots: SnapshotRequests;
  readonly mempool: Mempool;
  /** Called after every block that was written; returns at once. */
  readonly committed: (heightBlocks: bigint) => void;
}

type Request = cometAbci.Request["value"];
type Answer = cometAbci.Response["value"];

const ACCEPT = 1;
const REJECT = 2;
// What the SDK's node answers here: the application's name.
const NAME = "pocket";

/** ABCI 0.38's requests, asked of the application. */
export class AbciHandler {
  readonly #application: DrivenApplication;
  readonly #queries: AbciQuerier;
  readonly #log: Log;
  readonly #faults: FaultPoints;
  readonly #snapshots: SnapshotRequests;
  readonly #mempool: Mempool;
  readonly #committed: (heightBlocks: bigint) => void;
  #finalized: { readonly txs: readonly Uint8Array[]; readonly results: readonly TxResult[] } | undefined;

  constructor({ application, queries, log, faults, snapshots, mempool, committed }: AbciHandlerModules) {
    this.#mempool = mempool;
    this.#faults = faults;
    this.#snapshots = snapshots;
    this.#committed = committed;
    this.#application = application;
    this.#queries = queries;
    this.#log = log;
  }

  /**
   * The answer to one request. Questions and mempool checks answer faults of the application with a code: only what
   * consensus asks stops the engine.
   * @throws AppError
   */
  async answer(request: Request): Promise<Answer> {
    switch (request.case) {
      case "echo":
        return { case: "echo", value: createMessage(cometAbci.ResponseEchoSchema, { message: request.value.message }) };
      case "flush":
        return { case: "flush", value: createMessage(cometAbci.ResponseFlushSchema) };
      case "info":
        return this.#info();
      case "initChain":
        return this.#initChain(request.value);
      case "query":
        return this.#query(request.value);
      case "checkTx":
        return this.#checkTx(request.value);
      case "prepareProposal":
        return this.#prepareProposal(request.value);
      case "processProposal":
        return this.#processProposal(request.value);
      case "finalizeBlock":
        return this.#finalizeBlock(request.value);
      case "commit":
        await this.#faults.reach("abci.commit");
        await this.#application.commit([]);
        this.#mempool.update(this.#finalized?.txs ?? [], this.#finalized?.results ?? []);
        this.#finalized = undefined;
        await this.#faults.reach("abci.committed");
        this.#committed(this.#application.latestHeightBlocks());
        // Without a height to retain: CometBFT prunes no blocks.
        return { case: "commit", value: createMessage(cometAbci.ResponseCommitSchema) };
      case "extendVote":
        return { case: "extendVote", value: createMessage(cometAbci.ResponseExtendVoteSchema) };
      case "verifyVoteExtension": {
        // The chain has none.
        const status = request.value.voteExtension.length === 0 ? ACCEPT : REJECT;
        const value = createMessage(cometAbci.ResponseVerifyVoteExtensionSchema, { status });
        return { case: "verifyVoteExtension", value };
      }
      case "listSnapshots":
        return this.#snapshots.list();
      case "offerSnapshot":
        return this.#snapshots.offer(request.value);
      case "loadSnapshotChunk":
        return this.#snapshots.load(request.value);
      case "applySnapshotChunk":
        return this.#snapshots.apply(request.value);
      default:
        throw malformed("is none that ABCI 0.38 has");
    }
  }

  #info(): Answer {
    const lastBlockHeight = this.#application.latestHeightBlocks();
    const value = createMessage(cometAbci.ResponseInfoSchema, {
      data: NAME,
      version: this.#application.version,
      lastBlockHeight,
      // Before the first block CometBFT takes the hash from its genesis.
      lastBlockAppHash: lastBlockHeight === 0n ? new Uint8Array(0) : this.#application.latestAppHash(),
    });
    return { case: "info", value };
  }

  async #initChain(request: cometAbci.RequestInitChain): Promise<Answer> {
    const { appHash, validatorUpdates } = await this.#application.start({
      chainId: request.chainId,
      initialHeightBlocks: request.initialHeight,
      timeNanos: timeOf(request.time),
      appState: appStateOf(request.appStateBytes),
    });
    if (appHash.length === 0) {
      // A snapshot brought its state: there is nothing to begin with.
      throw new AppError("CONFIG_INVALID", {
        message:
          "The chain's store has the state of a snapshot, from which no chain begins: join by state sync, or remove data/application.",
      });
    }
    const validators = updatesOf(validatorUpdates);
    return { case: "initChain", value: createMessage(cometAbci.ResponseInitChainSchema, { appHash, validators }) };
  }

  async #query({ path, data, height }: cometAbci.RequestQuery): Promise<Answer> {
    try {
      const { code, codespace, log, key, value, heightBlocks } = await this.#queries.abciQuery(path, data, height);
      const fields = { code, codespace, log, value, height: heightBlocks, ...(key === undefined ? {} : { key }) };
      return { case: "query", value: createMessage(cometAbci.ResponseQuerySchema, fields) };
    } catch (cause) {
      this.#log.error({ path, cause }, "abci query failed");
      return { case: "query", value: createMessage(cometAbci.ResponseQuerySchema, FAULT) };
    }
  }

  #checkTx({ tx, type }: cometAbci.RequestCheckTx): Answer {
    const again = type === cometAbci.CheckTxType.RECHECK;
    try {
      const fields = resultFields(again ? this.#mempool.recheck(tx) : this.#firstCheck(tx));
      // CometBFT hands on transactions by arrival, as many as their gas allows: of those without gas all, to be ordered by price.
      const value = createMessage(cometAbci.ResponseCheckTxSchema, { ...fields, gasWanted: 0n });
      return { case: "checkTx", value };
    } catch (cause) {
      this.#log.error({ cause }, "mempool check failed");
      return { case: "checkTx", value: createMessage(cometAbci.ResponseCheckTxSchema, FAULT) };
    }
  }

  #firstCheck(tx: Uint8Array): TxResult {
    const sent = this.#mempool.submit(tx);
    if (sent.kind === "checked") return sent.result;
    if (sent.kind === "known") return this.#mempool.repeat(tx);
    const { code, codespace, text: log } = fail(SDK.mempoolIsFull, sent.text).fault;
    return { code, codespace, log, data: new Uint8Array(0), gasWanted: 0n, gasUsed: 0n, events: [] };
  }

  #prepareProposal({ txs, maxTxBytes }: cometAbci.RequestPrepareProposal): Answer {
    // A node whose engine accepts longer transactions than the chain must not propose them: others would refuse its block.
    const allowed = txs.filter(({ length }) => length <= MAX_TX_BYTES);
    const chosen = this.#mempool.pick(allowed, { maxBytes: maxTxBytes, maxGas: this.#application.maxBlockGas });
    return {
      case: "prepareProposal",
      value: createMessage(cometAbci.ResponsePrepareProposalSchema, {
        txs: chosen.slice(0, this.#application.fitting(chosen)),
      }),
    };
  }

  // Transactions that fail do no harm to a block: they are run and give a code. More gas than a block may have does: all
  // validators would run it for as long as a proposer likes. CometBFT compares the block's bytes with the parameters, but
  // neither gas nor the bytes of a transaction.
  #processProposal({ height, txs }: cometAbci.RequestProcessProposal): Answer {
    const fits = txs.every(({ length }) => length <= MAX_TX_BYTES) && this.#application.fitting(txs) === txs.length;
    const status = this.#isNext(height) && fits ? ACCEPT : REJECT;
    if (!fits)
      this.#log.warn({ heightBlocks: `${height}`, txs: txs.length }, "proposal over the block's bounds rejected");
    return { case: "processProposal", value: createMessage(cometAbci.ResponseProcessProposalSchema, { status }) };
  }

  async #finalizeBlock(request: cometAbci.RequestFinalizeBlock): Promise<Answer> {
    await this.#faults.reach("abci.finalize");
    const { height, hash, proposerAddress, txs, time } = request;
    if (!this.#isNext(height)) throw malformed(`is for block ${height}, which is not the next one`);
    const block = {
      chainId: this.#application.chainId,
      heightBlocks: height,
      timeNanos: timeOf(time),
      hash,
      proposer: proposerAddress,
    };
    const { outcome, appHash } = this.#application.run(block, txs);
    this.#finalized = { txs, results: outcome.results };
    await this.#faults.reach("abci.finalized");
    const value = createMessage(cometAbci.ResponseFinalizeBlockSchema, {
      events: eventMessages(outcome.events),
      txResults: outcome.results.map((result) => createMessage(cometAbci.ExecTxResultSchema, resultFields(result))),
      validatorUpdates: updatesOf(outcome.validatorUpdates),
      appHash,
    });
    return { case: "finalizeBlock", value };
  }

  #isNext(heightBlocks: bigint): boolean {
    const latest = this.#application.latestHeightBlocks();
    // The first block's height is the genesis' choice.
    return latest === 0n ? heightBlocks > 0n : heightBlocks === latest + 1n;
  }
}

const FAULT = { code: 1, codespace: "undefined", log: "internal error" };

function appStateOf(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    throw malformed("has an app_state that is no JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw malformed("has an app_state that is no JSON object");
  }
  return { ...value };
}
