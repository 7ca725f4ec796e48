import assert from "node:assert/strict";
import { test } from "node:test";
import type { Config } from "@turnpike/config";
import { portPair } from "../../../../packages/gateway/test/sharing/ports.ts";
import { createCalls } from "./calls.ts";
import { reloadWorkers } from "./reload-workers.ts";

const CONFIG = { localnet: false } as Config;

/** A worker that reloads in this way; its `calls` are the primary's. */
function worker(reload: (body: unknown) => unknown) {
  const [near, far] = portPair();
  createCalls(far, { reload });
  return { calls: createCalls(near, {}) };
}

test("a reload of workers: told to all; the faults of all, each once", async () => {
  const told: unknown[] = [];
  const good = worker((body) => {
    told.push(body);
    return { kind: "reloaded", changed: [] };
  });
  const bad = () => worker(() => ({ kind: "refused", faults: ["a: wrong"] }));
  assert.deepEqual(await reloadWorkers([good], CONFIG, () => true), []);
  assert.deepEqual(await reloadWorkers([good, bad(), bad()], CONFIG, () => true), ["a: wrong"]);
  assert.deepEqual(told, [{ config: CONFIG }, { config: CONFIG }]);
});

test("a worker that fails on it may go on with the old one, so all go back; one that ended will start with the new one", async () => {
  const broken = worker(() => {
    throw new TypeError("burst");
  });
  const [fault, more] = await reloadWorkers([broken], CONFIG, () => true);
  assert.match(fault ?? "", /^a worker did not take it: .*burst/);
  assert.equal(more, undefined);
  const gone = worker(() => new Promise(() => {}));
  const reloading = reloadWorkers([gone], CONFIG, () => false);
  gone.calls.close();
  assert.deepEqual(await reloading, []);
});
