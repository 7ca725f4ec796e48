import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { Agent, createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, suite, test } from "node:test";
import { newPrivateKey, signerFromKey } from "@turnpike/client";
import { loadConfig } from "@turnpike/config";
import { fundGas, MULTICALL3_ADDRESS, USDC_ADDRESS } from "@turnpike/localnet";
import { openTestAnvil, openTestPostgres, type TestAnvil, type TestPostgres } from "@turnpike/testkit/servers";
import { COMMAND_FILE } from "../../../test/run-command.ts";
import { migrateLedger } from "../../wiring/ledger.ts";

const TOKEN = "d1e8a2c4b6f09753d1e8a2c4b6f09753";
const folder = mkdtempSync(join(tmpdir(), "turnpike-reload-"));
const file = join(folder, "turnpike.yaml");

/** For services: nothing here may run out of time. */
const PATIENT = { timeoutMs: 120_000 };
const GATEWAY = { port: 0, metrics: { port: 0 }, requestTimeoutMs: 120_000, upstreamTimeoutMs: 120_000 };

type Fields = Readonly<Record<string, unknown>>;

/** A child process, by the lines of its log. */
class Running {
  readonly child: ChildProcess;
  readonly lines: Fields[] = [];
  readonly #wakes = new Set<() => void>();

  constructor(args: readonly string[]) {
    this.child = spawn(process.execPath, [COMMAND_FILE, ...args], { env: {}, stdio: ["ignore", "pipe", "pipe"] });
    const { stderr } = this.child;
    assert.ok(stderr !== null);
    createInterface({ input: stderr }).on("line", (line) => {
      this.lines.push(line.startsWith("{") ? (JSON.parse(line) as Fields) : { msg: line });
      for (const wake of this.#wakes) wake();
    });
    this.child.on("exit", () => {
      for (const wake of this.#wakes) wake();
    });
  }

  /** The first line from `since` on with this message, and with what else is asked of it. */
  async line(message: string, since: number, isMeant = (_line: Fields): boolean => true): Promise<Fields> {
    for (;;) {
      const found = this.lines.slice(since).find((line) => line.msg === message && isMeant(line));
      if (found !== undefined) return found;
      assert.equal(this.child.exitCode, null, JSON.stringify(this.lines.slice(-5)));
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#wakes.delete(wake);
          resolve();
        };
        this.#wakes.add(wake);
      });
    }
  }
}

interface Reply {
  readonly status: number;
  readonly text: string;
}

function rpc(port: number, path: string, method: string, agent?: Agent): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const sent = request({ port, path, method: "POST", agent: agent ?? false }, (res) => {
    let text = "";
    res.on("data", (part) => {
      text += String(part);
    });
    res.on("error", reject);
    res.on("end", () => resolve({ status: res.statusCode ?? 0, text }));
  });
  sent.on("error", reject);
  sent.end(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: [] }));
  return promise;
}

suite("turnpike gateway, reloaded while it serves", { timeout: 180_000 }, () => {
  const relayerKey = newPrivateKey();
  let anvil: TestAnvil;
  let postgres: TestPostgres;
  let running: Running;
  let port = 0;
  let admin = "";
  const opened = new AsyncDisposableStack();
  const held = Promise.withResolvers<void>();
  const free = Promise.withResolvers<void>();
  /** A stand-in for a node of Base that answers `eth_gasPrice` only when it is told to. */
  const slowNode: Server = createServer((req, res) => {
    let text = "";
    req.on("data", (part) => {
      text += String(part);
    });
    req.on("end", () => {
      const { id, method } = JSON.parse(text) as { id: unknown; method: string };
      const result = method === "eth_chainId" ? "0x2105" : "0x1b4";
      const answer = (): void => void res.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
      if (method !== "eth_gasPrice") return answer();
      held.resolve();
      void free.promise.then(answer);
    });
  });

  /** A stand-in for an OpenTelemetry collector; it keeps the newest texts. */
  const spans: string[] = [];
  const collector: Server = createServer((req, res) => {
    let text = "";
    req.on("data", (part) => {
      text += String(part);
    });
    req.on("end", () => {
      spans.push(text);
      if (spans.length > 50) spans.shift();
      res.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
  });

  const configWith = (change: Fields): Fields => ({
    localnet: true,
    tracing: { endpoint: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`, sample: 1 },
    gateway: GATEWAY,
    admin: { port: 0, token: TOKEN },
    log: { access: { sample: 0 } },
    limits: { perClient: { requests: 1_000_000 } },
    ledger: { url: postgres.url, schema: "reload" },
    payment: {
      networks: [
        {
          network: "eip155:84532",
          rpcUrls: [anvil.url],
          asset: USDC_ADDRESS,
          name: "USDC",
          payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
          multicall3: MULTICALL3_ADDRESS,
          blockTimeSeconds: 1,
        },
      ],
      relayer: { keys: [relayerKey], batchWindowMs: 10 },
      rpcTimeoutMs: 60_000,
    },
    suppliers: suppliers("a"),
    catalogue: { overrides: { eth: { evmChainId: 84532 } } },
    ...change,
  });
  const slowUrl = (): string => `http://127.0.0.1:${(slowNode.address() as AddressInfo).port}`;
  const suppliers = (...operators: readonly string[]): Fields => ({
    eth: { endpoints: operators.map((operator) => ({ operator, urls: { json_rpc: anvil.url } })), ...PATIENT },
    base: { endpoints: [{ operator: "slow", urls: { json_rpc: slowUrl() } }], ...PATIENT },
  });
  /** Puts a configuration in place in one step, as a careful editor does. */
  const write = (config: Fields | string): void => {
    const next = join(folder, "next");
    writeFileSync(next, typeof config === "string" ? config : JSON.stringify(config));
    renameSync(next, file);
  };
  const reload = (config: Fields | string): Promise<Fields> => {
    const since = running.lines.length;
    write(config);
    running.child.kill("SIGHUP");
    return running.line("the configuration is in effect", since);
  };
  /** By its faults: the file is watched too, so the refusal of the file before may be told once more meanwhile. */
  const refusal = async (config: Fields | string, faults: RegExp): Promise<void> => {
    const since = running.lines.length;
    write(config);
    running.child.kill("SIGHUP");
    const message = "the configuration was refused; the old one stays in effect";
    await running.line(message, since, (line) => faults.test(String(line.faults)));
  };
  const ask = async (verb: string, path: string): Promise<{ status: number; value: Fields }> => {
    const answer = await fetch(admin + path, { method: verb, headers: { authorization: `Bearer ${TOKEN}` } });
    return { status: answer.status, value: (await answer.json()) as Fields };
  };

  before(async () => {
    slowNode.listen(0, "127.0.0.1");
    collector.listen(0, "127.0.0.1");
    await Promise.all([once(slowNode, "listening"), once(collector, "listening")]);
    for (const server of [slowNode, collector]) {
      opened.defer(() => {
        server.closeAllConnections();
        server.close();
      });
    }
    anvil = opened.use(await openTestAnvil());
    postgres = opened.use(await openTestPostgres());
    await fundGas(anvil.url, signerFromKey(relayerKey).address, 10n ** 18n);
    write(configWith({}));
    await migrateLedger(loadConfig({ file, env: {} }), "gateway");
    running = new Running(["gateway", "--json", "--config", file]);
    const { child } = running;
    opened.defer(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGTERM");
      await once(child, "exit");
    });
    const { stdout } = child;
    assert.ok(stdout !== null);
    const died = once(running.child, "exit").then(() => assert.fail(JSON.stringify(running.lines)));
    const [text] = (await Promise.race([once(stdout, "data"), died])) as [Buffer];
    died.catch(() => {});
    const ready = JSON.parse(text.toString()) as { readonly gateway: string; readonly admin: string };
    port = Number(new URL(ready.gateway).port);
    admin = ready.admin;
  });

  after(async () => {
    await opened.disposeAsync();
    rmSync(folder, { recursive: true, force: true });
  });

  test("20 reloads under constant load: no request fails, and one that is in flight survives them all", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 8 });
    const slow = rpc(port, "/relay/base", "eth_gasPrice");
    await held.promise;
    let isOver = false;
    let good = 0;
    let onAnswer = (): void => {};
    const bad: string[] = [];
    const clients = Array.from({ length: 8 }, async (_, at) => {
      const [path, wanted] = at % 4 === 0 ? (["/v1/eth", 402] as const) : (["/relay/eth", 200] as const);
      while (!isOver) {
        const { status, text } = await rpc(port, path, "eth_blockNumber", agent);
        if (status === wanted && (status === 402 || text.includes('"result"'))) good++;
        else bad.push(`${path} ${status} ${text}`);
        onAnswer();
      }
    });
    const sets = [["a"], ["a", "b"], ["b"], ["b", "c"]];
    for (let round = 1; round <= 20; round++) {
      const change = { suppliers: suppliers(...(sets[round % sets.length] ?? [])), log: { access: { sample: 0 } } };
      const { changed } = await reload(configWith({ ...change, relay: { maxInFlight: 2_000 + round } }));
      assert.ok((changed as string[]).includes("relay.maxInFlight"));
      const answered = good + bad.length;
      await new Promise<void>((resolve) => {
        // More than there are clients: some were sent after this reload, and all of them before the next one ends.
        onAnswer = () => good + bad.length >= answered + 16 && resolve();
      });
    }
    isOver = true;
    await Promise.all(clients);
    agent.destroy();
    assert.deepEqual(bad, []);
    free.resolve();
    const { status, text } = await slow;
    assert.deepEqual([status, text], [200, '{"jsonrpc":"2.0","id":1,"result":"0x1b4"}']);
  });

  test("a bad file is refused with path and fix, and the old one stays in effect", async () => {
    await reload(configWith({}));
    await refusal(
      configWith({ gateway: { ...GATEWAY, maxBatchItem: 5 } }),
      /^gateway\.maxBatchItem: unknown key; did you mean "maxBatchItems"\?$/,
    );
    await refusal("gateway: [", /not YAML/);
    await refusal(
      configWith({ redis: { url: "redis://u:hunter2@127.0.0.1:1" } }),
      /^redis\.url: a running gateway cannot change it/,
    );
    const endpoints = [{ operator: "a", urls: { json_rpc: anvil.url } }];
    await refusal(
      configWith({ suppliers: { "no-such": { endpoints } } }),
      /^suppliers\.no-such: the catalogue has no such service/,
    );
    assert.equal((await ask("POST", "/reload")).status, 409);
    assert.equal((await rpc(port, "/relay/eth", "eth_blockNumber")).status, 200);
    assert.doesNotMatch(JSON.stringify(running.lines), /hunter2/);
  });

  test("services, limits and the log's level change; the admin API shows what is in effect, without secrets", async () => {
    const { eth } = suppliers("a");
    await reload(
      configWith({
        suppliers: { eth },
        log: { level: "debug" },
        limits: { perClient: { requests: 3, windowSeconds: 3_600 } },
      }),
    );
    assert.equal((await rpc(port, "/relay/base", "eth_blockNumber")).status, 503);
    const statuses = [];
    for (let call = 0; call < 4; call++) statuses.push((await rpc(port, "/relay/eth", "eth_blockNumber")).status);
    assert.deepEqual(statuses, [200, 200, 429, 429]);
    assert.ok(running.lines.every(({ level }) => typeof level === "string"));
    const { value } = await ask("GET", "/config");
    assert.deepEqual((value.limits as Record<string, Fields>).perClient?.requests, 3);
    assert.doesNotMatch(JSON.stringify(value), new RegExp(`${TOKEN}|${relayerKey}`));
    await reload(configWith({}));
  });

  test("a drained supplier stays so over a reload, and calls go on without it", async () => {
    await reload(configWith({ suppliers: suppliers("a", "b") }));
    const standing = async (): Promise<unknown> => {
      const { value } = await ask("GET", "/services/eth");
      const list = value.suppliers as { operator: string; isDrained: boolean; isHealthy: boolean }[];
      return Object.fromEntries(list.map(({ operator, isDrained, isHealthy }) => [operator, [isDrained, isHealthy]]));
    };
    assert.equal((await ask("POST", "/services/eth/suppliers/a/drain")).status, 200);
    assert.deepEqual(await standing(), { a: [true, true], b: [false, true] });
    await reload(configWith({ suppliers: suppliers("a", "b", "c") }));
    assert.deepEqual(await standing(), { a: [true, true], b: [false, true], c: [false, true] });
    assert.equal((await rpc(port, "/relay/eth", "eth_blockNumber")).status, 200);
    assert.equal((await ask("POST", "/services/eth/suppliers/a/undrain")).status, 200);
    assert.deepEqual(await standing(), { a: [false, true], b: [false, true], c: [false, true] });
    assert.equal((await ask("POST", "/services/eth/suppliers/z/drain")).status, 404);
    await reload(configWith({}));
  });

  test("the file is watched, unless it says otherwise", async () => {
    // A signal of the last test may still be on its way: its reload must not be the one that reads the next file.
    for (let times = 0; times < 2; times++) assert.deepEqual((await ask("POST", "/reload")).value.changed, []);
    let since = running.lines.length;
    write(configWith({ log: { access: { sample: 1 } } }));
    const seen = await running.line("the configuration is in effect", since);
    assert.deepEqual([seen.cause, seen.changed], ["file", ["log.access.sample"]]);
    since = running.lines.length;
    assert.equal((await rpc(port, "/relay/eth", "eth_blockNumber")).status, 200);
    const line = await running.line("request", since);
    assert.deepEqual([line.door, line.service, line.operation, line.status], ["free", "eth", "eth_blockNumber", 200]);
    assert.equal(line.client, "127.0.0.0/24");
  });

  test("SIGTERM ends it in good order after all that, and the last spans reach the collector", async () => {
    assert.equal((await rpc(port, "/relay/eth?token=hunter2", "eth_chainId")).status, 200);
    running.child.kill("SIGTERM");
    const [code] = (await once(running.child, "exit")) as [number];
    assert.equal(code, 0);
    const faults = running.lines.filter((line) => line.level === "error" && line.faults === undefined);
    assert.deepEqual(faults, []);
    type Body = {
      resourceSpans: { scopeSpans: { spans: { name: string; spanId: string; parentSpanId?: string }[] }[] }[];
    };
    const bodies = spans.map((text) => JSON.parse(text) as Body);
    const told = bodies.flatMap((body) =>
      body.resourceSpans.flatMap((one) => one.scopeSpans.flatMap((inner) => inner.spans)),
    );
    const attempts = told.filter(({ name }) => name === "relay.attempt");
    const requests = new Set(told.filter(({ name }) => name === "HTTP POST").map(({ spanId }) => spanId));
    assert.ok(attempts.some(({ parentSpanId = "" }) => requests.has(parentSpanId)));
    assert.match(spans.join(), /"turnpike\.operation","value":\{"stringValue":"eth_chainId"/);
    assert.doesNotMatch(spans.join(), /hunter2|127\.0\.0\.1|\/relay\//);
  });
});
