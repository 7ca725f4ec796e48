import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError, silentLog } from "@turnpike/base";
import type { CommandContext } from "./context.ts";
import { serve } from "./lifecycle.ts";

test("the watchdog gives calls under way the time that is configured when the service is told to stop", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const killed: number[] = [];
  const context = { env: {}, exitWith() {}, kill: (code: number) => killed.push(code) } as unknown as CommandContext;
  const before = new Set(process.listeners("SIGTERM"));
  const stopping = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  let drainMs = 1_000;
  const serving = serve(context, { log: silentLog }, async () => ({
    drainMs: () => drainMs,
    async [Symbol.asyncDispose]() {
      stopping.resolve();
      await ended.promise;
    },
  }));
  await new Promise((resolve) => setImmediate(resolve));
  // A reload.
  drainMs = 60_000;
  for (const listener of process.listeners("SIGTERM")) if (!before.has(listener)) listener("SIGTERM");
  await stopping.promise;
  t.mock.timers.tick(69_999);
  assert.deepEqual(killed, []);
  t.mock.timers.tick(1);
  assert.deepEqual(killed, [1]);
  ended.resolve();
  await serving;
});

test("a service that cannot go on is ended, and its fault is the command's", async () => {
  const context = { env: {}, exitWith() {}, kill() {} } as unknown as CommandContext;
  const before = process.listenerCount("SIGTERM");
  const { promise: failed, reject } = Promise.withResolvers<never>();
  const done: string[] = [];
  const serving = serve(context, { log: silentLog }, async () => ({
    failed,
    async [Symbol.asyncDispose]() {
      done.push("disposed");
    },
  }));
  const refused = assert.rejects(serving, { code: "CHAIN_STORE_DAMAGED" });
  reject(new AppError("CHAIN_STORE_DAMAGED"));
  await refused;
  assert.deepEqual(done, ["disposed"]);
  assert.equal(process.listenerCount("SIGTERM"), before);
});

/** Sends a signal to those of its listeners that were not there before. */
function raise(signal: NodeJS.Signals, before: ReadonlySet<unknown>): number {
  const own = process.listeners(signal).filter((listener) => !before.has(listener));
  for (const listener of own) (listener as (name: NodeJS.Signals) => void)(signal);
  return own.length;
}

test("a SIGHUP during the start is one reload once the service has started", async () => {
  const context = { env: {}, exitWith() {}, kill() {} } as unknown as CommandContext;
  const hups = new Set<unknown>(process.listeners("SIGHUP"));
  const terms = new Set<unknown>(process.listeners("SIGTERM"));
  const isBegun = Promise.withResolvers<void>();
  const mayStart = Promise.withResolvers<void>();
  const isReloaded = Promise.withResolvers<void>();
  let reloads = 0;
  const serving = serve(context, { log: silentLog }, async () => {
    isBegun.resolve();
    await mayStart.promise;
    return {
      onHangUp() {
        reloads++;
        isReloaded.resolve();
      },
      async [Symbol.asyncDispose]() {},
    };
  });
  await isBegun.promise;
  assert.equal(raise("SIGHUP", hups), 1, "SIGHUP would end the process");
  raise("SIGHUP", hups);
  assert.equal(reloads, 0);
  mayStart.resolve();
  await isReloaded.promise;
  assert.equal(reloads, 1);
  assert.equal(raise("SIGHUP", hups), 1);
  assert.equal(reloads, 2);
  raise("SIGTERM", terms);
  await serving;
  assert.equal(raise("SIGHUP", hups), 0);
});

test("a SIGHUP during the start ends a service that has no use for it, and one that does not start leaves nothing", async () => {
  const context = { env: {}, exitWith() {}, kill() {} } as unknown as CommandContext;
  const hups = new Set<unknown>(process.listeners("SIGHUP"));
  const done: string[] = [];
  await serve(context, { log: silentLog }, async () => {
    assert.equal(raise("SIGHUP", hups), 1);
    return {
      async [Symbol.asyncDispose]() {
        done.push("disposed");
      },
    };
  });
  assert.deepEqual(done.slice(0, 1), ["disposed"]);
  assert.equal(raise("SIGHUP", hups), 0);
  const start = async (): Promise<never> => {
    throw new AppError("CONFIG_INVALID");
  };
  await assert.rejects(serve(context, { log: silentLog }, start), { code: "CONFIG_INVALID" });
  assert.equal(raise("SIGHUP", hups), 0);
});
