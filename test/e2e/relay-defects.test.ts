import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type ServerResponse } from "node:http";
import { createServer } from "node:net";
import { suite, test } from "node:test";
import { noRateLimits } from "@turnpike/gateway";
import { openRaw, virtualClock } from "@turnpike/testkit";
import { type NodeBehaviour, rpc, rpcAt, send, startNode, startRelay } from "./relay-rig.ts";

/** What a supplier is seen to do wrong, as it does it to every call. */
type Wrong = (res: ServerResponse, calls: readonly { readonly id: string | undefined }[]) => void;

const wrong = (respond: Wrong): NodeBehaviour => ({ respond: (res, _body, calls) => respond(res, calls) });
const GOOD: NodeBehaviour = { answer: ({ params }) => JSON.stringify(params) };

/** Time for one attempt. */
const ATTEMPT_MS = 1_000;

/** A relay between a bad supplier and a good one; every call is right, and nothing of the bad one is seen. */
async function assertGoodBeside(bad: NodeBehaviour, calls = 6, clock = virtualClock()): Promise<void> {
  await using badNode = await startNode(bad);
  await using goodNode = await startNode(GOOD);
  // Whatever their latencies, the first of the two is asked first while its breaker is closed.
  let draws = Number.NaN;
  const random = (): number => (Number.isNaN(draws) ? 0.5 : (draws++ % 2) * 1e6);
  await using rig = await startRelay(
    { eth: rpcAt(badNode.url, goodNode.url) },
    { timeoutMs: ATTEMPT_MS, random, clock },
  );
  draws = 0;
  for (let i = 0; i < calls; i++) {
    const got = await send(rig, rpc(`"c${i}"`, "eth_getBalance", `[${i}]`));
    assert.deepEqual([got.status, got.text], [200, `{"jsonrpc":"2.0","id":"c${i}","result":[${i}]}`]);
    const batch = await send(rig, `[${rpc("1", "eth_getBalance", `[${i}]`)},${rpc("2", "eth_getCode", "[2]")}]`);
    assert.equal(batch.text, `[{"jsonrpc":"2.0","id":1,"result":[${i}]},{"jsonrpc":"2.0","id":2,"result":[2]}]`);
  }
  assert.ok(badNode.bodies.length > 0, "the bad supplier was never asked");
}

/** A relay with the bad supplier alone: a clear error with the id, and nothing of the bad answer. */
async function assertErrorAlone(bad: NodeBehaviour, status: number, clock = virtualClock()): Promise<string> {
  await using node = await startNode(bad);
  await using rig = await startRelay({ eth: rpcAt(node.url) }, { timeoutMs: ATTEMPT_MS, clock });
  const got = await send(rig, rpc('"mine"', "eth_getBalance", "[1]"));
  assert.equal(got.status, status, got.text);
  assert.match(got.text, /^\{"jsonrpc":"2\.0","id":"mine","error":\{"code":-32\d+,"message":"[^"]+"\}\}$/);
  assert.ok(!got.text.includes("127.0.0.1"));
  return got.text;
}

suite("What other gateways get wrong (each was seen), done right", () => {
  test("ids: a float, a big integer, null and the empty string are neither replaced nor refused", async () => {
    await using node = await startNode(GOOD);
    await using rig = await startRelay({ eth: rpcAt(node.url) });
    for (const id of ["1.5", "12345678901234567890", "null", '""']) {
      assert.equal((await send(rig, rpc(id, "eth_call"))).text, `{"jsonrpc":"2.0","id":${id},"result":[]}`);
    }
  });

  test("notifications are not answered, and are executed once", async () => {
    await using node = await startNode(GOOD);
    await using rig = await startRelay({ eth: rpcAt(node.url) });
    const alone = await send(rig, rpc(undefined, "eth_sendRawTransaction"));
    const batch = await send(rig, `[${rpc(undefined, "eth_sendRawTransaction")}]`);
    assert.deepEqual([alone.status, alone.text, batch.status, batch.text], [204, "", 204, ""]);
    assert.equal(node.calls.length, 2);
  });

  test("a parse error is -32700 with id null", async () => {
    await using rig = await startRelay({});
    const got = await send(rig, '{"jsonrpc":"2.0","method":');
    assert.equal(got.status, 400);
    assert.match(got.text, /"id":null,"error":\{"code":-32700/);
  });

  test("the order of a batch is kept, whatever order the supplier answers in", async () => {
    await using node = await startNode({
      respond(res, _body, calls) {
        res.end(
          `[${calls
            .map(({ id }) => `{"jsonrpc":"2.0","id":${id},"result":${id}}`)
            .reverse()
            .join(",")}]`,
        );
      },
    });
    await using rig = await startRelay({ eth: rpcAt(node.url) });
    const ids = Array.from({ length: 50 }, (_, i) => i * 7 + 1);
    const got = await send(rig, `[${ids.map((id) => rpc(String(id), "eth_call", `[{},"0x${id}"]`)).join(",")}]`);
    assert.equal(got.text, `[${ids.map((id) => `{"jsonrpc":"2.0","id":${id},"result":${id}}`).join(",")}]`);
  });

  test("with one of two suppliers dead, no call fails and none is slow", async () => {
    const dead = await startNode();
    await using good = await startNode(GOOD);
    await using rig = await startRelay({ eth: rpcAt(dead.url, good.url) });
    await dead[Symbol.asyncDispose]();
    // The relay's clock stands still: a call that waited for the dead one's time would never be over.
    for (let i = 0; i < 40; i++) {
      const got = await send(rig, rpc(String(i), "eth_getBalance", `[${i}]`));
      assert.equal(got.text, `{"jsonrpc":"2.0","id":${i},"result":[${i}]}`);
    }
  });

  test("HTML with status 200 is the supplier's fault", async () => {
    const html = wrong((res) => res.setHeader("content-type", "text/html").end("<html>busy</html>"));
    await assertGoodBeside(html);
    await assertErrorAlone(html, 502);
  });

  test("an answer with neither result nor error is neither passed on nor made one", async () => {
    const neither = wrong((res, calls) => {
      const all = calls.map(({ id }) => `{"jsonrpc":"2.0","id":${id}}`);
      res.end(all.length > 1 ? `[${all.join(",")}]` : all[0]);
    });
    await assertGoodBeside(neither);
    await assertErrorAlone(neither, 502);
  });

  test("an answer with both is not passed on", async () => {
    const both = wrong((res, calls) => {
      const all = calls.map(({ id }) => `{"jsonrpc":"2.0","id":${id},"result":1,"error":{"code":1,"message":"m"}}`);
      res.end(all.length > 1 ? `[${all.join(",")}]` : all[0]);
    });
    await assertGoodBeside(both);
    await assertErrorAlone(both, 502);
  });

  test("an answer with another request's id is not passed on", async () => {
    const crossed = wrong((res, calls) => {
      const all = calls.map(() => '{"jsonrpc":"2.0","id":"not yours","result":"0xbad"}');
      res.end(all.length > 1 ? `[${all.join(",")}]` : all[0]);
    });
    await assertGoodBeside(crossed);
    await assertErrorAlone(crossed, 502);
  });

  test("an answer without jsonrpc, half an answer, an empty one and a 200 with an error page are not passed on", async () => {
    for (const text of [
      '{"id":"mine","result":1}',
      '{"jsonrpc":"2.0","id":"mine","result":["0x1',
      "",
      '"error"',
      "[]",
    ]) {
      const page = wrong((res) => res.end(text));
      await assertGoodBeside(page);
      await assertErrorAlone(page, 502);
    }
  });

  test("items that a supplier leaves out of a batch, or answers twice, are asked of another", async () => {
    let isOdd = false;
    const partly: NodeBehaviour = {
      respond(res, _body, calls) {
        isOdd = !isOdd;
        const all = calls.map(({ id, params }) => `{"jsonrpc":"2.0","id":${id},"result":${JSON.stringify(params)}}`);
        if (calls.length === 1) res.end(all[0]);
        else
          res.end(
            isOdd ? `[${all.slice(1).join(",")}]` : `[${[...all, all[0]?.replace(/\[\d+\]/, "[666]")].join(",")}]`,
          );
      },
    };
    await assertGoodBeside(partly);
  });

  test("a supplier that takes no batches gets the calls one by one", async () => {
    for (const [status, text] of [
      [400, "no"],
      [200, '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no batches"}}'],
    ] as const) {
      await using node = await startNode({
        respond(res, body, calls) {
          if (body.startsWith("[")) res.writeHead(status).end(text);
          else res.end(`{"jsonrpc":"2.0","id":${calls[0]?.id},"result":${JSON.stringify(calls[0]?.params)}}`);
        },
      });
      await using rig = await startRelay({ eth: rpcAt(node.url) });
      for (let i = 0; i < 3; i++) {
        const got = await send(rig, `[${rpc("1", "eth_call", "[1]")},${rpc("2", "eth_call", "[2]")}]`);
        assert.equal(got.text, '[{"jsonrpc":"2.0","id":1,"result":[1]},{"jsonrpc":"2.0","id":2,"result":[2]}]');
      }
      assert.equal(node.bodies.filter((body) => body.startsWith("[")).length, 1, "it was asked for batches again");
    }
  });

  test("a hanging supplier: another answers; alone it is 502 with a code of its own, within the deadline", async () => {
    const clock = virtualClock();
    // A batch ends by its attempt's time, a call by itself by the time after which another is asked beside.
    const beside = wrong((_res, { length }) => clock.advance(length > 1 ? ATTEMPT_MS + 50 : ATTEMPT_MS / 2 + 50));
    await assertGoodBeside(beside, 2, clock);
    const start = clock.monotonicMs();
    const silent = wrong(() => clock.advance(ATTEMPT_MS + 50));
    assert.match(await assertErrorAlone(silent, 502, clock), /"code":-32504,/);
    // Time passed as the one supplier was asked, and not once more.
    assert.equal(clock.monotonicMs() - start, ATTEMPT_MS + 50);
  });

  test("with one supplier of three 5,000 blocks behind, no block number is stale", async () => {
    const at = (height: number): NodeBehaviour => {
      const heightHex = `0x${height.toString(16)}`;
      return { heightHex, answer: () => `"${heightHex}"` };
    };
    await using stale = await startNode(at(15_000));
    await using one = await startNode(at(20_000));
    await using two = await startNode(at(20_001));
    await using rig = await startRelay({ eth: rpcAt(stale.url, one.url, two.url) });
    for (let i = 0; i < 40; i++) {
      const { result } = JSON.parse((await send(rig, rpc("1", "eth_blockNumber"))).text) as { result: string };
      assert.ok(Number(result) >= 20_000);
    }
  });

  test("eth_sendRawTransaction is delivered once at most, whatever the suppliers do then", async () => {
    const clock = virtualClock();
    const ends: readonly Wrong[] = [
      (res) => res.writeHead(500).end(),
      (res) => res.destroy(),
      (res) => res.writeHead(429, { "retry-after": "1" }).end(),
      (res) => res.end("<html>"),
      () => clock.advance(ATTEMPT_MS + 50),
    ];
    for (const end of ends) {
      await using one = await startNode(wrong(end));
      await using two = await startNode(wrong(end));
      await using rig = await startRelay({ eth: rpcAt(one.url, two.url) }, { timeoutMs: ATTEMPT_MS, clock });
      const write = rpc('"tx"', "eth_sendRawTransaction", '["0x02"]');
      const alone = await send(rig, write);
      assert.ok(alone.status >= 500 && alone.text.includes('"id":"tx","error"'), alone.text);
      assert.equal(one.calls.length + two.calls.length, 1);
      await send(rig, `[${write},${write}]`);
      const writes = [...one.calls, ...two.calls].filter(({ method }) => method === "eth_sendRawTransaction");
      assert.equal(writes.length, 3);
    }
  });

  test("eth_sendRawTransaction goes to the next supplier when the first takes no connection", async () => {
    const dead = await startNode();
    await using good = await startNode(GOOD);
    await using rig = await startRelay({ eth: rpcAt(dead.url, good.url) });
    await dead[Symbol.asyncDispose]();
    for (let i = 0; i < 10; i++) {
      assert.equal((await send(rig, rpc("1", "eth_sendRawTransaction", `["0x${i}"]`))).status, 200);
    }
    assert.equal(good.calls.length, 10);
  });

  test("a body of 64 MB is refused without being held", async () => {
    await using rig = await startRelay({});
    const part = Buffer.alloc(1_048_576, 0x20);
    const before = process.memoryUsage();
    let peak = 0;
    for (let round = 0; round < 4; round++) {
      const req = request({ host: "127.0.0.1", port: rig.port, method: "POST", headers: { host: "eth.localhost" } });
      let isOpen = true;
      req.on("error", () => {
        isOpen = false;
      });
      const answered = once(req, "response").then(([res]: unknown[]) => {
        isOpen = false;
        return (res as { statusCode: number }).statusCode;
      });
      for (let i = 0; i < 64 && isOpen; i++) {
        if (!req.write(part)) await Promise.race([once(req, "drain"), answered]);
        const { arrayBuffers, heapUsed } = process.memoryUsage();
        peak = Math.max(peak, arrayBuffers + heapUsed - before.arrayBuffers - before.heapUsed);
      }
      assert.equal(await answered, 413);
      req.destroy();
    }
    assert.ok(peak < 40_000_000, `${peak} bytes were held`);
  });

  test("two ids or two methods in one object are refused: no way round a list of methods", async () => {
    await using node = await startNode(GOOD);
    await using rig = await startRelay({ eth: rpcAt(node.url) });
    for (const body of [
      '{"jsonrpc":"2.0","id":1,"id":2,"method":"eth_call"}',
      '{"jsonrpc":"2.0","id":1,"method":"eth_call","method":"anvil_mine"}',
      '{"jsonrpc":"2.0","id":1,"method":"anvil_mine","m\\u0065thod":"eth_call"}',
    ]) {
      const got = await send(rig, body);
      assert.deepEqual([got.status, /"code":-32600/.test(got.text)], [400, true]);
    }
    // Some readers take keys in any letter case: what they could mistake is not passed on.
    await send(rig, '{"jsonrpc":"2.0","id":"one","method":"eth_call","Method":"anvil_mine","METHOD":"anvil_mine"}');
    assert.deepEqual(node.bodies, ['{"jsonrpc":"2.0","id":"one","method":"eth_call"}']);
  });

  test("Content-Length and chunked together: the connection is closed, and what follows is not run", async () => {
    await using node = await startNode(GOOD);
    await using rig = await startRelay({ eth: rpcAt(node.url) });
    await using raw = await openRaw(rig.port);
    const inner = rpc("2", "eth_call");
    const next = `POST / HTTP/1.1\r\nHost: eth.localhost\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`;
    const head = "POST / HTTP/1.1\r\nHost: eth.localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
    raw.write(`${head}0\r\n\r\n${next}`);
    const answers = await raw.all();
    assert.deepEqual(
      answers.map(({ status }) => status),
      [400],
    );
    assert.equal(node.calls.length, 0);
  });

  test("a claimed body of 10 GB is refused at once", async () => {
    await using rig = await startRelay({});
    await using raw = await openRaw(rig.port);
    raw.write("POST / HTTP/1.1\r\nHost: eth.localhost\r\nContent-Length: 10737418240\r\n\r\n{");
    // Nothing more is sent: one that waited for the body would say in the end that it did not come.
    const [answer] = await raw.next();
    assert.equal(answer?.status, 413);
    assert.match(answer.body, /^\{"jsonrpc":"2\.0","id":null,"error"/);
  });

  test("no error says where a supplier is", async () => {
    const closed = createServer().listen(0, "127.0.0.1");
    await once(closed, "listening");
    const address = closed.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    closed.close();
    await using rig = await startRelay({ eth: rpcAt(`http://127.0.0.1:${port}/secret-key`) });
    const got = await send(rig, rpc("5", "eth_call"));
    assert.equal(got.status, 502);
    assert.match(got.text, /^\{"jsonrpc":"2\.0","id":5,"error":\{"code":-32502/);
    assert.ok(got.headers["retry-after"] !== undefined);
    assert.doesNotMatch(got.text + JSON.stringify(got.headers), new RegExp(`secret|${port}|op0|ECONN`));
  });

  test("no error of a supplier's own is passed on that says where it is or what it pays for", async () => {
    for (const error of [
      '{"code":-32005,"message":"API key secret exceeded its quota, see https://dash.secret"}',
      '{"code":-32603,"message":"dial tcp 10.1.2.3:9090: connection refused"}',
      '{"code":429,"message":"Too Many Requests for the secret account"}',
    ]) {
      const limited = wrong((res, calls) => {
        const all = calls.map(({ id }) => `{"jsonrpc":"2.0","id":${id},"error":${error}}`);
        res.end(all.length > 1 ? `[${all.join(",")}]` : all[0]);
      });
      await assertGoodBeside(limited);
      assert.doesNotMatch(await assertErrorAlone(limited, 502), /secret|10\.1/);
    }
  });

  test("nobody configured is 503 and nobody reachable 502, alone and in a batch", async () => {
    const dead = await startNode();
    await using rig = await startRelay({ eth: rpcAt(dead.url) });
    await dead[Symbol.asyncDispose]();
    for (const [host, status, code] of [
      ["base.localhost", 503, -32503],
      ["eth.localhost", 502, -32502],
    ] as const) {
      const got = await send(rig, rpc("5", "eth_call"), { host });
      assert.deepEqual([got.status, got.text.includes(`"id":5,"error":{"code":${code}`)], [status, true]);
      const batch = await send(rig, `[${rpc("5", "eth_call")},${rpc("6", "eth_call")}]`, { host });
      assert.equal(batch.status, status);
      const items = JSON.parse(batch.text) as { id: number; error: { code: number } }[];
      assert.deepEqual(
        items.map(({ id, error }) => [id, error.code]),
        [
          [5, code],
          [6, code],
        ],
      );
    }
  });

  test("fifty equal reads at once are one call upstream, each answered with its own id; other bytes are other calls", async () => {
    const { promise: allThere, resolve: letGo } = Promise.withResolvers<void>();
    await using node = await startNode({
      respond(res, _body, calls) {
        const [call] = calls;
        void allThere.then(() => res.end(`{"jsonrpc":"2.0","id":${call?.id},"result":"${call?.method}"}`));
      },
    });
    let taken = 0;
    const limits = {
      consume() {
        // The last one is on its way when this turn ends.
        if (++taken === 50) setImmediate(letGo);
        return { ok: true, headers: [] } as const;
      },
    };
    await using rig = await startRelay(
      { eth: rpcAt(node.url) },
      { modules: { limits: { ...noRateLimits, ...limits } } },
    );
    const ids = Array.from({ length: 50 }, (_, i) => (i % 2 === 0 ? String(i) : `"é ${i}"`));
    const answers = await Promise.all(ids.map((id) => send(rig, rpc(id, "eth_gasPrice"))));
    for (const [i, { text }] of answers.entries()) {
      assert.equal(text, `{"jsonrpc":"2.0","id":${ids[i]},"result":"eth_gasPrice"}`);
    }
    assert.equal(node.calls.length, 1);
    const others = ["[12345678901234567890]", "[12345678901234567891]"];
    await Promise.all(others.map((params) => send(rig, rpc("1", "eth_getBlockByNumber", params))));
    assert.equal(node.calls.length, 3);
    await Promise.all(others.map(() => send(rig, rpc("1", "eth_sendRawTransaction"))));
    assert.equal(node.calls.length, 5);
  });

  test("null and an empty list are answers, and the chain's own errors are passed on with 200", async () => {
    for (const answer of ["null", "[]", ',"error":{"code":3,"message":"execution reverted","data":"0x08c379a0"}']) {
      await using one = await startNode({ answer: () => answer });
      await using two = await startNode({ answer: () => '"0xother"' });
      await using rig = await startRelay({ eth: rpcAt(one.url, two.url) });
      for (let i = 0; i < 8; i++) {
        const got = await send(rig, rpc("1", "eth_call"));
        const rest = answer.startsWith(",") ? answer : `,"result":${answer}`;
        assert.equal(got.status, 200);
        assert.ok(
          [`{"jsonrpc":"2.0","id":1${rest}}`, '{"jsonrpc":"2.0","id":1,"result":"0xother"}'].includes(got.text),
        );
      }
      assert.ok(one.calls.length + two.calls.length <= 8, "a good answer was asked for twice");
    }
  });
});
