import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { openChainStore } from "@turnpike/chain-store";
import { bank } from "@turnpike/proto";
import { ADDRESSES, CHAIN_ID, openTestNode, sendTx, testGenesis, testMachine } from "@turnpike/testkit/embedded-node";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { ChainApp } from "./chain-app.ts";
import { chainStartOf } from "./chain-start.ts";
import type { AppAnswer } from "./types.ts";

const NOTHING = new Uint8Array(0);
const PARAMS = "/cosmos.bank.v1beta1.Query/Params";

interface Recorded {
  readonly name: string;
  readonly request: { readonly body?: { readonly params: { path: string; data: string; height?: string } } };
  readonly body: {
    readonly result: {
      readonly response: {
        readonly code: number;
        readonly log: string;
        readonly key: string | null;
        readonly value: string | null;
        readonly height: string;
        readonly codespace: string;
      };
    };
  };
}

const recorded = JSON.parse(
  readFileSync(new URL("../../../../test/spec/recorded-chain/rpc/abci_query.json", import.meta.url), "utf8"),
) as Recorded[];

const base64OrNull = (bytes: Uint8Array | undefined): string | null =>
  bytes === undefined || bytes.length === 0 ? null : Buffer.from(bytes).toString("base64");
const shown = ({ code, log, codespace, key, value }: AppAnswer) => ({
  code,
  log,
  codespace,
  key: base64OrNull(key),
  value: base64OrNull(value),
});

suite("application", () => {
  test("a node without a state yet, as one that joins, refuses transactions and says so", async () => {
    await using folder = await scratchFolder();
    await using store = await openChainStore({ folder: folder.path });
    const app = new ChainApp({ version: "0.1.35" }, { machine: testMachine(), store });
    const tx = sendTx({ from: 0, sequence: 0n, amount: 1n });
    const simulated = (await app.simulate(tx)) ?? assert.fail();
    for (const { code, codespace, log } of [app.check(tx, false), app.check(tx, true), simulated]) {
      assert.deepEqual([code, codespace], [18, "sdk"]);
      assert.equal(log, "this node has no state yet; send to another one: invalid request");
    }
  });

  test("abci_query answers as recorded, as far as the modules here go", async () => {
    await using folder = await scratchFolder();
    await using node = await openTestNode({ folder: folder.path });
    await node.produceBlock();
    await node.produceBlock();
    const names = ["app version", "unknown path", "store key unknown", "grpc bank params", "grpc future height"];
    for (const name of names) {
      const entry = recorded.find((one) => one.name === name);
      const params = entry?.request.body?.params;
      assert.ok(entry && params, name);
      const { height, ...response } = entry.body.result.response;
      const path = params.path.replace("pocket.shared", "cosmos.bank.v1beta1");
      const answer = node.application.abciQuery(path, Buffer.from(params.data, "hex"), BigInt(params.height ?? "0"));
      const { code, log, codespace, key, value } = response;
      assert.deepEqual(shown(answer), { code, log, codespace, key, value }, name);
      assert.equal(answer.heightBlocks, height === "2035" ? 2n : 0n, name);
    }
    const junk = node.application.abciQuery("/cosmos.bank.v1beta1.Query/Balance", Buffer.from("ffff", "hex"));
    assert.deepEqual([junk.code, junk.log, junk.heightBlocks], [18, "unexpected EOF: invalid request", 2n]);
  });

  test("heights that are ahead, negative or absurd are refused with the SDK's texts, by both ways", async () => {
    await using folder = await scratchFolder();
    await using node = await openTestNode({ folder: folder.path, genesis: testGenesis({ initialHeight: 5 }) });
    const { application } = node;
    const early = application.abciQuery(PARAMS, NOTHING);
    assert.deepEqual([early.code, early.codespace], [26, "sdk"]);
    assert.match(early.log, /is not ready; please wait for first block: invalid height$/);
    assert.equal(application.latestHeightBlocks(), 0n);
    await node.produceBlock();
    for (const height of [6n, 1n << 62n, 1n << 80n]) {
      assert.deepEqual(application.grpcQuery(PARAMS, NOTHING, height), {
        ok: false,
        status: 2,
        text: "codespace sdk code 26: invalid height: cannot query with height in the future; please provide a valid height",
        heightBlocks: 0n,
      });
    }
    for (const height of [-1n, -(1n << 80n)]) {
      assert.deepEqual(application.grpcQuery(PARAMS, NOTHING, height), {
        ok: false,
        status: 2,
        text: "codespace sdk code 18: invalid request: cannot query with height < 0; please provide a valid height",
        heightBlocks: 0n,
      });
      const answer = application.abciQuery(PARAMS, NOTHING, height);
      assert.equal(answer.log, "cannot query with height < 0; please provide a valid height: invalid request");
    }
    // Before the chain began there is a state, but no block.
    for (const height of [1n, 4n]) assert.equal(application.abciQuery(PARAMS, NOTHING, height).code, 18);
    assert.equal(application.grpcQuery(PARAMS, NOTHING, 0n).heightBlocks, 5n);
    assert.ok(application.grpcQuery(PARAMS, NOTHING, 5n).ok);
  });

  test("odd paths and data never throw", async () => {
    await using folder = await scratchFolder();
    await using node = await openTestNode({ folder: folder.path });
    await node.produceBlock();
    const ask = (path: string, data = NOTHING): string => node.application.abciQuery(path, data).log;
    assert.equal(ask(""), "no query path provided: unknown request");
    assert.equal(ask("/"), "no query path provided: unknown request");
    assert.equal(
      ask("/app"),
      "expected second parameter to be either 'simulate' or 'version', neither was present: unknown request",
    );
    assert.equal(ask("/app/x"), "unknown query: [app x]: unknown request");
    assert.equal(ask("/store/nosuch/key", Uint8Array.of(1)), "no such store: nosuch: unknown request");
    assert.equal(ask("/store/bank/subspace", Uint8Array.of(1)), "unexpected query path: /subspace: unknown request");
    assert.equal(ask("/store/bank/key", new Uint8Array(5000)), "");
    const { code, codespace, log } = node.application.abciQuery("/store/bank/key", new Uint8Array(0));
    assert.deepEqual([code, codespace, log], [3, "store", "query cannot be zero length: tx parse error"]);
    assert.equal(ask("/store/bank"), "unknown query path: unknown request");
    assert.equal(ask("/p2p/filter/addr/x"), "unknown query path: unknown request");
    assert.equal(node.application.grpcQuery("/no.such.Query/Thing", NOTHING).ok, false);
  });

  test("the genesis is written once: asked again it answers the same, and another one is refused", async () => {
    await using folder = await scratchFolder();
    const start = chainStartOf(testGenesis());
    const open = async () => {
      const store = await openChainStore({ folder: folder.path });
      return { store, app: new ChainApp({ version: "0.1.35" }, { machine: testMachine(), store }) };
    };
    let first: Awaited<ReturnType<ChainApp["start"]>>;
    {
      const { store, app } = await open();
      await using _ = store;
      // Before it there is nothing to check a transaction on.
      assert.equal(app.check(sendTx({ from: 0, sequence: 0n }), false).code, 18);
      assert.equal(app.chainId, "");
      assert.equal(app.latestAppHash().length, 0);
      first = await app.start(start);
      assert.deepEqual(await app.start(start), first);
      assert.equal(app.latestHeightBlocks(), 0n);
    }
    const { store, app } = await open();
    await using _ = store;
    assert.equal(app.chainId, CHAIN_ID);
    assert.deepEqual(await app.start({ ...start, appState: { ...start.appState } }), first);
    const isOther = (error: unknown): boolean => isAppError(error, "CONFIG_INVALID");
    await assert.rejects(app.start({ ...start, timeNanos: 5n }), isOther);
    await assert.rejects(app.start({ ...start, appState: {} }), isOther);
    await assert.rejects(app.commit([]), (error) => isAppError(error, "INTERNAL"));
  });

  test("of the blocks that were run the last one is written, with its records", async () => {
    await using folder = await scratchFolder();
    await using store = await openChainStore({ folder: folder.path });
    const app = new ChainApp({ version: "0.1.35" }, { machine: testMachine(), store });
    const start = chainStartOf(testGenesis());
    await app.start(start);
    const block = { chainId: CHAIN_ID, heightBlocks: 1n, timeNanos: start.timeNanos, hash: NOTHING, proposer: NOTHING };
    const empty = app.run(block, []);
    const ran = app.run(block, [sendTx({ from: 0, sequence: 0n })]);
    assert.notDeepEqual(ran.appHash, empty.appHash);
    await app.commit([{ table: "t", key: Uint8Array.of(1), value: Uint8Array.of(2) }]);
    assert.deepEqual(app.latestAppHash(), ran.appHash);
    assert.deepEqual(Buffer.from(store.record("t", Uint8Array.of(1)) ?? []), Buffer.of(2));
    assert.throws(
      () => app.run(block, []),
      (error) => isAppError(error, "CHAIN_STORE"),
    );
    const exported = app.exportState(1n).appState as { bank: { balances: { address: string }[] } };
    assert.ok(exported.bank.balances.some(({ address }) => address === ADDRESSES[0]));
    assert.equal(typeof bank.MsgSendSchema, "object");
  });
});
