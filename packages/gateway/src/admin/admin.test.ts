import assert from "node:assert/strict";
import { test } from "node:test";
import { type Log, type ServiceId, silentLog, systemClock } from "@turnpike/base";
import type { RelayControl, RelayFlag, ServiceView } from "@turnpike/relay";
import { PrometheusMetrics } from "@turnpike/telemetry";
import { openRaw, reboundStatus } from "@turnpike/testkit";
import { serveAdmin } from "./serve-admin.ts";
import type { ReloadResult } from "./types.ts";

const TOKEN = "0123456789abcdef0123456789abcdef";

const VIEW: ServiceView = {
  id: "eth" as ServiceId,
  tipBlocks: 100,
  finalBlocks: 90,
  suppliers: [
    {
      operator: "node a",
      rpcType: "json_rpc",
      host: "a.example",
      score: 87,
      breaker: "closed",
      isDrained: false,
      isHealthy: true,
      isWrongChain: false,
      latencyMs: 12,
      heightBlocks: 99,
    },
  ],
};

/** A stand-in for the relay's control, which notes what is asked of it. */
function standInControl(): { readonly control: RelayControl; readonly calls: string[] } {
  const calls: string[] = [];
  const flags: Record<RelayFlag, boolean> = {
    cache: true,
    hedging: true,
    cross_validation: false,
    log_splitting: true,
  };
  const has = (id: ServiceId, operator: string): boolean => id === "eth" && operator === "node a";
  const control: RelayControl = {
    inspect: (id) => (id === undefined || id === "eth" ? [VIEW] : []),
    setDrained(id, operator, isDrained) {
      calls.push(`drain ${id} ${operator} ${isDrained}`);
      return has(id, operator);
    },
    resetScore(id, operator) {
      calls.push(`reset-score ${id} ${operator}`);
      return has(id, operator);
    },
    flags: () => ({ ...flags }),
    setFlag(flag, isOn) {
      flags[flag] = isOn;
    },
    clearCache: (id) => void calls.push(`clear ${id ?? "all"}`),
  };
  return { control, calls };
}

async function startAdmin() {
  const { control, calls } = standInControl();
  const changes: unknown[] = [];
  const texts: string[] = [];
  const log: Log = {
    ...silentLog,
    info: (fields) => changes.push(fields.change),
    warn: (fields, message) => texts.push(`${message} ${JSON.stringify(fields)}`),
  };
  let outcome: ReloadResult = { kind: "unchanged" };
  let token = TOKEN;
  const metrics = new PrometheusMetrics({ processMetrics: false });
  const service = await serveAdmin(
    { host: "127.0.0.1", port: 0, token: () => token, version: "1.2.3" },
    {
      target: { control: () => control, reload: async () => outcome, config: () => ({ gateway: { port: 1 } }) },
      clock: systemClock,
      log,
      metrics,
      random: { bytes: (length) => new Uint8Array(length) },
    },
  );
  const ask = async (verb: string, path: string, body?: unknown, auth = `Bearer ${TOKEN}`) => {
    const answer = await fetch(`http://127.0.0.1:${service.port}${path}`, {
      method: verb,
      headers: { authorization: auth },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const value = (await answer.json()) as Record<string, unknown>;
    return { status: answer.status, value, headers: answer.headers };
  };
  return {
    ask,
    calls,
    changes,
    texts,
    metrics,
    port: service.port,
    setOutcome: (next: ReloadResult) => {
      outcome = next;
    },
    setToken: (next: string) => {
      token = next;
    },
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

test("without the token nothing is told, whatever is asked; with it, no other page is given leave", async () => {
  await using to = await startAdmin();
  const wrong = [
    "",
    "Bearer ",
    `Bearer ${TOKEN.slice(1)}`,
    `Bearer ${TOKEN}x`,
    `Basic ${TOKEN}`,
    TOKEN,
    `bearer ${TOKEN} x`,
  ];
  for (const auth of wrong) {
    for (const path of ["/services", "/version", "/nothing"]) {
      const { status, value, headers } = await to.ask("GET", path, undefined, auth);
      assert.equal(status, 401, auth);
      assert.equal(value.code, "UNAUTHORIZED");
      assert.match(headers.get("www-authenticate") ?? "", /^Bearer/);
    }
  }
  assert.deepEqual(to.calls, []);
  assert.equal(to.texts.length, 1, "a flood of wrong tokens is one line");
  assert.doesNotMatch(to.texts.join(), /0123456789/);
  const { status, headers } = await to.ask("GET", "/services");
  assert.equal(status, 200);
  assert.equal(headers.get("access-control-allow-origin"), null);
  assert.equal(headers.get("cache-control"), "no-store");
  const preflight = await fetch(`http://127.0.0.1:${to.port}/services`, {
    method: "OPTIONS",
    headers: { origin: "http://evil.example", "access-control-request-method": "GET" },
  });
  assert.equal(preflight.status, 403);
  assert.equal(await reboundStatus(to.port, "/services"), 403, "a page whose name was pointed here");
  assert.equal(preflight.headers.get("access-control-allow-origin"), null);
  to.setToken("another-token-of-an-operator");
  assert.equal((await to.ask("GET", "/services")).status, 401);
});

test("shows services, flags, version and configuration", async () => {
  await using to = await startAdmin();
  assert.deepEqual((await to.ask("GET", "/services")).value, { services: [VIEW] });
  assert.deepEqual((await to.ask("GET", "/services/eth")).value, VIEW);
  assert.deepEqual((await to.ask("GET", "/version")).value, { version: "1.2.3" });
  assert.deepEqual((await to.ask("GET", "/config")).value, { gateway: { port: 1 } });
  const unknown = await to.ask("GET", "/services/nope");
  assert.deepEqual([unknown.status, unknown.value.code], [404, "ADMIN_NOT_FOUND"]);
  assert.deepEqual((await to.ask("GET", "/flags")).value, {
    flags: { cache: true, hedging: true, cross_validation: false, log_splitting: true },
  });
  assert.deepEqual(to.changes, []);
});

test("drains, puts back, resets scores, sets flags, purges the cache; each change is a line with who made it", async () => {
  await using to = await startAdmin();
  for (const step of ["drain", "undrain", "reset-score", "forgive"]) {
    const { status, value } = await to.ask("POST", `/services/eth/suppliers/node%20a/${step}`);
    assert.deepEqual([status, value.service, value.operator], [200, "eth", "node a"]);
    const absent = await to.ask("POST", `/services/eth/suppliers/unknown/${step}`);
    assert.deepEqual([absent.status, absent.value.code], [404, "ADMIN_NOT_FOUND"]);
    assert.equal((await to.ask("POST", `/services/nope/suppliers/x/${step}`)).value.code, "ADMIN_NOT_FOUND");
  }
  assert.equal((await to.ask("PUT", "/flags/cache", { on: false })).status, 200);
  assert.equal(((await to.ask("GET", "/flags")).value.flags as Record<string, boolean>).cache, false);
  for (const body of [{ on: 1 }, {}, [], "null", undefined]) {
    assert.deepEqual((await to.ask("PUT", "/flags/cache", body)).value.code, "VALIDATION_FAILED");
  }
  assert.equal((await to.ask("PUT", "/flags/constructor", { on: true })).status, 404);
  assert.equal((await to.ask("POST", "/cache/clear?service=eth")).status, 200);
  assert.equal((await to.ask("POST", "/cache/clear?service=nope")).status, 404);
  assert.equal((await to.ask("POST", "/cache/clear")).status, 200);
  assert.deepEqual(
    to.calls.filter((call) => !call.includes("unknown")),
    [
      "drain eth node a true",
      "drain eth node a false",
      "reset-score eth node a",
      "reset-score eth node a",
      "clear eth",
      "clear all",
    ],
  );
  assert.deepEqual(to.changes, [
    "drain node a of eth",
    "undrain node a of eth",
    "reset-score node a of eth",
    "reset-score node a of eth",
    "flag cache off",
    "clear the cache of eth",
    "clear the cache of all services",
  ]);
  assert.match(await to.metrics.render(), /^turnpike_gateway_admin_requests_total\{status="404"\} 10$/m);
});

test("a reload says what changed, or why it was refused", async () => {
  await using to = await startAdmin();
  assert.deepEqual((await to.ask("POST", "/reload")).value, { changed: [] });
  to.setOutcome({ kind: "reloaded", changed: ["limits.perClient.requests"] });
  assert.deepEqual((await to.ask("POST", "/reload")).value, { changed: ["limits.perClient.requests"] });
  to.setOutcome({ kind: "refused", faults: ["gateway.port: needs a restart"] });
  const { status, value } = await to.ask("POST", "/reload");
  assert.deepEqual([status, value.code, value.faults], [409, "RELOAD_REFUSED", ["gateway.port: needs a restart"]]);
});

test("wrong verbs, bodies and bytes get JSON errors, and nothing hangs", async () => {
  await using to = await startAdmin();
  const verb = await to.ask("DELETE", "/services");
  assert.deepEqual([verb.status, verb.headers.get("allow")], [405, "GET"]);
  assert.equal((await to.ask("GET", "/services/eth/more")).status, 404);
  assert.equal((await to.ask("GET", "/services/")).status, 404);
  assert.equal((await to.ask("GET", "/services/%ff")).status, 404);
  assert.equal((await to.ask("PUT", "/flags/cache", '{"on":')).value.code, "INVALID_JSON");
  assert.equal((await to.ask("PUT", "/flags/cache", "x".repeat(5_000))).status, 413);
  await using raw = await openRaw(to.port);
  raw.write("GARBAGE\r\n\r\n");
  await raw.closed;
});
