// Only a real browser shows what a page may reach: ports that it refuses, CORS, and WebSockets, which have no CORS.
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { noMetrics, silentLog } from "@turnpike/base";
import { type Anvil, blockedAddress, devRpc, type EvmGuard, startAnvil, startEvmGuard } from "@turnpike/localnet";
import { type SearchService, startSearchService } from "@turnpike/search";
import { EVIL_HOST, runInPage, withoutChromium } from "../support/chromium.ts";

const ACCOUNT = "0x2222222222222222222222222222222222222222";
const SET = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "anvil_setBalance", params: [ACCOUNT, "0x5"] });

/** Functions of a page: each gives what it could read, or `failed`. */
const ATTACKS = `
  const body = ${JSON.stringify(SET)};
  const post = (url, init) => fetch(url, { method: "POST", body, ...init })
    .then(async (answer) => answer.status + " " + (await answer.text()), () => "failed");
  const asJson = (url) => post(url, { headers: { "content-type": "application/json" } });
  const withoutCors = (url) => post(url, { mode: "no-cors" });
  const overSocket = (url) => new Promise((resolve) => {
    let socket;
    try { socket = new WebSocket(url.replace("http", "ws")); } catch { return resolve("failed"); }
    socket.onopen = () => socket.send(body);
    socket.onmessage = ({ data }) => { socket.close(); resolve(data); };
    socket.onerror = () => resolve("failed");
  });
  const all = async (url) => ({ asJson: await asJson(url), withoutCors: await withoutCors(url), overSocket: await overSocket(url) });
`;

suite("what a web page reaches", { skip: withoutChromium }, () => {
  let open: Anvil;
  let blocked: Anvil;
  let guard: EvmGuard;
  let search: SearchService;
  before(async () => {
    [open, blocked] = await Promise.all([startAnvil(), startAnvil(await blockedAddress())]);
    guard = await startEvmGuard({ port: 0, target: blocked.url });
    const opts = {
      host: "127.0.0.1",
      port: 0,
      timeoutMs: 1_000,
      maxInFlight: 1,
      cacheSeconds: 0,
      cacheBytes: 0,
      version: "0",
    };
    const documents = async () => ({
      url: "",
      title: "",
      text: "a private file",
      language: "",
      date: undefined,
      collection: "",
    });
    search = await startSearchService(opts, { engines: [], log: silentLog, metrics: noMetrics, documents });
  });
  after(async () => {
    await search?.[Symbol.asyncDispose]();
    await guard?.[Symbol.asyncDispose]();
    await Promise.all([open?.[Symbol.asyncDispose](), blocked?.[Symbol.asyncDispose]()]);
  });
  const balance = (anvil: Anvil): Promise<unknown> => devRpc(anvil.url, "eth_getBalance", [ACCOUNT, "latest"]);

  test("attack: anvil on a random loopback port is found by trying ports, and does what the page says", async () => {
    const found = await runInPage(
      guard.port,
      `${ATTACKS}
      const ports = Array.from({ length: 200 }, (_, at) => ${open.port} - 100 + at);
      const answers = await Promise.all(ports.map((port) => overSocket("http://127.0.0.1:" + port)));
      return ports.filter((_, at) => answers[at].includes('"result":null'));`,
    );
    assert.ok((found as number[]).includes(open.port), JSON.stringify(found));
    assert.equal(await balance(open), "0x5");
  });

  test("attack: no page reaches anvil of turnpike up, even one that knows its address, nor a method through its guard", async () => {
    const failed = { asJson: "failed", withoutCors: "failed", overSocket: "failed" };
    const found = await runInPage(
      guard.port,
      `${ATTACKS} return [await all("${blocked.url}"), await all("${guard.url}"), await all(location.origin)];`,
    );
    const [direct, guarded, rebound] = found as Readonly<Record<string, string>>[];
    assert.deepEqual(direct, failed);
    // An opaque answer says nothing: what it did is seen on the chain.
    assert.deepEqual(guarded, { ...failed, withoutCors: "0 " });
    assert.match(rebound?.asJson ?? "", /^403 .*Host/);
    assert.equal(rebound?.overSocket, "failed");
    assert.equal(await balance(blocked), "0x0");
  });

  test("attack: a page whose name was pointed here (DNS rebinding) reads no indexed document", async () => {
    const path = `/documents/${encodeURIComponent("any")}`;
    const script = `const read = await fetch("${path}"); return [read.status, await read.text()];`;
    const [status, text] = (await runInPage(search.port, script)) as [number, string];
    assert.equal(status, 403);
    assert.doesNotMatch(text, /private/, EVIL_HOST);
  });
});
