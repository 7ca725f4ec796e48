import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { Derivation } from "@turnpike/chain-store";
import { createMessage, shared } from "@turnpike/proto";
import { fc } from "@turnpike/testkit/property";
import { planted } from "../../../test/planted.ts";
import type { Context } from "../../state/context.ts";
import { GasMeter } from "../../state/gas.ts";
import { Overlay, type StateView } from "../../state/overlay.ts";
import { getServiceEnds, serviceConfigs, serviceEnds, setSupplier } from "../supplier/state.ts";
import { chargeDrawing, drawSession } from "./candidates.ts";

const EMPTY = { get: () => undefined, range: () => [] };
const SERVICES = ["a", "ab"] as const;
const [FIRST_HEIGHT, LAST_HEIGHT] = [0n, 12n];

function contextOn(state: StateView): Context {
  const block = {
    chainId: "test",
    heightBlocks: 1n,
    timeNanos: 0n,
    hash: new Uint8Array(32),
    proposer: new Uint8Array(0),
  };
  return { block, mode: "block", state, gas: new GasMeter(), events: [] };
}

/** A view that keeps nothing that was derived. */
function plain(state: Overlay): StateView {
  return {
    get: (key) => state.get(key),
    range: (options) => state.range(options),
    set: (key, value) => state.set(key, value),
    delete: (key) => state.delete(key),
  };
}

/** Sessions and their gas over all heights, by any of the two services. */
function drawings(state: StateView): unknown[] {
  const drawn: unknown[] = [];
  for (const serviceId of SERVICES) {
    for (let height = FIRST_HEIGHT; height <= LAST_HEIGHT; height += 3n) {
      const ctx = contextOn(state);
      chargeDrawing(ctx, serviceId, height);
      const suppliers = drawSession(ctx, { serviceId, preimage: Uint8Array.of(Number(height)), height }, 3);
      drawn.push([serviceId, height, ctx.gas.used, suppliers.map(({ operator }) => Buffer.from(operator).toString())]);
    }
  }
  return drawn;
}

/** Ends of services that count how many of them are read. */
class CountedEnds extends Map<string, bigint> {
  reads = 0;

  override get(operator: string): bigint | undefined {
    this.reads++;
    return super.get(operator);
  }

  override [Symbol.iterator](): MapIterator<[string, bigint]> {
    this.reads += this.size;
    return super[Symbol.iterator]();
  }
}

function setConfig(state: Overlay, operatorAddress: string, deactivationHeight: bigint): void {
  const service = { serviceId: "a", endpoints: [], revShare: [] };
  const update = { operatorAddress, service, activationHeight: 1n, deactivationHeight };
  const key = ["a", [1n, operatorAddress]] as const;
  serviceConfigs.set(contextOn(state), key, planted(createMessage(shared.ServiceConfigUpdateSchema, update)));
}

const height = fc.bigInt({ min: FIRST_HEIGHT, max: LAST_HEIGHT });
const change = fc.record({
  serviceId: fc.constantFrom(...SERVICES),
  operatorAddress: fc.constantFrom("p", "q", "r", "s", "t"),
  activationHeight: height,
  deactivationHeight: fc.option(height, { nil: undefined }),
  serviceEnd: fc.option(height, { nil: undefined }),
  layer: fc.constantFrom("top", "top", "commit", "discard", "end services"),
});

suite("candidates of sessions follow the changes of a service's suppliers", () => {
  test("sessions and their gas are those of candidates made anew", () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 30 }), (changes) => {
        const bottom = new Overlay(EMPTY);
        let top = new Overlay(bottom);
        for (const { serviceId, operatorAddress, activationHeight, deactivationHeight, serviceEnd, layer } of changes) {
          const ctx = contextOn(top);
          const key = [serviceId, [activationHeight, operatorAddress]] as const;
          if (layer === "commit") top.commitTo(bottom);
          else if (layer === "discard") top = new Overlay(bottom);
          else if (layer === "end services") {
            if (serviceEnd === undefined) serviceEnds.remove(ctx, operatorAddress);
            else serviceEnds.set(ctx, operatorAddress, serviceEnd);
          } else if (deactivationHeight === undefined) serviceConfigs.remove(ctx, key);
          else {
            const service = { serviceId, endpoints: [], revShare: [] };
            const update = { operatorAddress, service, activationHeight, deactivationHeight };
            serviceConfigs.set(ctx, key, planted(createMessage(shared.ServiceConfigUpdateSchema, update)));
          }
          assert.deepEqual(drawings(top), drawings(plain(top)));
        }
      }),
      { numRuns: 100 },
    );
  });

  test("attack: thousands of suppliers that leave are compared once, and not in each draw or after each stake", () => {
    const bottom = new Overlay(EMPTY);
    for (let i = 0; i < 100; i++) setConfig(bottom, `supplier-${i}`, 0n);
    for (let i = 0; i < 50; i++) serviceEnds.set(contextOn(bottom), `supplier-${i}`, 3n);
    const ends = new CountedEnds(getServiceEnds(contextOn(bottom)));
    const block = new Overlay({
      get: (key) => bottom.get(key),
      range: (options) => bottom.range(options),
      derived<T>(derivation: Derivation<T>, prefix: Uint8Array): T {
        const value = bottom.derived(derivation, prefix);
        return value instanceof Map ? (ends as T) : value;
      },
    });
    for (let i = 0; i < 20; i++) {
      const seed = { serviceId: "a", preimage: Uint8Array.of(i), height: 5n };
      assert.equal(drawSession(contextOn(block), seed, 100).length, 50);
    }
    assert.ok(ends.reads <= 100, `${ends.reads} reads`);
    const record = { operatorAddress: "supplier-99", ownerAddress: "supplier-99" };
    setSupplier(contextOn(bottom), planted(createMessage(shared.SupplierSchema, record)));
    const before = getServiceEnds(contextOn(bottom));
    setSupplier(contextOn(bottom), planted(createMessage(shared.SupplierSchema, record)));
    assert.equal(getServiceEnds(contextOn(bottom)), before);
    assert.equal(before.size, 50);
  });

  test("a changed supplier does not read the others again", () => {
    const bottom = new Overlay(EMPTY);
    for (let i = 0; i < 100; i++) setConfig(bottom, `supplier-${i}`, 0n);
    let walks = 0;
    const block = new Overlay({
      get: (key) => bottom.get(key),
      range(options) {
        walks++;
        return bottom.range(options);
      },
      derived: (derivation, prefix) => bottom.derived(derivation, prefix),
    });
    const seed = { serviceId: "a", preimage: Uint8Array.of(1), height: 5n };
    const session = drawSession(contextOn(block), seed, 3);
    for (let i = 0; i < 20; i++) {
      setConfig(block, `supplier-${i}`, 9n);
      assert.deepEqual(drawSession(contextOn(block), seed, 3), session);
      assert.equal(drawSession(contextOn(block), { ...seed, height: 9n }, 200).length, 99 - i);
    }
    assert.equal(walks, 0);
    for (let i = 0; i < 400; i++) setConfig(block, `more-${i}`, i % 3 === 0 ? 9n : 0n);
    assert.deepEqual(drawings(block), drawings(plain(block)));
    assert.equal(drawSession(contextOn(block), { ...seed, height: 9n }, 1_000).length, 80 + 266);
  });
});
