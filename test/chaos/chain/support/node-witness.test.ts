import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { Witness } from "./node-witness.ts";

const HASH = "AB";

suite("what was told of a chain", () => {
  test("a transaction has one place and one code", () => {
    const witness = new Witness();
    witness.tx(HASH, { heightBlocks: 5n, code: 0 });
    witness.tx(HASH, { heightBlocks: 5n, code: 0 });
    assert.equal(witness.newTxs.length, 1);
    assert.throws(() => witness.tx(HASH, { heightBlocks: 5n, code: 1 }), /transaction AB/);
    assert.throws(() => witness.tx(HASH, { heightBlocks: 6n, code: 0 }), /transaction AB/);
    assert.throws(() => witness.check(), /transaction AB/);
  });

  test("what a block refused for its sequence may come again, once", () => {
    const witness = new Witness();
    witness.tx(HASH, { heightBlocks: 5n, code: 32 });
    witness.tx(HASH, { heightBlocks: 7n, code: 32 });
    witness.tx(HASH, { heightBlocks: 9n, code: 1 });
    assert.equal(witness.newTxs.length, 3);
    witness.check();
    assert.throws(() => witness.tx(HASH, { heightBlocks: 5n, code: 0 }), /transaction AB/);
    assert.throws(() => witness.tx(HASH, { heightBlocks: 11n, code: 0 }), /transaction AB/);
  });
});
