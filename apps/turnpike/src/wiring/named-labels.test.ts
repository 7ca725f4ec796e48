import assert from "node:assert/strict";
import { test } from "node:test";
import type { MetricSpec } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { createPrometheusMetrics } from "@turnpike/gateway";
import { namedLabels } from "./named-labels.ts";

const SPEC: MetricSpec = { kind: "counter", name: "t_total", help: "T.", labels: ["service", "operator"] };
const MINE = { name: "Mine", description: "Mine.", category: "web", families: ["evm"] };

test("attack: services of the catalogue and of the operator keep their metrics, whatever strangers registered before", async () => {
  let config = loadConfig({ env: {} });
  const metrics = createPrometheusMetrics({ processMetrics: false, isNamed: namedLabels(() => config) });
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
