import assert from "node:assert/strict";
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { bytesToHex } from "@turnpike/base";
import { type ChainSigner, signTx } from "@turnpike/chain-client";
import { rfc3339ToNs } from "@turnpike/cometbft";
import { moduleAddress, sha256 } from "@turnpike/crypto";
import {
  type Any,
  application,
  auth,
  bank,
  type base,
  createMessage,
  decodeMessage,
  encodeMessage,
  gateway,
  session,
  supplier,
} from "@turnpike/proto";
import { LOCAL_GENESIS, LOCAL_SIGNERS, LOCAL_VALIDATOR } from "@turnpike/testkit/embedded-node";
import type { ChainApp } from "../src/app/chain-app.ts";
import type { BlockOutcome } from "../src/app/state-machine.ts";
import type { BlockInfo } from "../src/state/context.ts";

const NO_BYTES = new Uint8Array(0);

/** A chain that is run block by block, and asked. */
export class History {
  readonly app: ChainApp;
  readonly paths: readonly string[];

  constructor(app: ChainApp, paths: readonly string[]) {
    this.app = app;
    this.paths = paths;
  }

  /** Asks the newest state; undefined when it refuses. */
  ask<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
  ): MessageShape<O> | undefined {
    const bytes = encodeMessage(method.input, createMessage(method.input, request));
    const answer = this.app.grpcQuery(`/${method.parent.typeName}/${method.name}`, bytes);
    const decoded = answer.ok ? decodeMessage(method.output, answer.value) : undefined;
    return decoded?.ok === true ? decoded.message : undefined;
  }

  /** Signs a transaction of one message. */
  sign(signer: ChainSigner, message: Any): Uint8Array {
    const account = this.ask(auth.Query.method.account, { address: signer.address })?.account?.value;
    const decoded = decodeMessage(auth.BaseAccountSchema, account ?? NO_BYTES);
    assert.ok(decoded.ok);
    const { accountNumber, sequence } = decoded.message;
    const unsigned = { messages: [message], chainId: "pocket", accountNumber, gasLimit: 5_000_000n };
    const fee = [{ denom: "upokt", amount: 5n }];
    return signTx({ ...unsigned, order: { kind: "ordered", sequence }, fee }, signer);
  }

  /** The block of a height. */
  blockInfo(heightBlocks: bigint): BlockInfo {
    const timeNanos = (rfc3339ToNs(LOCAL_GENESIS.genesis_time) ?? 0n) + heightBlocks * 1_000_000_000n;
    const hash = sha256(Buffer.from(`block ${heightBlocks}`));
    const proposer = sha256(LOCAL_VALIDATOR.publicKey).subarray(0, 20);
    return { chainId: "pocket", heightBlocks, timeNanos, hash, proposer };
  }

  /** Runs the next block. */
  async block(heightBlocks: bigint, txs: readonly Uint8Array[]): Promise<BlockOutcome> {
    const { outcome } = this.app.run(this.blockInfo(heightBlocks), txs);
    await this.app.commit([]);
    return outcome;
  }

  /** What every query without arguments answers, and some with, at a height. */
  answers(heightBlocks: bigint): Readonly<Record<string, string>> {
    const say = (path: string, bytes: Uint8Array): string => {
      const answer = this.app.grpcQuery(path, bytes, heightBlocks);
      assert.ok(answer.ok || answer.text !== "panic", path);
      return answer.ok ? bytesToHex(answer.value) : `${answer.status} ${answer.text}`;
    };
    const said = this.paths.map((path) => [path, say(path, NO_BYTES)] as const);
    const sessions = (["application-1", "application-2"] as const).map((role) => {
      const request = { applicationAddress: LOCAL_SIGNERS[role].address, serviceId: "eth" };
      const bytes = encodeMessage(
        session.QueryGetSessionRequestSchema,
        createMessage(session.QueryGetSessionRequestSchema, request),
      );
      return [`session of ${role}`, say("/pocket.session.Query/GetSession", bytes)] as const;
    });
    return Object.fromEntries([...said, ...sessions]);
  }

  /** Asserts that the supply is all balances, and that modules hold at least the stakes. */
  assertMoney(): void {
    const all = { pagination: { limit: 1_000n } };
    const supply = this.ask(bank.Query.method.supplyOf, { denom: "upokt" })?.amount?.amount;
    const owners = this.ask(bank.Query.method.denomOwners, { denom: "upokt", ...all })?.denomOwners ?? [];
    const balances = new Map(owners.map(({ address, balance }) => [address, BigInt(balance?.amount ?? "0")]));
    const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((total, amount) => total + amount, 0n);
    assert.equal(`${sum([...balances.values()])}`, supply);
    const held = (name: string): bigint => balances.get(moduleAddress(name)) ?? 0n;
    const staked = (list: readonly { readonly stake?: base.Coin | undefined }[] | undefined): bigint =>
      sum((list ?? []).map(({ stake }) => BigInt(stake?.amount ?? "0")));
    const applications = this.ask(application.Query.method.allApplications, all)?.applications;
    assert.equal(held("application"), staked(applications));
    assert.equal(held("gateway"), staked(this.ask(gateway.Query.method.allGateways, all)?.gateways));
    const fees = held("supplier") - staked(this.ask(supplier.Query.method.allSuppliers, all)?.supplier);
    assert.ok(fees >= 0n && fees < 1_000n, `${fees} upokt of staking fees`);
    assert.equal(held("tokenomics"), 0n);
  }
}
