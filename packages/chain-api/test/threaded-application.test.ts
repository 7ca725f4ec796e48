import assert from "node:assert/strict";
import { once } from "node:events";
import { type RequestOptions, request } from "node:http";
import { connect, type IncomingHttpHeaders } from "node:http2";
import { connect as createSocket } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { suite, test } from "node:test";
import { Worker } from "node:worker_threads";
import { silentLog } from "@turnpike/base";
import { type AppAnswer, pocketMachine, ThreadedApplication } from "@turnpike/chain";
import { type ChainSigner, signTx } from "@turnpike/chain-client";
import { type EmbeddedEngine, EmbeddedSource, openEmbeddedNode } from "@turnpike/chain-node";
import {
  type Any,
  bank,
  createMessage,
  decodeMessage,
  encodeMessage,
  packAny,
  session,
  supplier,
  tx as txs,
} from "@turnpike/proto";
import { virtualClock } from "@turnpike/testkit";
import { LOCAL_GENESIS, LOCAL_SIGNERS, LOCAL_VALIDATOR, NODE, tickingClock } from "@turnpike/testkit/embedded-node";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { startGrpcServer } from "../src/grpc/grpc-server.ts";
import { startRestServer } from "../src/rest/rest-server.ts";
import { startRpcServer } from "../src/rpc/rpc-server.ts";
import { AbciQueries } from "../src/services/abci-queries.ts";
import { apiSurface } from "../src/services/base-services.ts";
import { ChainApi } from "../src/services/chain-api.ts";
import { SIMULATE_PATH } from "../src/services/simulation.ts";

const BALANCE = "/cosmos.bank.v1beta1.Query/Balance";
const ROLES = Object.keys(LOCAL_SIGNERS);
const DAO = LOCAL_SIGNERS.dao.address;

const openNode = (folder: string): Promise<EmbeddedEngine> =>
  openEmbeddedNode(
    { folder, genesis: LOCAL_GENESIS, moniker: "test", version: "0.1.35" },
    {
      machine: pocketMachine({ gasPrices: [] }).machine,
      validatorSigner: LOCAL_VALIDATOR,
      nodeSigner: NODE,
      clock: tickingClock(),
    },
  );

type StartThread = NonNullable<ConstructorParameters<typeof ThreadedApplication>[1]["start"]>;

/** Run time of one query or simulation that only a hang reaches: the product's seconds pass on a slow machine. */
const HANG_MS = 120_000;
const THREAD_URL = new URL("./threads/query-thread.ts", import.meta.resolve("@turnpike/chain"));

/** Starts a thread as the product does. Its messages reach the application once `released` resolves. */
function startThread(released: Promise<void>): StartThread {
  return (data) => {
    const thread = new Worker(THREAD_URL, { workerData: { ...data, maxRunMs: HANG_MS } });
    thread.unref();
    return {
      postMessage: (request) => thread.postMessage(request),
      terminate: () => thread.terminate(),
      ref: () => thread.ref(),
      on(event: string, listener: (...values: unknown[]) => void) {
        thread.on(event, (...values: unknown[]) => void released.then(() => listener(...values)));
        return thread;
      },
    } satisfies ReturnType<StartThread>;
  };
}

/** The application on threads, with a clock that does not move: the time that requests wait depends on the machine. */
const threaded = (node: EmbeddedEngine, folder: string, released = Promise.resolve()): ThreadedApplication =>
  new ThreadedApplication(
    { folder, gasPrices: [] },
    { application: node.application, log: silentLog, clock: virtualClock(), start: startThread(released) },
  );

function sendTx(signer: ChainSigner, sequence: bigint, count = 1): Uint8Array {
  const message: Any = packAny(
    bank.MsgSendSchema,
    createMessage(bank.MsgSendSchema, {
      fromAddress: signer.address,
      toAddress: DAO,
      amount: [{ denom: "upokt", amount: "1" }],
    }),
  );
  return signTx(
    {
      messages: Array.from({ length: count }, () => message),
      chainId: LOCAL_GENESIS.chain_id,
      accountNumber: BigInt(ROLES.findIndex((role) => LOCAL_SIGNERS[role as keyof typeof LOCAL_SIGNERS] === signer)),
      order: { kind: "ordered", sequence },
      gasLimit: 500_000n,
      fee: [{ denom: "upokt", amount: 1n }],
    },
    signer,
  );
}

const balanceRequest = (address: string): Uint8Array =>
  encodeMessage(
    bank.QueryBalanceRequestSchema,
    createMessage(bank.QueryBalanceRequestSchema, { address, denom: "upokt" }),
  );

async function balanceOf(application: ThreadedApplication, address: string, heightBlocks = 0n): Promise<bigint> {
  const answer = await application.grpcQuery(BALANCE, balanceRequest(address), heightBlocks);
  assert.ok(answer.ok);
  const read = decodeMessage(bank.QueryBalanceResponseSchema, answer.value);
  assert.ok(read.ok);
  return BigInt(read.message.balance?.amount ?? "0");
}

interface ListServer extends AsyncDisposable {
  /** Asks for all suppliers from an address; resolves to the text of the answer. */
  ask(localAddress: string): Promise<string>;
}

const ALL_SUPPLIERS = "/pocket.supplier.Query/AllSuppliers";

function askHttp(options: RequestOptions, body?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", agent: false, ...options }, (answer) => {
      textOf(answer).then(resolve, reject);
    });
    sent.on("error", reject).end(body);
  });
}

async function askGrpc(port: number, localAddress: string): Promise<string> {
  const createConnection = () => createSocket({ host: "127.0.0.1", port, localAddress });
  const session = connect(`http://127.0.0.1:${port}`, { createConnection });
  const call = session.request({ ":method": "POST", ":path": ALL_SUPPLIERS, "content-type": "application/grpc" });
  let status = "";
  for (const event of ["response", "trailers"]) {
    call.on(event, (headers: IncomingHttpHeaders) => {
      status += headers["grpc-message"] ?? "";
    });
  }
  // An empty request behind its five bytes.
  call.end(new Uint8Array(5));
  call.resume();
  await once(call, "close");
  session.close();
  return decodeURIComponent(status);
}

/** Serves the queries of an application, and asks one of the lists that are slow before they were measured. */
async function serveLists(
  over: "REST" | "gRPC" | "RPC",
  node: EmbeddedEngine,
  application: ThreadedApplication,
): Promise<ListServer> {
  const address = { host: "127.0.0.1", port: 0, closeGraceMs: 50 };
  const opts = { ...address, surface: apiSurface(pocketMachine({ gasPrices: [] }).modules), gasPrices: [] };
  const source = new EmbeddedSource({ listenAddr: "tcp://0.0.0.0:1", rpcAddr: () => "" }, node);
  const modules = { application, source, node, queries: application, log: silentLog, clock: tickingClock() };
  const starts = {
    async REST(): Promise<ListServer> {
      const server = await startRestServer(opts, modules);
      const { port } = server;
      const ask = (localAddress: string): Promise<string> =>
        askHttp({ port, localAddress, path: "/pocket/supplier/supplier" });
      return { ask, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
    },
    async gRPC(): Promise<ListServer> {
      const server = await startGrpcServer(opts, modules);
      const ask = (localAddress: string): Promise<string> => askGrpc(server.port, localAddress);
      return { ask, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
    },
    async RPC(): Promise<ListServer> {
      const server = await startRpcServer(address, modules);
      const port = Number(new URL(server.url).port);
      const params = { path: ALL_SUPPLIERS, data: "" };
      const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "abci_query", params });
      const ask = (localAddress: string): Promise<string> =>
        askHttp({ port, localAddress, method: "POST", path: "/" }, body);
      return { ask, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
    },
  };
  return starts[over]();
}

suite("queries and simulations on threads", () => {
  test("answer as the application itself does, at every height, right after each block", async () => {
    await using folder = await scratchFolder();
    await using node = await openNode(folder.path);
    await using application = threaded(node, folder.path);
    const { faucet } = LOCAL_SIGNERS;
    const before = await (async () => {
      await node.produceBlock();
      return balanceOf(application, DAO);
    })();
    for (let n = 0n; n < 5n; n++) {
      assert.equal(node.submit(sendTx(faucet, n)).kind, "checked");
      await node.produceBlock();
      assert.equal(await balanceOf(application, DAO), before + n + 1n);
    }
    for (let height = 1n; height <= 6n; height++) {
      assert.equal(await balanceOf(application, DAO, height), before + height - 1n);
    }
    const asked = [
      [
        "/pocket.supplier.Query/AllSuppliers",
        encodeMessage(supplier.QueryAllSuppliersRequestSchema, createMessage(supplier.QueryAllSuppliersRequestSchema)),
      ],
      [
        "/pocket.session.Query/GetSession",
        encodeMessage(
          session.QueryGetSessionRequestSchema,
          createMessage(session.QueryGetSessionRequestSchema, {
            applicationAddress: LOCAL_SIGNERS["application-1"].address,
            serviceId: "eth",
          }),
        ),
      ],
      [BALANCE, balanceRequest("nonsense")],
      ["/no.such.Query/Method", new Uint8Array(0)],
    ] as const;
    for (const [path, data] of asked) {
      for (const height of [0n, 3n, 99n, -1n]) {
        assert.deepEqual(
          await application.grpcQuery(path, data, height),
          node.application.grpcQuery(path, data, height),
          `${path} at ${height}`,
        );
        const ours = await application.abciQuery(path, data, height);
        assert.deepEqual(ours, node.application.abciQuery(path, data, height), `${path} at ${height}`);
      }
    }
    const there = await application.abciQuery("/store/bank/key", Buffer.of(5));
    const here = node.application.abciQuery("/store/bank/key", Buffer.of(5));
    assert.ok(here.value.length > 0);
    assert.deepEqual([there.code, Buffer.from(there.value)], [here.code, here.value]);
  });

  test("a simulation counts what waits in the mempool, and what came with a block", async () => {
    await using folder = await scratchFolder();
    await using node = await openNode(folder.path);
    await using application = threaded(node, folder.path);
    const { faucet } = LOCAL_SIGNERS;
    await node.produceBlock();
    const gasOf = async (tx: Uint8Array): Promise<unknown> => {
      const [here, there] = [await node.application.simulate(tx), await application.simulate(tx)];
      // The bounds differ, as these threads make no blocks.
      assert.deepEqual({ ...there, gasWanted: 0n }, { ...here, gasWanted: 0n });
      return [there?.code, there?.gasUsed !== undefined && there.gasUsed > 50_000n];
    };
    assert.deepEqual(await gasOf(sendTx(faucet, 0n)), [0, true]);
    node.submit(sendTx(faucet, 0n));
    assert.deepEqual(await gasOf(sendTx(faucet, 1n)), [0, true]);
    node.submit(sendTx(faucet, 1n));
    assert.deepEqual(await gasOf(sendTx(faucet, 2n)), [0, true]);
    await node.produceBlock();
    assert.deepEqual(await gasOf(sendTx(faucet, 2n)), [0, true]);
    assert.deepEqual(((await gasOf(sendTx(faucet, 1n))) as unknown[])[0], 32);
  });

  test("simulations and large lists are answered byte for byte as on one thread: gRPC, REST and abci_query", async () => {
    await using folder = await scratchFolder();
    await using node = await openNode(folder.path);
    await using application = threaded(node, folder.path);
    await node.produceBlock();
    const source = new EmbeddedSource({ listenAddr: "tcp://0.0.0.0:1", rpcAddr: () => "" }, node);
    const opts = { surface: apiSurface(pocketMachine({ gasPrices: [] }).modules), gasPrices: [] };
    const [beside, inside] = [application, node.application].map((one) => ({
      api: new ChainApi(opts, { application: one, source, log: silentLog }),
      abci: new AbciQueries(opts, { application: one, source, log: silentLog }),
    }));
    assert.ok(beside && inside);
    const requestOf = (txBytes: Uint8Array): Uint8Array =>
      encodeMessage(txs.SimulateRequestSchema, createMessage(txs.SimulateRequestSchema, { txBytes }));
    const large = sendTx(LOCAL_SIGNERS.faucet, 0n, 200);
    for (const tx of [
      large,
      sendTx(LOCAL_SIGNERS.faucet, 7n),
      Buffer.from("junk"),
      new Uint8Array(0),
      new Uint8Array(1_048_577),
    ]) {
      const answer = await beside.api.call(SIMULATE_PATH, requestOf(tx), undefined);
      assert.deepEqual(answer, await inside.api.call(SIMULATE_PATH, requestOf(tx), undefined));
      for (const [path, data] of [
        [SIMULATE_PATH, requestOf(tx)],
        ["/app/simulate", tx],
      ] as const) {
        const there: AppAnswer = await beside.abci.abciQuery(path, data);
        const here: AppAnswer = await inside.abci.abciQuery(path, data);
        assert.deepEqual({ ...there, value: Buffer.from(there.value) }, { ...here, value: Buffer.from(here.value) });
      }
    }
    const answer = await beside.api.call(SIMULATE_PATH, requestOf(large), undefined);
    assert.ok(answer.ok);
    assert.ok(answer.value.length > 40_000);
    const text = await beside.api.jsonOf(txs.SimulateResponseSchema, answer.value);
    assert.ok(text?.startsWith('{"gas_info":'));
    assert.equal(text, await inside.api.jsonOf(txs.SimulateResponseSchema, answer.value));
    assert.equal(text, await application.apiJson("cosmos.tx.v1beta1.SimulateResponse", answer.value));
    assert.equal(await application.apiJson("no.such.Type", answer.value), undefined);
    const schema = txs.SimulateRequestSchema;
    const json = Buffer.from(JSON.stringify({ tx_bytes: Buffer.from(large).toString("base64") }));
    assert.ok(json.length > 4_096);
    const manyParts = Buffer.from(`{"tx":{"body":{"messages":[${"{},".repeat(20_000)}{}]}}}`);
    for (const text of [json, json.subarray(1), manyParts]) {
      assert.deepEqual(await beside.api.messageOf(schema, text), await inside.api.messageOf(schema, text));
    }
    const read = await beside.api.messageOf(schema, json);
    assert.deepEqual(read?.ok === true && Buffer.from(read.bytes), Buffer.from(requestOf(large)));
    assert.deepEqual(await beside.api.messageOf(schema, manyParts), {
      ok: false,
      fault: `the JSON has more than ${1_000 + Math.floor(manyParts.length / 8)} parts`,
    });
  });

  test("attack: a megabyte of JSON with a third of a million parts is not read on the thread that makes blocks", async (t) => {
    await using folder = await scratchFolder();
    await using node = await openNode(folder.path);
    await using application = threaded(node, folder.path);
    await node.produceBlock();
    const opts = { surface: apiSurface(pocketMachine({ gasPrices: [] }).modules), gasPrices: [] };
    const source = new EmbeddedSource({ listenAddr: "tcp://0.0.0.0:1", rpcAddr: () => "" }, node);
    const { mock } = t.mock.method(application, "readApiJson");
    const api = new ChainApi(opts, { application, source, log: silentLog });
    const text = Buffer.from(`{"tx":{"signatures":[${'"",'.repeat(330_000)}""]}}`);
    const read = await api.messageOf(txs.SimulateRequestSchema, text);
    assert.deepEqual([read?.ok, mock.callCount()], [false, 1]);
    await api.messageOf(txs.SimulateRequestSchema, Buffer.from("{}"));
    assert.equal(mock.callCount(), 1, "a small one needs no thread");
    const parts = new Uint8Array(2 * 330_000).fill(0x0a);
    for (let i = 1; i < parts.length; i += 2) parts[i] = 0;
    const answer = await api.call(SIMULATE_PATH, parts, undefined);
    assert.ok(!answer.ok);
    assert.match(answer.text, /^grpc: error unmarshalling request: proto: /);
  });

  test("blocks are made while a keyless simulation of a megabyte and a thousand queries run", async () => {
    await using folder = await scratchFolder();
    await using node = await openNode(folder.path);
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    await using application = threaded(node, folder.path, released);
    await node.produceBlock();
    const simulated = application.simulate(sendTx(LOCAL_SIGNERS.faucet, 0n, 6_000));
    const answers = Array.from({ length: 1_000 }, () => balanceOf(application, DAO));
    let answered = 0;
    for (const answer of [simulated, ...answers]) void answer.then(() => answered++);
    // The threads' answers are held until the blocks are made: which is first otherwise depends on the machine.
    for (let n = 0; n < 3; n++) await node.produceBlock();
    assert.deepEqual([node.application.latestHeightBlocks(), answered], [4n, 0]);
    release();
    assert.equal((await Promise.all(answers)).length, 1_000);
    assert.equal((await simulated)?.code, 0);
  });

  test("more queries than may wait are refused with the text of busy servers", async () => {
    await using folder = await scratchFolder();
    await using node = await openNode(folder.path);
    await using application = threaded(node, folder.path);
    await node.produceBlock();
    const asked = Array.from({ length: 2_100 }, () => application.grpcQuery(BALANCE, balanceRequest(DAO)));
    const answers = await Promise.all(asked);
    const refused = answers.filter((answer) => !answer.ok);
    assert.equal(refused.length, 100);
    for (const answer of refused) {
      assert.ok(!answer.ok);
      assert.deepEqual([answer.status, answer.text], [8, "too many requests wait"]);
    }
  });

  for (const over of ["REST", "gRPC", "RPC"] as const) {
    test(`attack: a client that fills all places of slow lists leaves one to another client, over ${over}`, async () => {
      await using folder = await scratchFolder();
      await using node = await openNode(folder.path);
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      await using application = threaded(node, folder.path, released);
      await node.produceBlock();
      await using server = await serveLists(over, node, application);
      const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      let busy = 0;
      const ask = async (localAddress: string): Promise<string> => {
        const text = await server.ask(localAddress);
        if (!text.includes("too many requests wait")) return "answered";
        (++busy === 1 ? first : second).resolve();
        return "busy";
      };
      // One list runs, whose answer is held, and 64 wait.
      const flood = Array.from({ length: 66 }, () => ask("127.0.0.1"));
      await first.promise;
      const other = ask("127.0.0.2");
      await Promise.race([second.promise, other]);
      release();
      assert.equal(await other, "answered");
      assert.equal((await Promise.all(flood)).filter((outcome) => outcome === "answered").length, 64);
    });
  }
});
