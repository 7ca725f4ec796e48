import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { files, isTestCode, productSources, readText, withoutComments } from "./sources.ts";

/** What product code must not say, where, and what to do instead. What Biome can ban is banned in biome.json. */
interface Ban {
  readonly pattern: RegExp;
  readonly folders: readonly string[];
  /** The files that may. */
  readonly except?: readonly string[];
  readonly instead: string;
}

const BANS: readonly Ban[] = [
  { pattern: /\bthrow new Error\(/, folders: ["packages/", "apps/"], instead: "use AppError with a code" },
  {
    pattern: /\bDate\.now\b|\bnew Date\(\)/,
    folders: ["packages/payment/", "packages/protocol/"],
    instead: "use the Clock that is passed in",
  },
  {
    pattern: /\bMath\.random\b/,
    folders: ["packages/payment/", "packages/protocol/"],
    instead: "use the randomness that is passed in",
  },
  {
    pattern: /\bas (?:AccountAddress|AddressBytes)\b/,
    folders: ["packages/", "apps/"],
    except: ["packages/chain/src/state/addresses.ts", "packages/crypto/src/cosmos/addresses.ts"],
    instead: "an address is what the parser makes: parseAccount, parseAddress",
  },
  {
    pattern: /\bas (?:Codec<)?Parsed<|\bvalidated\(/,
    folders: ["packages/", "apps/"],
    except: ["packages/chain/src/state/module.ts", "packages/chain/src/state/parsed.ts"],
    instead: "a record is parsed, or created of what was: parsedRecord, createParsed",
  },
];

/**
 * What tests and their helpers must not do. Those in `test/timing/` need real time, and chaos and soak, whose tests are read, pace
 * themselves by it.
 */
const TEST_BANS: readonly Ban[] = [
  {
    pattern:
      /(?<![.\w])setTimeout\(|\bsetTimeout as \w|globalThis\.setTimeout|\b(?:timers|scheduler)\.(?:setTimeout|wait)\(|promisify\(setTimeout|Atomics\.wait\(/,
    folders: ["packages/", "apps/", "test/", "tools/"],
    instead: "await an event, use `eventually` of the testkit, or move time by a virtual clock",
  },
  {
    pattern: /\b(?:performance|Date)\.now\(\) - [a-zA-Z]/,
    folders: ["packages/", "apps/", "test/", "tools/"],
    instead: "count the work: a comparison of elapsed time is a benchmark",
  },
  {
    pattern: /from "fast-check"/,
    folders: ["packages/", "apps/", "test/", "tools/"],
    instead: "import { fc } from @turnpike/testkit/property, which draws the same cases in each run",
  },
];

/**
 * A limit below a second in a test: on a slow machine it passes although what it bounds was about to come. In files that have
 * such a limit because it is to pass, or because no real time counts it, the number of these lines is here.
 */
const SHORT_LIMIT =
  /\b[a-zA-Z]*(?:[tT]imeout|[wW]ait|[iI]dle|[dD]rain|[sS]ilent)[A-Za-z]*Ms: [1-9]\d{0,2}\b|\b(?:headersTimeout|requestTimeout|timeout): [1-9]\d{0,2}\b|\.setTimeout\([0-9]/;
const SHORT_LIMITS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  "what it bounds never comes, and nothing else has the limit": {
    "packages/chain-api/src/rpc/hostile.test.ts": 4,
    "packages/chain-api/src/rpc/web-socket.test.ts": 1,
    "packages/chain-api/src/unread-answers.test.ts": 1,
    "packages/chain-node/src/watch/comet-watch.test.ts": 1,
    "packages/devnet/src/up/supervisor.test.ts": 2,
    "packages/gateway/src/http/unread-answers.test.ts": 2,
    "packages/gateway/src/wire.test.ts": 3,
    "packages/localnet/src/port-splitter.test.ts": 1,
    "packages/payment/src/ledger/unavailable.test.ts": 1,
    "packages/payment/src/remote/remote-settler.test.ts": 2,
    "packages/portal-db/src/database/batch-leaks.test.ts": 2,
    "packages/portal-db/src/database/session.test.ts": 2,
    "packages/portal-db/src/http/exhaustion.test.ts": 1,
    "packages/relay/src/transport/grpc-transport.test.ts": 1,
    "packages/search/src/crawl/hostile.test.ts": 1,
    "packages/search/src/fetching/fetcher.test.ts": 4,
    "packages/search/src/local/writer.test.ts": 1,
    "packages/supplier/src/backends/back-end.test.ts": 1,
    "packages/supplier/src/serving/grpc-server.test.ts": 3,
    "packages/supplier/src/serving/relay-server.test.ts": 1,
    "test/e2e/portal-db-faults.test.ts": 1,
    "test/e2e/portal-db-security.test.ts": 1,
  },
  "what answers does so in the turn in which it is asked, before any timer": {
    "packages/payment/src/facilitator/duplicates.test.ts": 3,
    "packages/payment/src/facilitator/unpaid.test.ts": 3,
    "packages/search/src/service/search-service.test.ts": 3,
    "test/e2e/search-route.test.ts": 1,
  },
  "the time of an end, in which nothing is under way that is to be answered": {
    "packages/gateway/src/edge/not-sold.test.ts": 1,
    "packages/gateway/src/gateway.test.ts": 1,
    "packages/gateway/src/reload.test.ts": 2,
    "packages/gateway/src/websocket/websocket-handler.test.ts": 1,
    "packages/gateway/test/socket-gateway.ts": 1,
    "packages/gateway/test/stand-ins.ts": 1,
    "packages/mcp/src/http.test.ts": 1,
    "test/e2e/relay-rig.ts": 1,
  },
  "a virtual clock, mocked timers or the chain's blocks count it": {
    "packages/chain-api/src/services/abci-queries.test.ts": 3,
    "packages/gateway/src/sharing/redis-bus.test.ts": 1,
    "packages/gateway/src/websocket/websocket-handler.test.ts": 1,
    "packages/payment/src/ledger/receivers.test.ts": 1,
    "packages/relay/src/subscriptions/subscriptions.test.ts": 1,
    "packages/supplier/src/claims/claim-runner.test.ts": 1,
    "test/e2e/relay-cache.test.ts": 1,
  },
  "a value that is compared or refused, and no limit": {
    "packages/gateway/src/limits/port-store.test.ts": 1,
    "packages/gateway/src/limits/script.test.ts": 1,
    "packages/search/src/crawl/hostile.test.ts": 1,
    "packages/search/src/engines/engines.test.ts": 1,
  },
};

/** Every ban that a source breaks, with its line. */
function faultsOf(path: string, source: string, bans = BANS): string[] {
  // Comments give way to as many lines, so that the numbers stay right.
  const code = source.replaceAll(/\/\*[\s\S]*?\*\//g, (comment) => comment.replaceAll(/[^\n]/g, ""));
  return code.split("\n").flatMap((text, at) =>
    bans.flatMap(({ pattern, folders, except = [], instead }) => {
      const covers = folders.some((folder) => path.startsWith(folder)) && !except.includes(path);
      const applies = covers && pattern.test(withoutComments(text));
      return applies ? [`${path}:${at + 1}: ${instead}`] : [];
    }),
  );
}

/** Code of tests, and of their helpers. */
function testSources(): string[] {
  const tests = files("packages/**/*.test.ts", "apps/**/*.test.ts", "test/**/*.test.ts", "tools/**/*.test.ts");
  const helpers = files(
    "packages/*/test/**/*.ts",
    "packages/testkit/src/**/*.ts",
    "apps/*/test/**/*.ts",
    "test/{e2e,interop,spec,support}/**/*.ts",
  );
  assert.ok(tests.length > 300 && helpers.length > 100);
  // The last two have what is banned as examples, and in the one place that may.
  const excepted = ["tools/bans.test.ts", "packages/testkit/src/property.ts"];
  return [...new Set([...tests, ...helpers])].filter(
    (path) => !path.startsWith("test/timing/") && !excepted.includes(path),
  );
}

suite("bans", () => {
  test("code of the product throws coded errors, parses addresses, and payments own neither time nor chance", () => {
    const tools = files("packages/*/tools/**/*.ts").filter((path) => !isTestCode(path));
    const sources = [...productSources(), ...tools];
    assert.ok(sources.length > 100);
    assert.deepEqual(
      sources.flatMap((path) => faultsOf(path, readText(path))),
      [],
    );
  });

  test("tests neither wait for a time nor compare elapsed times", () => {
    const read = testSources();
    for (const helper of ["test/e2e/economy-rig.ts", "test/support/payer.ts", "packages/testkit/src/eventually.ts"]) {
      assert.ok(read.includes(helper), helper);
    }
    assert.deepEqual(
      read.flatMap((path) => faultsOf(path, readText(path), TEST_BANS)),
      [],
    );
    for (const line of [
      "await new Promise((r) => setTimeout(r, 5));",
      "await new Promise((r) => globalThis.setTimeout(r, 5));",
      'import { setTimeout as delay } from "node:timers/promises";',
      "await timers.setTimeout(5);",
      "await scheduler.wait(5);",
      "await promisify(setTimeout)(5);",
      "Atomics.wait(cell, 0, 0, 5);",
      "assert.ok(performance.now() - start < 100);",
    ]) {
      assert.equal(faultsOf("test/e2e/x.test.ts", line, TEST_BANS).length, 1, line);
    }
  });

  test("a time limit below a second in a test is named with the reason, as a slow machine passes it", () => {
    const counts = new Map<string, number>();
    for (const path of testSources()) {
      const lines = withoutComments(readText(path)).split("\n");
      const count = lines.filter((line) => SHORT_LIMIT.test(line)).length;
      if (count > 0) counts.set(path, count);
    }
    const named = new Map<string, number>();
    for (const group of Object.values(SHORT_LIMITS)) {
      for (const [path, count] of Object.entries(group)) named.set(path, (named.get(path) ?? 0) + count);
    }
    const differing = [...new Set([...counts.keys(), ...named.keys()])].flatMap((path) => {
      const [count, listed] = [counts.get(path) ?? 0, named.get(path) ?? 0];
      return count === listed ? [] : [`${path}: ${count} such limits, ${listed} in SHORT_LIMITS`];
    });
    assert.deepEqual(differing, []);
    for (const line of ["open({ timeoutMs: 50 })", "{ shutdownTimeoutMs: 999 }", "socket.setTimeout(200, end);"]) {
      assert.ok(SHORT_LIMIT.test(line), line);
    }
    for (const line of ["open({ timeoutMs: 60_000 })", "{ timeoutMs: 0 }", "setTimeout(MS)", "maxTimeoutSeconds: 60"]) {
      assert.ok(!SHORT_LIMIT.test(line), line);
    }
  });

  test("the check itself sees each of them, and no comment", () => {
    const source = [
      "/* throw new Error(",
      "*/ // Date.now",
      'throw new Error("x");',
      "const a = Date.now();",
      "const b = Math.random() + new Date().getTime();",
      'throw new TypeError("y");',
    ].join("\n");
    assert.deepEqual(faultsOf("packages/payment/src/x.ts", source), [
      "packages/payment/src/x.ts:3: use AppError with a code",
      "packages/payment/src/x.ts:4: use the Clock that is passed in",
      "packages/payment/src/x.ts:5: use the Clock that is passed in",
      "packages/payment/src/x.ts:5: use the randomness that is passed in",
    ]);
    assert.deepEqual(faultsOf("packages/relay/src/x.ts", source), [
      "packages/relay/src/x.ts:3: use AppError with a code",
    ]);
    assert.deepEqual(faultsOf("bench/x.ts", source), []);
    const makers = ["text as AccountAddress;", "bytes as AddressBytes;", "app as Parsed<App>;", "validated(message);"];
    for (const line of makers) {
      assert.equal(faultsOf("packages/chain/src/modules/x.ts", line).length, 1, line);
    }
    assert.deepEqual(faultsOf("packages/chain/src/state/addresses.ts", "text as AccountAddress;"), []);
  });
});
