import assert from "node:assert/strict";
import { test } from "node:test";
import { isAppError } from "@turnpike/base";
import { PrometheusMetrics } from "@turnpike/telemetry";
import { anyCodePoint } from "@turnpike/testkit/arbitrary";
import { fc } from "@turnpike/testkit/property";
import { service } from "../test/stand-ins.ts";
import { hashRequest, sealEnvelope } from "./edge/pipeline.ts";
import { precomputeTerms } from "./edge/terms.ts";
import { hostName, parseTarget } from "./http/target.ts";

const RUNS = { numRuns: 3_000 };
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

test("the request hash: bytes may not move from one part to the next", () => {
  const part = fc.string({ maxLength: 6 });
  const request = fc.record({ verb: part, route: part, path: part, body: fc.uint8Array({ maxLength: 6 }) });
  fc.assert(
    fc.property(request, request, (a, b) => {
      const same = JSON.stringify({ ...a, body: hex(a.body) }) === JSON.stringify({ ...b, body: hex(b.body) });
      assert.equal(hex(hashRequest(a)) === hex(hashRequest(b)), same);
    }),
    RUNS,
  );
  const body = Buffer.from("b");
  const moved = hashRequest({ verb: "POST", route: "/v1/eth/a", path: "", body });
  assert.notEqual(hex(hashRequest({ verb: "POST", route: "/v1/eth", path: "/a", body })), hex(moved));
});

test("the envelope holds the supplier's bytes as they are", () => {
  fc.assert(
    fc.property(fc.json(), (data) => {
      const text = Buffer.from(sealEnvelope("eth", "unchecked", Buffer.from(data))).toString();
      assert.ok(text.endsWith(`,"data":${data}}`));
      const parsed = JSON.parse(text) as { portal: unknown };
      assert.deepEqual(parsed.portal, {
        provenance: "third-party-supplier",
        serviceId: "eth",
        schemaCheck: "unchecked",
      });
    }),
    RUNS,
  );
});

test("terms: one text in header and body, with any characters", () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCodePoint }), (description) => {
      const { body, headers } = precomputeTerms(service("eth"), () => ({ description }));
      assert.equal(Buffer.from(headers[5] ?? "", "base64").toString(), body);
      assert.equal(headers[3], String(Buffer.byteLength(body)));
      assert.deepEqual(JSON.parse(body), JSON.parse(JSON.stringify({ description })));
    }),
    RUNS,
  );
});

test("targets: what is split can be put together again", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const target = parseTarget(`/${text}`);
      assert.equal(`${target?.path}${target?.query}`, `/${text}`);
      parseTarget(text);
      assert.doesNotMatch(hostName(text), /[A-Z]/);
    }),
    RUNS,
  );
  assert.deepEqual(parseTarget("http://h:1/a?b=/c"), { path: "/a", query: "?b=/c", authority: "h:1" });
  assert.deepEqual(parseTarget("http://h?b"), { path: "/", query: "?b", authority: "h" });
  assert.equal(parseTarget("http:///a"), undefined);
  assert.equal(parseTarget("a"), undefined);
  assert.deepEqual(["A.b:1", "a.b.", "[::1]:80", "[::1]"].map(hostName), ["a.b", "a.b", "[::1]", "[::1]"]);
});

test("Prometheus: labels are fitted, and a name has one meaning", async () => {
  const metrics = new PrometheusMetrics({ processMetrics: false });
  const spec = { kind: "counter", name: "turnpike_a_total", help: "A", labels: ["x", "y"] } as const;
  metrics.count(spec, { x: "1", z: "2" });
  metrics.count({ ...spec }, { x: "1" }, 2);
  const seconds = { kind: "histogram", name: "turnpike_b_seconds", help: "B", buckets: [1, 2] } as const;
  metrics.observe(seconds, 1.5);
  metrics.set({ kind: "gauge", name: "turnpike_c", help: "C" }, 4);
  const text = await metrics.render();
  assert.match(text, /turnpike_a_total\{x="1",y=""\} 3/);
  assert.match(text, /turnpike_b_seconds_bucket\{le="1"\} 0\nturnpike_b_seconds_bucket\{le="2"\} 1/);
  assert.match(text, /turnpike_c 4/);
  const internal = (error: unknown): boolean => isAppError(error, "INTERNAL");
  assert.throws(() => metrics.count({ ...spec, labels: ["x"] }), internal);
  assert.throws(() => metrics.set(spec, 1), internal);
});
