import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { AppError, isAppError, utf8ToBytes } from "@turnpike/base";
import { StateMachine } from "../app/state-machine.ts";
import { attemptPart, runPart } from "./block-parts.ts";
import { type BlockInfo, type Context, chainEvent } from "./context.ts";
import { GasMeter } from "./gas.ts";
import type { Module } from "./module.ts";
import { Overlay } from "./overlay.ts";

const EMPTY = { get: () => undefined, range: () => [] };
const block: BlockInfo = {
  chainId: "pocket",
  heightBlocks: 7n,
  timeNanos: 0n,
  hash: new Uint8Array(32),
  proposer: new Uint8Array(0),
};
const bytesOf = (text: string): Uint8Array => Uint8Array.from(utf8ToBytes(text));
const key = bytesOf("key");
const value = bytesOf("value");
const part = { part: "settlement", item: "session 1" } as const;
const context = (): Context => ({ block, mode: "block", state: new Overlay(EMPTY), gas: new GasMeter(), events: [] });

suite("parts of a block", () => {
  test("a part that succeeds leaves its writes and events", () => {
    const ctx = context();
    const outcome = runPart(ctx, part, (branch) => {
      branch.state.set(key, value);
      branch.events.push(chainEvent("paid", {}));
      return 5;
    });
    assert.deepEqual(outcome, { ok: true, value: 5 });
    assert.deepEqual(ctx.state.get(key), value);
    assert.deepEqual(
      ctx.events.map(({ type }) => type),
      ["paid"],
    );
  });

  test("a part that fails leaves one event, and nothing of what it wrote", () => {
    for (const error of [new TypeError("no"), new AppError("INTERNAL", { detail: { recipient: "x" } }), "text"]) {
      const ctx = context();
      const outcome = runPart(ctx, part, (branch) => {
        branch.state.set(key, value);
        branch.events.push(chainEvent("paid", {}));
        throw error;
      });
      assert.ok(!outcome.ok && outcome.reason !== "");
      assert.equal(ctx.state.get(key), undefined);
      assert.deepEqual(ctx.events, [
        chainEvent("block_part_failed", { part: "settlement", item: "session 1", reason: outcome.reason }),
      ]);
      assert.deepEqual(attemptPart(context(), part, () => assert.fail("no")).ok, false);
    }
  });

  test("a damaged store, a failed invariant and a limit of the machine stop the node, with height and item", () => {
    const limit = (): never => {
      throw new RangeError("Maximum call stack size exceeded");
    };
    const failing = (code: "CHAIN_STORE_DAMAGED" | "CHAIN_INVARIANT") => (): never => {
      throw new AppError(code, { detail: { missing: "a block" } });
    };
    for (const [run, code] of [
      [limit, "CHAIN_ENGINE_LIMIT"],
      [failing("CHAIN_STORE_DAMAGED"), "CHAIN_STORE_DAMAGED"],
      [failing("CHAIN_INVARIANT"), "CHAIN_INVARIANT"],
    ] as const) {
      assert.throws(
        () => runPart(context(), part, run),
        (error) =>
          isAppError(error, code) && error.detail["heightBlocks"] === "7" && error.detail["item"] === "session 1",
      );
    }
  });

  test("attack: a module whose end of block throws is left out, and the block goes on", () => {
    const writing = (name: string): Module => ({
      name,
      endBlock(ctx) {
        ctx.state.set(utf8ToBytes(name), value);
        return [{ publicKey: new Uint8Array(32), power: 1n }];
      },
    });
    const broken: Module = {
      name: "broken",
      beginBlock() {
        throw new TypeError("begin");
      },
      endBlock(ctx) {
        ctx.state.set(utf8ToBytes("broken"), value);
        throw new TypeError("end");
      },
    };
    const machine = new StateMachine({ gasPrices: [] }, [writing("first"), broken, writing("last")]);
    const { changes, events, validatorUpdates } = machine.runBlock(EMPTY, block, []);
    assert.deepEqual(changes, [
      [bytesOf("first"), value],
      [bytesOf("last"), value],
    ]);
    assert.equal(validatorUpdates.length, 2);
    const failures = events.map(({ type, attributes }) => [type, ...attributes.map((attribute) => attribute.value)]);
    assert.deepEqual(failures, [
      ["block_part_failed", "begin_block", "broken", "TypeError: begin", "BeginBlock"],
      ["block_part_failed", "end_block", "broken", "TypeError: end", "EndBlock"],
    ]);
  });
});
