import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { test } from "node:test";
import {
  type Labels,
  type MetricSpec,
  type Metrics,
  noMetrics,
  type RequestId,
  type ServiceId,
  type SettlementId,
  silentLog,
} from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { startAnvil } from "@turnpike/localnet";
import { mintFree, mintPaid, mintParsed, type PaidRequest } from "@turnpike/protocol";
import {
  eventually,
  rpcAnswer,
  startEvmUpstream,
  startUpstream,
  type Upstream,
  type UpstreamCall,
  virtualClock,
} from "@turnpike/testkit";
import { engineOptions } from "../../test/engine-options.ts";
import { createRelayEngine, type RelayEngineOptions, type ServiceSuppliers } from "../create-relay-engine.ts";
import { parsePaid } from "../families/registry.ts";
import { relayBreakerOpen } from "../metrics.ts";
import { DEFAULT_PROBER } from "../quality/prober.ts";
import type { RelayOutcome } from "../types.ts";
import type { RelayEngine } from "./relay-engine.ts";

const { services } = createCatalogue({});
const clock = virtualClock();
/** Time-outs come so late at most: two steps of the relay's deadlines. */
const LATE_MS = 20;
const BALANCE = { method: "eth_getBalance", params: [`0x${"11".repeat(20)}`, "latest"] };

function request(id: string, wish: unknown, timeoutMs = 180_000, client = "c"): PaidRequest {
  const service = services.get(id as ServiceId);
  assert.ok(service !== undefined);
  const isPath = typeof wish === "string";
  const parsed = parsePaid(service, {
    verb: isPath ? "GET" : "POST",
    appendedPath: isPath ? wish : "",
    query: "",
    body: isPath ? Buffer.alloc(0) : Buffer.from(JSON.stringify(wish)),
  });
  assert.ok(parsed.ok, JSON.stringify(parsed));
  return mintPaid({
    settlementId: "s" as SettlementId,
    request: mintParsed({
      requestId: "r" as RequestId,
      client,
      serviceId: id as ServiceId,
      call: parsed.call,
      requestHash: Buffer.alloc(32),
    }),
    deadlineMs: clock.monotonicMs() + timeoutMs,
  });
}

function relayTo(
  urls: readonly (string | Upstream)[],
  set: Partial<ServiceSuppliers> = {},
  options: Partial<RelayEngineOptions> = {},
  metrics: Metrics = noMetrics,
): RelayEngine {
  const endpoints = urls.map((url, index) => ({
    operator: `op${index}`,
    urls: { json_rpc: typeof url === "string" ? url : url.url },
  }));
  // A random number of 0 keeps suppliers nothing is known of in the order of the configuration. No time passes but what
  // a test moves the clock by.
  return createRelayEngine(
    {
      ...engineOptions,
      suppliers: { eth: { endpoints, timeoutMs: 60_000, maxAttempts: 3, ...set } },
      probeIntervalMs: 60_000,
      connectTimeoutMs: 60_000,
      ...options,
    },
    { catalogue: services, clock, log: silentLog, metrics, random: () => 0 },
  );
}

const show = (result: RelayOutcome): string =>
  result.ok
    ? `${result.operator} ${result.schemaCheck} ${Buffer.from(result.body).toString()}`
    : `${result.code} after ${result.attempts}`;

const good = (call: UpstreamCall): string => rpcAnswer(call, '"result":"0x5"');
const goodUpstream = (): Promise<Upstream> => startEvmUpstream((call, response) => response.end(good(call)));
const GOOD = '{"jsonrpc":"2.0","id":1,"result":"0x5"}';

const BAD: readonly (readonly [string, string, Parameters<typeof startEvmUpstream>[0]])[] = [
  ["HTML with status 200", "SUPPLIERS_FAILED", (_call, response) => response.end("<html>")],
  ["429", "SUPPLIERS_FAILED", (call, response) => response.writeHead(429, { "retry-after": "5" }).end(good(call))],
  ["500 with a result", "SUPPLIERS_FAILED", (call, response) => response.writeHead(500).end(good(call))],
  ["an empty body", "SUPPLIERS_FAILED", (_call, response) => response.end()],
  [
    "another request's id",
    "SUPPLIERS_FAILED",
    (_call, response) => response.end('{"jsonrpc":"2.0","id":2,"result":"0x5"}'),
  ],
  ["neither result nor error", "SUPPLIERS_FAILED", (_call, response) => response.end('{"jsonrpc":"2.0","id":1}')],
  [
    "both",
    "SUPPLIERS_FAILED",
    (call, response) => response.end(rpcAnswer(call, '"result":"0x5","error":{"code":3,"message":"m"}')),
  ],
  ["a result that does not fit", "SUPPLIERS_FAILED", (call, response) => response.end(rpcAnswer(call, '"result":5'))],
  [
    "header not found",
    "SUPPLIERS_FAILED",
    (call, response) => response.end(rpcAnswer(call, '"error":{"code":-32000,"message":"header not found"}')),
  ],
  [
    "a redirect",
    "SUPPLIERS_FAILED",
    (_call, response) => response.writeHead(302, { location: "http://127.0.0.1:1/" }).end(),
  ],
  [
    "a body cut in the middle of a chunk",
    "SUPPLIERS_UNREACHABLE",
    (call, response) => {
      response.writeHead(200, { "transfer-encoding": "chunked" });
      response.write(good(call).slice(0, 10), () => response.destroy());
    },
  ],
  [
    "half of the announced length",
    "SUPPLIERS_UNREACHABLE",
    (call, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write(good(call), () => response.destroy());
    },
  ],
  ["a closed connection", "SUPPLIERS_UNREACHABLE", (_call, response) => response.destroy()],
];
for (const [name, code, answer] of BAD) {
  test(`${name}: another operator is asked; alone it is ${code}`, async () => {
    await using bad = await startEvmUpstream(answer);
    await using other = await goodUpstream();
    await using relay = relayTo([bad, other]);
    assert.equal(show(await relay.send(request("eth", BALANCE))), `op1 passed ${GOOD}`);
    assert.equal(bad.paid().length, 1);
    await using alone = relayTo([bad]);
    const result = await alone.send(request("eth", BALANCE));
    assert.ok(!result.ok);
    assert.equal(result.code, code);
  });
}

test("an error that the request has caused is the answer, and nobody is asked again or blamed", async () => {
  const revert = '"error":{"code":3,"message":"execution reverted","data":"0x"}';
  await using first = await startEvmUpstream((call, response) => response.end(rpcAnswer(call, revert)));
  await using other = await goodUpstream();
  await using relay = relayTo([first, other]);
  for (let i = 0; i < 5; i++) {
    const seen = show(
      await relay.send(request("eth", { method: "eth_call", params: [{ to: `0x${"11".repeat(20)}` }, "latest"] })),
    );
    assert.match(seen, /^op\d unchecked|^op\d passed/);
    if (i === 0) assert.equal(seen, `op0 unchecked {"jsonrpc":"2.0","id":1,${revert}}`);
  }
  assert.equal(first.paid().length, 5);
});

test("an error that is nobody's answer is never sold; a free call gets it when nobody has better", async () => {
  const gone = '"error":{"code":-32601,"message":"the method does not exist"}';
  await using first = await startEvmUpstream((call, response) => response.end(rpcAnswer(call, gone)));
  await using other = await startEvmUpstream((_call, response) => response.end("<html>"));
  await using relay = relayTo([first, other]);
  const paid = request("eth", BALANCE);
  assert.equal(show(await relay.send(paid)), "SUPPLIERS_FAILED after 2");
  const free = mintFree({ request: paid.request, deadlineMs: paid.deadlineMs });
  assert.match(show(await relay.send(free)), /^op\d unchecked \{"jsonrpc":"2.0","id":1,"error":\{"code":-32601/);
});

test("bytes are passed on as they came", async () => {
  const odd = '{ "id" : 1,"jsonrpc":"2.0" , "result":"0x5", "extra":[1.0]}\n';
  await using upstream = await startEvmUpstream((_call, response) => response.end(odd));
  await using relay = relayTo([upstream]);
  assert.equal(show(await relay.send(request("eth", BALANCE))), `op0 passed ${odd}`);
  const [call] = upstream.paid();
  assert.equal(
    call?.text,
    `{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":${JSON.stringify(BALANCE.params)}}`,
  );
});

test("a supplier that hangs takes its share of the deadline, no more", async () => {
  for (const slow of ["headers", "body"] as const) {
    await using hanging = await startEvmUpstream((_call, response) => {
      if (slow === "body") response.writeHead(200).write('{"jsonrpc"');
    });
    await using other = await goodUpstream();
    // Without hedges and comparisons the second is asked when the share of the first ends. A comparison is asked at once,
    // so that it would be late with the first when its answer comes after the clock is moved.
    await using relay = relayTo([hanging, other], { timeoutMs: 2_000 }, { hedgeQuantile: 1 });
    relay.setFlag("cross_validation", false);
    await relay.start();
    const shared = relay.send(request("eth", BALANCE, 20_000));
    await eventually("the first is asked", () => hanging.paid().length === 1);
    assert.equal(other.paid().length, 0);
    clock.advance(2_000 + LATE_MS);
    assert.equal(show(await shared), `op1 passed ${GOOD}`);
    await using alone = relayTo([hanging], { timeoutMs: 5_000 });
    await alone.start();
    const late = alone.send(request("eth", BALANCE, 300));
    await eventually("it is asked", () => hanging.paid().length === 2);
    clock.advance(300 + LATE_MS);
    assert.equal(show(await late), "DEADLINE_EXCEEDED after 1");
    assert.equal(show(await alone.send(request("eth", BALANCE, -1))), "DEADLINE_EXCEEDED after 0");
  }
});

test("nobody there: unreachable, and the next operator is asked", async () => {
  await using other = await goodUpstream();
  await using relay = relayTo(["http://127.0.0.1:1", other]);
  assert.equal(show(await relay.send(request("eth", BALANCE))), `op1 passed ${GOOD}`);
  await using alone = relayTo(["http://127.0.0.1:1"]);
  const result = await alone.send(request("eth", BALANCE));
  assert.ok(!result.ok && result.code === "SUPPLIERS_UNREACHABLE");
});

test("an answer over the cap is cut off, said to be too large, and read no further", async () => {
  for (const announced of [true, false]) {
    let written = 0;
    await using big = await startEvmUpstream((_call, response) => {
      response.writeHead(200, announced ? { "content-length": String(100_000_000) } : {});
      const chunk = Buffer.alloc(65_536, 0x20);
      const more = (): void => {
        if (response.destroyed || written > 100_000_000) return;
        written += chunk.length;
        response.write(chunk, () => setImmediate(more));
      };
      more();
    });
    await using other = await goodUpstream();
    await using relay = relayTo([big, other], {}, { maxAnswerBytes: 1_048_576 });
    const scoreOf = (of: RelayEngine) =>
      of.inspect("eth" as ServiceId)[0]?.suppliers.find(({ operator }) => operator === "op0")?.score ?? assert.fail();
    const before = scoreOf(relay);
    assert.equal(show(await relay.send(request("eth", BALANCE))), `op1 passed ${GOOD}`);
    assert.ok(scoreOf(relay) < before, `a score of ${scoreOf(relay)} after ${before}`);
    await using alone = relayTo([big], {}, { maxAnswerBytes: 1_048_576 });
    assert.equal(show(await alone.send(request("eth", BALANCE))), "ANSWER_TOO_LARGE after 1");
    assert.ok(scoreOf(alone) >= before);
    assert.ok(written < 40_000_000, `${written} bytes were taken`);
  }
});

test("all calls together hold no more bytes than the budget", async () => {
  await using upstream = await startEvmUpstream((_call, response) => response.end(Buffer.alloc(200_000, 0x20)));
  await using relay = relayTo([upstream], {}, { maxInFlightBytes: 100_000 });
  assert.equal(show(await relay.send(request("eth", BALANCE))), "OVERLOADED after 1");
  await using none = relayTo([upstream], {}, { maxInFlight: 0 });
  assert.equal(show(await none.send(request("eth", BALANCE))), "OVERLOADED after 0");
});

test("a supplier of another chain is never used, and comes back when it is right", async (t) => {
  let chainId = "0x2";
  await using wrong = await startUpstream((call, response) => {
    const result = call.method === "eth_chainId" ? chainId : "0x64";
    response.end(rpcAnswer(call, `"result":"${result}"`));
  });
  await using other = await goodUpstream();
  await using relay = relayTo([wrong, other]);
  assert.equal(show(await relay.send(request("eth", BALANCE))), `op1 passed ${GOOD}`);
  assert.equal(wrong.paid().length, 0);
  await using alone = relayTo([wrong]);
  assert.equal(show(await alone.send(request("eth", BALANCE))), "NO_SUPPLIERS after 0");
  assert.deepEqual(alone.missing("eth" as ServiceId), ["a supplier of the right chain"]);
  assert.equal(alone.hasSupplier("eth" as ServiceId, "json_rpc"), false);
  // The next probe waits for its turn in these timers.
  t.mock.timers.enable({ apis: ["setTimeout"] });
  await alone.start();
  assert.equal(wrong.paid().length, 0);
  chainId = "0x1";
  t.mock.timers.tick(DEFAULT_PROBER.firstRetryMs);
  t.mock.timers.reset();
  await eventually("it is probed again", () => alone.missing("eth" as ServiceId)?.length === 0);
  assert.equal(show(await alone.send(request("eth", BALANCE))), 'op0 passed {"jsonrpc":"2.0","id":1,"result":"0x64"}');
});

test("readiness: configured, probed, down", async () => {
  await using upstream = await goodUpstream();
  await using relay = relayTo([upstream, "http://127.0.0.1:1"]);
  assert.deepEqual(relay.served(), ["eth"]);
  assert.equal(relay.missing("base" as ServiceId), undefined);
  assert.deepEqual(relay.missing("eth" as ServiceId), ["a healthy supplier"]);
  await relay.start();
  assert.deepEqual(relay.missing("eth" as ServiceId), []);
  assert.equal(show(await relay.send(request("base", BALANCE))), "NO_SUPPLIERS after 0");
  await using none = relayTo([]);
  assert.deepEqual([none.served(), none.missing("eth" as ServiceId)], [[], undefined]);
  assert.equal(show(await none.send(request("eth", BALANCE))), "NO_SUPPLIERS after 0");
});

test("a call could go to a supplier that is configured, unless it is drained, or speaks another way", async () => {
  await using relay = relayTo(["http://127.0.0.1:1"]);
  const eth = "eth" as ServiceId;
  assert.equal(relay.hasSupplier(eth, "json_rpc"), true, "it may be well, and is not probed yet");
  assert.equal(relay.hasSupplier(eth, "rest"), false);
  assert.equal(relay.hasSupplier("base" as ServiceId, "json_rpc"), false);
  relay.setDrained(eth, "op0", true);
  assert.equal(relay.hasSupplier(eth, "json_rpc"), false);
  relay.setDrained(eth, "op0", false);
  assert.equal(relay.hasSupplier(eth, "json_rpc"), true);
});

test("one that fails again and again is passed over, and is still asked when it is the only one", async () => {
  let isDown = true;
  await using flaky = await startEvmUpstream((call, response) => {
    if (isDown) response.writeHead(500).end();
    else response.end(good(call));
  });
  await using other = await goodUpstream();
  await using relay = relayTo([flaky, other]);
  await relay.start();
  for (let i = 0; i < 20; i++) assert.match(show(await relay.send(request("eth", BALANCE))), /^op1 passed/);
  assert.ok(flaky.paid().length <= 4, `${flaky.paid().length} calls went to it`);
  await using alone = relayTo([flaky]);
  for (let i = 0; i < 5; i++) assert.equal((await alone.send(request("eth", BALANCE))).ok, false);
  isDown = false;
  assert.match(show(await alone.send(request("eth", BALANCE))), /^op0 passed/);
});

test("a method that one does not know is asked of another, without harm to its other calls", async () => {
  await using poor = await startEvmUpstream((call, response) => {
    const missing = '"error":{"code":-32601,"message":"the method does not exist"}';
    response.end(call.method === "eth_feeHistory" ? rpcAnswer(call, missing) : good(call));
  });
  const fees = '"result":{"oldestBlock":"0x1","baseFeePerGas":["0x1"],"gasUsedRatio":[]}';
  await using other = await startEvmUpstream((call, response) =>
    call.method === "eth_feeHistory" ? response.end(rpcAnswer(call, fees)) : response.writeHead(500).end(),
  );
  const opened: string[] = [];
  const metrics: Metrics = {
    ...noMetrics,
    set: (spec, value, labels) => {
      if (spec === relayBreakerOpen && value === 1) opened.push(labels?.operator ?? "");
    },
  };
  await using relay = relayTo([poor, other], {}, {}, metrics);
  await relay.start();
  const wish = { method: "eth_feeHistory", params: ["0x1", "latest", []] };
  for (let i = 0; i < 10; i++) {
    assert.match(show(await relay.send(request("eth", BALANCE))), /^op0 /);
    assert.match(show(await relay.send(request("eth", wish))), /^op1 /);
  }
  assert.ok(poor.paid().filter((call) => call.method === "eth_feeHistory").length <= 1);
  assert.ok(!opened.includes("op0"));
});

test("filters stick to their maker, across relays, and are never sent twice", async () => {
  const maker = (prefix: string): Parameters<typeof startEvmUpstream>[0] => {
    const made = new Set<unknown>();
    return (call, response) => {
      const [id] = call.params as readonly unknown[];
      if (call.method === "eth_newBlockFilter") {
        made.add(`${prefix}${made.size}`);
        response.end(rpcAnswer(call, `"result":"${prefix}${made.size - 1}"`));
      } else if (made.has(id)) response.end(rpcAnswer(call, '"result":[]'));
      else response.end(rpcAnswer(call, '"error":{"code":-32000,"message":"filter not found"}'));
    };
  };
  await using a = await startEvmUpstream(maker("0x"));
  await using b = await startEvmUpstream(maker("0x0a1B2c3d4e5f60718293a4b5c6d7e8"));
  await using onlyA = relayTo([a, "http://127.0.0.1:1"]);
  await using onlyB = relayTo(["http://127.0.0.1:1", b]);
  const ids: string[] = [];
  for (const relay of [onlyA, onlyB]) {
    await relay.start();
    for (let i = 0; i < 5; i++) {
      const made = await relay.send(request("eth", { method: "eth_newBlockFilter" }));
      assert.ok(made.ok, show(made));
      ids.push((JSON.parse(Buffer.from(made.body).toString()) as { readonly result: string }).result);
    }
  }
  assert.equal(new Set(ids).size, 10);
  await using relay = relayTo([a, b]);
  for (const id of ids) {
    assert.match(id, /^0x1[0-9a-f]{24}[0-9a-fA-F]+$/);
    for (const spelled of [id, `${id.slice(0, 3)}${id.slice(3, 27).toUpperCase()}${id.slice(27)}`]) {
      const wish = { method: "eth_getFilterChanges", params: [spelled], id: "x" };
      assert.match(show(await relay.send(request("eth", wish))), /"id":"x","result":\[\]/);
    }
  }
  // Neither a supplier's own id, nor one of another client, reaches any supplier: the filter may be somebody's.
  const before = [a.paid().length, b.paid().length];
  const own = ["0x0", "0xabc", `0x${ids[0]?.slice(27)}`, `${ids[0]?.slice(0, 11)}${ids[0]?.slice(27)}`];
  for (const method of ["eth_getFilterChanges", "eth_getFilterLogs", "eth_uninstallFilter"]) {
    for (const [id, client] of [...own.map((one) => [one, "c"]), ...ids.map((one) => [one, "d"])]) {
      const wish = { method, params: [id] };
      assert.equal(show(await relay.send(request("eth", wish, 180_000, client))), "NO_SUPPLIERS after 0");
    }
  }
  assert.deepEqual([a.paid().length, b.paid().length], before);
});

test("a filter call that fails is not sent again", async () => {
  await using a = await startEvmUpstream((_call, response) => response.writeHead(500).end());
  await using b = await startEvmUpstream((_call, response) => response.destroy());
  for (const upstream of [a, b]) {
    await using relay = relayTo([upstream, upstream]);
    const result = await relay.send(request("eth", { method: "eth_newFilter", params: [{}] }));
    assert.deepEqual([result.ok, upstream.paid().length], [false, 1]);
  }
});

test("a kept connection that the supplier has closed costs the call nothing", async () => {
  let calls = 0;
  await using upstream = await startEvmUpstream((call, response) => {
    if (++calls === 2) response.socket?.destroy();
    else response.end(good(call));
  });
  await using relay = relayTo([upstream]);
  assert.match(show(await relay.send(request("eth", BALANCE))), /^op0 passed/);
  assert.match(show(await relay.send(request("eth", BALANCE))), /^op0 passed/);
});

test("base paths, keys in the query and headers go along; the root keeps its spelling", async () => {
  await using upstream = await startUpstream((_call, response) =>
    response.end('{"jsonrpc":"2.0","id":-1,"result":{}}'),
  );
  const { host } = new URL(upstream.url);
  const endpoint = {
    operator: "op",
    urls: { comet_bft: `http://user:p%40ss@${host}/base/?key=k`, rest: `http://${host}` },
    headers: { "x-key": "secret" },
  };
  await using relay = createRelayEngine(
    { ...engineOptions, suppliers: { pocket: { endpoints: [endpoint], timeoutMs: 60_000, maxAttempts: 1 } } },
    { catalogue: services, clock, log: silentLog, metrics: noMetrics, random: () => 0 },
  );
  await relay.send(request("pocket", "/health"));
  await relay.send(request("pocket", { method: "health" }));
  await relay.send(request("pocket", "/cosmos/bank/v1beta1/params"));
  assert.deepEqual(
    upstream.calls.map((call) => `${call.verb} ${call.path}`),
    ["GET /base/health?key=k", "POST /base/?key=k", "GET /cosmos/bank/v1beta1/params"],
  );
  assert.equal(upstream.calls[0]?.headers["x-key"], "secret");
  assert.equal(upstream.calls[0]?.headers.authorization, `Basic ${Buffer.from("user:p@ss").toString("base64")}`);
  assert.equal(upstream.calls[1]?.headers["content-type"], "application/json");
});

test("metrics: every attempt by outcome and blame, with labels of fixed sets", async () => {
  const seen = new Map<string, number>();
  const add = (spec: MetricSpec, labels: Labels = {}, by = 1): void => {
    assert.deepEqual(Object.keys(labels).sort(), [...(spec.labels ?? [])].sort(), spec.name);
    const key = `${spec.name} ${Object.values(labels).join(" ")}`;
    seen.set(key, (seen.get(key) ?? 0) + by);
  };
  const metrics: Metrics = {
    count: add,
    set: (spec, _value, labels) => add(spec, labels),
    observe: (spec, _value, labels) => add(spec, labels),
  };
  await using bad = await startEvmUpstream((_call, response) => response.end("<html>"));
  await using other = await goodUpstream();
  await using relay = relayTo([bad, other], {}, {}, metrics);
  await relay.send(request("eth", BALANCE));
  await relay.send(request("base", BALANCE));
  assert.equal(seen.get("turnpike_relay_attempts_total eth bad supplier not_json"), 1);
  assert.equal(seen.get("turnpike_relay_attempts_total eth good none none"), 1);
  assert.equal(seen.get("turnpike_relays_total eth ok"), 1);
  assert.equal(seen.get("turnpike_relays_total unknown NO_SUPPLIERS"), 1);
});

test("a caller that gives up, and a relay that ends, end the call at once", async () => {
  await using hanging = await startEvmUpstream(() => {});
  await using relay = relayTo([hanging], { timeoutMs: 60_000 });
  const gone = new AbortController();
  const waiting = relay.send(request("eth", BALANCE), gone.signal);
  await eventually("it is asked", () => hanging.paid().length === 1);
  gone.abort();
  assert.equal(show(await waiting), "SHUTTING_DOWN after 1");
  const last = relay.send(request("eth", BALANCE));
  await eventually("it is asked again", () => hanging.paid().length === 2);
  await relay[Symbol.asyncDispose]();
  assert.equal(show(await last), "SHUTTING_DOWN after 1");
  assert.equal(show(await relay.send(request("eth", BALANCE))), "SHUTTING_DOWN after 0");
});

test("a supplier that speaks no HTTP is unreachable", async () => {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.end("220 mail ready\r\n");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  await using relay = relayTo([`http://127.0.0.1:${address.port}`]);
  const result = await relay.send(request("eth", BALANCE));
  assert.ok(!result.ok && result.code === "SUPPLIERS_UNREACHABLE");
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
});

test("a wrong configuration is refused by name, without the URL", () => {
  assert.throws(() => relayTo(["ftp://key@host"]), { code: "CONFIG_INVALID", message: /suppliers\.eth/ });
  assert.throws(
    () => relayTo(["no url, secret"]),
    (error: Error) => !error.message.includes("secret"),
  );
});

test("anvil: what it does not have is found out before a call asks for it", async () => {
  await using anvil = await startAnvil({ chainId: 1 });
  await using relay = relayTo([anvil.url]);
  await relay.start();
  relay.survey();
  await eventually("its methods are known", () => relay.missingMethods("eth" as ServiceId).has("eth_capabilities"));
  const missing = relay.missingMethods("eth" as ServiceId);
  for (const name of ["eth_getBalance", "eth_call", "eth_getLogs", "eth_newFilter", "eth_getFilterChanges"]) {
    assert.ok(!missing.has(name), name);
  }
  for (const method of missing) {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: [] });
    const answer = await fetch(anvil.url, { method: "POST", headers: { "content-type": "application/json" }, body });
    assert.match(await answer.text(), /"code":-32601/, method);
  }
});

test("anvil: reads, a revert, bad params, odd ids and filters", async () => {
  await using anvil = await startAnvil({ chainId: 1 });
  await using relay = relayTo(["http://127.0.0.1:1", anvil.url]);
  await relay.start();
  const ask = async (wish: unknown): Promise<string> => show(await relay.send(request("eth", wish)));
  assert.match(await ask({ method: "eth_blockNumber" }), /^op1 passed \{"jsonrpc":"2.0","id":1,"result":"0x/);
  assert.match(await ask({ method: "eth_chainId", id: null }), /"id":null,"result":"0x1"/);
  assert.match(await ask({ method: "eth_chainId", id: 1.5 }), /"id":1.5,"result":"0x1"/);
  assert.match(
    await ask({ method: "eth_call", params: [{ data: "0x60006000fd" }, "latest"] }),
    /^op1 unchecked .*"code":3,"message":"execution reverted/,
  );
  assert.match(await ask({ method: "eth_getBlockByNumber", params: ["latest", true] }), /^op1 passed/);
  const made = await relay.send(request("eth", { method: "eth_newBlockFilter" }));
  assert.ok(made.ok, show(made));
  const { result: id } = JSON.parse(Buffer.from(made.body).toString()) as { readonly result: string };
  assert.match(await ask({ method: "eth_getFilterChanges", params: [id] }), /"result":\[/);
  assert.match(await ask({ method: "eth_uninstallFilter", params: [id] }), /"result":true/);
  assert.match(await ask({ method: "eth_getFilterChanges", params: [id] }), /^op1 .*filter not found/);
});
