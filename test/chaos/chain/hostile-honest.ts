import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { AppError, bytesToBase64 } from "@turnpike/base";
import { type ChainClient, type ChainSigner, signTx } from "@turnpike/chain-client";
import { sha256 } from "@turnpike/crypto";
import { bank, createMessage, packAny } from "@turnpike/proto";

/** Blocks in which an honest transaction must be, counted from the one that was newest when it was taken. */
const WITHIN_BLOCKS = 2n;
/** A block's transactions are found some time after the block: then one that is not found is lost. */
const LOST_AFTER_BLOCKS = 25n;
const LONGEST_ANSWER_MS = 60_000;
const POLL_MS = 100;

interface RpcResult {
  readonly result?: {
    readonly code?: number;
    readonly log?: string;
    readonly height?: string;
    readonly tx_result?: { readonly code?: number };
    readonly sync_info?: { readonly latest_block_height: string };
  };
  readonly error?: unknown;
}

/** Where an honest user is. */
export interface HonestOptions {
  readonly rpcUrl: string;
  readonly restUrl: string;
  readonly chainId: string;
  readonly pauseMs: number;
  /** True where RPC is not ours, and may cut a connection: then is asked once more. */
  readonly mayBeCut: boolean;
}

const heightOf = (status: RpcResult | undefined): bigint =>
  BigInt(status?.result?.sync_info?.latest_block_height ?? "0");

/** Someone who pays and asks while others attack. */
export class HonestUser implements AsyncDisposable {
  readonly #opts: HonestOptions;
  readonly #signer: ChainSigner;
  readonly #client: ChainClient;
  /** Times of all answers, in milliseconds. */
  readonly answersMs: number[] = [];
  /** Blocks from the newest at the time to the one that has it, for every transaction. */
  readonly waitedBlocks: number[] = [];
  /** Requests that a foreign server ended without an answer. */
  cutByForeign = 0;
  /** The same from before it was sent. */
  readonly waitedInAllBlocks: number[] = [];

  constructor(opts: HonestOptions, modules: { readonly signer: ChainSigner; readonly client: ChainClient }) {
    this.#opts = opts;
    this.#signer = modules.signer;
    this.#client = modules.client;
  }

  /** Pays and asks until told to stop. @throws AssertionError when a payment is late or refused, or an answer is. */
  async live(signal: AbortSignal): Promise<void> {
    const account = await this.#client.account(this.#signer.address);
    assert.ok(account);
    for (let { sequence } = account; !signal.aborted; sequence++) {
      await this.#pay(account.accountNumber, sequence);
      await this.#ask();
      await pause(this.#opts.pauseMs);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client[Symbol.asyncDispose]();
  }

  async #pay(accountNumber: bigint, sequence: bigint): Promise<void> {
    const { address } = this.#signer;
    const amount = [{ denom: "upokt", amount: "1" }];
    const send = createMessage(bank.MsgSendSchema, { fromAddress: address, toAddress: address, amount });
    const bytes = signTx(
      {
        messages: [packAny(bank.MsgSendSchema, send)],
        chainId: this.#opts.chainId,
        accountNumber,
        order: { kind: "ordered", sequence },
        gasLimit: 500_000n,
        fee: [{ denom: "upokt", amount: 1n }],
      },
      this.#signer,
    );
    // In one request: the heights before and after say within which blocks it was taken.
    const [before, sent, status] = (await this.#rpc([
      { jsonrpc: "2.0", id: 1, method: "status", params: {} },
      { jsonrpc: "2.0", id: 2, method: "broadcast_tx_sync", params: { tx: bytesToBase64(bytes) } },
      { jsonrpc: "2.0", id: 3, method: "status", params: {} },
    ])) as [RpcResult?, RpcResult?, RpcResult?];
    // It was sent again when CometBFT cut the connection.
    const isKnown = this.#opts.mayBeCut && JSON.stringify(sent?.error ?? "").includes("already exists in cache");
    if (!isKnown) assert.equal(sent?.result?.code, 0, `an honest payment was refused: ${JSON.stringify(sent)}`);
    const [asked, taken] = [heightOf(before), heightOf(status)];
    const hash = bytesToBase64(sha256(bytes));
    for (;;) {
      // The height first: blocks may pass before the second answer.
      const [now, found] = (await this.#rpc([
        { jsonrpc: "2.0", id: 4, method: "status", params: {} },
        { jsonrpc: "2.0", id: 5, method: "tx", params: { hash } },
      ])) as [RpcResult, RpcResult];
      if (found.result === undefined) {
        const passed = heightOf(now) - taken;
        assert.ok(
          passed <= LOST_AFTER_BLOCKS,
          `an honest payment is in no block, ${passed} blocks later: ${JSON.stringify(found.error)}`,
        );
        await pause(POLL_MS);
        continue;
      }
      assert.equal(found.result.tx_result?.code ?? 0, 0);
      const included = BigInt(found.result.height ?? "0");
      const waited = included - taken;
      assert.ok(waited <= WITHIN_BLOCKS, `an honest payment waited for ${waited} blocks`);
      this.waitedBlocks.push(Number(waited));
      this.waitedInAllBlocks.push(Number(included - asked));
      return;
    }
  }

  async #ask(): Promise<void> {
    const { restUrl } = this.#opts;
    await this.#timed(`${restUrl}/cosmos/bank/v1beta1/balances/${this.#signer.address}`, {});
    await this.#timed(`${restUrl}/pocket/shared/params`, {});
    await this.#rpc({ jsonrpc: "2.0", id: 4, method: "block", params: {} });
  }

  #rpc(request: unknown): Promise<unknown> {
    const headers = { "content-type": "application/json" };
    return this.#timed(this.#opts.rpcUrl, { method: "POST", headers, body: JSON.stringify(request) }, [200, 500]);
  }

  async #timed(url: string, init: RequestInit, statuses: readonly number[] = [200]): Promise<unknown> {
    const began = performance.now();
    const ask = async (): Promise<readonly [number, unknown]> => {
      const response = await fetch(url, { ...init, signal: AbortSignal.timeout(LONGEST_ANSWER_MS) });
      return [response.status, await response.json()];
    };
    const isCut = (cause: unknown): boolean => {
      const allowed = this.#opts.mayBeCut && url === this.#opts.rpcUrl && cause instanceof TypeError;
      if (allowed) this.cutByForeign++;
      return allowed;
    };
    const [status, answer] = await ask().catch((cause: unknown) => {
      if (isCut(cause)) return ask();
      throw new AppError("INTERNAL", { message: `no answer to an honest user: ${url}`, cause });
    });
    this.answersMs.push(performance.now() - began);
    assert.ok(statuses.includes(status), `${url}: ${status} ${JSON.stringify(answer)}`);
    return answer;
  }
}
