import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { AppError, type Log, type Metrics, noMetrics, silentLog } from "@turnpike/base";
import { type Config, loadConfig } from "@turnpike/config";
import { createReloader } from "./reload.ts";

const configOf = (overrides: Record<string, unknown>): Config => loadConfig({ env: {}, overrides });

function rig(start: Config) {
  const errors: Readonly<Record<string, unknown>>[] = [];
  const outcomes: unknown[] = [];
  const applied: Config[] = [];
  const log: Log = { ...silentLog, error: (fields) => errors.push(fields) };
  const metrics: Metrics = { ...noMetrics, count: (_, labels) => outcomes.push(labels?.outcome) };
  const state = {
    canRefresh: true,
    load: (): Config => start,
    apply: async (config: Config): Promise<void> => void applied.push(config),
  };
  const { reload, refresh } = createReloader(start, {
    load: () => state.load(),
    apply: (config) => state.apply(config),
    async refresh(config) {
      if (state.canRefresh) await state.apply(config);
      return state.canRefresh;
    },
    log,
    metrics,
  });
  return { reload, refresh, state, errors, outcomes, applied };
}

suite("reload", () => {
  test("puts what changed into effect, and nothing when nothing did", async () => {
    const to = rig(configOf({}));
    assert.deepEqual(await to.reload("signal"), { kind: "unchanged" });
    const next = configOf({
      limits: { perClient: { requests: 7 } },
      log: { level: "debug" },
      facilitator: { port: 1 },
    });
    to.state.load = () => next;
    assert.deepEqual(await to.reload("file"), {
      kind: "reloaded",
      changed: ["log.level", "limits.perClient.requests"],
    });
    assert.deepEqual(to.applied, [next]);
    assert.deepEqual(await to.reload("file"), { kind: "unchanged" });
    assert.deepEqual(to.outcomes, ["unchanged", "reloaded", "unchanged"]);
  });

  test("refuses as a whole what needs a restart, by the names of the keys and without their values", async () => {
    const to = rig(configOf({}));
    to.state.load = () =>
      configOf({
        gateway: { port: 1_234, maxBatchItems: 5, metrics: { port: 4_321 } },
        ledger: { url: "postgres://u:hunter2@h/d" },
        payment: { settleWaitMs: 1_000, networks: [] },
      });
    const result = await to.reload("admin");
    assert.ok(result.kind === "refused");
    assert.deepEqual(
      result.faults.map((fault) => fault.split(":")[0]),
      ["gateway.port", "gateway.metrics.port", "ledger.url", "payment.settleWaitMs"],
    );
    assert.ok(result.faults.every((fault) => /restart/.test(fault)));
    assert.deepEqual(to.errors, [{ cause: "admin", faults: result.faults }]);
    assert.doesNotMatch(JSON.stringify(to.errors), /hunter2/);
    assert.deepEqual(to.applied, []);
  });

  test("a file that cannot be read, or parts that cannot be built, leave the old one in effect", async () => {
    const to = rig(configOf({}));
    to.state.load = () => configOf({ gateway: { maxBatchItems: 0 } });
    const broken = await to.reload("file");
    assert.ok(broken.kind === "refused");
    assert.match(broken.faults.join(), /gateway\.maxBatchItems: expected integer 1\.\./);
    to.state.load = () => configOf({ gateway: { maxBatchItems: 9 } });
    to.state.apply = async () => {
      throw new AppError("CONFIG_INVALID", { message: "suppliers.nope: the catalogue has no such service." });
    };
    assert.deepEqual(await to.reload("file"), {
      kind: "refused",
      faults: ["suppliers.nope: the catalogue has no such service."],
    });
    to.state.apply = async () => {};
    assert.equal((await to.reload("file")).kind, "reloaded", "what was refused is still new");
  });

  test("one at a time; all that ask meanwhile share the next one, and a fault does not end it", async () => {
    const to = rig(configOf({}));
    let loads = 0;
    let inside = 0;
    to.state.load = () => configOf({ gateway: { maxBatchItems: ++loads } });
    to.state.apply = async () => {
      assert.equal(++inside, 1);
      await new Promise((resolve) => setImmediate(resolve));
      inside--;
    };
    const first = to.reload("signal");
    await new Promise((resolve) => setImmediate(resolve));
    const others = [to.reload("signal"), to.reload("file"), to.reload("admin")];
    await Promise.all([first, ...others]);
    assert.equal(loads, 2);
    to.state.apply = async () => {
      throw new RangeError("a fault");
    };
    await assert.rejects(to.reload("signal"), RangeError);
    to.state.apply = async () => {};
    assert.equal((await to.reload("signal")).kind, "reloaded");
  });

  test("a refresh puts what is in effect into effect again, between reloads, and never reads the file", async () => {
    const first = configOf({});
    const to = rig(first);
    to.state.load = () => {
      throw new RangeError("the file was read");
    };
    assert.equal(await to.refresh(), true);
    to.state.canRefresh = false;
    assert.equal(await to.refresh(), false);
    assert.equal(to.errors.length, 0, "it is tried again later, and no fault");
    to.state.canRefresh = true;
    assert.deepEqual(to.applied, [first]);

    const next = configOf({ gateway: { maxBatchItems: 7 } });
    to.state.load = () => next;
    const reloaded = to.reload("file");
    const refreshed = to.refresh();
    assert.equal((await reloaded).kind, "reloaded");
    assert.equal(await refreshed, true);
    assert.deepEqual(to.applied, [first, next, next]);
    assert.deepEqual(to.outcomes, ["reloaded"]);

    to.state.apply = async () => {
      throw new RangeError("a fault");
    };
    assert.equal(await to.refresh(), false);
    assert.equal(to.errors.length, 1);
    to.state.apply = async () => {};
    assert.equal((await to.reload("file")).kind, "unchanged");
  });
});
