import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { after, before, suite, test } from "node:test";
import { type Log, noMetrics, silentLog } from "@turnpike/base";
import { FreeRateLimits } from "@turnpike/gateway";
import { migratePortalDb, PortalApplications } from "@turnpike/portal-db";
import { PrometheusMetrics } from "@turnpike/telemetry";
import { virtualClock } from "@turnpike/testkit";
import { FIXTURE, PORTAL_PASSWORDS, type PortalRig, startPortalRig } from "./portal-rig.ts";
import {
  type RelayAnswer,
  type RelayRig,
  rpc,
  rpcAt,
  send,
  startNode,
  startRelay,
  type TestNode,
} from "./relay-rig.ts";
import { startWire } from "./wire.ts";

const POOR = "20000000-0000-0000-0000-000000000001";
const RIVAL = "20000000-0000-0000-0000-000000000002";
const hashOf = (key: string): string => createHash("sha256").update(key).digest("hex");
const newKey = (): string => `tk_${randomBytes(16).toString("hex")}`;

/** A gateway that takes keys. Time passes when the test says so, and usage is written by `tick`. */
interface Keyed extends AsyncDisposable {
  readonly rig: RelayRig;
  readonly applications: PortalApplications;
  pass(ms: number): void;
  nowMs(): number;
  metrics(): Promise<string>;
  call(key?: string, id?: string): Promise<RelayAnswer>;
}

interface KeyedBend {
  readonly log?: Log;
  readonly perClient?: number;
  readonly supplier?: TestNode;
}

suite("keys of portal applications on the free relay", () => {
  let portal: PortalRig;
  let node: TestNode;
  let gatewayUrl: string;
  before(async () => {
    portal = await startPortalRig();
    node = await startNode();
    await migratePortalDb({ url: portal.ownerUrl, gatewayPassword: PORTAL_PASSWORDS.gateway }, { log: silentLog });
    const url = new URL(portal.ownerUrl);
    url.username = "portal_gateway";
    url.password = PORTAL_PASSWORDS.gateway;
    gatewayUrl = url.href;
    await portal.sql(
      `insert into portal_plans (portal_plan_type, plan_usage_limit, plan_usage_limit_interval)
       values ('FIVE', 5, 'month')`,
    );
    await portal.sql(
      `insert into portal_accounts (portal_account_id, portal_plan_type)
       values ('${POOR}', 'FIVE'), ('${RIVAL}', 'UNLIMITED')`,
    );
  });
  after(async () => {
    await node?.[Symbol.asyncDispose]();
    await portal?.[Symbol.asyncDispose]();
  });

  /** Makes an application over the API, as its owner would, and gives its id. */
  async function make(key: string, account = FIXTURE, over: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const made = await portal.call("/portal_applications", {
      as: "admin",
      method: "POST",
      headers: { prefer: "return=representation" },
      body: { portal_account_id: account, secret_key_hash: hashOf(key), secret_key_required: true, ...over },
    });
    assert.equal(made.status, 201, made.text);
    return made.body[0].portal_application_id as string;
  }

  async function start(url = gatewayUrl, bend: KeyedBend = {}): Promise<Keyed> {
    // Stands still but for `pass`: calls of one second are so on a busy machine too.
    const clock = virtualClock();
    const { log = silentLog, perClient = 1_000 } = bend;
    const metrics = new PrometheusMetrics({ processMetrics: false });
    const applications = new PortalApplications({ url, flushEveryMs: 3_600_000 }, { clock, log, metrics });
    const limits = new FreeRateLimits(
      {
        perClient: { requests: perClient, windowSeconds: 60, onStoreFailure: "local" },
        perEndpoint: { requests: 10_000, windowSeconds: 1, onStoreFailure: "local" },
        maxClients: 1_000,
        hashSeed: 1,
      },
      { clock, metrics: noMetrics, store: undefined },
    );
    const rig = await startRelay(
      { eth: rpcAt((bend.supplier ?? node).url) },
      {
        gateway: { accessLog: { sample: 1, errors: true } },
        modules: { applications, limits, log, metrics, clock },
      },
    );
    return {
      rig,
      applications,
      metrics: () => metrics.render(),
      pass: (ms) => clock.advance(ms),
      nowMs: () => clock.nowMs(),
      call(key, id = "7") {
        // A key counts as in use when it was used after it was looked up.
        clock.advance(1);
        return send(rig, rpc(id, "eth_blockNumber"), key === undefined ? {} : { headers: { "X-Api-Key": key } });
      },
      async [Symbol.asyncDispose]() {
        await rig[Symbol.asyncDispose]();
        await applications[Symbol.asyncDispose]();
      },
    };
  }

  const usageOf = async (id: string, account?: string) => {
    const token = await portal.token("reader", account);
    const answer = await portal.call(
      `/portal_application_usage?portal_application_id=eq.${id}&select=service_id,calls,failed_calls,refused_calls`,
      { token },
    );
    assert.equal(answer.status, 200, answer.text);
    return answer.body as readonly Readonly<Record<string, unknown>>[];
  };

  test("beyond its plan a keyed call gets 429 and a keyless one 200; the usage is its account's and nobody else's", async () => {
    await using at = await start();
    const key = newKey();
    const id = await make(key, POOR);
    const first = await at.call(key);
    assert.equal(first.status, 200, first.text);
    assert.match(String(first.headers["ratelimit-policy"]), /^"endpoint";q=10000;w=1, "quota";q=5;w=\d+$/);
    assert.match(String(first.headers.ratelimit), /"quota";r=4;t=\d+$/);
    const batch = `[${[1, 2, 3].map((one) => rpc(String(one), "eth_blockNumber")).join()}]`;
    assert.equal((await send(at.rig, batch, { headers: { "x-api-key": key } })).status, 200);
    assert.equal(
      (await send(at.rig, batch, { headers: { "x-api-key": key } })).status,
      429,
      "a batch counts its items",
    );
    assert.equal((await at.call(key)).status, 200);
    const refused = await at.call(key, '"seven"');
    assert.equal(refused.status, 429);
    const body = JSON.parse(refused.text) as { id: unknown; error: { code: number; message: string } };
    assert.deepEqual([body.id, body.error.code], ["seven", -32005]);
    assert.match(body.error.message, /plan/);
    const wait = Number(refused.headers["retry-after"]);
    const end = new Date(at.nowMs());
    const left = (Date.UTC(end.getUTCFullYear(), end.getUTCMonth() + 1) - end.getTime()) / 1_000;
    assert.ok(Math.abs(wait - left) <= 1, `waits for the month's end: ${wait}, ${left}`);
    assert.equal((await at.call()).status, 200, "without a key the relay stays free");

    await at.applications.tick();
    const counted = [{ service_id: "eth", calls: 5, failed_calls: 0, refused_calls: 4 }];
    assert.deepEqual(await usageOf(id, POOR), counted);
    assert.deepEqual(await usageOf(id), counted, "a token that is bound to no account reads all");
    assert.deepEqual(await usageOf(id, RIVAL), []);
    const token = await portal.token("reader", POOR);
    const embedded = await portal.call(
      "/portal_applications?select=portal_application_id,portal_accounts(portal_account_id),portal_application_usage(calls)",
      { token },
    );
    assert.deepEqual(
      embedded.body,
      [
        {
          portal_application_id: id,
          portal_accounts: { portal_account_id: POOR },
          portal_application_usage: [{ calls: 5 }],
        },
      ],
      "usage makes no embedding ambiguous",
    );
    const other = await portal.call("/portal_application_usage?select=*", {
      token: await portal.token("admin", RIVAL),
    });
    assert.deepEqual(other.body, []);
    for (const method of ["POST", "PATCH", "DELETE"]) {
      const where = method === "POST" ? "" : `?portal_application_id=eq.${id}`;
      const sent = await portal.call(`/portal_application_usage${where}`, {
        token: await portal.token("admin", POOR),
        method,
        ...(method === "DELETE" ? {} : { body: { portal_application_id: id, day: "2026-01-01", service_id: "x" } }),
      });
      assert.ok(sent.status === 403 || sent.status === 405, `${method}: ${sent.status}`);
    }
  });

  test("its own limit a second takes the place of the client's, which it does not use up", async () => {
    await using at = await start(gatewayUrl, { perClient: 2 });
    const key = newKey();
    await make(key, RIVAL, { portal_application_user_limit_rps: 4 });
    const answers = [];
    for (let left = 6; left > 0; left--) answers.push(await at.call(key));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200, 200, 429, 429],
    );
    assert.equal(answers[0]?.headers["ratelimit-policy"], '"application";q=4;w=1, "endpoint";q=10000;w=1');
    assert.equal(answers[0]?.headers.ratelimit, '"application";r=3;t=1');
    assert.equal(answers[4]?.headers["retry-after"], "1");
    assert.deepEqual([(await at.call()).status, (await at.call()).status, (await at.call()).status], [200, 200, 429]);
    at.pass(1_001);
    assert.equal((await at.call(key)).status, 200, "the client's limit is not the application's");
    assert.equal((await at.call()).status, 429);
  });

  test("a wrong key is refused and never becomes a keyless call; so are two keys, and one of a deleted application", async () => {
    await using at = await start();
    const key = newKey();
    const id = await make(key);
    const before = node.calls.length;
    for (const wrong of [newKey(), "", "x".repeat(600), hashOf(key), ` ${key}x`]) {
      const answer = await at.call(wrong, "31");
      assert.equal(answer.status, 401, wrong);
      assert.match(answer.text, /^\{"jsonrpc":"2.0","id":31,"error":\{"code":-32401,/);
      assert.match(String(answer.headers["www-authenticate"]), /ApiKey/);
      assert.equal(answer.text.includes(key), false);
    }
    const both = { path: `/relay/key/${key}/eth`, host: "127.0.0.1", headers: { "x-api-key": newKey() } };
    assert.equal((await send(at.rig, rpc("1", "eth_blockNumber"), both)).status, 401);
    assert.equal(node.calls.length, before, "nothing was relayed");
    assert.equal((await at.call(key)).status, 200);
    await portal.call(`/portal_applications?portal_application_id=eq.${id}`, {
      as: "admin",
      method: "PATCH",
      body: { deleted_at: "2026-01-01T00:00:00Z" },
    });
    at.pass(10_001);
    assert.equal((await at.call(key)).status, 401);
    await portal.sql("update portal_applications set deleted_at = null where portal_application_id = $1", [id]);
    at.pass(5_001);
    assert.equal((await at.call(key)).status, 200);
    await portal.sql("update portal_accounts set deleted_at = now() where portal_account_id = $1", [FIXTURE]);
    try {
      at.pass(10_001);
      assert.equal((await at.call(key)).status, 401, "nor does a deleted account have keys");
    } finally {
      await portal.sql("update portal_accounts set deleted_at = null where portal_account_id = $1", [FIXTURE]);
    }
  });

  test("another hash takes effect within the time that a key is believed", async () => {
    await using at = await start();
    const [old, fresh] = [newKey(), newKey()];
    const id = await make(old, RIVAL);
    assert.equal((await at.call(old)).status, 200);
    assert.equal((await at.call(old)).status, 200);
    assert.equal((await at.call(fresh)).status, 401);
    const where = `/portal_applications?portal_application_id=eq.${id}`;
    const changed = await portal.call(where, {
      as: "admin",
      method: "PATCH",
      body: { secret_key_hash: hashOf(fresh) },
    });
    assert.equal(changed.status, 204, changed.text);
    at.pass(5_001);
    // In use, so it is looked at anew in the background.
    await at.applications.tick();
    assert.deepEqual([(await at.call(old)).status, (await at.call(fresh)).status], [401, 200]);
  });

  test("the key goes by header or path, and never upstream, into logs, metrics or errors", async () => {
    const lines: string[] = [];
    const write = (fields: object, text: string): void => void lines.push(JSON.stringify({ ...fields, text }));
    const log = { debug: write, info: write, warn: write, error: write } as Log;
    await using wire = await startWire(gatewayUrl);
    const upstream: string[] = [];
    await using supplier = await startNode({
      respond(res, body) {
        upstream.push(`${res.req.url} ${res.req.rawHeaders.join(" ")} ${body}`);
        res.end('{"jsonrpc":"2.0","id":1,"result":"0x1"}');
      },
    });
    await using at = await start(wire.url, { log, supplier });
    const key = newKey();
    await make(key, RIVAL, { portal_application_user_limit_rps: 3 });
    const body = rpc("1", "eth_blockNumber");
    const seen: string[] = [];
    const keep = async (answer: Promise<RelayAnswer>): Promise<number> => {
      const { status, headers, text } = await answer;
      seen.push(text, JSON.stringify(headers));
      return status;
    };
    const path = (of: string): Promise<number> =>
      keep(send(at.rig, body, { host: "127.0.0.1", path: `/relay/key/${of}/eth` }));
    assert.equal(await keep(at.call(key, "1")), 200);
    assert.equal(await path(key), 200);
    const v1 = { host: "127.0.0.1", path: "/v1", headers: { "Target-Service-Id": "eth", "X-API-KEY": key } };
    assert.equal(await keep(send(at.rig, body, v1)), 200);
    assert.equal(await path(key), 429);
    const wrong = newKey();
    assert.equal(await path(wrong), 401);
    assert.equal(await keep(send(at.rig, body, { host: "127.0.0.1", path: `/relay/key/${key}` })), 404);
    assert.equal(await keep(send(at.rig, body, { host: "127.0.0.1", path: `/relay/eth/k/${key}` })), 404);
    wire.cut();
    const third = newKey();
    assert.equal(await path(third), 503);
    assert.ok(lines.some((line) => line.includes("cannot be looked up")));
    assert.ok(upstream.length > 0);
    const metrics = await at.metrics();
    assert.match(metrics, /turnpike_gateway_keyed_total\{outcome="ok"\} 3/);
    const everything = [...lines, ...seen, ...upstream, metrics].join("\n");
    for (const one of [key, wrong, third]) {
      assert.ok(!everything.includes(one) && !everything.includes(hashOf(one)), "a key, or its hash");
    }
  });

  test("without the database keyless calls are as before, known keys are believed for a while, and usage is kept", async () => {
    await using wire = await startWire(gatewayUrl);
    await using at = await start(wire.url);
    const key = newKey();
    const id = await make(key, RIVAL);
    const usual = await at.call();
    assert.equal((await at.call(key)).status, 200);
    wire.cut();
    const alone = await at.call();
    assert.deepEqual([alone.status, alone.text], [usual.status, usual.text]);
    assert.deepEqual(Object.keys(alone.headers), Object.keys(usual.headers));
    const unknown = await at.call(newKey(), "9");
    assert.equal(unknown.status, 503);
    assert.match(unknown.text, /"id":9.*-32503/);
    assert.equal(unknown.headers["retry-after"], "1");
    at.pass(60_000);
    await at.applications.tick();
    assert.equal((await at.call(key)).status, 200, "it was good a minute ago");
    at.pass(300_001);
    assert.equal((await at.call(key)).status, 503, "but not for ever");
    assert.equal((await at.call()).status, 200);
    wire.fix();
    at.pass(1_001);
    await at.applications.tick();
    assert.equal((await at.call(key)).status, 200);
    await at.applications.tick();
    const rows = await usageOf(id, RIVAL);
    assert.deepEqual(
      rows.reduce((sum, row) => sum + Number(row.calls), 0),
      3,
      "calls of before and after, each once",
    );
  });

  test("two gateways keep one quota, and what the second one writes adds up", async () => {
    await using one = await start();
    await using two = await start();
    const key = newKey();
    const id = await make(key, RIVAL, {
      portal_application_user_limit: 6,
      portal_application_user_limit_interval: "day",
    });
    for (let left = 3; left > 0; left--) {
      assert.equal((await one.call(key)).status, 200);
      assert.equal((await two.call(key)).status, 200);
    }
    for (const at of [one, two]) {
      await at.applications.tick();
      at.pass(5_001);
    }
    for (const at of [one, two]) {
      await at.applications.tick();
      assert.equal((await at.call(key)).status, 429);
    }
    for (const at of [one, two]) await at.applications.tick();
    const [row] = await usageOf(id, RIVAL);
    assert.deepEqual(row, { service_id: "eth", calls: 6, failed_calls: 0, refused_calls: 2 });
  });

  test("usage that is left is written when the gateway stops; failed calls are counted as such", async () => {
    await using broken = await startNode({ respond: (res) => void res.writeHead(500).end("no") });
    const key = newKey();
    const id = await make(key, RIVAL);
    {
      await using at = await start();
      assert.equal((await at.call(key)).status, 200);
      await using failing = await startRelay(
        { eth: rpcAt(broken.url) },
        { modules: { applications: at.applications }, maxAttempts: 1 },
      );
      const answer = await send(failing, rpc("1", "eth_blockNumber"), { headers: { "x-api-key": key } });
      assert.equal(answer.status, 502, answer.text);
    }
    assert.deepEqual(await usageOf(id, RIVAL), [{ service_id: "eth", calls: 2, failed_calls: 1, refused_calls: 0 }]);
  });

  test("guesses are not looked up without end, and keep nobody's key from working", async () => {
    await using at = await start();
    const key = newKey();
    await make(key, RIVAL);
    assert.equal((await at.call(key)).status, 200);
    const guesses = Array.from({ length: 100 }, async () => (await at.call(newKey())).status);
    const statuses = await Promise.all(guesses);
    assert.deepEqual(new Set(statuses), new Set([401, 429]));
    assert.equal(statuses.filter((status) => status === 401).length, 60, "at once, or one by one");
    assert.equal((await at.call(newKey())).status, 429);
    assert.equal((await at.call(key)).status, 200);
    assert.equal((await at.call()).status, 200);
  });
});
