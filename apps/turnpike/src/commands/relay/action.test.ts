import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { noMetrics, type ServiceId, silentLog, systemClock } from "@turnpike/base";
import { type AdminService, type ReloadResult, serveAdmin } from "@turnpike/gateway";
import type { RelayControl, ServiceView } from "@turnpike/relay";
import { type Ran, runInProcess, runSpawned } from "../../../test/run-command.ts";

const TOKEN = "9f3a1c5e7b2d4860";
const folder = mkdtempSync(join(tmpdir(), "turnpike-admin-"));

const run = (args: readonly string[], env: Record<string, string>): Promise<Ran> =>
  runInProcess(["relay", ...args], env);

const VIEW: ServiceView = {
  id: "eth" as ServiceId,
  tipBlocks: 105,
  finalBlocks: 90,
  suppliers: [
    {
      operator: "node a",
      rpcType: "json_rpc",
      host: "a.example",
      score: 87.4,
      breaker: "probation",
      isDrained: true,
      isHealthy: true,
      isWrongChain: false,
      latencyMs: 12.3,
      heightBlocks: 100,
    },
  ],
};

suite("turnpike relay", () => {
  const calls: string[] = [];
  let outcome: ReloadResult = { kind: "unchanged" };
  let service: AdminService;
  let env: Record<string, string>;
  const flags = { cache: true, hedging: true, cross_validation: false, log_splitting: true };
  /** A stand-in for the relay's control. */
  const control: RelayControl = {
    inspect: (id) => (id === undefined || id === "eth" ? [VIEW] : []),
    setDrained(id, operator, isDrained) {
      calls.push(`${isDrained ? "drain" : "undrain"} ${id} ${operator}`);
      return operator === "node a";
    },
    resetScore: (id, operator) => calls.push(`reset-score ${id} ${operator}`) > 0,
    flags: () => flags,
    setFlag(flag, isOn) {
      flags[flag] = isOn;
    },
    clearCache: (id) => void calls.push(`clear ${id ?? "all"}`),
  };

  before(async () => {
    service = await serveAdmin(
      { host: "127.0.0.1", port: 0, token: () => TOKEN, version: "1" },
      {
        target: { control: () => control, reload: async () => outcome, config: () => ({}) },
        clock: systemClock,
        log: silentLog,
        metrics: noMetrics,
        random: { bytes: (length) => new Uint8Array(length) },
      },
    );
    env = { TURNPIKE_ADMIN_URL: `http://127.0.0.1:${service.port}/`, TURNPIKE_ADMIN_TOKEN: TOKEN };
  });

  after(async () => {
    await service?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  test("shows suppliers, as a table and as JSON", async () => {
    const [table, json, unknown] = await Promise.all([
      run(["suppliers"], env),
      run(["suppliers", "eth", "--json"], env),
      run(["suppliers", "nope", "--json"], env),
    ]);
    assert.equal(table.code, 0, table.err);
    assert.match(table.out, /^service +operator +speaks +host +score +breaker +latency +height +state$/m);
    assert.match(table.out, /^eth +node a +json_rpc +a\.example +87 +probation +12 ms +100 \(-5\) +drained$/m);
    assert.deepEqual(JSON.parse(json.out), VIEW);
    assert.deepEqual(await runSpawned(["relay", "suppliers"], { cwd: folder, env }), table, "in a process of its own");
    assert.equal(unknown.code, 1);
    assert.equal((JSON.parse(unknown.out) as { error: { code: string } }).error.code, "ADMIN_NOT_FOUND");
  });

  test("drains, puts back, resets scores, sets flags, purges the cache, reloads, by old names of steps, too", async () => {
    const drained = await run(["drain", "eth", "node a"], env);
    assert.deepEqual([drained.code, drained.out], [0, "node a of eth is drained: it gets no new calls.\n"]);
    const nobody = await run(["drain", "eth", "nobody"], env);
    assert.match(
      nobody.err,
      /^error ADMIN_NOT_FOUND: Service eth has no operator nobody\.\nSee npx turnpike relay suppliers/,
    );
    const rest = [
      ["undrain", "eth", "node a"],
      ["reset-score", "eth", "node a"],
      ["forgive", "eth", "node a"],
      ["flags", "cache", "off"],
      ["purge-cache", "eth"],
      ["purge-cache"],
      ["forget", "eth"],
      ["forget"],
    ];
    for (const args of rest) assert.equal((await run(args, env)).code, 0, args.join(" "));
    const steps = [
      "drain eth node a",
      "drain eth nobody",
      "undrain eth node a",
      "reset-score eth node a",
      "reset-score eth node a",
      "clear eth",
      "clear all",
      "clear eth",
      "clear all",
    ];
    assert.deepEqual(calls, steps);
    const shown = await run(["flags"], env);
    assert.match(shown.out, /^cache +off$/m);
    assert.equal((await run(["flags", "cache", "maybe"], env)).code, 2);
    outcome = { kind: "reloaded", changed: ["limits.perClient.requests"] };
    assert.match((await run(["reload"], env)).out, /In effect: limits\.perClient\.requests/);
    outcome = { kind: "refused", faults: ["gateway.port: needs a restart"] };
    const refused = await run(["reload"], env);
    assert.match(refused.err, /error RELOAD_REFUSED: .*\ngateway\.port: needs a restart/);
  });

  test("finds the API by the configuration, and says what is missing where it cannot", async () => {
    const file = join(folder, "own.yaml");
    writeFileSync(file, `admin: { port: ${service.port}, token: "${TOKEN}" }\n`);
    assert.equal((await run(["flags", "--config", file], {})).code, 0);
    const none = await run(["flags"], {});
    assert.match(none.err, /error USAGE: There is no admin token/);
    const noPort = await run(["flags"], { TURNPIKE_ADMIN_TOKEN: TOKEN });
    assert.match(noPort.err, /error USAGE: There is no admin API/);
    const wrong = await run(["flags"], { ...env, TURNPIKE_ADMIN_TOKEN: `${TOKEN}x` });
    assert.match(wrong.err, /error UNAUTHORIZED/);
    const away = await run(["flags", "--admin", "http://127.0.0.1:1"], env);
    assert.match(away.err, /error ADMIN_UNREACHABLE/);
    for (const { out, err } of [none, noPort, wrong, away]) assert.doesNotMatch(out + err, new RegExp(TOKEN));
  });
});
