import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { DenseList, type DenseListItem } from "./dense-list.ts";

test("it holds what a Set would hold, whatever is added, removed and drained", () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constantFrom("add" as const, "remove" as const), at: fc.nat(9) }),
    fc.record({ kind: fc.constant("drain" as const), at: fc.constant(0) }),
  );
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const items: DenseListItem[] = Array.from({ length: 10 }, () => ({ listIndex: -1 }));
      const list = new DenseList();
      const model = new Set<DenseListItem>();
      for (const { kind, at } of steps) {
        const item = items[at] ?? assert.fail();
        if (kind === "drain") {
          assert.deepEqual(new Set(list.drain()), model);
          model.clear();
        } else if (kind === "remove") assert.equal(list.remove(item), model.delete(item));
        else if (!model.has(item)) {
          list.add(item);
          model.add(item);
        }
        assert.equal(list.size, model.size);
        for (const one of items) assert.equal(one.listIndex === -1, !model.has(one));
      }
    }),
  );
});

test("an item of another list is not removed", () => {
  const [list, other] = [new DenseList(), new DenseList()];
  const [item, otherItem] = [{ listIndex: -1 }, { listIndex: -1 }];
  list.add(item);
  other.add(otherItem);
  assert.equal(list.remove(otherItem), false);
  assert.equal(list.size + other.size, 2);
});
