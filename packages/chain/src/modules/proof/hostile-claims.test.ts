import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { proof } from "@turnpike/proto";
import { GAS_PER_RECEIVER } from "@turnpike/protocol";
import { claimMessages, record } from "../../../test/modules/proof/proofs.ts";
import { contextAt, stateBefore } from "../../../test/modules/tokenomics/recorded.ts";
import type { Context } from "../../state/context.ts";
import { Overlay } from "../../state/overlay.ts";
import { serviceConfigs } from "../supplier/state.ts";
import { createClaim } from "./create-claim.ts";
import { claims, getClaim } from "./state.ts";

const base = stateBefore(record);
const CLAIM = 1213n;
const [message] = claimMessages as [proof.MsgCreateClaim];
const header = message.sessionHeader;
assert.ok(header);
const fresh = (height = CLAIM): Context => contextAt(new Overlay(base), height);

function refusal(ctx: Context, changed: proof.MsgCreateClaim): string {
  const result = createClaim(ctx, changed);
  return result.ok ? "" : result.fault.text;
}

function withWork(sum: bigint, count: bigint): Uint8Array {
  const root = Buffer.from(message.rootHash);
  root.writeBigUInt64BE(BigInt.asUintN(64, sum), 32);
  root.writeBigUInt64BE(count, 40);
  return Uint8Array.from(root);
}

suite("claims that must not be taken", () => {
  test("as recorded it is taken", () => {
    const ctx = fresh();
    assert.equal(refusal(ctx, message), "");
    assert.deepEqual(getClaim(ctx, header.sessionId, message.supplierOperatorAddress)?.sessionHeader, header);
  });

  test("a start in the middle of the session, where another difficulty or price may hold", () => {
    for (const sessionStartBlockHeight of [1202n, 1209n]) {
      const ctx = fresh();
      const text = refusal(ctx, { ...message, sessionHeader: { ...header, sessionStartBlockHeight } });
      assert.match(text, /session start height .*expected 1201, got 120\d: invalid session start height$/);
      assert.deepEqual([...claims.entries(ctx)], []);
    }
  });

  test("so many relays that the compute units wrap around", () => {
    const units = Buffer.from(message.rootHash).readBigUInt64BE(32) / Buffer.from(message.rootHash).readBigUInt64BE(40);
    assert.equal(refusal(fresh(), { ...message, rootHash: withWork(units * 3n, 3n) }), "");
    // 2^64 / 2^k more relays than 3, where 2^k divides the units of a relay.
    const more = (1n << 64n) / (units & -units);
    const text = refusal(fresh(), { ...message, rootHash: withWork(units * (more + 3n), more + 3n) });
    assert.match(text, /is not equal to number of relays \d+ \* compute units per relay/);
  });

  test("attack: each receiver of rewards beyond ten costs gas: settlement pays all of them, and is bounded by block", () => {
    const usedWith = (receivers: number): bigint => {
      const ctx = fresh();
      const { supplierOperatorAddress: operator } = message;
      const keys = [...serviceConfigs.entries(ctx)].filter(([[, [, address]]]) => address === operator);
      assert.ok(keys.length > 0);
      for (const [key, config] of keys) {
        assert.ok(config.service);
        const [share] = config.service.revShare;
        const revShare = Array.from({ length: receivers }, () => share ?? assert.fail());
        serviceConfigs.set(ctx, key, { ...config, service: { ...config.service, revShare } });
      }
      const before = ctx.gas.used;
      assert.equal(refusal(ctx, message), "");
      return ctx.gas.used - before;
    };
    const usual = usedWith(10);
    assert.ok(usedWith(11) - usual >= GAS_PER_RECEIVER);
    // Settlement of such a claim takes 12 ms and 190 KB of events: 400 million gas are at most 146 of them.
    assert.ok(usedWith(100) - usual >= 90n * GAS_PER_RECEIVER);
  });

  test("attack: a claim pays for reading its supplier's configurations where they are larger than usual", () => {
    const usedWith = (endpoints: number): bigint => {
      const ctx = fresh();
      const keys = [...serviceConfigs.entries(ctx)].filter(
        ([[, [, address]]]) => address === message.supplierOperatorAddress,
      );
      for (const [key, config] of keys) {
        assert.ok(config.service);
        const [endpoint = assert.fail()] = config.service.endpoints;
        const service = { ...config.service, endpoints: Array.from({ length: endpoints }, () => endpoint) };
        serviceConfigs.set(ctx, key, { ...config, service });
      }
      const before = ctx.gas.used;
      assert.equal(refusal(ctx, message), "");
      return ctx.gas.used - before;
    };
    const usual = usedWith(1);
    // The session reads them once, as the real chain does, and the claim once more.
    const read = usedWith(2) - usual;
    assert.ok(usedWith(1_000) - usual > 999n * read + 30_000n, `${usedWith(1_000) - usual} ${read}`);
  });

  test("one that takes another's place begins without a verdict", () => {
    const ctx = fresh();
    assert.equal(refusal(ctx, message), "");
    const stored = getClaim(ctx, header.sessionId, message.supplierOperatorAddress);
    assert.ok(stored);
    claims.set(ctx, [header.sessionId, message.supplierOperatorAddress], { ...stored, proofValidationStatus: 1 });
    assert.equal(refusal(ctx, message), "");
    assert.equal(getClaim(ctx, header.sessionId, message.supplierOperatorAddress)?.proofValidationStatus, 0);
    assert.equal([...claims.entries(ctx)].length, 1);
  });
});
