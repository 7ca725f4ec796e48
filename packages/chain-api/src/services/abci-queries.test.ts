import assert from "node:assert/strict";
import { mock, suite, test } from "node:test";
import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { AppError, silentLog } from "@turnpike/base";
import type { AppAnswer } from "@turnpike/chain";
import type { ChainSource } from "@turnpike/chain-node";
import { baseNode, baseTendermint, createMessage, decodeMessage, encodeMessage, tx as txs } from "@turnpike/proto";
import { must, readRecordedTx } from "@turnpike/testkit/fixtures";
import { LATEST, testApi } from "../../test/chain-api.ts";
import { AbciQueries, type AbciQueriesOptions } from "./abci-queries.ts";
import { baseServices } from "./base-services.ts";
import { ChainApi } from "./chain-api.ts";

const NOTHING = new Uint8Array(0);
const TX = "/cosmos.tx.v1beta1.Service";
const COMET = "/cosmos.base.tendermint.v1beta1.Service";
const NODE = "/cosmos.base.node.v1beta1.Service";

const bytesOf = <Desc extends DescMessage>(schema: Desc, init: MessageInitShape<Desc>): Uint8Array =>
  encodeMessage(schema, createMessage(schema, init));

function begin(more: Partial<AbciQueriesOptions> = {}, changed: Partial<ChainSource> = {}) {
  const { application, source, options } = testApi();
  const modules = { application, source: Object.assign(source, changed), log: silentLog };
  const queries = new AbciQueries({ ...options, ...more }, modules);
  const ask = async (path: string, data: Uint8Array = NOTHING, heightBlocks = 0n): Promise<AppAnswer> =>
    queries.abciQuery(path, data, heightBlocks);
  return { application, source, options, modules, queries, ask };
}

const shown = ({ code, codespace, log, heightBlocks }: AppAnswer) => [code, codespace, log, heightBlocks];

suite("abci_query of a whole node", () => {
  test("every base service answers as over gRPC, byte for byte", async () => {
    const { source, options, modules, ask } = begin();
    const api = new ChainApi(options, modules);
    const tx = must(source.txs[0]);
    const requests: Record<string, Uint8Array> = {
      [`${TX}/Simulate`]: bytesOf(txs.SimulateRequestSchema, { txBytes: tx.bytes }),
      [`${TX}/GetTx`]: bytesOf(txs.GetTxRequestSchema, { hash: Buffer.from(tx.hash).toString("hex") }),
      [`${TX}/GetTxsEvent`]: bytesOf(txs.GetTxsEventRequestSchema, { query: `tx.height=${tx.heightBlocks}` }),
      [`${TX}/GetBlockWithTxs`]: bytesOf(txs.GetBlockWithTxsRequestSchema, { height: tx.heightBlocks }),
      [`${TX}/TxDecode`]: bytesOf(txs.TxDecodeRequestSchema, { txBytes: tx.bytes }),
      [`${COMET}/GetBlockByHeight`]: bytesOf(baseTendermint.GetBlockByHeightRequestSchema, { height: 9n }),
      [`${COMET}/GetValidatorSetByHeight`]: bytesOf(baseTendermint.GetValidatorSetByHeightRequestSchema, {
        height: 9n,
      }),
      [`${COMET}/ABCIQuery`]: bytesOf(baseTendermint.ABCIQueryRequestSchema, { path: "/app/version" }),
    };
    const paths = [...baseServices(options, modules).keys()].filter((path) => path !== `${TX}/BroadcastTx`);
    assert.ok(paths.length > 20, `${paths.length}`);
    let answered = 0;
    for (const path of paths) {
      const data = requests[path] ?? NOTHING;
      const [over, through] = [await ask(path, data), await api.call(path, data, undefined)];
      if (!through.ok) {
        assert.notEqual(over.code, 0, path);
        continue;
      }
      answered++;
      assert.deepEqual(shown(over), [0, "", "", LATEST], path);
      assert.equal(Buffer.from(over.value).toString("hex"), Buffer.from(through.value).toString("hex"), path);
    }
    // What is asked without a request that names something is refused, over both.
    assert.ok(answered >= paths.length - 3, `${answered} of ${paths.length}`);
  });

  test("what the real command line asks without --grpc-addr", async () => {
    const { ask } = begin();
    const info = decodeMessage(baseTendermint.GetNodeInfoResponseSchema, (await ask(`${COMET}/GetNodeInfo`)).value);
    assert.ok(info.ok);
    assert.deepEqual(
      [info.message.defaultNodeInfo?.network, info.message.applicationVersion?.version],
      ["pocket", "0.1.35"],
    );
    const status = decodeMessage(baseNode.StatusResponseSchema, (await ask(`${NODE}/Status`, NOTHING, 7n)).value);
    assert.ok(status.ok);
    assert.equal(status.message.height, 7n);
    const config = decodeMessage(baseNode.ConfigResponseSchema, (await ask(`${NODE}/Config`)).value);
    assert.ok(config.ok);
    assert.equal(config.message.minimumGasPrice, "0.000001000000000000upokt");
  });

  test("attack: a service's request beyond its bounds is refused before it is decoded", async () => {
    const { ask } = begin();
    const heights = Buffer.alloc(65_538, Buffer.from([0x08, 0x09]));
    const large = await ask(`${COMET}/GetBlockByHeight`, heights);
    assert.match(large.log, /received message larger than max \(65538 vs\. 65536\)/);
    assert.notEqual(large.code, 0);
    // Texts of nothing, in a list.
    const events = await ask(`${TX}/GetTxsEvent`, Buffer.alloc(60_000, Buffer.from([0x0a, 0x00])));
    assert.match(events.log, /the message has more than \d+ parts/);
  });

  test("faults have the SDK's codes and texts", async () => {
    const { ask } = begin();
    const block = (height: bigint) => bytesOf(baseTendermint.GetBlockByHeightRequestSchema, { height });
    const cases: readonly [path: string, data: Uint8Array, height: bigint, answer: readonly unknown[]][] = [
      [`${TX}/BroadcastTx`, NOTHING, 0n, [18, "sdk", "can't route a broadcast tx message: invalid request", 0n]],
      [`${COMET}/GetNodeInfo`, Buffer.from("ff", "hex"), 0n, [18, "sdk", "unexpected EOF: invalid request", LATEST]],
      [
        `${COMET}/GetNodeInfo`,
        NOTHING,
        LATEST + 1n,
        [26, "sdk", "cannot query with height in the future; please provide a valid height: invalid height", 0n],
      ],
      [
        `${COMET}/GetBlockByHeight`,
        block(LATEST + 1n),
        0n,
        [
          18,
          "sdk",
          "rpc error: code = InvalidArgument desc = requested block height is bigger then the chain length: invalid request",
          LATEST,
        ],
      ],
      [
        `${COMET}/GetBlockByHeight`,
        block(0n),
        0n,
        [18, "sdk", "height must be greater than 0, but got 0: invalid request", LATEST],
      ],
      [
        `${TX}/GetTx`,
        bytesOf(txs.GetTxRequestSchema, { hash: "00" }),
        0n,
        [22, "sdk", "rpc error: code = NotFound desc = tx not found: 00: key not found", LATEST],
      ],
      [
        `${TX}/GetBlockWithTxs`,
        bytesOf(txs.GetBlockWithTxsRequestSchema, { height: 0n }),
        0n,
        [
          6,
          "sdk",
          `requested height 0 but height must not be less than 1 or greater than the current height ${LATEST}: invalid height: unknown request`,
          LATEST,
        ],
      ],
      [
        `${TX}/GetTxsEvent`,
        NOTHING,
        0n,
        [6, "sdk", "rpc error: code = Internal desc = query cannot be empty: unknown request", LATEST],
      ],
    ];
    for (const [path, data, height, answer] of cases) {
      assert.deepEqual(shown(await ask(path, data, height)), answer, `${path} at ${height}`);
    }
    const spent = readRecordedTx("bank-send-plain").tx_bytes;
    const { code, log } = await ask(
      `${TX}/Simulate`,
      bytesOf(txs.SimulateRequestSchema, { txBytes: Buffer.from(`${spent.slice(0, -8)}AAAAAAAA`, "base64") }),
    );
    assert.equal(code, 6, log);
    assert.match(log, /^rpc error: code = Unknown desc = .* with gas used: '\d+': unknown request$/);
  });

  test("the application's own paths are answered as before, and /app/simulate as JSON", async () => {
    const { ask, source } = begin();
    assert.equal(Buffer.from((await ask("/app/version")).value).toString(), "0.1.35");
    const json = JSON.parse(Buffer.from((await ask("/app/simulate", must(source.txs[0]).bytes)).value).toString());
    assert.deepEqual(Object.keys(json), ["gas_info", "result"]);
    const junk = await ask("/app/simulate", Buffer.from("junk"));
    assert.match(junk.log, /^failed to simulate tx: .*tx parse error/);
  });

  test("a source that is away, slow or asked by too many is said so, and holds up no other query", async () => {
    const away = begin({}, { nodeInfo: () => Promise.reject(new AppError("CHAIN_UNREACHABLE")) });
    assert.match((await away.ask(`${COMET}/GetNodeInfo`)).log, /^rpc error: code = Unavailable desc = /);
    mock.timers.enable({ apis: ["setTimeout"] });
    try {
      let release: (height: bigint) => void = () => {};
      const height = new Promise<bigint>((resolve) => {
        release = resolve;
      });
      const slow = begin({ maxCalls: 2, timeoutMs: 500 }, { latestHeightBlocks: () => height });
      const data = bytesOf(baseTendermint.GetBlockByHeightRequestSchema, { height: 5n });
      const two = [slow.ask(`${COMET}/GetBlockByHeight`, data), slow.ask(`${COMET}/GetBlockByHeight`, data)];
      const busy = await slow.ask(`${COMET}/GetNodeInfo`);
      assert.equal(busy.log, "rpc error: code = ResourceExhausted desc = too many requests wait: unknown request");
      assert.equal((await slow.ask("/app/version")).code, 0);
      mock.timers.tick(500);
      for (const { code, log } of await Promise.all(two)) {
        assert.deepEqual([code, log.slice(0, 44)], [6, "rpc error: code = DeadlineExceeded desc = th"]);
      }
      // They still ask, and keep their places until they end.
      assert.match((await slow.ask(`${COMET}/GetNodeInfo`)).log, /too many requests wait/);
      release(LATEST);
      await new Promise(setImmediate);
      await new Promise(setImmediate);
      assert.equal((await slow.ask(`${COMET}/GetBlockByHeight`, data)).code, 0);
    } finally {
      mock.timers.reset();
    }
  });

  test("simulations that wait take no place of other queries, and are late after a while", async () => {
    mock.timers.enable({ apis: ["setTimeout"] });
    try {
      const { application, source, ask } = begin({ maxCalls: 2, timeoutMs: 500 });
      application.simulate = () => new Promise(() => {});
      const data = bytesOf(txs.SimulateRequestSchema, { txBytes: must(source.txs[0]).bytes });
      const waiting = Array.from({ length: 20 }, () => ask(`${TX}/Simulate`, data));
      assert.equal((await ask(`${COMET}/GetNodeInfo`)).code, 0);
      mock.timers.tick(500);
      for (const { log } of await Promise.all(waiting)) assert.match(log, /^rpc error: code = DeadlineExceeded/);
    } finally {
      mock.timers.reset();
    }
  });

  test("the time of a simulation begins when its thread has started", async () => {
    mock.timers.enable({ apis: ["setTimeout"] });
    try {
      const { application, source, ask } = begin({ timeoutMs: 500 });
      const { promise: started, resolve: start } = Promise.withResolvers<void>();
      const { promise: asked, resolve: askedForThread } = Promise.withResolvers<void>();
      const simulationsReady = (): Promise<void> => {
        askedForThread();
        return started;
      };
      Object.assign(application, { simulationsReady });
      const data = bytesOf(txs.SimulateRequestSchema, { txBytes: must(source.txs[0]).bytes });
      const answer = ask(`${TX}/Simulate`, data);
      await Promise.race([asked, answer]);
      mock.timers.tick(10_000);
      start();
      assert.deepEqual(shown(await answer), [0, "", "", LATEST]);
    } finally {
      mock.timers.reset();
    }
  });
});
