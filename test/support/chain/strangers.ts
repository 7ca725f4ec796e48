import assert from "node:assert/strict";
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { systemClock } from "@turnpike/base";
import { ChainClient, signTx } from "@turnpike/chain-client";
import { type Any, auth, createMessage, decodeMessage, encodeMessage, packAny, toApiJson } from "@turnpike/proto";
import type { BlockFeed, FeedTx } from "./block-feed.ts";
import type { Party } from "./local-chain.ts";
import type { TestNode } from "./nodes.ts";

/** A message with its type, for a transaction. */
export function msg<Desc extends DescMessage>(schema: Desc, init: MessageInitShape<Desc>): Any {
  return packAny(schema, createMessage(schema, init));
}

const GAS_LIMIT = 5_000_000n;
// One upokt for a million units of gas.
const FEE = [{ denom: "upokt", amount: 5n }];

/** Bytes of an answer, and the height that it was read at. */
export interface RawAnswer {
  readonly value: string;
  readonly heightBlocks: bigint;
}

const same = (bytes: Buffer): Buffer => bytes;

/** Clients that know of a node nothing but its addresses: transactions over RPC, reads over RPC, REST and gRPC. */
export class Strangers implements AsyncDisposable {
  readonly client: ChainClient;
  readonly #feed: BlockFeed;
  readonly #restUrl: string;
  readonly #grpc: Client;

  constructor(node: TestNode, modules: { readonly feed: BlockFeed }) {
    this.#feed = modules.feed;
    this.client = new ChainClient({ url: node.rpcUrl }, { clock: systemClock });
    this.#restUrl = node.restUrl;
    this.#grpc = new Client(node.grpcTarget, credentials.createInsecure());
  }

  /** Sends messages in one transaction, and waits for the subscription to tell of it; it must have succeeded. */
  async submit(signer: Party, ...messages: readonly Any[]): Promise<FeedTx> {
    return this.#send(await this.client.sign(signer, messages, { gasLimit: GAS_LIMIT, fee: FEE }));
  }

  /** Learns what is needed to sign, so that later only the bytes are to be sent. */
  async prepare(signer: Party): Promise<(...messages: readonly Any[]) => Promise<FeedTx>> {
    const [{ chainId }, account] = await Promise.all([this.client.status(), this.client.account(signer.address)]);
    assert.ok(account);
    const { accountNumber, sequence } = account;
    const order = { kind: "ordered", sequence } as const;
    return (...messages) => {
      const unsigned = { messages, chainId, accountNumber, order, gasLimit: GAS_LIMIT, fee: FEE };
      return this.#send(signTx(unsigned, signer));
    };
  }

  async #send(bytes: Uint8Array): Promise<FeedTx> {
    const sent = await this.client.broadcast(bytes);
    assert.equal(sent.log, "");
    const included = await this.#feed.tx(sent.hash);
    assert.equal(included.log, "");
    assert.equal(included.code, 0);
    return included;
  }

  /** Asks over RPC. @param heightBlocks 0: the newest */
  ask<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    heightBlocks = 0n,
  ): Promise<MessageShape<O>> {
    return this.client.ask(method, request, { heightBlocks });
  }

  /** The same question over RPC, gRPC and REST: the answers must be one. */
  async askEverywhere<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    path: string,
    heightBlocks: bigint,
  ): Promise<MessageShape<O>> {
    const answer = await this.ask(method, request, heightBlocks);
    const bytes = encodeMessage(method.input, createMessage(method.input, request));
    const [grpc, rest] = await Promise.all([
      this.grpc(`/${method.parent.typeName}/${method.name}`, bytes, heightBlocks),
      this.rest(path, heightBlocks),
    ]);
    assert.equal(grpc.value, Buffer.from(encodeMessage(method.output, answer)).toString("hex"));
    assert.deepEqual(JSON.parse(rest.value), toApiJson(method.output, answer));
    assert.deepEqual([grpc.heightBlocks, rest.heightBlocks], [heightBlocks, heightBlocks]);
    return answer;
  }

  /** A GET of REST, as text. @param heightBlocks undefined: the newest */
  async rest(path: string, heightBlocks?: bigint): Promise<RawAnswer> {
    const headers = heightBlocks === undefined ? {} : { "x-cosmos-block-height": `${heightBlocks}` };
    const response = await fetch(`${this.#restUrl}${path}`, { headers });
    const at = response.headers.get("grpc-metadata-x-cosmos-block-height") ?? "0";
    return { value: await response.text(), heightBlocks: BigInt(at) };
  }

  /** A call of gRPC: the answer's bytes in hex, or its status. @param heightBlocks undefined: the newest */
  grpc(method: string, request: Uint8Array, heightBlocks?: bigint): Promise<RawAnswer> {
    const metadata = new Metadata();
    if (heightBlocks !== undefined) metadata.set("x-cosmos-block-height", `${heightBlocks}`);
    return new Promise((resolve) => {
      let at = 0n;
      const call = this.#grpc.makeUnaryRequest(method, same, same, Buffer.from(request), metadata, (error, value) => {
        resolve({ value: error === null ? (value?.toString("hex") ?? "") : error.message, heightBlocks: at });
      });
      call.on("metadata", (head: Metadata) => {
        at = BigInt(head.get("x-cosmos-block-height")[0]?.toString() ?? "0");
      });
    });
  }

  /** The public key that the chain knows of an account, as rings need it. */
  async publicKeyOf(address: string): Promise<Uint8Array> {
    const account = await this.client.account(address);
    const decoded = decodeMessage(
      auth.BaseAccountSchema,
      encodeMessage(auth.BaseAccountSchema, account ?? assert.fail()),
    );
    assert.ok(decoded.ok && decoded.message.pubKey);
    // A message of one member of 33 bytes.
    return decoded.message.pubKey.value.subarray(2);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#grpc.close();
    await this.client[Symbol.asyncDispose]();
  }
}
