import assert from "node:assert/strict";
import { Agent } from "node:http";
import { after, before, suite, test } from "node:test";
import { eventually, isProbe, probeResult, rpcAnswer, startUpstream, type Upstream } from "@turnpike/testkit";
import { startRedis, withoutRedis } from "@turnpike/testkit/servers";
import { type Ground, startGround } from "../support/network.ts";
import { signPayment, termsOf } from "../support/payer.ts";
import { CHAIN_ID_HEX, PRICE } from "./support.ts";
import { sampleOf, send, startTree, tryTree } from "./workers-rig.ts";

const TOKEN = "a-token-of-this-test-only-0123456789";

/** Calls that one client has. */
const LIMIT = 400;

const agent = new Agent({ keepAlive: true, maxSockets: 40 });

/** The address of a client that has not asked yet. */
let nextClient = 0;
const anotherClient = (): string => {
  nextClient++;
  return `198.18.${nextClient >> 8}.${nextClient & 255}`;
};

suite("a gateway of several processes", { concurrency: false }, () => {
  let ground: Ground;
  /** The tree of the tests below that leave one as they find it, made for the first of them; the last of them ends it. */
  let shared: ReturnType<typeof treeOf> | undefined;
  let upstream: Upstream;
  /** Resolved: the supplier answers; else it keeps its callers waiting. */
  let gate = Promise.resolve();

  before(async () => {
    ground = await startGround();
    upstream = await startUpstream((call, response) => {
      if (isProbe(call)) response.end(rpcAnswer(call, probeResult(call, CHAIN_ID_HEX, "0x64")));
      else void gate.then(() => response.end(rpcAnswer(call, '"result":"0x5"')));
    });
  });
  after(async () => {
    // Those that asked for it have failed if it could not be made.
    const made = await shared?.catch(() => undefined);
    await made?.tree[Symbol.asyncDispose]();
    await upstream?.[Symbol.asyncDispose]();
    await ground?.[Symbol.asyncDispose]();
  });

  const treeOf = async (change: Readonly<Record<string, unknown>> = {}) => {
    const made = ground.config({
      gateway: {
        port: 0,
        metrics: { port: 0 },
        workers: 2,
        trustedProxies: ["127.0.0.1"],
        shutdownTimeoutMs: 60_000,
        // A test that writes the file reloads it itself, and looks at what that one reload says.
        watchConfig: false,
      },
      admin: { port: 0, token: TOKEN },
      log: { level: "info", access: { sample: 1 } },
      // Longer than a test takes on a busy machine: nothing leaves the window meanwhile.
      limits: { perClient: { requests: LIMIT, windowSeconds: 3_600 } },
      suppliers: { eth: { endpoints: [{ operator: "one", urls: { json_rpc: upstream.url } }] } },
      ...change,
    });
    await made.prepare();
    return { tree: await startTree(made.overrides), config: made.overrides, made };
  };
  const sharedTree = async (): ReturnType<typeof treeOf> => {
    shared ??= treeOf();
    const { tree } = await shared;
    await eventually("both workers listen", async () => tree.workers().length === 2);
    return await shared;
  };
  const admin = async (url: string, method: string, path: string, body = "") => {
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    const answer = await send(`${url}${path}`, { method, headers, body });
    return { status: answer.status, value: JSON.parse(answer.text) as Readonly<Record<string, unknown>> };
  };

  test("both workers answer; one client has one count; metrics are one; a killed worker costs its calls in flight only; SIGTERM drains", async () => {
    const { tree } = await treeOf();
    await using _tree = tree;
    const answers = await Promise.all(Array.from({ length: LIMIT + 100 }, () => tree.ask("192.0.2.1", agent)));
    const count = (status: number): number => answers.filter((one) => one.status === status).length;
    assert.deepEqual([count(200), count(429)], [LIMIT, 100]);
    const answered = new Set(tree.lines.filter(({ msg }) => msg.includes("request")).map(({ worker }) => worker));
    assert.deepEqual([answered.has(1), answered.has(2)], [true, true], "both answered");

    const before = await tree.metrics();
    const requests = 'turnpike_gateway_requests_total{door="free"';
    assert.equal(sampleOf(before, requests), LIMIT + 100);
    assert.equal(sampleOf(before, "turnpike_workers_up"), 2);

    const [victim] = tree.workers();
    assert.ok(victim !== undefined);
    let inFlight = 0;
    let lost = 0;
    let worst = 0;
    let isOver = false;
    let answeredCalls = 0;
    const client = async (): Promise<void> => {
      const own = new Agent({ keepAlive: true, maxSockets: 1 });
      while (!isOver) {
        inFlight++;
        worst = Math.max(worst, inFlight);
        // A reader that finds its connection gone opens another, as HTTP clients do.
        const { status } = await tree.ask(anotherClient(), own);
        inFlight--;
        if (status === 0) lost++;
        else assert.equal(status, 200);
        answeredCalls++;
      }
      own.destroy();
    };
    const clients = Array.from({ length: 4 }, client);
    await eventually("all clients are at it", () => answeredCalls >= 20);
    process.kill(victim, "SIGKILL");
    await eventually(
      "another worker listens",
      async () => tree.workers().length === 2 && !tree.workers().includes(victim),
    );
    isOver = true;
    await Promise.all(clients);
    assert.ok(lost <= worst, `${lost} lost with ${worst} in flight`);
    await eventually(
      "it is counted",
      async () => sampleOf(await tree.metrics(), "turnpike_worker_restarts_total") === 1,
    );
    const afterwards = await tree.metrics();
    assert.ok(sampleOf(afterwards, requests) >= LIMIT + 100, "counters do not go back");
    assert.equal((await tree.ask("192.0.2.1")).status, 429, "the count outlives a worker");

    const { promise, resolve: open } = Promise.withResolvers<void>();
    gate = promise;
    using _gate = { [Symbol.dispose]: open };
    const held = upstream.paid().length;
    const waiting = Array.from({ length: 20 }, (_, at) => tree.ask(`203.0.113.${at}`));
    await eventually("all calls are at the supplier", async () => upstream.paid().length === held + 20);
    tree.signal("SIGTERM");
    await eventually("the workers drain", async () => tree.lines.filter(({ msg }) => msg === "stopping").length === 3);
    open();
    gate = Promise.resolve();
    assert.deepEqual([...new Set((await Promise.all(waiting)).map(({ status }) => status))], [200]);
    assert.equal(await tree.exited, 0);
    assert.deepEqual(tree.noise, [], "lines of several processes stay whole");
  });

  test("each worker sells with a relayer key of its own, from one ledger: a payment that comes twice is taken once", async () => {
    const { tree, made } = await sharedTree();
    const holders = () => tree.lines.filter(({ msg }) => msg === "holds a relayer key").map(({ worker }) => worker);
    await eventually("both hold a key", async () => new Set(holders()).size === 2);
    const route = `${tree.url}/v1/eth`;
    const payer = await ground.fundedPayer(100n * PRICE);
    const terms = await termsOf(route);
    const headers = await Promise.all(Array.from({ length: 8 }, () => signPayment(payer, terms)));
    const body = { jsonrpc: "2.0", id: 1, method: "eth_gasPrice", params: [] };
    const pay = async (header: string): Promise<string> => {
      const agentOfOne = new Agent();
      const sent = { "content-type": "application/json", "payment-signature": header };
      const answer = await send(route, { agent: agentOfOne, body: JSON.stringify(body), headers: sent });
      assert.equal(answer.status, 200, answer.text);
      return answer.text;
    };
    const first = await Promise.all(headers.map(pay));
    const again = await Promise.all(headers.flatMap((header) => [pay(header), pay(header), pay(header)]));
    assert.deepEqual(new Set(again), new Set(first));
    assert.equal(await ground.balance(made.payTo), 8n * PRICE);
  });

  test("what an operator changes reaches all workers, and so does another configuration, or none", async () => {
    const { tree, config } = await sharedTree();
    const { adminUrl } = tree;
    assert.equal((await admin(adminUrl, "POST", "/services/eth/suppliers/one/drain")).status, 200);
    assert.equal((await admin(adminUrl, "PUT", "/flags/hedging", '{"on":false}')).status, 200);
    // Each of these goes to whichever worker takes the connection.
    const views = async () =>
      await Promise.all(Array.from({ length: 20 }, () => admin(adminUrl, "GET", "/services/eth")));
    const areDrained = async (): Promise<boolean> =>
      (await views()).every(({ value }) => JSON.stringify(value).includes('"isDrained":true'));
    await eventually("all workers know of the drain", areDrained);
    const flags = await Promise.all(Array.from({ length: 20 }, () => admin(adminUrl, "GET", "/flags")));
    for (const { value } of flags) assert.equal((value.flags as { hedging: boolean }).hedging, false);
    const [victim] = tree.workers();
    assert.ok(victim !== undefined);
    process.kill(victim, "SIGKILL");
    await eventually(
      "another worker listens",
      async () => tree.workers().length === 2 && !tree.workers().includes(victim),
    );
    await eventually("a worker that starts later learns it", areDrained);
    assert.equal((await admin(adminUrl, "POST", "/services/eth/suppliers/one/undrain")).status, 200);

    const gateway = config.gateway as Readonly<Record<string, unknown>>;
    const limits = { perClient: { requests: 3, windowSeconds: 3_600 } };
    tree.write({ ...config, limits, gateway: { ...gateway, port: 1 } });
    const refused = await admin(adminUrl, "POST", "/reload");
    assert.equal(refused.status, 409);
    assert.match(JSON.stringify(refused.value), /gateway\.port: a running gateway cannot change it/);
    tree.write({ ...config, limits });
    const taken = await admin(adminUrl, "POST", "/reload");
    assert.deepEqual([taken.status, taken.value], [200, { changed: ["limits.perClient.requests"] }]);
    const statuses = await Promise.all(Array.from({ length: 20 }, () => tree.ask("192.0.2.9")));
    assert.equal(statuses.filter(({ status }) => status === 200).length, 3);
    assert.equal(statuses.filter(({ status }) => status === 429).length, 17);
    const total = sampleOf(await tree.metrics(), 'turnpike_config_reloads_total{outcome="reloaded"}');
    assert.equal(total, 1, "a reload of all is one");
  });

  test("what keeps workers from starting is said once; a port in use is refused; nothing is left of a primary that is killed", async () => {
    const { tree, config } = await sharedTree();
    const gateway = config.gateway as Readonly<Record<string, unknown>>;
    const taken = Number(new URL(tree.url).port);
    const [second, third, fourth] = await Promise.all([
      tryTree({ ...config, gateway: { ...gateway, port: taken } }),
      tryTree({ ...config, gateway: { ...gateway, workers: 3 } }),
      tryTree({ ...config, ledger: { url: "postgres://127.0.0.1:1/x" } }),
    ]);
    assert.ok("said" in second);
    assert.match(second.said, /PORT_IN_USE.*is in use/);
    assert.equal(second.noise.length, 0);
    assert.ok("said" in third);
    assert.match(third.said, /gateway\.workers: 3 workers need a relayer key each, and there are 2/);
    assert.ok("said" in fourth);
    assert.match(fourth.said, /LEDGER_UNAVAILABLE/);

    const workers = tree.workers();
    assert.equal(workers.length, 2);
    const { promise, resolve: open } = Promise.withResolvers<void>();
    gate = promise;
    using _gate = { [Symbol.dispose]: open };
    const held = upstream.paid().length;
    const waiting = Array.from({ length: 10 }, (_, at) => tree.ask(`203.0.113.${at}`));
    await eventually("all calls are at the supplier", async () => upstream.paid().length === held + 10);
    tree.signal("SIGKILL");
    await eventually("the workers drain", async () => tree.lines.filter(({ msg }) => msg === "stopping").length === 2);
    open();
    gate = Promise.resolve();
    assert.deepEqual([...new Set((await Promise.all(waiting)).map(({ status }) => status))], [200]);
    await eventually("the workers are gone", async () => tree.workers().length === 0);
  });

  test("gateways with one Redis and one ledger: what one learns of a supplier the other knows, and a filter is found from both", {
    skip: withoutRedis(),
  }, async () => {
    await using redis = await startRedis();
    let isBad = false;
    const seen: string[] = [];
    const supplier = async (name: string, fails: () => boolean) =>
      await startUpstream((call, response) => {
        if (isProbe(call)) response.end(rpcAnswer(call, probeResult(call, CHAIN_ID_HEX, "0x64")));
        else if (fails()) response.writeHead(500).end("no");
        else {
          seen.push(`${name} ${call.method}`);
          response.end(rpcAnswer(call, call.method === "eth_getFilterChanges" ? '"result":[]' : '"result":"0x7"'));
        }
      });
    // It answers probes well, so that only calls tell.
    await using bad = await supplier("bad", () => isBad);
    await using good = await supplier("good", () => false);
    const { config, tree: one } = await treeOf({
      gateway: { port: 0, metrics: { port: 0 }, shutdownTimeoutMs: 60_000, trustedProxies: ["127.0.0.1"] },
      // Long, so that a machine under load does not make it fall back.
      redis: { url: redis.url, timeoutMs: 10_000 },
      suppliers: {
        eth: {
          endpoints: [
            { operator: "bad", urls: { json_rpc: bad.url } },
            { operator: "good", urls: { json_rpc: good.url } },
          ],
        },
      },
    });
    await using _one = one;
    await using two = await startTree(config);
    const stateOf = async (url: string): Promise<string> => {
      const { value } = await admin(url, "GET", "/services/eth");
      const { suppliers } = value as { suppliers: readonly { operator: string; breaker: string }[] };
      return suppliers.find(({ operator }) => operator === "bad")?.breaker ?? "";
    };
    await eventually("both hear through Redis", async () =>
      [one, two].every(({ lines }) => lines.some(({ msg }) => msg.startsWith("connected to Redis"))),
    );
    assert.equal(await stateOf(two.adminUrl), "closed");
    isBad = true;
    for (let at = 0; at < 40; at++) assert.equal((await one.ask(anotherClient())).status, 200);
    /** While calls go on: without them, good probes close a breaker again after a while. */
    const knows = async (url: string): Promise<boolean> => {
      assert.equal((await one.ask(anotherClient())).status, 200);
      return (await stateOf(url)) !== "closed";
    };
    await eventually("the one that was asked knows", () => knows(one.adminUrl));
    await eventually("the other one knows too", () => knows(two.adminUrl));
    isBad = false;
    const lastOf = (method: string) => seen.findLast((one) => one.endsWith(` ${method}`))?.split(" ", 1)[0];
    for (let at = 0; at < 4; at++) {
      const made = JSON.parse((await one.call("eth_newFilter", {})).text) as { result: string };
      const maker = lastOf("eth_newFilter");
      const { text } = await two.call("eth_getFilterChanges", made.result);
      assert.equal(text, '{"jsonrpc":"2.0","id":1,"result":[]}');
      assert.equal(lastOf("eth_getFilterChanges"), maker);
    }
    // One client, one count, over both.
    const both = await Promise.all(
      Array.from({ length: LIMIT + 20 }, (_, at) => (at % 2 ? one : two).ask("192.0.2.2", agent)),
    );
    const passed = both.filter(({ status }) => status === 200).length;
    assert.equal(
      passed,
      LIMIT,
      JSON.stringify(
        [one, two].map(({ lines }) => lines.filter(({ level, msg }) => level === "warn" || msg.includes("shared"))),
      ),
    );
    agent.destroy();
  });
});
