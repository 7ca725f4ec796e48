import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { AppError, bytesToHex, isAppError, silentLog } from "@turnpike/base";
import type { AbciQuerier, AppAnswer, BlockInfo, DrivenApplication } from "@turnpike/chain";
import { type ChainStore, openChainStore } from "@turnpike/chain-store";
import { bank, cometAbci, createMessage, decodeMessage } from "@turnpike/proto";
import { eventually } from "@turnpike/testkit";
import { must, scratchFolder } from "@turnpike/testkit/fixtures";
import { fc } from "@turnpike/testkit/property";
import {
  ADDRESSES,
  balanceQuery,
  CHAIN_ID,
  NO_VALIDATOR,
  START,
  sendTx,
  testApp,
  testAppState,
} from "../../test/abci/chain.ts";
import { AbciClient } from "../../test/abci/client.ts";
import { encodeFrame, FrameReader } from "./frames.ts";
import { type AbciServer, type AbciServerOptions, startAbciServer } from "./server.ts";

type Request = cometAbci.Request["value"];

interface World {
  readonly store: ChainStore;
  readonly server: AbciServer;
  readonly client: () => AbciClient;
}

async function withServer(
  use: (world: World) => Promise<void>,
  opts: {
    readonly maxMessageBytes?: number;
    readonly mempool?: AbciServerOptions["mempool"];
    readonly application?: (store: ChainStore) => DrivenApplication;
    readonly queries?: (application: DrivenApplication) => AbciQuerier;
  } = {},
): Promise<void> {
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: join(folder.path, "store") });
  const application = (opts.application ?? ((own: ChainStore) => testApp(own)))(store);
  const limits = {
    ...(opts.maxMessageBytes === undefined ? {} : { maxMessageBytes: opts.maxMessageBytes }),
    ...(opts.mempool === undefined ? {} : { mempool: opts.mempool }),
  };
  const clients: AbciClient[] = [];
  await using server = await startAbciServer(
    { address: "tcp://127.0.0.1:0", ...limits },
    { application, queries: opts.queries?.(application) ?? application, log: silentLog },
  );
  const client = (): AbciClient => {
    const made = new AbciClient(server.address);
    clients.push(made);
    return made;
  };
  try {
    await use({ store, server, client });
  } finally {
    for (const one of clients) one.close();
  }
}

const { RequestInfoSchema, RequestEchoSchema, RequestFlushSchema, RequestCommitSchema, RequestCheckTxSchema } =
  cometAbci;
const flush = { case: "flush", value: createMessage(RequestFlushSchema) } as const;
const echo = (message: string) => ({ case: "echo", value: createMessage(RequestEchoSchema, { message }) }) as const;
const initChain = (appState: unknown = testAppState(NO_VALIDATOR)): cometAbci.RequestInitChain =>
  createMessage(cometAbci.RequestInitChainSchema, {
    chainId: CHAIN_ID,
    time: { seconds: 1_800_000_000n },
    initialHeight: 1n,
    appStateBytes: Buffer.from(JSON.stringify(appState)),
  });
const block = (height: bigint, txs: readonly Uint8Array[] = []): cometAbci.RequestFinalizeBlock =>
  createMessage(cometAbci.RequestFinalizeBlockSchema, {
    height,
    txs: [...txs],
    hash: Buffer.alloc(32, Number(height)),
    time: { seconds: 1_800_000_000n + height },
    proposerAddress: Buffer.alloc(20, 1),
  });
const check = (tx: Uint8Array): cometAbci.RequestCheckTx => createMessage(RequestCheckTxSchema, { tx });

async function balanceOf(client: AbciClient, address: string, height = 0n): Promise<string> {
  const query = createMessage(cometAbci.RequestQuerySchema, { ...balanceQuery(address), height });
  const { code, log, value } = await client.ask("query", query);
  assert.equal(code, 0, log);
  const decoded = decodeMessage(bank.QueryBalanceResponseSchema, value);
  assert.ok(decoded.ok);
  return must(decoded.message.balance).amount;
}

test("frames of any sizes are read from chunks of any sizes", () => {
  const bytes = fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 6 });
  fc.assert(
    fc.property(bytes, fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1 }), (bodies, sizes) => {
      const all = Buffer.concat(bodies.map(encodeFrame));
      const reader = new FrameReader({ maxBytes: 300 });
      const read: string[] = [];
      for (let at = 0, n = 0; at < all.length; n++) {
        const size = sizes[n % sizes.length] ?? 1;
        reader.push(all.subarray(at, at + size));
        at += size;
        for (let frame = reader.next(); frame.kind === "frame"; frame = reader.next())
          read.push(bytesToHex(frame.body));
      }
      assert.deepEqual(read, bodies.map(bytesToHex));
    }),
  );
});

test("a length without an end, or of too much, is no frame before its bytes are there", () => {
  for (const bytes of [Buffer.alloc(5, 0xff), Buffer.from([0xad, 0x02])]) {
    const reader = new FrameReader({ maxBytes: 300 });
    reader.push(bytes);
    assert.equal(reader.next().kind, "malformed");
  }
});

test("answers keep the order of a connection's requests, and connections do not wait for each other", async () => {
  await withServer(async ({ client }) => {
    const [first, second] = [client(), client()];
    const texts = Array.from({ length: 500 }, (_, i) => `message ${i} ${"x".repeat(i)}`);
    for (const text of texts) first.send(echo(text));
    first.send(flush);
    const info = await second.ask("info", createMessage(RequestInfoSchema));
    assert.deepEqual([info.version, info.lastBlockHeight, info.lastBlockAppHash.length], ["0.1.35", 0n, 0]);
    for (const text of texts)
      assert.deepEqual((await first.answer())?.value, createMessage(cometAbci.ResponseEchoSchema, { message: text }));
    assert.equal((await first.answer())?.case, "flush");
  });
});

test("a block that was run and not committed leaves no trace; the same block again gives the same", async () => {
  await withServer(async ({ client, store }) => {
    const consensus = client();
    const begun = await consensus.ask("initChain", initChain());
    assert.deepEqual(
      begun.validators.map(({ power }) => power),
      [10n],
    );
    const ran = await consensus.ask("finalizeBlock", block(1n, [sendTx(0n, 5n), Buffer.from("junk")]));
    assert.deepEqual(
      ran.txResults.map(({ code }) => code),
      [0, 2],
    );
    assert.ok(ran.txResults[0]?.events.some(({ attributes }) => attributes.some(({ index }) => index)));
    consensus.close();

    const again = client();
    const info = await again.ask("info", createMessage(RequestInfoSchema));
    assert.equal(info.lastBlockHeight, 0n);
    assert.equal(await balanceOf(again, must(ADDRESSES[1])).catch(() => "none"), "none");
    await again.ask("initChain", initChain());
    const other = await again.ask("finalizeBlock", block(1n, [sendTx(0n, 6n)]));
    assert.notEqual(bytesToHex(other.appHash), bytesToHex(ran.appHash));
    const rerun = await again.ask("finalizeBlock", block(1n, [sendTx(0n, 5n), Buffer.from("junk")]));
    assert.deepEqual(rerun, ran);
    await again.ask("commit", createMessage(RequestCommitSchema));
    assert.equal(await balanceOf(again, must(ADDRESSES[1])), `${START + 5n}`);
    const after = await again.ask("info", createMessage(RequestInfoSchema));
    assert.deepEqual([after.lastBlockHeight, bytesToHex(after.lastBlockAppHash)], [1n, bytesToHex(ran.appHash)]);
    assert.equal(bytesToHex(must(store.appHash(1n))), bytesToHex(ran.appHash));
  });
});

test("the mempool's checks follow each other and begin anew with every block", async () => {
  await withServer(async ({ client }) => {
    const consensus = client();
    const mempool = client();
    await consensus.ask("initChain", initChain());
    const early = await mempool.ask("checkTx", check(sendTx(0n, 1n)));
    assert.equal(early.code, 0, early.log);
    assert.equal((await mempool.ask("checkTx", check(sendTx(1n, 1n)))).code, 0);
    assert.deepEqual([(await mempool.ask("checkTx", check(sendTx(1n, 2n)))).code], [32]);
    await consensus.ask("finalizeBlock", block(1n));
    await consensus.ask("commit", createMessage(RequestCommitSchema));
    const again = createMessage(RequestCheckTxSchema, { tx: sendTx(0n, 1n), type: cometAbci.CheckTxType.RECHECK });
    assert.equal((await mempool.ask("checkTx", again)).code, 0);
  });
});

test("a proposal keeps the order and the limit on bytes; one for another height is rejected", async () => {
  await withServer(async ({ client }) => {
    const consensus = client();
    await consensus.ask("initChain", initChain());
    const txs = [100, 200, 50].map((length) => Buffer.alloc(length, length));
    const prepare = async (maxTxBytes: bigint): Promise<number[]> => {
      const request = createMessage(cometAbci.RequestPrepareProposalSchema, { txs, maxTxBytes, height: 1n });
      return (await consensus.ask("prepareProposal", request)).txs.map(({ length }) => length);
    };
    // 100 bytes with a tag and a length of one byte, 200 with a length of two, 50 with one.
    assert.deepEqual(await prepare(102n + 203n + 52n), [100, 200, 50]);
    assert.deepEqual(await prepare(102n + 203n + 51n), [100, 200]);
    assert.deepEqual(await prepare(101n), [50]);
    assert.deepEqual(await prepare(51n), []);
    await consensus.ask("finalizeBlock", block(1n));
    await consensus.ask("commit", createMessage(RequestCommitSchema));
    const process = async (height: bigint): Promise<number> =>
      (await consensus.ask("processProposal", createMessage(cometAbci.RequestProcessProposalSchema, { height })))
        .status;
    assert.deepEqual([await process(1n), await process(2n), await process(3n)], [2, 1, 2]);
  });
});

const recheck = (tx: Uint8Array): cometAbci.RequestCheckTx =>
  createMessage(RequestCheckTxSchema, { tx, type: cometAbci.CheckTxType.RECHECK });

test("a proposal takes the better price first, keeps sequences in order, and passes over what does not fit", async () => {
  const application = (store: ChainStore): DrivenApplication => testApp(store, { maxBlockGas: 1_000_000n });
  await withServer(
    async ({ client }) => {
      const consensus = client();
      const mempool = client();
      await consensus.ask("initChain", initChain());
      // In the order of their arrival, which is that of CometBFT's mempool.
      const txs = [
        sendTx(0n, 1n, { gas: 1_000_000n, fee: 10n }),
        sendTx(1n, 1n, { gas: 100_000n, fee: 900n }),
        sendTx(0n, 1n, { from: 1, gas: 400_000n, fee: 40n }),
        sendTx(1n, 1n, { from: 1, gas: 500_000n, fee: 20n }),
        sendTx(2n, 1n, { from: 1, gas: 200_000n, fee: 8n }),
      ];
      for (const tx of txs) {
        const { code, log, gasWanted } = await mempool.ask("checkTx", check(tx));
        // CometBFT would hand on the first alone: what it asks for is a whole block.
        assert.deepEqual([code, gasWanted], [0, 0n], log);
      }
      const request = createMessage(cometAbci.RequestPrepareProposalSchema, { txs, maxTxBytes: 9_000n, height: 1n });
      const proposed = (await consensus.ask("prepareProposal", request)).txs;
      assert.deepEqual(
        proposed.map((tx) => txs.findIndex((one) => Buffer.compare(one, tx) === 0)),
        [2, 3],
      );
      const processed = createMessage(cometAbci.RequestProcessProposalSchema, { height: 1n, txs: [...proposed] });
      assert.equal((await consensus.ask("processProposal", processed)).status, 1);
      const { txResults } = await consensus.ask("finalizeBlock", block(1n, proposed));
      assert.deepEqual(
        txResults.map(({ code }) => code),
        [0, 0],
      );
      await consensus.ask("commit", createMessage(RequestCommitSchema));
      for (const i of [0, 1, 4]) assert.equal((await mempool.ask("checkTx", recheck(must(txs[i])))).code, 0);
    },
    { application },
  );
});

test("a full mempool of CometBFT: the cheapest leaves after a block for who pays more, and its last places cost ever more", async () => {
  await withServer(
    async ({ client }) => {
      const consensus = client();
      const mempool = client();
      const send = async (tx: Uint8Array): Promise<number> => (await mempool.ask("checkTx", check(tx))).code;
      await consensus.ask("initChain", initChain());
      const cheap = Array.from({ length: 20 }, (_, i) => sendTx(BigInt(i), 1n, { fee: 100n }));
      for (const tx of cheap) assert.equal(await send(tx), 0);
      const refused = await mempool.ask("checkTx", check(sendTx(0n, 1n, { from: 1, fee: 109n })));
      assert.deepEqual([refused.code, refused.codespace], [20, "sdk"]);
      assert.match(refused.log, /^mempool is full: number of txs 20 \(max: 20\)/);
      for (let i = 0; i < 10; i++) assert.equal(await send(sendTx(BigInt(i), 1n, { from: 1, fee: 121n })), 0);
      // Ten that were dropped are still in CometBFT's mempool: a place costs a tenth on a tenth more.
      assert.equal(await send(sendTx(10n, 1n, { from: 1, fee: 120n })), 20);
      assert.equal(await send(sendTx(10n, 1n, { from: 1, fee: 121n })), 0);
      await consensus.ask("finalizeBlock", block(1n));
      await consensus.ask("commit", createMessage(RequestCommitSchema));
      const codes: number[] = [];
      for (const tx of cheap) codes.push((await mempool.ask("checkTx", recheck(tx))).code);
      assert.deepEqual(codes, [...Array.from({ length: 9 }, () => 0), ...Array.from({ length: 11 }, () => 20)]);
      // The last of the second account's follow what pays less, and CometBFT asked about none of them again.
      assert.equal(await send(sendTx(11n, 1n, { from: 1, fee: 110n })), 0);
    },
    { mempool: { maxTxs: 20 } },
  );
});

test("attack: a transaction behind more bytes than CometBFT hands over is in the next block but one when it pays more", async () => {
  const blockBytes = 8_000;
  const bounds = { maxBlockGas: 500_000n, maxBlockBytes: BigInt(blockBytes) };
  await withServer(
    async ({ client }) => {
      const [consensus, mempool] = [client(), client()];
      await consensus.ask("initChain", initChain());
      let waiting: Uint8Array[] = [];
      const send = async (tx: Uint8Array): Promise<number> => {
        const { code } = await mempool.ask("checkTx", check(tx));
        if (code === 0) waiting.push(tx);
        return code;
      };
      /** The first of CometBFT's transactions that fit into a block by their bytes, whatever they pay. */
      const handedOver = (): Uint8Array[] => {
        let sum = 0;
        return waiting.filter(({ length }) => {
          sum += length + 3;
          return sum <= blockBytes;
        });
      };
      const runNext = async (height: bigint): Promise<Uint8Array[]> => {
        const request = { txs: handedOver(), maxTxBytes: BigInt(blockBytes), height };
        const { txs } = await consensus.ask(
          "prepareProposal",
          createMessage(cometAbci.RequestPrepareProposalSchema, request),
        );
        await consensus.ask("finalizeBlock", block(height, txs));
        await consensus.ask("commit", createMessage(RequestCommitSchema));
        const others = waiting.filter((tx) => txs.every((one) => Buffer.compare(one, tx) !== 0));
        waiting = [];
        for (const tx of others) if ((await mempool.ask("checkTx", recheck(tx))).code === 0) waiting.push(tx);
        return txs;
      };
      for (let i = 0; i < 60; i++) await send(sendTx(BigInt(i), 1n, { fee: 100n, memo: "x".repeat(250) }));
      const tx = sendTx(0n, 1n, { from: 1, gas: 100_000n, fee: 100n });
      assert.equal(await send(tx), 0);
      const included = [...(await runNext(1n)), ...(await runNext(2n))];
      assert.ok(included.some((one) => Buffer.compare(one, tx) === 0));
    },
    { application: (store) => testApp(store, bounds) },
  );
});

test("attack: a copy of a transaction, sent for a check alone, drops it from no mempool", async () => {
  await withServer(async ({ client }) => {
    const consensus = client();
    const mempool = client();
    await consensus.ask("initChain", initChain());
    const tx = sendTx(0n, 1n, { fee: 100n });
    assert.equal((await mempool.ask("checkTx", check(tx))).code, 0);
    await consensus.ask("finalizeBlock", block(1n));
    await consensus.ask("commit", createMessage(RequestCommitSchema));
    // Before CometBFT asks about it again, and after.
    assert.equal((await mempool.ask("checkTx", check(tx))).code, 0);
    assert.equal((await mempool.ask("checkTx", recheck(tx))).code, 0);
    assert.equal((await mempool.ask("checkTx", check(tx))).code, 0);
    assert.equal((await mempool.ask("checkTx", check(sendTx(1n, 1n, { fee: 100n })))).code, 0);
  });
});

test("attack: transactions that were checked alone take no places past the bounds later", async () => {
  await withServer(
    async ({ client }) => {
      const consensus = client();
      const mempool = client();
      const codes = async (txs: readonly Uint8Array[]): Promise<number[]> => {
        const all: number[] = [];
        for (const tx of txs) all.push((await mempool.ask("checkTx", check(tx))).code);
        return all;
      };
      await consensus.ask("initChain", initChain());
      const checkedAlone = Array.from({ length: 5 }, (_, i) => sendTx(BigInt(i), 1n, { fee: 100n }));
      assert.deepEqual(await codes(checkedAlone), [0, 0, 0, 0, 0]);
      for (const height of [1n, 2n]) {
        await consensus.ask("finalizeBlock", block(height));
        await consensus.ask("commit", createMessage(RequestCommitSchema));
      }
      const others = Array.from({ length: 5 }, (_, i) => sendTx(BigInt(i), 1n, { from: 1, fee: 100n }));
      assert.deepEqual(await codes(others), [0, 0, 0, 0, 0]);
      assert.deepEqual(await codes(checkedAlone), [20, 20, 20, 20, 20]);
    },
    { mempool: { maxTxs: 5 } },
  );
});

test("attack: what follows a transaction that was checked alone is in no proposal", async () => {
  const application = (store: ChainStore): DrivenApplication => testApp(store, { maxBlockGas: 1_000_000n });
  await withServer(
    async ({ client }) => {
      const consensus = client();
      const mempool = client();
      await consensus.ask("initChain", initChain());
      assert.equal((await mempool.ask("checkTx", check(sendTx(0n, 1n, { fee: 900n })))).code, 0);
      const txs = [sendTx(1n, 1n, { gas: 1_000_000n, fee: 900n }), sendTx(0n, 1n, { from: 1, fee: 1n })];
      for (const tx of txs) assert.equal((await mempool.ask("checkTx", check(tx))).code, 0);
      const request = createMessage(cometAbci.RequestPrepareProposalSchema, { txs, maxTxBytes: 9_000n, height: 1n });
      const proposed = (await consensus.ask("prepareProposal", request)).txs;
      assert.deepEqual(
        proposed.map((tx) => txs.findIndex((one) => Buffer.compare(one, tx) === 0)),
        [1],
      );
    },
    { application },
  );
});

test("a transaction of CometBFT's mempool is replaced by one with the same sequence that pays more", async () => {
  await withServer(async ({ client }) => {
    const consensus = client();
    const mempool = client();
    const send = async (tx: Uint8Array): Promise<number> => (await mempool.ask("checkTx", check(tx))).code;
    await consensus.ask("initChain", initChain());
    const [old, follower] = [sendTx(0n, 1n, { fee: 100n }), sendTx(1n, 1n, { fee: 100n })];
    assert.deepEqual([await send(old), await send(follower)], [0, 0]);
    assert.equal(await send(sendTx(0n, 2n, { fee: 109n })), 32);
    const raised = sendTx(0n, 2n, { fee: 110n });
    assert.equal(await send(raised), 0);
    const propose = async (txs: readonly Uint8Array[]): Promise<number[]> => {
      const proposal = { txs: [...txs], maxTxBytes: 9_000n, height: 1n };
      const request = createMessage(cometAbci.RequestPrepareProposalSchema, proposal);
      const { txs: proposed } = await consensus.ask("prepareProposal", request);
      return proposed.map((tx) => txs.findIndex((one) => Buffer.compare(one, tx) === 0));
    };
    const all = [old, follower, raised];
    assert.deepEqual(await propose(all), [2, 1]);
    await consensus.ask("finalizeBlock", block(1n));
    await consensus.ask("commit", createMessage(RequestCommitSchema));
    const codes: number[] = [];
    for (const tx of all) codes.push((await mempool.ask("checkTx", recheck(tx))).code);
    assert.deepEqual(codes, [20, 0, 0]);
    // A node that was restarted knows none of them.
    assert.deepEqual(await propose([follower, raised]), [1, 0]);
  });
});

test("a proposal holds no more gas and bytes than a block may, and one with more is rejected", async () => {
  // Each asks for 500,000 units of gas.
  const txs = [0n, 1n, 2n].map((sequence) => sendTx(sequence, 1n));
  const [first, second] = txs as [Uint8Array, Uint8Array, Uint8Array];
  // Each with a tag and a length of two bytes.
  const bytesOfTwo = BigInt(first.length + 3 + second.length + 3);
  const withBounds = (maxBlockGas: bigint, maxBlockBytes: bigint, use: (client: AbciClient) => Promise<void>) =>
    withServer(
      async ({ client }) => {
        const consensus = client();
        await consensus.ask("initChain", initChain());
        await use(consensus);
      },
      { application: (store) => testApp(store, { maxBlockGas, maxBlockBytes }) },
    );
  const prepare = async (consensus: AbciClient): Promise<number> => {
    const request = createMessage(cometAbci.RequestPrepareProposalSchema, { txs, maxTxBytes: 100_000n, height: 1n });
    return (await consensus.ask("prepareProposal", request)).txs.length;
  };
  const process = async (consensus: AbciClient, given: readonly Uint8Array[]): Promise<number> => {
    const request = createMessage(cometAbci.RequestProcessProposalSchema, { height: 1n, txs: [...given] });
    return (await consensus.ask("processProposal", request)).status;
  };
  await withBounds(1_000_000n, -1n, async (consensus) => {
    assert.equal(await prepare(consensus), 2);
    assert.deepEqual([await process(consensus, txs), await process(consensus, [first, second])], [2, 1]);
    // What is no transaction has no gas; it is run and fails.
    assert.equal(await process(consensus, [first, Buffer.from("no transaction"), second]), 1);
  });
  await withBounds(-1n, bytesOfTwo, async (consensus) => {
    assert.equal(await prepare(consensus), 2);
    assert.deepEqual([await process(consensus, txs), await process(consensus, [first, second])], [2, 1]);
  });
  await withBounds(-1n, -1n, async (consensus) => {
    assert.equal(await prepare(consensus), 3);
    assert.equal(await process(consensus, txs), 1);
    // More than a block of valid ones has, each of one byte.
    const tiny = Array.from({ length: 100_001 }, () => Uint8Array.of(0));
    assert.deepEqual([await process(consensus, tiny), await process(consensus, tiny.slice(1))], [2, 1]);
  });
});

test("what cannot be read or answered gets an exception and the connection's end; the server goes on", async () => {
  await withServer(
    async ({ client }) => {
      const bad: Uint8Array[] = [
        Buffer.alloc(10, 0xff),
        encodeFrame(Buffer.alloc(4097)),
        encodeFrame(Buffer.from([0xff, 0xff, 0xff])),
        encodeFrame(Buffer.alloc(0)),
        encodeFrame(Buffer.from([0xfa, 0x07, 0x00])),
      ];
      for (const bytes of bad) {
        const one = client();
        one.send(echo("before"));
        one.write(bytes);
        one.send(echo("after"));
        assert.equal((await one.answer())?.case, "echo");
        assert.equal((await one.answer())?.case, "exception");
        assert.equal(await one.answer(), undefined);
      }
      const requests: Request[] = [
        { case: "initChain", value: createMessage(cometAbci.RequestInitChainSchema) },
        { case: "initChain", value: initChain([]) },
        { case: "initChain", value: initChain({ bank: 5 }) },
        { case: "commit", value: createMessage(RequestCommitSchema) },
        { case: "finalizeBlock", value: block(0n) },
        { case: "finalizeBlock", value: block(7n) },
      ];
      for (const request of requests) {
        const one = client();
        one.send(request);
        assert.equal((await one.answer())?.case, "exception", request.case ?? "");
        assert.equal(await one.answer(), undefined);
      }
      const part = client();
      part.write(encodeFrame(Buffer.alloc(100)).subarray(0, 50));
      part.close();
      assert.equal((await client().ask("echo", createMessage(RequestEchoSchema, { message: "x" }))).message, "x");
    },
    { maxMessageBytes: 4096 },
  );
});

test("any bytes end in answers or an exception, never in the server's end", async () => {
  await withServer(async ({ client }) => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 40 }), async (bytes) => {
        const one = client();
        one.write(encodeFrame(bytes));
        assert.ok((await one.answer()) !== undefined);
        one.close();
      }),
      { numRuns: 100 },
    );
    await client().ask("echo", createMessage(RequestEchoSchema, { message: "x" }));
  });
});

test("a block is run with its own hash, its time and its proposer", async () => {
  const seen: BlockInfo[] = [];
  const application = (store: ChainStore): DrivenApplication => {
    const app = testApp(store);
    const run = app.run.bind(app);
    app.run = (info, txs) => {
      seen.push(info);
      return run(info, txs);
    };
    return app;
  };
  await withServer(
    async ({ client }) => {
      const consensus = client();
      await consensus.ask("initChain", initChain());
      await consensus.ask("finalizeBlock", block(1n));
      const [info] = seen;
      assert.deepEqual(
        { ...info, hash: bytesToHex(must(info).hash), proposer: bytesToHex(must(info).proposer) },
        {
          chainId: CHAIN_ID,
          heightBlocks: 1n,
          timeNanos: 1_800_000_001_000_000_000n,
          hash: "01".repeat(32),
          proposer: "01".repeat(20),
        },
      );
    },
    { application },
  );
});

test("a fault of the application stops consensus, and answers questions with a code", async () => {
  const fails = (): never => {
    throw new AppError("CHAIN_STORE");
  };
  const application = (store: ChainStore): DrivenApplication => {
    const app = testApp(store);
    return {
      chainId: CHAIN_ID,
      version: app.version,
      latestHeightBlocks: () => 0n,
      latestAppHash: fails,
      fitting: fails,
      grpcQuery: fails,
      abciQuery: fails,
      simulate: fails,
      start: fails,
      run: fails,
      commit: fails,
      check: fails,
      checkReplacement: fails,
      uncheck: fails,
      factsOf: fails,
      trial: fails,
      maxBlockGas: -1n,
      maxBlockBytes: -1n,
    };
  };
  await withServer(
    async ({ client }) => {
      const query = client();
      assert.equal((await query.ask("query", createMessage(cometAbci.RequestQuerySchema, { path: "/x" }))).code, 1);
      assert.equal((await query.ask("checkTx", check(Buffer.from("x")))).code, 1);
      query.send({ case: "finalizeBlock", value: block(1n) });
      assert.equal((await query.answer())?.case, "exception");
    },
    { application },
  );
});

test("a socket that a killed process left is taken over, one that is listened on is not", async () => {
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: join(folder.path, "store") });
  const application = testApp(store);
  const modules = { application, queries: application, log: silentLog };
  const address = `unix://${join(folder.path, "s")}`;
  await using first = await startAbciServer({ address }, modules);
  await assert.rejects(startAbciServer({ address }, modules), (error) => isAppError(error, "CONFIG_INVALID"));
  const one = new AbciClient(first.address);
  assert.equal((await one.ask("echo", createMessage(RequestEchoSchema, { message: "é" }))).message, "é");
  one.close();
  for (const bad of ["", "unix://", "tcp://x", "tcp://127.0.0.1:70000", "http://127.0.0.1:1", "tcp://256.1.1.1:1"]) {
    await assert.rejects(
      startAbciServer({ address: bad }, modules),
      (error) => isAppError(error, "CONFIG_INVALID"),
      bad,
    );
  }
});

test("a query that waits lets later ones begin; answers keep their order, and what changes the state waits for them", async () => {
  const began: string[] = [];
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const answerOf = (path: string): AppAnswer => {
    began.push(path);
    return { code: 0, codespace: "", log: path, value: new Uint8Array(0), heightBlocks: 0n };
  };
  const queries = (): AbciQuerier => ({
    abciQuery: (path) => (path === "/slow" ? released.then(() => answerOf(path)) : answerOf(path)),
  });
  const application = (store: ChainStore): DrivenApplication => {
    const app = testApp(store);
    const start = app.start.bind(app);
    app.start = async (...given) => {
      began.push("initChain");
      return start(...given);
    };
    return app;
  };
  await withServer(
    async ({ client }) => {
      const one = client();
      const query = (path: string) =>
        ({ case: "query", value: createMessage(cometAbci.RequestQuerySchema, { path }) }) as const;
      for (const request of [query("/slow"), flush, query("/quick"), flush]) one.send(request);
      one.send({ case: "initChain", value: initChain() });
      await eventually("the quick one is asked", () => began.includes("/quick"));
      assert.deepEqual(began, ["/quick"]);
      release();
      const cases: (string | undefined)[] = [];
      for (let i = 0; i < 5; i++) {
        const answer = await one.answer();
        cases.push(answer?.case === "query" ? answer.value.log : answer?.case);
      }
      assert.deepEqual(cases, ["/slow", "flush", "/quick", "flush", "initChain"]);
      assert.deepEqual(began, ["/quick", "/slow", "initChain"]);
    },
    { queries, application },
  );
});

test("disposing ends the connections that are open", async () => {
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: join(folder.path, "store") });
  const application = testApp(store);
  const server = await startAbciServer(
    { address: "tcp://127.0.0.1:0" },
    { application, queries: application, log: silentLog },
  );
  const socket = connect(Number(server.address.split(":").at(-1)), "127.0.0.1");
  await once(socket, "connect");
  socket.resume();
  const closed = once(socket, "close");
  await server[Symbol.asyncDispose]();
  await closed;
});
