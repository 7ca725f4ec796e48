import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { after, before, suite, test } from "node:test";
import { noRateLimits } from "@turnpike/gateway";
import type { Upstream } from "@turnpike/testkit";
import { readRecorded, recordedText, startRecordedNode } from "@turnpike/testkit";
import { type RelayRig, rpc, rpcAt, send, startNode, startRelay } from "./relay-rig.ts";

interface PathNode extends AsyncDisposable {
  readonly url: string;
  readonly seen: string[];
  reply: { status: number; type: string; body: string };
}

/** A stand-in for any back-end with paths. */
async function startPathNode(): Promise<PathNode> {
  const seen: string[] = [];
  const handle = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const body = await text(req);
    const height = req.headers["x-cosmos-block-height"];
    seen.push([req.method, req.url, body, ...(height === undefined ? [] : [height])].join(" ").trimEnd());
    res.writeHead(node.reply.status, { "content-type": node.reply.type }).end(node.reply.body);
  };
  const server = createServer((req, res) => void handle(req, res));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const node: PathNode = {
    url: `http://127.0.0.1:${port}`,
    seen,
    reply: { status: 200, type: "application/json", body: '{"ok":1.0}' },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  return node;
}

suite("Paths of the chains on the free relay", () => {
  let recorded: Upstream;
  let rest: PathNode;
  let rig: RelayRig;

  before(async () => {
    recorded = await startRecordedNode();
    rest = await startPathNode();
    const at = (rpcType: "rest" | "json_rpc") => [{ operator: "one", urls: { [rpcType]: rest.url } }];
    rig = await startRelay({
      pocket: [{ operator: "recorded", urls: { comet_bft: recorded.url, rest: recorded.url } }],
      radix: at("rest"),
      tron: at("rest"),
      juno: at("rest"),
    });
    rest.seen.length = 0;
  });
  after(async () => {
    await rig?.[Symbol.asyncDispose]();
    await Promise.all([recorded?.[Symbol.asyncDispose](), rest?.[Symbol.asyncDispose]()]);
  });

  test("Cosmos: recorded GET answers of the real node, RPC and REST, byte for byte with their status", async () => {
    let count = 0;
    const seen = new Set<string>();
    for (const one of [...readRecorded("rpc"), ...readRecorded("rest")]) {
      const { method, path, headers } = one.request;
      if (method !== "GET" || headers !== undefined || seen.has(path)) continue;
      seen.add(path);
      const body = recordedText(one);
      if (body.startsWith("<") || !/^[[{]/.test(body)) continue;
      const way = { host: "pocket.localhost", path: encodeURI(path), method: "GET" };
      const got = await send(rig, "", way);
      if (got.status === 404 && /"code":-32601/.test(got.text)) continue;
      assert.deepEqual([got.status, got.text], [one.status, body], path);
      count++;
    }
    assert.ok(count > 20, `${count} answers`);
  });

  test("Cosmos: JSON-RPC at the root, alone and in a batch, also without params", async () => {
    const way = { host: "pocket.localhost" };
    const status = await send(rig, '{"jsonrpc":"2.0","id":"s","method":"status","params":{}}', way);
    assert.match(status.text, /"id":"s","result":\{/);
    const path = { host: "127.0.0.1", path: "/relay/pocket/status", method: "GET" };
    assert.match((await send(rig, "", path)).text, /"id":-1,"result":\{/);
  });

  test("REST: verb, path, query and body go along; status, type and body come back", async () => {
    const cases: readonly (readonly [host: string, method: string, path: string, body: string, seen: string])[] = [
      ["radix", "POST", "/transaction/submit", '{"a":1}', 'POST /transaction/submit {"a":1}'],
      ["radix", "POST", "/state/entity/details", '{"addresses":[]}', 'POST /state/entity/details {"addresses":[]}'],
      ["tron", "POST", "/wallet/getblockbynum", '{"num":1}', 'POST /wallet/getblockbynum {"num":1}'],
      ["tron", "GET", "/wallet/getnowblock?visible=true", "", "GET /wallet/getnowblock?visible=true"],
      [
        "juno",
        "GET",
        "/cosmos/bank/v1beta1/supply?pagination.limit=1",
        "",
        "GET /cosmos/bank/v1beta1/supply?pagination.limit=1",
      ],
      ["juno", "GET", "/chain/own/v1/thing", "", "GET /chain/own/v1/thing"],
      ["juno", "POST", "/cosmos/tx/v1beta1/txs", '{"tx_bytes":""}', 'POST /cosmos/tx/v1beta1/txs {"tx_bytes":""}'],
    ];
    for (const [host, method, path, body, seen] of cases) {
      const from = rest.seen.length;
      const got = await send(rig, body, { host: `${host}.localhost`, method, path });
      assert.deepEqual([got.status, got.text], [200, '{"ok":1.0}'], path);
      // A probe of the back-end may come after it.
      assert.ok(rest.seen.slice(from).includes(seen), rest.seen.slice(from).join("\n"));
    }
    rest.reply = {
      status: 404,
      type: "application/json",
      body: '{"code":5,"message":"account not found","details":[]}',
    };
    const missing = await send(rig, "", {
      host: "juno.localhost",
      method: "GET",
      path: "/cosmos/auth/v1beta1/accounts/juno1",
      headers: { "x-cosmos-block-height": "77" },
    });
    assert.deepEqual([missing.status, missing.text], [404, rest.reply.body]);
    assert.ok(rest.seen.includes("GET /cosmos/auth/v1beta1/accounts/juno1  77"), rest.seen.join("\n"));
    rest.reply = { status: 200, type: "text/html", body: "<html>" };
    const page = await send(rig, "", { host: "juno.localhost", method: "GET", path: "/cosmos/bank/v1beta1/params" });
    assert.equal(page.status, 502);
    assert.match(page.text, /^\{"jsonrpc":"2\.0","id":null,"error":/);
  });

  test("attack: a page of a supplier, behind a mark or under a type that browsers run, gets no script onto the gateway's origin", async () => {
    const page = '<?xml version="1.0"?><script xmlns="http://www.w3.org/1999/xhtml">alert(1)</script>';
    const json = '{"ok":1.0}';
    const cases: readonly (readonly [type: string, body: string, relayed: string | undefined])[] = [
      ["text/xsl", `\ufeff${page}`, undefined],
      ["application/json", `\ufeff${page}`, undefined],
      ["text/xsl", "alert(1)", "application/json"],
      ["application/pdf", "%PDF-1.7", "application/json"],
      ["text/javascript", "alert(1)", "application/json"],
      ["multipart/x-mixed-replace; boundary=x", "--x", "application/json"],
      ["text/plain; charset=utf-7", "+ADw-script+AD4-", "text/plain; charset=utf-8"],
      ["application/json; charset=utf-16", json, "application/json"],
      ["text/json", `\ufeff${json}`, "application/json"],
      ["TEXT/CSV", "a,b", "text/csv; charset=utf-8"],
    ];
    for (const [type, body, relayed] of cases) {
      rest.reply = { status: 200, type, body };
      const got = await send(rig, "", { host: "juno.localhost", method: "GET", path: "/cosmos/bank/v1beta1/params" });
      const {
        "content-type": contentType,
        "content-security-policy": policy,
        "x-content-type-options": sniff,
      } = got.headers;
      assert.deepEqual([policy, sniff], ["sandbox", "nosniff"], type);
      assert.equal(got.status, relayed === undefined ? 502 : 200, type);
      assert.equal(contentType, relayed ?? "application/json", type);
      if (relayed !== undefined) assert.equal(got.text, body.replace("\ufeff", ""));
    }
    rest.reply = { status: 200, type: "application/json", body: json };
  });

  test("a write by path is sent once, whatever comes back", async () => {
    await using one = await startPathNode();
    await using two = await startPathNode();
    for (const node of [one, two]) node.reply = { status: 500, type: "text/plain", body: "no" };
    const endpoints = [one, two].map(({ url }, at) => ({ operator: `o${at}`, urls: { rest: url, comet_bft: url } }));
    await using to = await startRelay({ juno: endpoints });
    const sent = (): number => [...one.seen, ...two.seen].filter((line) => /txs|broadcast/.test(line)).length;
    await send(to, "{}", { host: "juno.localhost", path: "/cosmos/tx/v1beta1/txs" });
    assert.equal(sent(), 1);
    await send(to, "", { host: "juno.localhost", method: "GET", path: "/broadcast_tx_sync?tx=0x00" });
    assert.equal(sent(), 2);
  });

  test("paths that lead elsewhere, and those that turn the node, are refused", async () => {
    const from = rest.seen.length;
    const refused: readonly (readonly [string, string, number])[] = [
      ["juno", "/cosmos/../admin", 400],
      ["juno", "/cosmos/%2e%2e/admin", 400],
      ["juno", "/cosmos//bank", 400],
      ["juno", "/cosmos/a%252fb", 400],
      ["juno", "/unsafe_flush_mempool", 404],
      ["juno", "/dial_peers?persistent=true", 404],
      ["juno", "/Unsafe_Flush_Mempool", 404],
      ["tron", "/wallet/easytransferbyprivate", 404],
      ["tron", "/wallet/EasyTransferByPrivate", 404],
      ["tron", "/wallet/gettransactionsign", 404],
      ["radix", "/system/peers", 404],
    ];
    for (const [host, path, status] of refused) {
      const got = await send(rig, "", { host: `${host}.localhost`, path, method: "GET" });
      assert.equal(got.status, status, path);
      assert.match(got.text, /^\{"jsonrpc":"2\.0","id":null,"error":/);
    }
    // A probe of the back-end may come between: it asks for none of these.
    const asked = /admin|bank|a(%(25)?2f|\/)b|unsafe|dial_peers|easytransfer|gettransactionsign|system\/peers/i;
    assert.deepEqual(
      rest.seen.slice(from).filter((line) => asked.test(line)),
      [],
    );
  });
});

test("hosts: exact, whatever the port and the letter case; on them every path is the chain's", async () => {
  await using node = await startNode();
  await using rig = await startRelay({ eth: rpcAt(node.url) });
  const call = rpc("9", "eth_gasPrice");
  for (const host of ["eth.localhost", "ETH.LOCALHOST:1234", "eth.localhost."]) {
    assert.equal((await send(rig, call, { host })).status, 200, host);
  }
  for (const host of [
    "x.eth.localhost",
    "eth-.localhost",
    "e.localhost",
    "search.localhost",
    ".localhost",
    "a..localhost",
  ]) {
    const got = await send(rig, call, { host });
    assert.equal(got.status, 404, host);
    assert.match(got.text, /"id":9,"error":\{"code":-32\d+/);
  }
  for (const path of ["/health", "/ready", "/metrics", "/services.json", "/openapi.json", "/v1/eth"]) {
    assert.equal((await send(rig, "", { path, method: "GET" })).status, 405, path);
    const posted = await send(rig, call, { path });
    assert.deepEqual([posted.status, posted.text.includes('"id":9,"error"')], [404, true], path);
  }
});

test("CORS: any page may call, with whatever headers its client sends, before any limit", async () => {
  await using node = await startNode();
  const limits = {
    consume: () => ({ ok: false, retryAfterSeconds: 7, headers: ["RateLimit-Policy", '"x";q=1;w=60'] }) as const,
  };
  await using rig = await startRelay({ eth: rpcAt(node.url) }, { modules: { limits: { ...noRateLimits, ...limits } } });
  const asked = "content-type, solana-client, client-sdk-version";
  for (const way of [{ host: "eth.localhost" }, { host: "127.0.0.1", path: "/relay/eth" }]) {
    const headers = { origin: "https://app.example", "access-control-request-headers": asked };
    const preflight = await send(rig, "", { ...way, method: "OPTIONS", headers });
    assert.equal(preflight.status, 204);
    assert.equal(preflight.headers["access-control-allow-origin"], "*");
    assert.equal(preflight.headers["access-control-allow-headers"], asked);
    const limited = await send(rig, rpc('"a"', "eth_gasPrice"), way);
    assert.equal(limited.status, 429);
    assert.equal(limited.headers["retry-after"], "7");
    assert.equal(limited.headers["ratelimit-policy"], '"x";q=1;w=60');
    assert.equal(limited.headers["access-control-allow-origin"], "*");
    assert.match(limited.headers["access-control-expose-headers"] ?? "", /RateLimit.*Retry-After.*X-Request-Id/);
    assert.match(limited.text, /^\{"jsonrpc":"2\.0","id":"a","error":\{"code":-32005/);
    assert.ok(limited.headers["x-request-id"] !== undefined);
  }
  assert.equal(node.calls.length, 0);
});

test("limits see the client, the service and the number of calls, before anything is sent", async () => {
  await using node = await startNode();
  const taken: unknown[] = [];
  const limits = {
    consume(asked: unknown) {
      taken.push(asked);
      return { ok: true, headers: ["RateLimit", '"x";r=1;t=2'] } as const;
    },
  };
  await using rig = await startRelay({ eth: rpcAt(node.url) }, { modules: { limits: { ...noRateLimits, ...limits } } });
  const one = await send(rig, rpc("1", "eth_gasPrice"));
  assert.equal(one.headers.ratelimit, '"x";r=1;t=2');
  await send(rig, `[${rpc("1", "eth_gasPrice")},7,${rpc(undefined, "eth_gasPrice")}]`);
  await send(rig, "not json");
  assert.deepEqual(
    taken,
    [1, 3, 1].map((items) => ({ key: undefined, clientIp: "127.0.0.1", serviceId: "eth", items })),
  );
});
