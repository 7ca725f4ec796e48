import assert from "node:assert/strict";
import { once } from "node:events";
import { globSync, readFileSync } from "node:fs";
import { Agent, createServer, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { suite, test } from "node:test";
import { jsonElementSpans, jsonMemberSpans } from "@turnpike/base";
import type { Subscriptions } from "@turnpike/relay";
import { WebSocket } from "ws";
import { type RelayRig, rpcAt, startRelay } from "./relay-rig.ts";

/** One request of a node's client and the node's answer: lines of text, kept byte for byte. */
interface Pair {
  readonly name: string;
  readonly request: string;
  readonly response: string;
}

/** Pairs of a folder of `.io` files: after `>> ` a request, after `<< ` its answer. */
function readCorpus(folder: string): Pair[] {
  const pairs = new Map<string, Pair>();
  for (const path of globSync("tests/**/*.io", { cwd: folder }).sort()) {
    let asked: string | undefined;
    for (const line of readFileSync(join(folder, path), "utf8").split("\n")) {
      if (line.startsWith(">> ")) asked = line.slice(3);
      else if (line.startsWith("<< ") && asked !== undefined) {
        pairs.set(asked, pairs.get(asked) ?? { name: path, request: asked, response: line.slice(3) });
      }
    }
  }
  return [...pairs.values()];
}

/** What this repository has of its own: recorded results, and errors in the words of many nodes. */
function ownPairs(): Pair[] {
  const path = join(import.meta.dirname, "../spec/catalogue/evm-recorded.json");
  const recorded = JSON.parse(readFileSync(path, "utf8")) as { method: string; params: unknown[]; result: unknown }[];
  const pairs = new Map<string, Pair>();
  for (const { method, params, result } of recorded) {
    if (/filter/i.test(method)) continue;
    const asked = `{"jsonrpc": "2.0", "method": "${method}", "params": ${JSON.stringify(params)}, "id": 1}`;
    const response = `{"jsonrpc":"2.0","id":1,"result":${JSON.stringify(result)}}`;
    pairs.set(asked, { name: method, request: asked, response });
  }
  const errors = [
    '{"code":3,"message":"execution reverted: rate limit exceeded","data":"0x08c379a0"}',
    '{"code":-32602,"message":"invalid argument 0: hex string without 0x prefix"}',
    '{"code":-32602,"message":"block range extends beyond current head block"}',
    '{"code":-32601,"message":"the method eth_call does not exist/is not available"}',
    '{"code":-32600,"message":"invalid request"}',
    '{"code":-32603,"message":"Internal error"}',
    '{"code":-32005,"message":"query returned more than 10000 results"}',
    '{"code":-32000,"message":"header not found"}',
    '{"code":-32000,"message":"missing trie node \\u003cab\\u003e"}',
    '{"code":-38014,"message":"err: insufficient funds for gas * price + value"}',
    '{"message":"block timestamps must be in order: 550 \\u003c= 588","code":-38021}',
    '{"code":-1,"message":"","data":{"id":7,"error":null}}',
  ];
  for (const [at, error] of errors.entries()) {
    const asked = `{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":"0x${at}"},"latest"]}`;
    pairs.set(asked, {
      name: `error ${at}`,
      request: asked,
      response: `{"jsonrpc":"2.0","id":1,"error":${error}}`,
    });
  }
  return [...pairs.values()];
}

/** The bytes around the value of a text's own `id`. */
function aroundId(text: string): readonly [before: string, id: string, after: string] {
  const bytes = Buffer.from(text);
  const id = jsonMemberSpans(bytes, 0)?.members.find(({ key }) => key === "id");
  assert.ok(id !== undefined, text);
  const part = (from: number, to?: number): string => bytes.toString("utf8", from, to);
  return [part(0, id.start), part(id.start, id.end), part(id.end)];
}

const withId = (text: string, id: string): string => {
  const [before, , after] = aroundId(text);
  return before + id + after;
};

interface Replayer extends AsyncDisposable {
  readonly url: string;
  readonly counts: { batches: number; unknown: number };
}

const PROBE = /"method":"eth_getBlockByNumber","params":\["(?:latest|finalized)",false\]\}$/;

/** A node that has the corpus and nothing else: the answer's bytes to a request's bytes, and the request's id in both. */
async function startReplayer(pairs: readonly Pair[]): Promise<Replayer> {
  const answers = new Map(pairs.map((pair) => [withId(pair.request, "1"), pair.response]));
  const counts = { batches: 0, unknown: 0 };
  const answerTo = (text: string): string => {
    const [before, id, after] = aroundId(text);
    const found = answers.get(`${before}1${after}`);
    if (found !== undefined) return withId(found, id);
    if (!PROBE.test(text)) counts.unknown++;
    return `{"jsonrpc":"2.0","id":${id},"error":{"code":-1,"message":"not of the corpus"}}`;
  };
  const handle = async (req: IncomingMessage): Promise<string> => {
    const bytes = await buffer(req);
    const text = bytes.toString();
    // The relay's own questions; no request of the corpus has empty parameters.
    if (/"method":"eth_(?:chainId|blockNumber)","params":\[\]\}$/.test(text)) {
      return '{"jsonrpc":"2.0","id":1,"result":"0x1"}';
    }
    if (!text.startsWith("[")) {
      return answerTo(text);
    }
    counts.batches++;
    const items = jsonElementSpans(bytes, 0)?.elements ?? [];
    const shown = items.map(({ start, end }) => answerTo(bytes.toString("utf8", start, end)));
    return `[${shown.reverse().join(", ")}]`;
  };
  const server = createServer((req, res) => {
    void handle(req).then((text) => res.setHeader("content-type", "application/json").end(text));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Clients may open WebSockets, and their calls go over HTTP. */
const httpOnly: Subscriptions = {
  offers: () => true,
  subscribe: async () => ({ ok: false, code: "NO_SUPPLIERS" }),
  call: async () => ({ kind: "lost" }),
  pair: async () => undefined,
  async [Symbol.asyncDispose]() {},
};

const HOST = "eth.localhost";

async function post(
  rig: RelayRig,
  agent: Agent,
  body: string,
): Promise<{ readonly status: number; readonly bytes: Buffer }> {
  const req = request({ host: "127.0.0.1", port: rig.port, method: "POST", agent, headers: { host: HOST } });
  req.end(body);
  const [res] = (await once(req, "response")) as [IncomingMessage];
  return { status: res.statusCode ?? 0, bytes: await buffer(res) };
}

const shown = (bytes: Buffer, wanted: string): void => {
  if (bytes.equals(Buffer.from(wanted))) return;
  const text = bytes.toString();
  let at = 0;
  while (text[at] === wanted[at] && at < wanted.length) at++;
  assert.fail(`byte ${at}: got ${text.slice(at - 40, at + 120)}, wanted ${wanted.slice(at - 40, at + 120)}`);
};

/** Methods that control a node: the free relay answers them itself. */
const DENIED = /"method":"(?:testing|engine|admin)_/;

function replay(name: string, pairs: readonly Pair[], suppliers: number, isChain = false): void {
  const open = pairs.filter((pair) => !DENIED.test(pair.request));
  const denied = pairs.filter((pair) => DENIED.test(pair.request));

  const stage = async (): Promise<{ nodes: readonly Replayer[]; rig: RelayRig; stack: AsyncDisposableStack }> => {
    await using stack = new AsyncDisposableStack();
    const nodes: Replayer[] = [];
    for (let at = 0; at < suppliers; at++) nodes.push(stack.use(await startReplayer(pairs)));
    const rig = stack.use(
      await startRelay({ eth: rpcAt(...nodes.map(({ url }) => url)) }, { chainId: 1, timeoutMs: 5_000 }),
    );
    return { nodes, rig, stack: stack.move() };
  };

  suite(`${name}, with ${suppliers} supplier${suppliers === 1 ? "" : "s"}`, () => {
    test("each answer comes back byte for byte", async () => {
      const { nodes, rig, stack } = await stage();
      await using _ = stack;
      const agent = new Agent({ keepAlive: true, maxSockets: 16 });
      await Promise.all(
        open.map(async (pair) => {
          const { status, bytes } = await post(rig, agent, pair.request);
          assert.equal(status, 200, `${pair.name}: ${String(bytes)}`);
          shown(bytes, pair.response);
        }),
      );
      for (const pair of denied) {
        const { status, bytes } = await post(rig, agent, pair.request);
        const { id, error } = JSON.parse(bytes.toString()) as { id: number; error: { code: number } };
        assert.deepEqual([status, String(id), error.code], [200, aroundId(pair.request)[1], -32601], pair.name);
      }
      agent.destroy();
      assert.ok(nodes.every(({ counts }) => counts.unknown === 0));
      // Each error of a real chain's test is the request's own or the chain's. Its heights are not those of the probes.
      const blamed = /^turnpike_\w*attempts_total\{[^}]*blame="supplier",reason="(?!behind")/m;
      if (isChain) assert.ok(!blamed.test(await rig.metrics()));
    });

    for (const ids of ["their own", "all the same"]) {
      test(`in batches, ids ${ids}: the order and each item's bytes are kept`, async () => {
        const { nodes, rig, stack } = await stage();
        await using _ = stack;
        const agent = new Agent({ keepAlive: true, maxSockets: 4 });
        const spelled = open.map((pair, at) => {
          const id = ids === "their own" ? JSON.stringify(`${at} "id":1`) : "1";
          return { request: withId(pair.request, id), response: withId(pair.response, id) };
        });
        for (const size of [1, 10, 100, 400]) {
          for (let from = 0; from < spelled.length; from += size) {
            let part = spelled.slice(from, from + size);
            // Bodies and answers have a cap of bytes.
            while (part.reduce((sum, one) => sum + one.request.length, 0) > 1_000_000) part = part.slice(0, -1);
            const { status, bytes } = await post(rig, agent, `[${part.map((one) => one.request).join(" ,\n")}]`);
            assert.equal(status, 200, String(bytes.subarray(0, 300)));
            shown(bytes, `[${part.map((one) => one.response).join(",")}]`);
            if (size === 1 && from > 40) break;
          }
        }
        agent.destroy();
        assert.ok(nodes.every(({ counts }) => counts.unknown === 0));
        assert.ok(nodes.some(({ counts }) => counts.batches > 0));
      });
    }

    test("over a WebSocket, all in flight at once", async () => {
      await using node = await startReplayer(pairs);
      await using rig = await startRelay(
        { eth: rpcAt(node.url) },
        { chainId: 1, timeoutMs: 5_000, modules: { subscriptions: httpOnly } },
      );
      const socket = new WebSocket(`ws://127.0.0.1:${rig.port}/`, { headers: { host: HOST } });
      await once(socket, "open");
      const wanted = new Set(open.map((pair, at) => withId(pair.response, String(at))));
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      socket.on("message", (data: Buffer) => {
        const text = data.toString();
        if (!wanted.delete(text)) reject(new assert.AssertionError({ message: text.slice(0, 300) }));
        if (wanted.size === 0) resolve();
      });
      for (const [at, pair] of open.entries()) socket.send(withId(pair.request, String(at)));
      await promise;
      socket.terminate();
    });
  });
}

replay("recorded and made answers of nodes", ownPairs(), 1);
replay("recorded and made answers of nodes", ownPairs(), 2);

const folder = process.env.EXECUTION_APIS_DIR ?? join(import.meta.dirname, "../spec/execution-apis");
const corpus = readCorpus(folder);
if (corpus.length === 0) test("the corpus of ethereum/execution-apis", { skip: `no .io files below ${folder}/tests` });
else {
  test("the corpus is there", () => assert.ok(corpus.length > 200, String(corpus.length)));
  replay("the corpus of ethereum/execution-apis", corpus, 1, true);
  replay("the corpus of ethereum/execution-apis", corpus, 2, true);
}
