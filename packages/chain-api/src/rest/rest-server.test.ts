import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { type IncomingHttpHeaders, request } from "node:http";
import { connect } from "node:net";
import { suite, test } from "node:test";
import { silentLog } from "@turnpike/base";
import { reboundStatus } from "@turnpike/testkit";
import {
  LATEST,
  recordedJson,
  shapeFaults,
  type TestApplication,
  type TestSource,
  testApi,
} from "../../test/chain-api.ts";
import { REST_ROUTES } from "./rest-routes.ts";
import { startRestServer } from "./rest-server.ts";

interface RecordedAnswer {
  readonly name: string;
  readonly request: {
    readonly method: string;
    readonly path: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: unknown;
  };
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly json: unknown;
}

interface Running extends AsyncDisposable {
  readonly port: number;
  readonly application: TestApplication;
  readonly source: TestSource;
  get(path: string, options?: { method?: string; headers?: Record<string, string>; body?: string }): Promise<Answer>;
}

const NOW_MS = 1_795_272_143_999;
const clock = { nowMs: () => NOW_MS, monotonicMs: () => 0 };

async function start(
  more: { readonly allowedHosts?: readonly string[]; readonly maxBodyBytes?: number } = {},
): Promise<Running> {
  const { application, source, options } = testApi();
  const server = await startRestServer(
    { host: "127.0.0.1", port: 0, closeGraceMs: 50, ...options, ...more },
    { application, source, log: silentLog, clock },
  );
  return {
    port: server.port,
    application,
    source,
    // not `fetch`: it fixes paths before it sends them
    get: (path, { method = "GET", headers = {}, body } = {}) =>
      new Promise((resolve, reject) => {
        const req = request({ host: "127.0.0.1", port: server.port, path, method, headers, agent: false }, (res) => {
          const parts: Buffer[] = [];
          res.on("data", (part: Buffer) => parts.push(part));
          res.on("end", () => {
            const text = Buffer.concat(parts).toString();
            const isJson = res.headers["content-type"] === "application/json" && text !== "";
            const json: unknown = isJson ? JSON.parse(text) : undefined;
            resolve({ status: res.statusCode ?? 0, headers: res.headers, text, json });
          });
        });
        req.on("error", reject);
        req.end(body);
      }),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/** Parts of the real chain that this one does not have: 501. */
const NOT_BUILT =
  /^\/(ibc|pokt-network\/poktroll\/migration|cosmos\/(distribution|gov|mint|evidence|feegrant|params|slashing)|cosmos\/staking\/v1beta1\/historical_info)\//;
/** What only the recorded chain's history has. */
const HISTORY =
  /^(gateway\.json with metadata|proof\.json claim( validated)?|service\.json (with metadata|one dehydrated|cupr history)|supplier\.json (owner differs|one dehydrated))$/;
/** Quotes gas, and a place in a file of another program. */
const OWN_TEXT = new Set(["tx.json simulate junk"]);
const HEADERS = ["X-Cosmos-Block-Height", "Grpc-Metadata-X-Cosmos-Block-Height", "Grpc-Metadata-Content-Type"];

const notImplemented = { code: 12, message: "Not Implemented", details: [] };
const invalid = (message: string): unknown => ({ code: 3, message, details: [] });

suite("the chain's REST", () => {
  test("every recorded question gets the recorded status, headers, error and shape", async () => {
    await using running = await start();
    const root = new URL("../../../../test/spec/recorded-chain/rest/", import.meta.url);
    let alike = 0;
    for (const file of readdirSync(root)) {
      for (const recorded of recordedJson<RecordedAnswer[]>(`rest/${file}`)) {
        const name = `${file} ${recorded.name}`;
        const { method, path, headers = {}, body } = recorded.request;
        if (HISTORY.test(name) || path === "/") continue;
        const sent = body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) };
        const answer = await running.get(path, { method, headers, ...sent });
        if (path.startsWith("/pocket/")) {
          assert.equal(answer.status, 200, name);
          continue;
        }
        if (NOT_BUILT.test(path)) {
          assert.equal(answer.status, 501, name);
          continue;
        }
        assert.equal(answer.status, recorded.status, `${name}: ${answer.text}`);
        assert.equal(answer.headers["content-type"], recorded.headers["Content-Type"], name);
        for (const header of HEADERS) {
          assert.equal(header.toLowerCase() in answer.headers, header in recorded.headers, `${name}: ${header}`);
        }
        assert.equal(answer.headers["x-server-time"], "1795272143");
        const isError = recorded.status >= 400 && !OWN_TEXT.has(name);
        if (isError) assert.deepEqual(answer.json, recorded.body, name);
        else assert.deepEqual(shapeFaults(recorded.body, answer.json), [], name);
        alike++;
      }
    }
    assert.ok(alike > 150, `${alike} questions were asked`);
  });

  test("both prefixes answer alike, byte for byte", async () => {
    await using running = await start();
    for (const path of [
      "shared/params",
      "supplier/supplier",
      "application/application?pagination.limit=1",
      "proof/params",
    ]) {
      const [ours, theirs] = [
        await running.get(`/pocket/${path}`),
        await running.get(`/pokt-network/poktroll/${path}`),
      ];
      assert.equal(ours.status, 200);
      assert.equal(ours.text, theirs.text);
    }
  });

  test("the height header chooses the state and is told again", async () => {
    await using running = await start();
    const path = "/pocket/shared/params";
    for (const [sent, told] of [
      [{}, LATEST.toString()],
      [{ "x-cosmos-block-height": "7" }, "7"],
      [{ "X-Cosmos-Block-Height": "0" }, LATEST.toString()],
      [{ "Grpc-Metadata-X-Cosmos-Block-Height": "9" }, "9"],
    ] as const) {
      const answer = await running.get(path, { headers: { ...sent } });
      assert.equal(answer.status, 200);
      assert.equal(answer.headers["x-cosmos-block-height"], told);
      assert.equal(answer.headers["grpc-metadata-x-cosmos-block-height"], told);
      assert.equal(running.application.asked.at(-1), BigInt(told));
    }
    for (const height of ["-1", "1.5", "99999999999999999999999", "9223372036854775807", " ", "٣"]) {
      const headers = { "x-cosmos-block-height": Buffer.from(height).toString("latin1") };
      assert.equal((await running.get(path, { headers })).status, 500, height);
    }
  });

  test("parameters: both names, nested, repeated, and what the gateway says of broken ones", async () => {
    await using running = await start();
    const list = "/pocket/application/application";
    const ask = async (query: string): Promise<unknown> => (await running.get(`${list}?${query}`)).json;
    const one = await ask("pagination.limit=1&pagination.count_total=true");
    assert.deepEqual(await ask("pagination.limit=1&pagination.countTotal=T"), one);
    assert.deepEqual(await ask("pagination.limit=0x1&pagination.countTotal=1"), one);
    assert.deepEqual(await ask("pagination.limit=1&pagination.limit=abc&pagination.countTotal=1&nosuch.x=1&&"), one);
    for (const [query, text] of [
      ["pagination.limit=-1", 'strconv.ParseUint: parsing "-1": invalid syntax'],
      ["pagination.limit=", 'strconv.ParseUint: parsing "": invalid syntax'],
      [
        "pagination.limit=18446744073709551616",
        'strconv.ParseUint: parsing "18446744073709551616": value out of range',
      ],
      ["pagination.reverse=yes", 'strconv.ParseBool: parsing "yes": invalid syntax'],
      ["pagination.limit.x=1", "unexpected nested field x in limit"],
      ["pagination.key=abc", "illegal base64 data at input byte 0"],
      ["a=%zz", 'invalid URL escape "%zz"'],
      ["a=1;b=2", "invalid semicolon separator in query"],
    ] as const) {
      assert.deepEqual(await ask(query), invalid(text), query);
    }
    const claims = await running.get("/pocket/proof/claim?session_id=a&session_end_height=5");
    assert.deepEqual([claims.status, claims.json], [400, invalid("field already set for filter oneof")]);
    const order = await running.get("/cosmos/tx/v1beta1/txs?query=tx.height=103&order_by=ORDER_BY_DESC&limit=1");
    assert.equal(order.status, 200);
    const badOrder = await running.get("/cosmos/tx/v1beta1/txs?query=tx.height=103&order_by=DOWN");
    assert.deepEqual(badOrder.json, invalid("DOWN is not a valid cosmos.tx.v1beta1.OrderBy"));
    const page = await running.get("/cosmos/tx/v1beta1/txs?query=tx.height=103&page=5");
    assert.equal(page.status, 500);
    assert.match(page.text, /page should be within \[1, 1\] range, given 5/);
    // what the path says, the query does not change
    assert.match((await running.get("/pocket/gateway/gateway/a?address=b")).text, /address a"/);
  });

  test("paths: escapes, dots, double and trailing slashes, other verbs", async () => {
    await using running = await start();
    const twice = await running.get("//pocket//shared/params?x=1");
    assert.deepEqual([twice.status, twice.headers.location], [301, "/pocket/shared/params?x=1"]);
    assert.equal((await running.get("/pocket/../pocket/./shared/params")).headers.location, "/pocket/shared/params");
    assert.equal((await running.get("//evil.example/%2e%2e/%2f..")).status, 301);
    // A redirect that no client could read.
    assert.equal((await running.get(`//${"x".repeat(16_100)}`)).status, 414);
    assert.equal((await running.get(`//${"%01".repeat(5_000)}`)).status, 414);
    assert.equal((await running.get("/pocket/gateway/gateway/%zz")).status, 400);
    assert.match((await running.get("/pocket/gateway/gateway/a%20b")).text, /address a b"/);
    assert.equal((await running.get("/pocket/shared/params", { method: "HEAD" })).status, 501);
    for (const method of ["PUT", "DELETE", "PATCH", "OPTIONS", "POST"]) {
      const answer = await running.get("/pocket/shared/params", {
        method,
        headers: { "content-type": "application/json" },
      });
      assert.deepEqual([answer.status, answer.json], [501, notImplemented], method);
    }
    assert.equal((await running.get("/")).status, 200);
    assert.equal((await running.get("/pocket/service/relay_mining_difficulty/a/at_height/x")).status, 400);
  });

  test("no path of a method with a body names a field: the body is the whole request", () => {
    const posts = REST_ROUTES.filter(({ verb }) => verb === "POST");
    assert.ok(posts.length > 3);
    assert.deepEqual(
      posts.filter(({ segments }) => segments.some((segment) => segment.startsWith("{"))),
      [],
    );
  });

  test("bodies: what is no JSON, has foreign members, or is too large is a 400; decode and encode undo each other", async () => {
    await using running = await start({ maxBodyBytes: 5_000 });
    const post = (path: string, body: string): Promise<Answer> =>
      running.get(`/cosmos/tx/v1beta1/${path}`, {
        method: "POST",
        body,
        headers: { "content-type": "application/json" },
      });
    for (const body of [
      "{",
      "[]",
      "1",
      '{"nosuch":1}',
      '{"tx_bytes":1}',
      '{"tx_bytes":"%"}',
      `{"x":${"[".repeat(2000)}`,
      `{"tx_bytes":[${",".repeat(2000)}]}`,
    ]) {
      const answer = await post("txs", body);
      assert.equal(answer.status, 400, body.slice(0, 40));
    }
    assert.deepEqual((await post("txs", "")).json, invalid("invalid empty tx"));
    assert.equal((await post("encode", "{}")).status, 400);
    assert.deepEqual((await post("txs", "x".repeat(6000))).json, invalid("http: request body too large"));
    const tx_bytes = Buffer.from(running.source.txs[0]?.bytes ?? []).toString("base64");
    const decoded = await post("decode", JSON.stringify({ tx_bytes }));
    assert.equal(decoded.status, 200);
    assert.deepEqual((await post("encode", decoded.text)).json, { tx_bytes });
    const mode = "BROADCAST_MODE_BLOCK";
    const blocked = await post("txs", JSON.stringify({ tx_bytes, mode }));
    assert.equal(blocked.status, 500);
    assert.match(blocked.text, /unsupported return type block/);
  });

  test("pages of other origins are refused, as by the RPC, unless the configuration names their hosts", async () => {
    const path = "/pocket/shared/params";
    const origin = "https://page.example";
    const preflight = { method: "OPTIONS", headers: { origin, "access-control-request-method": "GET" } };
    await using closed = await start();
    for (const foreign of [origin, "null", "file://", "https://127.0.0.1.example"]) {
      for (const method of ["GET", "POST", "OPTIONS"]) {
        const refused = await closed.get(path, { method, headers: { origin: foreign } });
        assert.equal(refused.status, 403, `${method} ${foreign}`);
        assert.equal(refused.headers["access-control-allow-origin"], undefined);
      }
    }
    assert.equal((await closed.get(path, preflight)).status, 403);
    const image = await closed.get(path, { headers: { "sec-fetch-site": "cross-site", "sec-fetch-dest": "image" } });
    assert.equal(image.status, 403);
    const local = await closed.get(path, { headers: { origin: "http://localhost:5173" } });
    assert.deepEqual([local.status, local.headers["access-control-allow-origin"]], [200, "http://localhost:5173"]);
    await using open = await start({ allowedHosts: ["page.example"] });
    const allowed = await open.get(path, preflight);
    assert.deepEqual([allowed.status, allowed.headers["access-control-allow-origin"]], [200, origin]);
    const answer = await open.get(path, { headers: { origin } });
    assert.equal(answer.headers["access-control-allow-origin"], origin);
    assert.equal(answer.headers.vary, "Origin");
    assert.ok("params" in (answer.json as object));
  });

  test("huge heads, raw junk and many senseless questions do not stop it", async () => {
    await using running = await start();
    assert.equal((await running.get(`/pocket/gateway/gateway/${"a".repeat(70_000)}`)).status, 431);
    assert.equal((await running.get(`/pocket/gateway/gateway/${"%41".repeat(15_000)}`)).status, 404);
    assert.equal((await running.get(`/${"a/".repeat(30_000)}`)).status, 501);
    const junk = await new Promise<string>((resolve) => {
      const socket = connect(running.port, "127.0.0.1", () => socket.end("\u0000\u0001junk\r\n\r\n"));
      let text = "";
      socket.on("data", (part: Buffer) => {
        text += part.toString();
      });
      socket.on("close", () => resolve(text));
    });
    assert.match(junk, /^HTTP\/1\.1 400 /);
    const words = [
      "",
      "%00",
      "%ff",
      "..%2f",
      "{}",
      "~",
      "pagination",
      "latest",
      "0",
      "-1",
      "'",
      "params",
      "%F0%9F%98%80",
    ];
    const lane = (first: number): Promise<string> =>
      new Promise((resolve) => {
        const socket = connect(running.port, "127.0.0.1");
        let text = "";
        socket.on("data", (part: Buffer) => {
          text += part.toString("latin1");
        });
        socket.on("close", () => resolve(text));
        for (let i = first; i < first + 2500; i++) {
          const [a, b, c] = [words[i % 13], words[Math.floor(i / 13) % 13], words[Math.floor(i / 169) % 13]];
          const last = i === first + 2499 ? "Connection: close\r\n" : "";
          const path = `/pocket/proof/claim/${a}/${b}?pagination.${c}=${a}&x[${b}]=${c}`;
          socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${last}\r\n`);
        }
      });
    const answers = (await Promise.all([0, 2500, 5000, 7500].map(lane))).join("\n");
    const statuses = [...answers.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => status ?? "");
    assert.equal(statuses.length, 10_000);
    // On a busy machine more of them come at once than may wait for their turn.
    const seen = new Set(statuses);
    seen.delete("429");
    assert.deepEqual([...seen].sort(), ["301", "400"]);
    assert.equal((await running.get("/pocket/shared/params")).status, 200);
  });

  test("attack: DNS rebinding: a page whose name was pointed here is refused", async () => {
    await using running = await start();
    assert.equal(await reboundStatus(running.port, "/pocket/shared/params"), 403);
  });
});
