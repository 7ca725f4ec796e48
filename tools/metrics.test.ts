import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { CONNECTION_METRICS, type MetricSpec } from "@turnpike/base";
import { CHAIN_METRICS } from "@turnpike/chain";
import { CHAIN_NODE_METRICS } from "@turnpike/chain-node";
import { GATEWAY_METRICS } from "@turnpike/gateway";
import { PAYMENT_METRICS } from "@turnpike/payment";
import { APPLICATION_METRICS, PORTAL_METRICS } from "@turnpike/portal-db";
import { RELAY_METRICS } from "@turnpike/relay";
import { SEARCH_METRICS } from "@turnpike/search";
import { SERVING_METRICS, SUPPLIER_METRICS } from "@turnpike/supplier";
import { PrometheusMetrics } from "@turnpike/telemetry";
import { parse } from "yaml";
import { APP_METRICS } from "../apps/turnpike/src/wiring/metrics.ts";
import { DASHBOARDS } from "./dashboard-panels.ts";
import { files, productSources, readText, withoutComments } from "./sources.ts";

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook_url: string };
}

const ALERTS = "ops/alerts/turnpike.yaml";
const RUNBOOK = "docs/operate/watch.md";
/** Labels that Prometheus adds. */
const ADDED = ["job", "instance", "le"];

const declared: readonly MetricSpec[] = [
  ...APP_METRICS,
  ...CONNECTION_METRICS,
  ...GATEWAY_METRICS,
  ...PAYMENT_METRICS,
  ...APPLICATION_METRICS,
  ...CHAIN_METRICS,
  ...CHAIN_NODE_METRICS,
  ...PORTAL_METRICS,
  ...RELAY_METRICS,
  ...SEARCH_METRICS,
  ...SUPPLIER_METRICS,
  ...SERVING_METRICS,
];
const byName = new Map(declared.map((spec) => [spec.name, spec]));
const rules = (parse(readText(ALERTS)) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);
const boards = DASHBOARDS.map(({ file }) => `ops/dashboards/${file}.json`);
const shown = boards.flatMap((path) => {
  const { panels } = JSON.parse(readText(path)) as { panels: { title: string; targets?: { expr: string }[] }[] };
  return panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ where: `${path}: ${title}`, expr })));
});
const expressions = [...shown, ...rules.map(({ alert, expr }) => ({ where: `${ALERTS}: ${alert}`, expr }))];

/** Metrics that an expression reads, each with the labels that stand between its braces. */
function metricsIn(expr: string): { readonly name: string; readonly labels: readonly string[] }[] {
  return [...expr.matchAll(/\b((?:turnpike|process|nodejs)_[a-z0-9_]+)(?:\{([^}]*)\})?/g)].map(
    ([, name = "", inner = ""]) => ({
      name,
      labels: [...inner.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"/g)].map(([, label = ""]) => label),
    }),
  );
}

/** The metric that a series belongs to: those of a histogram have endings. */
function specOf(series: string): MetricSpec | undefined {
  const histogram = byName.get(series.replace(/_(bucket|sum|count)$/, ""));
  return byName.get(series) ?? (histogram?.kind === "histogram" ? histogram : undefined);
}

/** Everything wrong with the metrics of one expression. */
function faultsOf(expr: string, ofProcess: ReadonlySet<string>): string[] {
  const read = metricsIn(expr);
  const known = new Set(ADDED);
  const faults = read.flatMap(({ name, labels }) => {
    const spec = specOf(name);
    if (spec === undefined) return ofProcess.has(name) ? [] : [`${name} is not declared`];
    if (spec.kind === "histogram" && spec.name === name) return [`${name} is a histogram`];
    for (const label of spec.labels ?? []) known.add(label);
    const isCounted = spec.kind !== "gauge";
    if (isCounted && !new RegExp(`(rate|increase)\\(${name}\\b`).test(expr)) return [`${name} is read without rate`];
    if (!isCounted && new RegExp(`(rate|increase)\\(${name}\\b`).test(expr)) return [`${name} is a gauge`];
    return labels.filter((label) => !known.has(label)).map((label) => `${name} has no label ${label}`);
  });
  const grouped = [...expr.matchAll(/\b(?:by|on)\s*\(([^)]*)\)/g)].flatMap(([, list = ""]) => list.split(/,\s*/));
  return [...faults, ...grouped.filter((label) => !known.has(label)).map((label) => `no label ${label}`)];
}

async function processMetrics(): Promise<Set<string>> {
  const text = await new PrometheusMetrics({ processMetrics: true }).render();
  return new Set([
    ...[...text.matchAll(/^([a-z_0-9]+)[{ ]/gm)].map(([, name = ""]) => name),
    // prom-client gives it once there was a collection
    "nodejs_gc_duration_seconds_sum",
  ]);
}

suite("metrics", () => {
  test("no two alerts have one name and the same labels: Alertmanager would take them for one", () => {
    const names = rules.map(({ alert, labels }) => `${alert} ${JSON.stringify(labels)}`);
    assert.deepEqual(
      names.filter((name, at) => names.indexOf(name) !== at),
      [],
    );
  });

  test("only counters of the runtime end in _total", async () => {
    const text = await new PrometheusMetrics({ processMetrics: true }).render();
    const others = [...text.matchAll(/^# TYPE (\w+_total) (?!counter)\w+$/gm)].map(([, name]) => name);
    assert.deepEqual(others, []);
  });

  test("a metric's constant has the metric's name: relayAttemptsTotal for turnpike_relay_attempts_total", () => {
    const camelCase = (name: string): string =>
      name.replace(/^turnpike_/, "").replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
    const constants = productSources().flatMap((path) =>
      [...readText(path).matchAll(/const (\w+): MetricSpec = \{[^}]*?name: "(\w+)"/g)].map(
        ([, constant, name = ""]) => ({
          path,
          constant,
          name,
        }),
      ),
    );
    assert.ok(constants.length >= 100, `${constants.length}`);
    // A public name with a word that the code does not use any more.
    const kept = "turnpike_ledger_books_timestamp_seconds";
    const others = constants.filter(({ constant, name }) => name !== kept && constant !== camelCase(name));
    assert.deepEqual(
      others.map(({ path, constant, name }) => `${path}: ${constant} is ${camelCase(name)}`),
      [],
    );
  });

  test("names are unique, ours, and end in their unit", () => {
    assert.equal(byName.size, declared.length, "a name is declared twice");
    for (const { name, kind, help, labels = [] } of declared) {
      assert.match(name, /^turnpike_[a-z0-9]+(_[a-z0-9]+)*$/);
      assert.equal(name.endsWith("_total"), kind === "counter", `${name} is a ${kind}`);
      if (kind === "histogram") assert.match(name, /_(seconds|bytes|payments|blocks)$/);
      assert.doesNotMatch(name, /_(ms|millis|milliseconds|kb|mb|count|sum|bucket)$/);
      assert.ok(help.length > 10, name);
      assert.equal(new Set(labels).size, labels.length, name);
    }
  });

  test("what is declared anywhere is in its package's list, and is emitted", () => {
    const sources = productSources().map((path) => ({ path, code: withoutComments(readText(path)) }));
    const constants = sources.flatMap(({ path, code }) =>
      [...code.matchAll(/export const (\w+): MetricSpec = \{[^}]*?name: "([^"]+)"/g)].map(
        ([, constant = "", name = ""]) => ({ path, constant, name }),
      ),
    );
    assert.deepEqual(constants.map(({ name }) => name).sort(), [...byName.keys()].sort());
    const emitting = sources
      .filter(({ path }) => !/(metrics|index)\.ts$/.test(path))
      .map(({ path, code }) => ({
        folder: path.split("/", 2).join("/"),
        code: code.replaceAll(/^import[^;]*;/gm, ""),
      }));
    const silent = constants.filter(
      ({ path, constant }) =>
        !emitting.some(
          ({ folder, code }) => path.startsWith(`${folder}/`) && new RegExp(`\\b${constant}\\b`).test(code),
        ),
    );
    assert.deepEqual(silent, []);
  });

  test("every metric stands on a dashboard", () => {
    const read = new Set(shown.flatMap(({ expr }) => metricsIn(expr).map(({ name }) => specOf(name)?.name)));
    assert.deepEqual(
      declared.map(({ name }) => name).filter((name) => !read.has(name)),
      [],
    );
  });

  test("dashboards and alerts read what is declared, by labels that it has", async () => {
    const ofProcess = await processMetrics();
    assert.ok(ofProcess.has("nodejs_eventloop_lag_p99_seconds"));
    assert.deepEqual(
      expressions.flatMap(({ where, expr }) => faultsOf(expr, ofProcess).map((fault) => `${where}: ${fault}`)),
      [],
    );
    assert.deepEqual(files("ops/dashboards/*.json"), boards.toSorted());
  });

  test("every alert has a summary, a severity and its own section of the runbook", () => {
    const sections = [...readText(RUNBOOK).matchAll(/^## (\S+)$/gm)].map(([, title = ""]) => title);
    assert.deepEqual([...new Set(rules.map(({ alert }) => alert))].sort(), sections.toSorted());
    for (const { alert, labels, annotations } of rules) {
      assert.equal(annotations.runbook_url, `${RUNBOOK}#${alert.toLowerCase()}`);
      assert.ok(annotations.summary.length > 10, alert);
      assert.match(labels.severity, /^(page|ticket)$/);
    }
  });

  test("the check itself sees an unknown metric, a wrong label and a wrong reading", () => {
    const none = new Set<string>();
    assert.deepEqual(faultsOf("turnpike_nothing == 0", none), ["turnpike_nothing is not declared"]);
    assert.deepEqual(faultsOf('sum(rate(turnpike_relays_total{door="x"}[5m]))', none), [
      "turnpike_relays_total has no label door",
    ]);
    assert.deepEqual(faultsOf("sum by (door) (turnpike_relay_in_flight)", none), ["no label door"]);
    assert.deepEqual(faultsOf("turnpike_relays_total", none), ["turnpike_relays_total is read without rate"]);
    assert.deepEqual(faultsOf("rate(turnpike_relay_in_flight[5m])", none), ["turnpike_relay_in_flight is a gauge"]);
    assert.deepEqual(faultsOf("rate(turnpike_gateway_stage_seconds[5m])", none), [
      "turnpike_gateway_stage_seconds is a histogram",
    ]);
  });
});
