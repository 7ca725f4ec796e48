import assert from "node:assert/strict";
import cluster from "node:cluster";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { isAppError, isRecord, silentLog, systemClock } from "@turnpike/base";
import type { Config } from "@turnpike/config";
import { type SlotModules, WorkerSlot } from "./slot.ts";

const CONFIG = {} as Config;

const modulesWith = (change: Partial<SlotModules>): SlotModules => ({
  clock: systemClock,
  log: silentLog,
  config: () => CONFIG,
  stopTimeoutMs: () => 1_000,
  handlers: {},
  onFork() {},
  onExit() {},
  onRestart() {},
  onFailure() {},
  ...change,
});

/** A child that starts, says when it is pinged, and answers the second ping only. */
const CHILD = `
let pings = 0;
process.on("message", ({ to, id, name }) => {
  if (to !== "call") return;
  if (name === "start") process.send({ to: "answer", id, value: { gatewayPort: 1 } });
  else {
    if (++pings === 2) process.send({ to: "answer", id, value: {} });
    process.send({ to: "pinged" });
  }
});
process.on("disconnect", () => process.exit(0));
`;

test("a worker that leaves one question unanswered lives on; one that leaves two in a row is ended", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-slot-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "child.cjs"), CHILD);
  cluster.setupPrimary({ exec: join(folder, "child.cjs"), execArgv: [], args: [] });
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  let wake = (): void => {};
  const exited = Promise.withResolvers<void>();
  const slot = new WorkerSlot(
    { index: 1, group: "g" },
    modulesWith({
      onExit: () => exited.resolve(),
      onFork(_, port) {
        port.subscribe((message) => {
          if (isRecord(message) && message.to === "pinged") wake();
        });
      },
    }),
  );
  const live = await slot.start();
  /** Lets time pass, and waits until the worker is asked. */
  const pinged = async (afterMs: number): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    wake = resolve;
    t.mock.timers.tick(afterMs);
    await promise;
  };
  await pinged(5_000);
  await pinged(10_000);
  assert.equal(slot.live, live, "the second question was answered");
  await pinged(5_000);
  await pinged(10_000);
  t.mock.timers.tick(10_000);
  await exited.promise;
  assert.equal(slot.live, undefined);
  t.mock.timers.reset();
  await slot[Symbol.asyncDispose]();
});

test("a process that cannot be spawned is a start that failed, and nothing waits for its end", async () => {
  // There is nowhere for it to run, as with a machine that has no room for another process.
  cluster.setupPrimary({ cwd: "/no/such/folder" });
  const ended: string[] = [];
  const slot = new WorkerSlot({ index: 1, group: "g" }, modulesWith({ onExit: (id) => ended.push(id) }));
  await assert.rejects(slot.start(), (error) => isAppError(error, "PART_FAILED"));
  assert.equal(ended.length, 1);
  assert.equal(slot.live, undefined);
  await slot[Symbol.asyncDispose]();
});
