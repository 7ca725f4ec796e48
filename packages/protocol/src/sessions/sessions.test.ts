import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { hex, RECORDED, readRecorded, readSpec, sharedParams } from "../../test/records.ts";
import { least } from "../rational.ts";
import {
  activeApplicationConfigs,
  isApplicationActive,
  isConfigActive,
  isGatewayActive,
  mayPruneConfig,
  transferEndHeight,
  unbondingEndHeight,
  undelegationRetentionBlocks,
} from "./activation.ts";
import { drawSuppliers, sessionId, sessionPreimage, supplierWeight } from "./draw.ts";
import { isSessionEnd, isSessionStart, nextGrid, nextSessionStartHeight, sessionAt } from "./grid.ts";
import { isGracePeriodOver, numPendingSessions, sessionWindows } from "./windows.ts";

interface SessionVector {
  readonly app: string;
  readonly blockHash: string;
  readonly preimage: string;
  readonly service: string;
  readonly sessionId: string;
  readonly start: number;
  readonly weights: readonly { readonly operator: string; readonly weight: string }[];
}

const grid = (blocks: bigint, anchor = 1n, number = 1n) => ({
  numBlocksPerSession: blocks,
  sessionGridAnchorHeight: anchor,
  sessionNumberAtAnchor: number,
});
const params = sharedParams(readRecorded("e2e-4").params_at_settlement);
const height = fc.bigInt({ min: 1n, max: (1n << 63n) - 1n });
const blocks = fc.bigInt({ min: 1n, max: 10_000n });

suite("session grid", () => {
  test("sessions of four blocks start at 1, 5 and 9", () => {
    const at = (h: bigint) => sessionAt(grid(4n), h);
    assert.deepEqual(at(1n), { startHeight: 1n, endHeight: 4n, number: 1n });
    assert.deepEqual(at(4n), { startHeight: 1n, endHeight: 4n, number: 1n });
    assert.deepEqual(at(5n), { startHeight: 5n, endHeight: 8n, number: 2n });
    assert.equal(nextSessionStartHeight(grid(4n), 5n), 9n);
    assert.deepEqual(
      [isSessionStart(grid(4n), 5n), isSessionEnd(grid(4n), 8n), isSessionEnd(grid(4n), 7n)],
      [true, true, false],
    );
  });

  test("there is no session before the first block", () => {
    for (const h of [0n, -1n, -(1n << 63n)]) {
      assert.deepEqual(sessionAt(grid(4n), h), { startHeight: 0n, endHeight: 0n, number: 0n });
      assert.deepEqual([isSessionStart(grid(4n), h), isSessionEnd(grid(4n), h)], [false, false]);
    }
  });

  test("a grid with an anchor counts from it; one that is unset or later than the height counts from block 1", () => {
    assert.deepEqual(sessionAt(grid(7n, 41n, 11n), 48n), { startHeight: 48n, endHeight: 54n, number: 12n });
    assert.deepEqual(sessionAt(grid(7n, 41n, 0n), 41n).number, 1n);
    for (const anchor of [0n, 49n]) assert.deepEqual(sessionAt(grid(7n, anchor, 11n), 48n), sessionAt(grid(7n), 48n));
  });

  test("a height is in its session, and sessions follow one another without gap or overlap", () => {
    fc.assert(
      fc.property(blocks, height, fc.bigInt({ min: 1n, max: 1n << 40n }), height, (n, h, number, other) => {
        const anchored = grid(n, least(other, h), number);
        const span = sessionAt(anchored, h);
        assert.ok(span.startHeight <= h && h <= span.endHeight);
        assert.equal(span.endHeight - span.startHeight + 1n, n);
        const next = sessionAt(anchored, span.endHeight + 1n);
        assert.deepEqual([next.startHeight, next.number], [span.endHeight + 1n, span.number + 1n]);
        assert.deepEqual(sessionAt(anchored, span.startHeight), span);
      }),
    );
  });

  test("a change of the session length moves the anchor, and no session number is left out", () => {
    fc.assert(
      fc.property(blocks, blocks, fc.bigInt({ min: 1n, max: 1n << 50n }), (before, after, h) => {
        const { effectiveHeight, grid: changed } = nextGrid(grid(before), after, h);
        const last = sessionAt(grid(before), effectiveHeight - 1n);
        const first = sessionAt(changed, effectiveHeight);
        assert.deepEqual([first.startHeight, first.number], [effectiveHeight, last.number + 1n]);
        assert.equal(first.endHeight - first.startHeight + 1n, after);
      }),
    );
    assert.deepEqual(nextGrid(grid(5n, 11n, 3n), 5n, 30n).grid, grid(5n, 11n, 3n));
  });
});

suite("session windows", () => {
  test("recorded: claims E+2 to E+8, proofs E+9 to E+15, settled in E+15", () => {
    for (const name of RECORDED) {
      const record = readRecorded(name);
      const end = BigInt(record.session_end);
      const windows = sessionWindows(sharedParams(record.params_at_settlement), BigInt(record.session_start));
      assert.deepEqual(windows, {
        graceEndHeight: end + 1n,
        claimOpenHeight: end + 2n,
        claimCloseHeight: end + 8n,
        proofOpenHeight: end + 8n + 1n,
        proofCloseHeight: end + 15n,
        settlementHeight: BigInt(record.settlement_height),
      });
    }
  });

  test("pending sessions are rounded up", () => {
    const of = (n: bigint, offset: bigint) =>
      numPendingSessions({ ...params, numBlocksPerSession: n, claimWindowCloseOffsetBlocks: offset });
    assert.deepEqual([of(10n, 6n), of(14n, 6n), of(15n, 6n), of(10n, 12n), of(10n, 13n)], [2n, 1n, 1n, 2n, 3n]);
  });

  test("grace ends after its last height", () => {
    assert.deepEqual([isGracePeriodOver(params, 1905n, 1911n), isGracePeriodOver(params, 1905n, 1912n)], [false, true]);
  });

  test("claims are settled in the last block of the proof window", () => {
    const { proofCloseHeight, settlementHeight } = sessionWindows(params, 1910n);
    assert.deepEqual([proofCloseHeight, settlementHeight], [1925n, 1925n]);
  });
});

suite("session draw", () => {
  test("vectors: preimage, id and weights", () => {
    const vectors = readSpec<SessionVector[]>("session.json");
    assert.ok(vectors.length > 0);
    for (const vector of vectors) {
      const preimage = sessionPreimage({
        blockHash: hex(vector.blockHash),
        serviceId: vector.service,
        applicationAddress: vector.app,
        startHeight: BigInt(vector.start),
      });
      assert.equal(bytesToHex(preimage), vector.preimage);
      assert.equal(sessionId(preimage), vector.sessionId);
      for (const { operator, weight } of vector.weights) {
        assert.equal(supplierWeight(preimage, operator), BigInt(weight));
      }
    }
  });

  test("recorded: ids, numbers and the order of suppliers", () => {
    let drawn = 0;
    for (const name of RECORDED) {
      const record = readRecorded(name);
      const limit = Number(record.params_at_session_start.session.num_suppliers_per_session);
      const everyone = Object.keys(record.state_before_settlement.suppliers).sort();
      for (const session of record.sessions) {
        const preimage = sessionPreimage({
          blockHash: hex(record.block_hashes[record.session_start] ?? ""),
          serviceId: session.header.service_id,
          applicationAddress: session.header.application_address,
          startHeight: BigInt(record.session_start),
        });
        assert.equal(sessionId(preimage), session.header.session_id);
        const span = sessionAt(sharedParams(record.params_at_session_start), BigInt(record.session_start));
        assert.deepEqual(
          [span.startHeight, span.endHeight, span.number],
          [BigInt(record.session_start), BigInt(record.session_end), BigInt(session.session_number)],
        );
        if (session.header.service_id !== "anvil") continue;
        const order = drawSuppliers(
          preimage,
          everyone.map((operatorAddress) => ({ operatorAddress })),
          limit,
        );
        assert.deepEqual(
          order.map(({ operatorAddress }) => operatorAddress),
          session.suppliers.map(({ operator_address }) => operator_address),
        );
        drawn++;
      }
    }
    assert.equal(drawn, 6);
  });

  test("with fewer candidates than places all are taken as they stand", () => {
    const preimage = hex("00".repeat(32));
    const candidates = ["c", "a", "b"].map((operatorAddress) => ({ operatorAddress }));
    assert.deepEqual(drawSuppliers(preimage, candidates, 4), candidates);
    assert.equal(drawSuppliers(preimage, candidates, 3).length, 3);
    assert.equal(drawSuppliers(preimage, candidates, 2).length, 2);
  });

  test("the order of the store changes nothing once there is a draw", () => {
    const names = fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 5, maxLength: 30 });
    fc.assert(
      fc.property(names, fc.uint8Array({ minLength: 8, maxLength: 64 }), (list, preimage) => {
        const candidates = list.map((operatorAddress) => ({ operatorAddress }));
        const one = drawSuppliers(preimage, candidates, 5);
        assert.deepEqual(drawSuppliers(preimage, candidates.toReversed(), 5), one);
        const weights = one.map(({ operatorAddress }) => supplierWeight(preimage, operatorAddress));
        for (let i = 1; i < weights.length; i++) assert.ok((weights[i - 1] ?? 0n) <= (weights[i] ?? 0n));
      }),
    );
  });
});

suite("activation", () => {
  test("a configuration holds from its activation on and ends before its deactivation", () => {
    const span = { activationHeight: 10n, deactivationHeight: 20n };
    assert.deepEqual(
      [9n, 10n, 19n, 20n, 21n].map((h) => isConfigActive(span, h)),
      [false, true, true, false, false],
    );
    assert.equal(isConfigActive({ activationHeight: 10n, deactivationHeight: 0n }, 1n << 62n), true);
  });

  test("an application without history has always had its service", () => {
    assert.deepEqual(activeApplicationConfigs(["a"], [], 1n), ["a"]);
    const history = [
      { service: "a", activationHeight: 1n, deactivationHeight: 100n },
      { service: "b", activationHeight: 100n, deactivationHeight: 0n },
    ];
    assert.deepEqual(
      [50n, 100n].map((h) => activeApplicationConfigs(["b"], history, h)),
      [["a"], ["b"]],
    );
  });

  test("unbonding goes before transfer", () => {
    const transfer = { sessionEndHeight: 40n };
    assert.equal(isApplicationActive({ unstakeSessionEndHeight: 0n }, 1n << 62n), true);
    assert.equal(isApplicationActive({ unstakeSessionEndHeight: 20n }, 20n), true);
    assert.equal(isApplicationActive({ unstakeSessionEndHeight: 20n, pendingTransfer: transfer }, 30n), false);
    assert.equal(isApplicationActive({ unstakeSessionEndHeight: 0n, pendingTransfer: transfer }, 40n), true);
    assert.equal(isApplicationActive({ unstakeSessionEndHeight: 0n, pendingTransfer: transfer }, 50n), false);
    assert.deepEqual([isGatewayActive(0n, 9n), isGatewayActive(9n, 9n), isGatewayActive(9n, 10n)], [true, true, false]);
  });

  test("heights of unbonding, transfer, undelegation and pruning", () => {
    assert.equal(unbondingEndHeight("application", params, 1910n), 1930n);
    assert.equal(unbondingEndHeight("supplier", params, 1910n), 1930n);
    assert.equal(unbondingEndHeight("gateway", params, 1910n), 1920n);
    assert.equal(transferEndHeight(params, 1910n), 1925n);
    assert.equal(undelegationRetentionBlocks(params), 21n);
    assert.deepEqual(
      [1925n, 1926n].map((h) => mayPruneConfig(params, 1911n, h)),
      [false, true],
    );
    assert.deepEqual([mayPruneConfig(params, 0n, 5000n), mayPruneConfig(params, 6000n, 5000n)], [false, false]);
  });

  test("nobody leaves, and no gateway is forgotten, before the last session that needs them is settled", () => {
    // As long as the unbonding: the real chain lets both go one block before their last claims are settled.
    const tight = { ...params, proofWindowCloseOffsetBlocks: 12n };
    assert.equal(sessionWindows(tight, 1910n).settlementHeight, 1931n);
    assert.equal(unbondingEndHeight("application", tight, 1910n), 1931n);
    assert.equal(unbondingEndHeight("supplier", tight, 1910n), 1931n);
    assert.equal(unbondingEndHeight("gateway", tight, 1910n), 1920n);
    // Longer than grace period and two sessions: there an honest proof is of a ring that the chain has forgotten.
    const long = { ...params, claimWindowCloseOffsetBlocks: 40n };
    assert.equal(1910n + undelegationRetentionBlocks(long), sessionWindows(long, 1910n).settlementHeight);
  });
});
