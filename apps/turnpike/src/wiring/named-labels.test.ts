import assert from "node:assert/strict";
import { test } from "node:test";
import type { MetricSpec } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { PrometheusMetrics } from "@turnpike/telemetry";
import { namedLabels } from "./named-labels.ts";

const SPEC: MetricSpec = { kind: "counter", name: "t_total", help: "T.", labels: ["service", "operator"] };
const relaySupplierHealthy: MetricSpec = {
  kind: "gauge",
  name: "t_healthy",
  help: "T.",
  labels: ["service", "operator"],
};
const MINE = { name: "Mine", description: "Mine.", category: "web", families: ["evm"] };

test("attack: services of the catalogue and of the operator keep their metrics, whatever strangers registered before", async () => {
  let config = loadConfig({ env: {} });
  const metrics = new PrometheusMetrics({ processMetrics: false, isNamed: namedLabels(() => config) });
  const count = (service: string) => metrics.count(SPEC, { service, operator: "" });
  for (let at = 0; at < 2_000; at++) count(`registered-${at}`);
  config = loadConfig({ env: {}, overrides: { catalogue: { services: { mine: MINE } } } });
  for (const service of ["eth", "mine", "unknown", "one-more"]) count(service);
  const text = await metrics.render();
  for (const service of ["eth", "mine", "unknown"]) {
    assert.match(text, new RegExp(`^t_total\\{service="${service}",operator=""\\} 1$`, "m"));
  }
  assert.match(text, /^t_total\{service="other",operator=""\} 977$/m);
  assert.equal(text.match(/^t_total\{/gm)?.length, 1_024 + 4);
});

test("attack: the operator's own suppliers keep their metrics, whatever strangers stake before, also from a reload on", async () => {
  const suppliersOf = (...operators: readonly string[]) => ({
    eth: { endpoints: operators.map((operator) => ({ operator, urls: { json_rpc: "http://127.0.0.1:8545" } })) },
  });
  let config = loadConfig({ env: {}, overrides: { suppliers: suppliersOf("own") } });
  const metrics = new PrometheusMetrics({ processMetrics: false, isNamed: namedLabels(() => config) });
  const sample = (operator: string): void => {
    metrics.count(SPEC, { service: "eth", operator });
    metrics.set(relaySupplierHealthy, 1, { service: "eth", operator });
  };
  for (let at = 0; at < 2_000; at++) sample(`pokt1stranger${at}`);
  sample("own");
  sample("later");
  config = loadConfig({ env: {}, overrides: { suppliers: suppliersOf("own", "later") } });
  sample("later");
  const text = await metrics.render();
  for (const line of [
    't_total{service="eth",operator="own"} 1',
    't_total{service="eth",operator="later"} 1',
    't_total{service="eth",operator="other"} 977',
    't_healthy{service="eth",operator="own"} 1',
    't_healthy{service="eth",operator="later"} 1',
  ]) {
    assert.ok(text.split("\n").includes(line), line);
  }
  assert.ok(!text.includes('t_healthy{service="eth",operator="other"}'));
});
