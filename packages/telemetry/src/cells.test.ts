import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { MetricSpec } from "@turnpike/base";
import { Cells } from "./cells.ts";

const COUNTER: MetricSpec = { kind: "counter", name: "c_total", help: "C.", labels: ["door", "service", "result"] };
const GAUGE: MetricSpec = { kind: "gauge", name: "g", help: "G.", labels: ["service", "kind"] };
const MOST = 1_024;

const numbered = (count: number): string[] => Array.from({ length: count }, (_, at) => `s${at}`);
const isOurs = (label: string, value: string): boolean => label === "service" && value.startsWith("our-");
const labelsOf = (cells: Cells): string[] => cells.all().map(({ labels }) => Object.values(labels).join(" "));

suite("the bound of a metric's label values", () => {
  test("attack: ids of strangers take no place of a service that the operator names, however late its first sample comes", () => {
    const cells = new Cells(COUNTER, isOurs);
    for (const service of numbered(5_000)) cells.at({ door: "free", service, result: "ok" }).value++;
    for (const service of ["our-eth", "our-new"]) cells.at({ door: "free", service, result: "ok" }).value++;
    cells.at({ door: "free", service: "one-more", result: "ok" }).value++;
    const labels = labelsOf(cells);
    assert.equal(labels.length, MOST + 3);
    for (const kept of ["free our-eth ok", "free our-new ok", "free s0 ok", "free other ok"]) {
      assert.ok(labels.includes(kept), kept);
    }
    assert.equal(cells.at({ door: "free", service: "other", result: "ok" }).value, 5_000 - MOST + 1);
  });

  test("named services take no place of others' either", () => {
    const cells = new Cells(COUNTER, isOurs);
    for (const service of numbered(3_000)) cells.at({ door: "free", service: `our-${service}`, result: "ok" }).value++;
    for (const service of numbered(MOST)) cells.at({ door: "free", service, result: "ok" }).value++;
    assert.equal(cells.all().length, 3_000 + MOST);
    assert.ok(!labelsOf(cells).includes("free other ok"));
  });

  test("it counts the values below the same values of the labels before it", () => {
    const cells = new Cells(COUNTER);
    for (const door of ["free", "paid"]) {
      for (const service of numbered(MOST)) cells.at({ door, service, result: "ok" }).value++;
    }
    assert.equal(cells.all().length, 2 * MOST);
  });

  test("a value that is named later gets a cell of its own from then on", () => {
    const named = new Set<string>();
    const cells = new Cells(GAUGE, (_, value) => named.has(value));
    for (const service of numbered(MOST)) cells.at({ service, kind: "a" }).value = 1;
    cells.at({ service: "late", kind: "a" }).value = 7;
    assert.ok(!labelsOf(cells).includes("late a"));
    named.add("late");
    cells.at({ service: "late", kind: "a" }).value = 8;
    assert.ok(labelsOf(cells).includes("late a"));
  });
});

suite("a gauge beyond the bound", () => {
  test("has no cell: that of several services is of none, and nothing could remove it", () => {
    const cells = new Cells(GAUGE);
    for (const service of numbered(MOST + 2)) {
      for (const kind of ["a", "b"]) cells.at({ service, kind }).value = 1;
    }
    assert.equal(cells.all().length, 2 * MOST);
    assert.ok(!labelsOf(cells).some((one) => one.startsWith("other")));
    cells.remove({ service: `s${MOST}`, kind: "a" });
    assert.equal(cells.all().length, 2 * MOST);
  });

  test("has one once those before it are forgotten, each of which makes room for one", () => {
    const cells = new Cells(GAUGE, isOurs);
    const set = (service: string): void => {
      cells.at({ service, kind: "a" }).value = 1;
    };
    for (const service of ["our-eth", ...numbered(MOST)]) set(service);
    cells.remove({ service: "our-eth", kind: "a" });
    set("late");
    assert.ok(!labelsOf(cells).includes("late a"), "a named one makes no room");
    for (const service of ["s0", "s0", "s1"]) cells.remove({ service, kind: "a" });
    for (const service of ["late", "later", "latest"]) set(service);
    assert.equal(cells.all().length, MOST);
    assert.ok(labelsOf(cells).includes("late a") && labelsOf(cells).includes("later a"));
    assert.ok(!labelsOf(cells).includes("latest a"));
  });
});
