import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect } from "node:http2";
import { suite, test } from "node:test";
import { Client, credentials, Metadata, type StatusObject } from "@grpc/grpc-js";
import { hexToBytes, silentLog } from "@turnpike/base";
import { EventLoopQueue } from "@turnpike/chain-node";
import {
  baseQuery,
  createMessage,
  decodeMessage,
  encodeMessage,
  methodAt,
  reflectionV1,
  toApiJson,
  tx as txs,
} from "@turnpike/proto";
import { LATEST, recordedJson, shapeFaults, type TestSource, testApi } from "../../test/chain-api.ts";
import { type ListeningServer, startGrpcServer } from "./grpc-server.ts";

interface RecordedCall {
  readonly name: string;
  readonly method: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly request_hex: string;
  readonly response_hex?: string | null;
  readonly responses_hex?: readonly string[];
  readonly status: { readonly code: number; readonly message: string };
  readonly headers?: Readonly<Record<string, string>>;
}

interface Answer {
  readonly code: number;
  readonly text: string;
  readonly value: Buffer;
  readonly header: Metadata;
}

const same = (bytes: Buffer): Buffer => bytes;

function metadataOf(fields: Readonly<Record<string, string>>): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(fields)) metadata.set(name, value);
  return metadata;
}

/** An unmodified client of the server, with raw bytes. */
class RawClient implements Disposable {
  readonly #client: Client;

  constructor(port: number) {
    this.#client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  }

  call(method: string, request: Uint8Array, fields: Readonly<Record<string, string>> = {}): Promise<Answer> {
    return new Promise((resolve) => {
      let header = new Metadata();
      const bytes = Buffer.from(request);
      const call = this.#client.makeUnaryRequest(method, same, same, bytes, metadataOf(fields), (error, value) => {
        const text = error?.details ?? "";
        resolve({ code: error?.code ?? 0, text, value: value ?? Buffer.alloc(0), header });
      });
      call.on("metadata", (metadata: Metadata) => {
        header = metadata;
      });
    });
  }

  stream(method: string, requests: readonly Uint8Array[]): Promise<{ status: StatusObject; values: Buffer[] }> {
    return new Promise((resolve) => {
      const values: Buffer[] = [];
      const call = this.#client.makeBidiStreamRequest(method, same, same);
      call.on("data", (value: Buffer) => values.push(value));
      call.on("error", () => {});
      call.on("status", (status) => resolve({ status, values }));
      for (const request of requests) call.write(Buffer.from(request));
      call.end();
    });
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}

interface Running extends AsyncDisposable {
  readonly client: RawClient;
  readonly source: TestSource;
}

async function start(maxRequestBytes?: number): Promise<Running> {
  const { application, source, options } = testApi();
  const bound = maxRequestBytes === undefined ? {} : { maxRequestBytes };
  const server: ListeningServer = await startGrpcServer(
    { host: "127.0.0.1", port: 0, closeGraceMs: 50, ...options, ...bound },
    { application, source, log: silentLog },
  );
  const client = new RawClient(server.port);
  return {
    client,
    source,
    async [Symbol.asyncDispose]() {
      client[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** What only the recorded chain's history has. */
const LATER = new Set([
  "gateway.json all",
  "proof.json claim",
  "service.json cupr history",
  "supplier.json one",
  "cosmos.json tx simulate (spent sequence)",
]);
const HISTORY = /^(service\.json (with metadata|cupr|one with|.*svc-new)|proof\.json claim)/;
// Their texts name heights, and one ends in a space, which that client does not show.
const NO_TEXT = new Set(["unknown app", "future"]);

const bytesOf = (hex: string): Uint8Array => hexToBytes(hex) ?? new Uint8Array();
const V1 = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const V1ALPHA = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

function reflectionRequest(messageRequest: reflectionV1.ServerReflectionRequest["messageRequest"]): Uint8Array {
  const { ServerReflectionRequestSchema: schema } = reflectionV1;
  return encodeMessage(schema, createMessage(schema, { messageRequest }));
}

function reflectionResponse(bytes: Uint8Array | undefined): reflectionV1.ServerReflectionResponse["messageResponse"] {
  const decoded = decodeMessage(reflectionV1.ServerReflectionResponseSchema, bytes ?? new Uint8Array());
  assert.ok(decoded.ok);
  return decoded.message.messageResponse;
}

suite("the chain's gRPC", () => {
  test("every recorded call gets the recorded status, text and shape", async () => {
    await using running = await start();
    const { client } = running;
    const root = new URL("../../../../test/spec/recorded-chain/grpc/", import.meta.url);
    let asked = 0;
    for (const file of readdirSync(root)) {
      if (["services.json", "reflection.json", "migration.json"].includes(file)) continue;
      for (const recorded of recordedJson<RecordedCall[]>(`grpc/${file}`)) {
        const name = `${file} ${recorded.name}`;
        if (HISTORY.test(name) || LATER.has(name)) continue;
        const answer = await client.call(recorded.method, bytesOf(recorded.request_hex), recorded.metadata);
        assert.equal(answer.code, recorded.status.code, `${name}: ${answer.text}`);
        if (!NO_TEXT.has(recorded.name)) assert.equal(answer.text, recorded.status.message, name);
        const hasHeight = recorded.headers?.["x-cosmos-block-height"] !== undefined;
        const expected = hasHeight ? [recorded.metadata?.["x-cosmos-block-height"] ?? LATEST.toString()] : [];
        assert.deepEqual(answer.header.get("x-cosmos-block-height"), expected, name);
        if (typeof recorded.response_hex === "string") {
          const schema = methodAt(recorded.method)?.output ?? assert.fail(name);
          const [theirs, ours] = [bytesOf(recorded.response_hex), answer.value].map((bytes) => {
            const decoded = decodeMessage(schema, bytes);
            assert.ok(decoded.ok, name);
            return toApiJson(schema, decoded.message);
          });
          assert.deepEqual(shapeFaults(theirs, ours), [], name);
        }
        asked++;
      }
    }
    assert.ok(asked > 50, `${asked} calls were asked`);
  });

  test("the height of the metadata is the height that is read; a broken one is refused as recorded", async () => {
    await using running = await start();
    const ask = (height: string): Promise<Answer> =>
      running.client.call("/pocket.shared.Query/Params", new Uint8Array(), { "x-cosmos-block-height": height });
    assert.deepEqual((await ask("7")).header.get("x-cosmos-block-height"), ["7"]);
    assert.deepEqual((await ask("0")).header.get("x-cosmos-block-height"), [LATEST.toString()]);
    for (const height of ["-1", "abc", "", "0x5", "1e3", "99999999999999999999", (LATEST + 1n).toString()]) {
      const answer = await ask(height);
      assert.equal(answer.code, 2, height);
      assert.match(answer.text, /^codespace sdk code (18|26): invalid (request|height): /);
      assert.deepEqual(answer.header.get("x-cosmos-block-height"), []);
    }
  });

  test("reflection lists the services of both versions, and gives files and what is unknown", async () => {
    await using running = await start();
    const { client } = running;
    for (const path of [V1, V1ALPHA]) {
      const { status, values } = await client.stream(path, [
        reflectionRequest({ case: "listServices", value: "" }),
        reflectionRequest({ case: "fileContainingSymbol", value: "pocket.shared.Query" }),
        reflectionRequest({ case: "fileContainingSymbol", value: "pocket.nosuch" }),
        reflectionRequest({ case: "fileByFilename", value: "pocket/shared/query.proto" }),
        reflectionRequest({ case: "fileByFilename", value: "nosuch.proto" }),
      ]);
      assert.equal(status.code, 0);
      const [list, symbol, unknown, file, noFile] = values.map(reflectionResponse);
      assert.equal(list?.case, "listServicesResponse");
      const names = list.value.service.map(({ name }) => name);
      const known = recordedJson<string[]>("grpc/services.json").filter((name) => /^(pocket|grpc)\./.test(name));
      for (const name of [...known, "grpc.reflection.v1.ServerReflection", "cosmos.tx.v1beta1.Service"]) {
        if (name !== "pocket.migration.Query") assert.ok(names.includes(name), name);
      }
      assert.deepEqual(names, names.toSorted());
      assert.ok(!names.some((name) => name.endsWith(".Msg")));
      assert.equal(symbol?.case, "fileDescriptorResponse");
      assert.ok(symbol.value.fileDescriptorProto.some((bytes) => Buffer.from(bytes).includes("ParamsAtHeight")));
      assert.equal(file?.case, "fileDescriptorResponse");
      assert.ok(noFile?.case === "errorResponse" && noFile.value.errorCode === 5);
      assert.ok(unknown?.case === "errorResponse");
      assert.deepEqual([unknown.value.errorCode, unknown.value.errorMessage], [5, "unknown symbol: pocket.nosuch"]);
    }
    const [recorded] = recordedJson<RecordedCall[]>("grpc/reflection.json").filter(
      ({ name }) => name === "unknown symbol",
    );
    const { values } = await client.stream(V1ALPHA, [bytesOf(recorded?.request_hex ?? "")]);
    assert.deepEqual(values[0]?.toString("hex"), recorded?.responses_hex?.[0]);
    assert.equal((await client.stream(V1, [Uint8Array.of(0xff)])).status.code, 13);
    assert.equal((await client.stream(V1, [new Uint8Array()])).status.code, 3);
    const many = Array.from({ length: 1200 }, () => reflectionRequest({ case: "fileByFilename", value: "x" }));
    assert.equal((await client.stream(V1, many)).status.code, 8);
  });

  test("a transaction is broadcast, known when it comes again, and shown in a block", async () => {
    await using running = await start();
    const { client, source } = running;
    const [stored] = source.txs;
    const path = "/cosmos.tx.v1beta1.Service/BroadcastTx";
    const send = async (mode: txs.BroadcastMode): Promise<txs.BroadcastTxResponse> => {
      const request = createMessage(txs.BroadcastTxRequestSchema, { txBytes: stored?.bytes ?? new Uint8Array(), mode });
      const answer = await client.call(path, encodeMessage(txs.BroadcastTxRequestSchema, request));
      const decoded = decodeMessage(txs.BroadcastTxResponseSchema, answer.value);
      assert.ok(decoded.ok && answer.code === 0, answer.text);
      return decoded.message;
    };
    assert.equal((await send(txs.BroadcastMode.ASYNC)).txResponse?.code, 0);
    const again = (await send(txs.BroadcastMode.SYNC)).txResponse;
    assert.deepEqual([again?.code, again?.codespace, again?.rawLog], [19, "sdk", ""]);
    assert.equal(source.sent.length, 1);
    const block = createMessage(txs.BroadcastTxRequestSchema, {
      txBytes: Uint8Array.of(1),
      mode: txs.BroadcastMode.BLOCK,
    });
    const refused = await client.call(path, encodeMessage(txs.BroadcastTxRequestSchema, block));
    assert.deepEqual([refused.code, refused.text], [2, "unsupported return type block; supported types: sync, async"]);
  });

  test("a page far behind an empty block's end is empty, in both directions", async () => {
    await using running = await start();
    const most = 2n ** 64n - 1n;
    for (const reverse of [true, false]) {
      const pagination = createMessage(baseQuery.PageRequestSchema, { offset: most, limit: most, reverse });
      const request = createMessage(txs.GetBlockWithTxsRequestSchema, { height: LATEST, pagination });
      const bytes = encodeMessage(txs.GetBlockWithTxsRequestSchema, request);
      const answer = await running.client.call("/cosmos.tx.v1beta1.Service/GetBlockWithTxs", bytes);
      const decoded = decodeMessage(txs.GetBlockWithTxsResponseSchema, answer.value);
      assert.ok(decoded.ok && answer.code === 0, answer.text);
      assert.deepEqual(decoded.message.txs, []);
    }
  });

  test("what is unknown, junk or too large is refused, and the server goes on", async () => {
    await using running = await start(10_000);
    const { client } = running;
    const unknown = async (method: string): Promise<string> => {
      const answer = await client.call(method, new Uint8Array(50));
      assert.equal(answer.code, 12);
      return answer.text;
    };
    assert.equal(await unknown("/pocket.shared.Query/Nosuch"), "unknown method Nosuch for service pocket.shared.Query");
    assert.equal(await unknown("/pocket.proof.Msg/CreateClaim"), "unknown service pocket.proof.Msg");
    assert.equal(await unknown("/toString/constructor"), "unknown service toString");
    const large = await client.call("/pocket.shared.Query/Params", new Uint8Array(20_000));
    assert.equal(large.code, 8, large.text);
    const junk = await Promise.all(
      Array.from({ length: 1000 }, (_, i) =>
        client.call("/pocket.session.Query/GetSession", Buffer.from([255, i & 255, i >> 8])),
      ),
    );
    assert.ok(junk.every(({ code, text }) => code === 13 && text.startsWith("grpc: error unmarshalling request: ")));
    assert.equal((await client.call("/pocket.shared.Query/Params", new Uint8Array())).code, 0);
  });

  test("attack: megabytes of plain numbers are refused by their length, by each method's own bound", async () => {
    await using running = await start();
    const { client } = running;
    // A height again and again, of two bytes each: it makes nothing in memory, and takes time to read.
    const heights = Buffer.alloc(2_000_000, Buffer.from([0x08, 0x09]));
    const query = "/cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight";
    assert.equal((await client.call(query, heights.subarray(0, 65_536))).code, 0);
    const large = await client.call(query, heights.subarray(0, 65_538));
    assert.deepEqual([large.code, large.text], [8, "grpc: received message larger than max (65538 vs. 65536)"]);
    const ofTxs = "/cosmos.tx.v1beta1.Service/GetBlockWithTxs";
    const asTransaction = await client.call(ofTxs, heights.subarray(0, 1_048_576));
    assert.notEqual(asTransaction.code, 8, "a request with the largest transaction fits");
    assert.equal((await client.call(ofTxs, heights)).code, 8, "before it is read whole");
  });

  test("pings are answered however often they come, and connections are bounded", async () => {
    const { application, source, options } = testApi();
    const opts = { host: "127.0.0.1", port: 0, closeGraceMs: 50, maxConnections: 1, ...options };
    await using server = await startGrpcServer(opts, { application, source, log: silentLog });
    const session = connect(`http://127.0.0.1:${server.port}`);
    await once(session, "connect");
    for (let i = 0; i < 200; i++) {
      await new Promise<void>((resolve, reject) => {
        session.ping((error) => (error === null ? resolve() : reject(error)));
      });
    }
    assert.ok(!session.closed);
    const second = connect(`http://127.0.0.1:${server.port}`).on("error", () => {});
    await once(second, "close");
    session.close();
  });

  test("what would wait behind too much is refused", async () => {
    const { application, source, options } = testApi();
    const modules = { application, source, log: silentLog, queue: new EventLoopQueue({ maxWaiting: 0 }) };
    await using server = await startGrpcServer({ host: "127.0.0.1", port: 0, closeGraceMs: 50, ...options }, modules);
    using client = new RawClient(server.port);
    const answer = await client.call("/pocket.shared.Query/Params", new Uint8Array());
    assert.deepEqual([answer.code, answer.text], [8, "too many requests wait"]);
  });

  test("a port that is taken is reported", async () => {
    const { application, source, options } = testApi();
    const modules = { application, source, log: silentLog };
    await using first = await startGrpcServer({ host: "127.0.0.1", port: 0, ...options }, modules);
    await assert.rejects(startGrpcServer({ host: "127.0.0.1", port: first.port, ...options }, modules), {
      code: "PORT_IN_USE",
    });
  });
});
