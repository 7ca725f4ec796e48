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
