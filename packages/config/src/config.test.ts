import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { isAppError, isRecord } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { Ajv2020 } from "ajv/dist/2020.js";
import { RESTART_KEYS } from "./changes.ts";
import * as api from "./index.ts";
import {
  CONFIG_SCHEMA,
  type Config,
  configChanges,
  configSchemaJson,
  DANGEROUS,
  loadConfig,
  readKeyFile,
  readSellerKey,
  relayerKeys,
} from "./index.ts";

const folder = mkdtempSync(join(tmpdir(), "turnpike-config-"));
after(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function yaml(text: string): string {
  const file = join(folder, `${files++}.yaml`);
  writeFileSync(file, text, { mode: 0o600 });
  return file;
}

function faults(load: () => unknown): string {
  try {
    load();
  } catch (error) {
    if (isAppError(error, "CONFIG_INVALID")) return error.message;
    throw error;
  }
  return assert.fail("the configuration was accepted");
}

const refused = (text: string, env = {}): string => faults(() => loadConfig({ file: yaml(text), env }));

const NETWORK = {
  network: "eip155:84532",
  rpcUrls: ["http://127.0.0.1:8545"],
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  name: "USDC",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
};

/** A configuration with something at every place that has a place. */
const full = () => ({
  localnet: false,
  log: { level: "warn" },
  gateway: { port: 1, metrics: { port: 2 }, trustedProxies: ["10.0.0.0/8"] },
  ledger: { url: "postgres://u:p@h/d" },
  payment: { networks: [{ ...NETWORK }], relayer: { batchWindowMs: 5 } },
  facilitator: { port: 3, relayer: { keysFile: "/nowhere" } },
  suppliers: { eth: { endpoints: [{ operator: "a", urls: { json_rpc: "http://a" } }] } },
  limits: { perClient: { requests: 5 }, perEndpoint: { onStoreFailure: "open" } },
  redis: { url: "redis://h" },
  catalogue: {
    overrides: { eth: { evmChainId: 84532 } },
    services: {
      "my-api": {
        name: "Mine",
        description: "My own",
        category: "web",
        families: ["http"],
        operations: [{ name: "GET /x", rpcType: "rest" }],
      },
    },
  },
});

suite("config", () => {
  test("has for services without suppliers the rules of a service that sets none", () => {
    const endpoints = [{ operator: "one", urls: { json_rpc: "http://127.0.0.1:1" } }];
    const { suppliers } = loadConfig({ env: {}, overrides: { suppliers: { eth: { endpoints } } } });
    assert.deepEqual({ ...api.SUPPLIER_DEFAULTS, endpoints }, suppliers.eth);
  });

  test("has a default for everything, and is frozen all the way down", () => {
    const config = loadConfig({ env: {} });
    assert.equal(config.gateway.port, 3069);
    assert.equal(config.gateway.metrics.port, 9090);
    assert.equal(config.facilitator.port, 8402);
    assert.equal(config.localnet, false);
    const check = (value: unknown): void => {
      if (typeof value !== "object" || value === null) return;
      assert.ok(Object.isFrozen(value));
      Object.values(value).forEach(check);
    };
    check(config);
  });

  test("names path, expectation and value of each fault in one error", () => {
    const message = refused(
      "gateway:\n  port: abc\n  metrics: { prt: 1 }\nledger: { poolSize: 0 }\nlog: { level: loud }",
    );
    assert.match(message, /gateway\.port: expected integer 0\.\.65535, got "abc"/);
    assert.match(message, /gateway\.metrics\.prt: unknown key; did you mean "port"\?/);
    assert.match(message, /ledger\.poolSize: expected integer 2\.\.200, got 0/);
    assert.match(message, /log\.level: expected one of debug, info, warn, error, silent, got "loud"/);
  });

  test("names a missing key of a list's entry", () => {
    const message = refused("payment: { networks: [{ network: 'eip155:1' }] }");
    assert.match(message, /payment\.networks\[0\]\.payTo: missing; expected an address/);
  });

  test("does not show a password that stands in a wrong value", () => {
    assert.doesNotMatch(refused("ledger: { url: 'mysql://user:hunter2@host/db' }"), /hunter2/);
    assert.doesNotMatch(refused("localnet: true\npayment: { relayer: { keys: ['0xsecret'] } }"), /0xsecret/);
    assert.doesNotMatch(refused("ledger: { url: 'user:hunter2@host/db' }"), /hunter2/);
    assert.doesNotMatch(refused("redis: { url: 'user:hunter2@host' }"), /hunter2/);
    const supplier = (endpoint: string): string =>
      refused(`suppliers: { eth: { endpoints: [{ operator: a, ${endpoint} }] } }`);
    assert.doesNotMatch(supplier("urls: { json_rpc: 'node.example/v2/hunter2' }"), /hunter2/);
    // Without quotes it is a number.
    const number = supplier("urls: { json_rpc: 'http://a' }, headers: { x-api-key: 4815162342 }");
    assert.match(
      number,
      /endpoints\[0\]\.headers\.x-api-key: expected text .*\(quote it in YAML\), got something else/,
    );
    assert.doesNotMatch(number, /4815162342/);
  });

  test("the limits are those of the specification, and Redis is taken from its usual variable", () => {
    const { limits, redis } = loadConfig({ env: { REDIS_URL: "rediss://u:p@h:1/2" } });
    assert.deepEqual(limits.perClient, { requests: 2_000, windowSeconds: 60, onStoreFailure: "local" });
    assert.deepEqual(limits.perEndpoint, { requests: 10_000, windowSeconds: 1, onStoreFailure: "local" });
    assert.equal(redis.url, "rediss://u:p@h:1/2");
    assert.match(
      refused("redis: { url: 'http://u:hunter2@h' }"),
      /redis\.url: expected a redis:\/\/ or rediss:\/\/ URL/,
    );
    assert.doesNotMatch(refused("redis: { url: 'http://u:hunter2@h' }"), /hunter2/);
  });

  test("names a trusted proxy that is neither an address nor a block", () => {
    const good = ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32", "::1", "::ffff:10.0.0.0/104"];
    assert.deepEqual(
      loadConfig({ overrides: { gateway: { trustedProxies: good } }, env: {} }).gateway.trustedProxies,
      good,
    );
    for (const text of ["proxy", "10.0.0.0/33", "10.0.0.0/", "::/129", "1.2.3.4/8/8", "fe80::1%eth0", "10.0.0/8"]) {
      const message = refused(JSON.stringify({ gateway: { trustedProxies: ["::1", text] } }));
      assert.match(message, /gateway\.trustedProxies\[1\]: .* is no address/, text);
    }
  });

  test("refuses text that is not YAML, that repeats a key, or that is no map", () => {
    assert.match(refused("a: [1"), /it is not YAML/);
    assert.match(refused("log: {}\nlog: {}"), /it is not YAML/);
    assert.match(refused("- 1"), /expected sections/);
    assert.match(
      faults(() => loadConfig({ file: join(folder, "none.yaml"), env: {} })),
      /cannot be read/,
    );
  });

  test("takes an empty section for its defaults", () => {
    assert.equal(loadConfig({ file: yaml("gateway:\n  metrics:\nlog:\n"), env: {} }).gateway.metrics.port, 9090);
  });

  test("takes keys from the environment in any spelling, above the file and below the overrides", () => {
    const file = yaml("gateway: { port: 1, maxBufferedBytes: 2097152 }");
    const env = {
      TURNPIKE__GATEWAY__PORT: "2",
      TURNPIKE__GATEWAY__MAX_ANSWER_BYTES: "4096",
      TURNPIKE__PAYMENT__NETWORKS: JSON.stringify([NETWORK]),
      TURNPIKE__SUPPLIERS__XRPL_EVM__ENDPOINTS: JSON.stringify([{ operator: "a", urls: { json_rpc: "http://a" } }]),
      DATABASE_URL: "postgres://h/d",
      UNRELATED: "x",
    };
    const config = loadConfig({ file, env, overrides: { gateway: { port: 3 } } });
    assert.equal(config.gateway.port, 3);
    assert.equal(loadConfig({ file, env }).gateway.port, 2);
    assert.equal(config.gateway.maxBufferedBytes, 2_097_152);
    assert.equal(config.gateway.maxAnswerBytes, 4096);
    assert.equal(config.payment.networks[0]?.asset, NETWORK.asset);
    assert.equal(config.payment.networks[0]?.version, "2");
    assert.equal(config.ledger.url, "postgres://h/d");
    assert.deepEqual(Object.keys(config.suppliers), ["xrpl-evm"]);
  });

  test("names a variable that sets nothing", () => {
    assert.match(
      faults(() => loadConfig({ env: { TURNPIKE__GATEWAY__PROT: "1" } })),
      /TURNPIKE__GATEWAY__PROT: gateway\.prot: unknown key; did you mean PORT\?/,
    );
    assert.match(
      faults(() => loadConfig({ env: { TURNPIKE__GATEWAY__PORT: "many" } })),
      /gateway\.port: expected integer 0\.\.65535, got "many"/,
    );
  });

  test("puts variables in the place of their names, and names one that is not set", () => {
    const text = `suppliers: { eth: { endpoints: [{ operator: a, urls: { json_rpc: "https://h/\${API_KEY}" } }] } }`;
    const config = loadConfig({ file: yaml(text), env: { API_KEY: "k1" } });
    assert.equal(config.suppliers.eth?.endpoints[0]?.urls.json_rpc, "https://h/k1");
    assert.match(
      refused(text),
      /suppliers\.eth\.endpoints\[0\]\.urls\.json_rpc: the environment variable API_KEY is not set/,
    );
  });

  test("refuses one port for two servers, and says which key to change", () => {
    assert.match(
      refused("gateway: { port: 9090 }"),
      /gateway\.metrics\.port: 9090 is also gateway\.port; set gateway\.metrics\.port to a free port, such as 9091/,
    );
    assert.match(refused("gateway: { host: 0.0.0.0, port: 8402 }"), /facilitator\.port: 8402 is also gateway\.port/);
    assert.match(refused("gateway: { host: 0.0.0.0 }"), /gateway\.publicUrl: missing; 0\.0\.0\.0 is no address/);
    assert.equal(loadConfig({ file: yaml("gateway: { port: 0, metrics: { port: 0 } }"), env: {} }).gateway.port, 0);
  });

  test("refuses a remote facilitator without its URL, one token twice, and a supplier without a URL", () => {
    assert.match(refused("payment: { mode: remote }"), /payment\.facilitatorUrl: missing/);
    const twice = JSON.stringify({
      payment: { networks: [NETWORK, { ...NETWORK, asset: NETWORK.asset.toLowerCase() }] },
    });
    assert.match(refused(twice), /payment\.networks\[1\]: the same network and asset/);
    assert.match(refused("suppliers: { eth: { endpoints: [{ operator: a, urls: {} }] } }"), /urls: empty/);
  });

  test("refuses a window that has no room for a block beside the time kept for settling", () => {
    const config = (change: object, payment: object = {}) =>
      JSON.stringify({ payment: { ...payment, networks: [{ ...NETWORK, ...change }] } });
    const slow = refused(config({ blockTimeSeconds: 50 }));
    assert.match(slow, /payment\.networks\[0\]\.maxTimeoutSeconds: 60 leaves no time for a call .*set at least 61$/m);
    assert.match(refused(config({ maxTimeoutSeconds: 12 })), /set at least 13/);
    assert.match(refused(config({ maxTimeoutSeconds: 30 }, { settleMarginMs: 29_000 })), /settleMarginMs \(29000\)/);
    assert.ok(loadConfig({ file: yaml(config({ blockTimeSeconds: 49 }, { settleWaitMs: 150_000 })), env: {} }));
  });

  test("attack: refuses confirmations that a call does not wait for, which would charge all buyers and refuse them", () => {
    const config = (change: object, payment: object = {}) =>
      JSON.stringify({ payment: { ...payment, networks: [{ ...NETWORK, ...change }] } });
    assert.match(
      refused(config({ confirmations: 45 })),
      /payment\.networks\[0\]\.confirmations: 45 blocks of 2 seconds .*settleWaitMs \(20000\).*set it above 94000/,
    );
    assert.match(refused(config({ confirmations: 8 })), /and two blocks that may come late.*set it above 20000/);
    assert.ok(loadConfig({ file: yaml(config({ confirmations: 7 })), env: {} }));
    assert.ok(loadConfig({ file: yaml(config({ confirmations: 45 }, { settleWaitMs: 100_000 })), env: {} }));
  });

  test("attack: refuses a facilitator's time-out that ends before it answers that a settlement is pending", () => {
    const config = (payment: object) =>
      JSON.stringify({ payment: { mode: "remote", facilitatorUrl: "http://127.0.0.1:8402", ...payment } });
    assert.ok(loadConfig({ file: yaml(config({})), env: {} }));
    assert.match(
      refused(config({ settleWaitMs: 30_000 })),
      /payment\.facilitatorTimeoutMs: 30000 ends before .*after 30000 milliseconds.*set it above 30000/,
    );
    const longest = { settleWaitMs: 300_000, facilitatorTimeoutMs: 60_001 };
    assert.ok(loadConfig({ file: yaml(config(longest)), env: {} }), "a facilitator waits for a minute at most");
  });

  test("refuses sellers that share a name or a key", () => {
    const [one, two] = ["a".repeat(64), "b".repeat(64)];
    const config = (sellers: object) => JSON.stringify({ facilitator: { sellers } });
    const seller = { name: "shop", keySha256: one };
    assert.match(
      refused(config([seller, { name: "shop", keySha256: two }])),
      /sellers\[1\]\.name: the same as of .*\[0\]/,
    );
    assert.match(refused(config([seller, { name: "other", keySha256: one }])), /sellers\[1\]\.keySha256: the same/);
    assert.match(refused(config([{ name: "shop", keySha256: "secret" }])), /keySha256/);
    assert.ok(
      loadConfig({ file: yaml(config([seller, { name: "other", keySha256: two, priceUsd: "0.002" }])), env: {} }),
    );
  });

  test("refuses two tokens of one chain that say different things of the chain", () => {
    const asset = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
    const two = (change: object, network = NETWORK.network) =>
      JSON.stringify({ payment: { networks: [NETWORK, { ...NETWORK, asset, network, ...change }] } });
    const own = { maxTimeoutSeconds: 120, payTo: asset, multicall3: "0xCA11BDE05977B3631167028862BE2A173976CA11" };
    assert.equal(loadConfig({ file: yaml(two(own)), env: {} }).payment.networks.length, 2);
    for (const change of [
      { rpcUrls: ["http://127.0.0.1:8546"] },
      { rpcUrls: [...NETWORK.rpcUrls, "http://127.0.0.1:8546"] },
      { confirmations: 2 },
      { finalityBlocks: 65 },
      { blockTimeSeconds: 1 },
      { multicall3: asset },
    ]) {
      const [name = ""] = Object.keys(change);
      const both = new RegExp(`payment\\.networks\\[1\\]\\.${name}: differs from payment\\.networks\\[0\\]\\.${name};`);
      assert.match(refused(two(change)), both);
      assert.ok(loadConfig({ file: yaml(two(change, "eip155:1")), env: {} }), "other chains are other chains");
    }
  });

  test("refuses a key that gateway and facilitator share, from whatever files they have it", () => {
    const key = `0x${"ab".repeat(32)}`;
    const other = `0x${"cd".repeat(32)}`;
    const config = (own: string, apart: string) =>
      loadConfig({
        env: {},
        overrides: { payment: { relayer: { keysFile: own } }, facilitator: { relayer: { keysFile: apart } } },
      });
    const shared = config(yaml(`${other}\n${key}`), yaml(`# another spelling\n0x${"AB".repeat(32)}`));
    for (const role of ["gateway", "facilitator"] as const) {
      assert.match(
        faults(() => relayerKeys(shared, {}, role)),
        /has a key of (payment|facilitator)\.relayer\.keysFile too/,
      );
    }
    assert.match(
      faults(() => relayerKeys(config(yaml(key), "/not/here"), { TURNPIKE_FACILITATOR_KEYS: key }, "gateway")),
      /payment\.relayer\.keysFile: has a key of TURNPIKE_FACILITATOR_KEYS too/,
    );
    assert.deepEqual(relayerKeys(config(yaml(key), yaml(other)), {}, "gateway"), [key]);
    assert.deepEqual(relayerKeys(config(yaml(key), "/not/here"), {}, "gateway"), [key], "theirs may be elsewhere");
  });

  test("the facilitator's metrics are off until they have a port, which must be free", () => {
    assert.equal(loadConfig({ env: {} }).facilitator.metrics.port, undefined);
    assert.match(
      refused("facilitator: { metrics: { port: 9090 } }"),
      /facilitator\.metrics\.port: 9090 is also gateway\.metrics\.port/,
    );
  });

  test("an admin API needs a port of its own, and a token that is a secret", () => {
    assert.equal(loadConfig({ env: {} }).admin.port, undefined);
    const port = "admin: { port: 9091 }";
    assert.match(refused(port), /admin\.token: missing; .*TURNPIKE_ADMIN_TOKEN/);
    const token = "3b1f0c9d7e5a2468";
    assert.equal(loadConfig({ file: yaml(port), env: { TURNPIKE_ADMIN_TOKEN: token } }).admin.token, token);
    for (const sample of ["aaaaaaaaaaaaaaaaaaaa", "change-me-change-me", "my-admin-password-1"]) {
      assert.match(refused(port, { TURNPIKE_ADMIN_TOKEN: sample }), /admin\.token: this is a sample/);
    }
    for (const bad of ["short", "with spaces in it 123"]) {
      const text = refused(port, { TURNPIKE_ADMIN_TOKEN: bad });
      assert.match(text, /admin\.token: expected at least 16 printable characters/);
      assert.ok(!text.includes(bad));
    }
    assert.match(refused(`admin: { port: 3069, token: ${token} }`), /admin\.port: 3069 is also gateway\.port/);
  });

  test("a chain beside a gateway has a gRPC port of its own; alone it has the usual one", () => {
    const suppliers = "suppliers: { eth: { endpoints: [{ operator: a, urls: { json_rpc: 'http://a' } }] } }";
    const fault = refused(`chain: { home: node }\n${suppliers}`);
    assert.match(fault, /chain\.grpc\.port: 9090 is also gateway\.metrics\.port; set chain\.grpc\.port to a free port/);
    const apart = loadConfig({ file: yaml(`chain: { home: node, grpc: { port: 9092 } }\n${suppliers}`), env: {} });
    assert.equal(apart.chain.grpc.port, 9092);
    assert.equal(loadConfig({ file: yaml("chain: { home: node }"), env: {} }).chain.grpc.port, 9090);
    assert.match(
      refused("chain: { home: node, rest: { port: 26657 } }"),
      /chain\.rest\.port: 26657 is also chain\.rpc/,
    );
    assert.equal(loadConfig({ file: yaml(suppliers), env: {} }).chain.home, undefined);
  });

  test("traces go where the usual variable says; WebSockets leave room for other connections", () => {
    const config = loadConfig({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" } });
    assert.equal(config.tracing.endpoint, "http://collector:4318");
    assert.match(refused("gateway: { maxConnections: 100 }"), /gateway\.webSockets\.max: 10000 leaves no connection/);
  });

  test("changes are named by key, never by value; those that need a restart apart", () => {
    const before = loadConfig({ env: {} });
    assert.deepEqual(configChanges(before, loadConfig({ env: {} })), { changed: [], fixed: [] });
    const after = loadConfig({
      env: {},
      overrides: {
        gateway: { port: 1_234, maxBatchItems: 5, trustedProxies: ["10.0.0.0/8"] },
        ledger: { url: "postgres://u:hunter2@h/d" },
        suppliers: { eth: { endpoints: [{ operator: "a", urls: { json_rpc: "http://h/SECRET" } }] } },
        facilitator: { port: 8_500 },
      },
    });
    const { changed, fixed } = configChanges(before, after);
    const all = ["gateway.port", "gateway.trustedProxies", "gateway.maxBatchItems", "ledger.url", "suppliers.eth"];
    assert.deepEqual([...changed].sort(), [...all].sort());
    assert.deepEqual(fixed, ["gateway.port", "ledger.url"]);
    assert.deepEqual(configChanges(after, before).fixed, ["gateway.port", "ledger.url"]);
  });

  test("every key that needs a restart is one of the schema", () => {
    const root: unknown = CONFIG_SCHEMA;
    for (const path of RESTART_KEYS) {
      let node = root;
      for (const part of path.split(".")) {
        assert.ok(isRecord(node) && isRecord(node.properties), path);
        node = node.properties[part];
      }
      assert.ok(isRecord(node), path);
    }
  });

  test("refuses sample accounts and written keys outside a localnet, and a localnet that leaves this machine", () => {
    const key = DANGEROUS.privateKeys[0] ?? "";
    const keys = { payment: { relayer: { keys: [key] } } };
    assert.match(refused(JSON.stringify(keys)), /payment\.relayer\.keys: keys may not stand in a configuration/);
    const sample = { payment: { networks: [{ ...NETWORK, payTo: DANGEROUS.addresses[0] }] } };
    assert.match(refused(JSON.stringify(sample)), /payTo: this is a sample account/);
    const away = { localnet: true, payment: { networks: [{ ...NETWORK, rpcUrls: ["https://mainnet.example"] }] } };
    assert.match(refused(JSON.stringify(away)), /rpcUrls\[0\]: with localnet: true only chains on this machine/);
    const local = loadConfig({ file: yaml(JSON.stringify({ ...keys, localnet: true })), env: {} });
    assert.deepEqual(relayerKeys(local, {}, "gateway"), [key]);
    assert.deepEqual(relayerKeys(local, {}, "facilitator"), []);
    const shared = { localnet: true, ...keys, facilitator: { relayer: { keys: [key] } } };
    assert.match(refused(JSON.stringify(shared)), /facilitator\.relayer: has keys of payment\.relayer/);
    const real = loadConfig({ env: {} });
    assert.match(
      faults(() => relayerKeys(real, { TURNPIKE_RELAYER_KEYS: key }, "gateway")),
      /a sample key/,
    );
  });

  test("the management data: its roles, its keys, and no secret that everybody knows", () => {
    const url = "postgres://portal_authenticator:p@h/d";
    const secret = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978";
    const env = { PORTAL_DATABASE_URL: url, PORTAL_JWT_SECRET: secret };
    const { portalDb } = loadConfig({ env });
    assert.deepEqual([portalDb.url, portalDb.jwt.secret, portalDb.port, portalDb.maxRows], [url, secret, 3000, 1_000]);
    assert.match(refused("", { PORTAL_DATABASE_URL: "postgres://postgres:p@h/d" }), /portalDb\.url: expected the role/);
    const undecoded = refused("", { ...env, PORTAL_DATABASE_URL: url.replace(":p@", ":%ff@") });
    assert.match(undecoded, /portalDb\.url: its user or password has % escapes that are no UTF-8; write a % as %25/);
    const samples = ["supersecretjwtsecretforlocaldevelopment123456789", "a".repeat(40), `${secret}-change-me`];
    for (const sample of samples) {
      assert.match(refused("", { PORTAL_JWT_SECRET: sample }), /portalDb\.jwt\.secret: this is a sample/);
      const file = yaml(`localnet: true\nportalDb: { jwt: { secret: ${sample} } }`);
      assert.equal(loadConfig({ file, env: {} }).portalDb.jwt.secret, sample);
    }
    assert.match(refused("", { PORTAL_JWT_SECRET: "short" }), /portalDb\.jwt\.secret/);
    const keys = (...list: object[]): string => JSON.stringify({ portalDb: { jwt: { keys: list } } });
    assert.match(refused(keys({ kid: "a", algorithm: "HS256" })), /keys\[0\]\.secret: missing/);
    assert.match(refused(keys({ kid: "a", algorithm: "RS256", secret })), /keys\[0\]\.publicKey: missing/);
    assert.match(refused(keys({ kid: "a", algorithm: "none", secret })), /keys\[0\]\.algorithm/);
    const key = { kid: "a", algorithm: "HS256", secret };
    assert.match(refused(keys(key, key)), /keys\[1\]\.kid: a stands twice/);
    assert.match(refused("gateway: { port: 3000 }", env), /portalDb\.port: 3000 is also gateway\.port/);
    assert.equal(loadConfig({ file: yaml("gateway: { port: 3000 }"), env: {} }).gateway.port, 3000);
  });

  test("takes nothing from the environment into a localnet: what up wrote is complete", () => {
    const file = yaml("localnet: true\nledger: { url: 'postgres://local/d' }\ngateway: { port: 1 }");
    const env = {
      DATABASE_URL: "postgres://other/d",
      TURNPIKE__GATEWAY__PORT: "2",
      TURNPIKE_RELAYER_KEYS: `0x${"ab".repeat(32)}`,
    };
    const config = loadConfig({ file, env });
    assert.equal(config.ledger.url, "postgres://local/d");
    assert.equal(config.gateway.port, 1);
    assert.deepEqual(relayerKeys(config, env, "gateway"), []);
  });

  test("reads relayer keys only of a file that other users cannot read, each once", () => {
    const key = `0x${"ab".repeat(32)}`;
    const file = yaml(`# mine\n${key}\n${key.toUpperCase().replace("0X", "0x")}\n\n`);
    const config: Config = loadConfig({ env: {}, overrides: { payment: { relayer: { keysFile: file } } } });
    assert.deepEqual(relayerKeys(config, {}, "gateway"), [key]);
    assert.deepEqual(relayerKeys(config, { TURNPIKE_RELAYER_KEYS: `0x${"cd".repeat(32)}` }, "gateway"), [
      `0x${"cd".repeat(32)}`,
    ]);
    assert.match(
      faults(() => relayerKeys(config, { TURNPIKE_RELAYER_KEYS: "0x12" }, "gateway")),
      /64 hex digits/,
    );
    const open = join(folder, "open.keys");
    writeFileSync(open, key, { mode: 0o644 });
    const bad = loadConfig({ env: {}, overrides: { payment: { relayer: { keysFile: open } } } });
    assert.match(
      faults(() => relayerKeys(bad, {}, "gateway")),
      /other users can read/,
    );
  });

  test("reads a seller's key of the variable, the file or a file beside it, and repeats it in no error", () => {
    const read = (payment: Record<string, unknown>, env: Record<string, string> = {}): string | undefined =>
      readSellerKey(loadConfig({ file: yaml(JSON.stringify({ payment })), env }));
    assert.equal(read({}), undefined);
    assert.equal(read({ sellerKey: `\${KEY}` }, { KEY: "k-1" }), "k-1");
    const sellerKeyFile = yaml("k-2\n").slice(folder.length + 1);
    assert.equal(read({ sellerKeyFile }), "k-2");
    assert.equal(read({ sellerKeyFile }, { TURNPIKE_SELLER_KEY: "k-3" }), "k-3");
    for (const text of ["", "s3cret key", `s3cret${"x".repeat(512)}`, "s3cret\nkey", "s3cretü"]) {
      const message = faults(() => read({ sellerKeyFile: yaml(text) }));
      assert.match(message, /^payment\.sellerKeyFile: expected a key of 1 to 512/);
      assert.doesNotMatch(message, /s3cret/);
    }
    const inFile = refused(JSON.stringify({ payment: { sellerKey: "s3cret key" } }));
    assert.match(inFile, /payment\.sellerKey: expected 1 to 512 printable ASCII characters/);
    assert.doesNotMatch(inFile, /s3cret/);
    const open = join(folder, "open.key");
    writeFileSync(open, "k-4", { mode: 0o644 });
    assert.match(
      faults(() => read({ sellerKeyFile: open })),
      /^payment\.sellerKeyFile: other users can read/,
    );
  });

  test("reads a key file of lines, of one JSON object and of a list", () => {
    const [a, b] = [`0x${"ab".repeat(32)}`, `0x${"cd".repeat(32)}`];
    assert.deepEqual(readKeyFile(yaml(`# 0xaddress\n${a}\n${b}\n`)), [a, b]);
    assert.deepEqual(readKeyFile(yaml(JSON.stringify({ address: "0x1", privateKey: a }))), [a]);
    assert.deepEqual(readKeyFile(yaml(JSON.stringify([{ privateKey: a }, b]))), [a, b]);
    for (const text of ["{", "[{}]", "0x12", "nothing"])
      assert.match(
        faults(() => readKeyFile(yaml(text), "here")),
        /^here: /,
      );
    assert.match(
      faults(() => readKeyFile(join(folder, "none"))),
      /cannot be read/,
    );
    const full = join(process.cwd(), "not-here.json").replaceAll(/[.\\]/g, "\\$&");
    assert.match(
      faults(() => readKeyFile("not-here.json")),
      new RegExp(`${full} cannot be read`),
    );
  });

  test("a key file that a configuration file names is beside it, wherever the command is called", () => {
    const sections = { payment: { relayer: { keysFile: "own.json" } }, facilitator: { relayer: { keysFile: "/a/b" } } };
    const file = yaml(JSON.stringify(sections));
    const config = loadConfig({ file, env: {} });
    assert.equal(config.payment.relayer.keysFile, join(folder, "own.json"));
    assert.equal(config.facilitator.relayer.keysFile, "/a/b");
    const env = { TURNPIKE__PAYMENT__RELAYER__KEYS_FILE: "here.json" };
    assert.equal(loadConfig({ file, env }).payment.relayer.keysFile, "here.json", "the shell's folder");
    assert.match(
      faults(() => relayerKeys(config, {}, "gateway")),
      new RegExp(`^payment\\.relayer\\.keysFile: ${folder}/own\\.json cannot be read`),
    );
  });

  test("property: an unknown key anywhere is refused by its path", () => {
    const places: { path: string[]; free: boolean }[] = [];
    const walk = (value: unknown, path: string[]): void => {
      if (Array.isArray(value)) {
        value.forEach((inner, at) => {
          walk(inner, [...path, String(at)]);
        });
      } else if (isRecord(value)) {
        const last = path.at(-1) ?? "";
        places.push({ path, free: ["suppliers", "overrides", "services"].includes(last) });
        for (const [key, inner] of Object.entries(value)) walk(inner, [...path, key]);
      }
    };
    walk(full(), []);
    assert.ok(loadConfig({ env: {}, overrides: full() }));
    const key = fc.oneof(
      fc.string({ minLength: 1, maxLength: 12 }),
      fc.constantFrom("__proto__", "constructor", "toString"),
    );
    fc.assert(
      fc.property(fc.constantFrom(...places), key, ({ path, free }, word) => {
        // A map by service id takes any slug; what it must refuse is what is no slug.
        const name = free ? `${word}!` : `${word}_x`.replace("__proto___x", "__proto__");
        const tree = full();
        let node: unknown = tree;
        for (const part of path) node = (node as Record<string, unknown>)[part];
        Object.defineProperty(node, name, { value: 1, enumerable: true, configurable: true, writable: true });
        const message = faults(() => loadConfig({ file: yaml(JSON.stringify(tree)), env: {} }));
        assert.match(message, free ? /is not a service id/ : /unknown key/);
      }),
      { numRuns: 300 },
    );
  });

  test("every key has a description, and a default or a reason not to have one", () => {
    const walk = (node: unknown, path: string): void => {
      if (!isRecord(node)) return;
      const inner = [node.properties, node.patternProperties].filter(isRecord);
      for (const [key, value] of inner.flatMap((group) => Object.entries(group))) {
        if (!isRecord(value)) continue;
        const text = value.description;
        const inMap = node.patternProperties !== undefined;
        if (!inMap) {
          assert.equal(typeof text, "string", `${path}.${key} has no description`);
          const reason = /No default|no default|Left out|without one/.test(String(text));
          const composed = value.type === "object" && value.properties !== undefined;
          assert.ok(
            Object.hasOwn(value, "default") || reason || composed,
            `${path}.${key}: neither default nor reason`,
          );
        }
        walk(value, `${path}.${key}`);
        walk(value.items, `${path}.${key}[]`);
      }
    };
    walk(CONFIG_SCHEMA, "config");
  });

  test("emits a JSON Schema (2020-12) that takes what the loader takes", () => {
    const schema: unknown = JSON.parse(configSchemaJson());
    assert.ok(isRecord(schema));
    assert.equal(schema.$schema, "https://json-schema.org/draft/2020-12/schema");
    const check = new Ajv2020({ strict: false }).compile(schema);
    assert.ok(check(full()), JSON.stringify(check.errors));
    assert.ok(check({}));
    assert.ok(!check({ gateway: { port: "abc" } }));
  });
});
