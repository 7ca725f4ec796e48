import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { type Log, noSpan, silentLog } from "@turnpike/base";
import { createOtlpTracer } from "./otlp-tracer.ts";

interface OtlpSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[];
  readonly status: { readonly code?: number; readonly message?: string };
}

interface OtlpBody {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly { key: string; value: Record<string, unknown> }[] };
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[];
  }[];
}

/** A stand-in for a collector: takes OTLP over HTTP, as JSON. */
async function startCollector(status = 200) {
  const bodies: OtlpBody[] = [];
  const paths: string[] = [];
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      paths.push(`${req.method} ${req.url} ${req.headers["content-type"]}`);
      bodies.push(JSON.parse(Buffer.concat(chunks).toString()) as OtlpBody);
      res.writeHead(status, { "content-type": "application/json" }).end("{}");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    paths,
    bodies,
    spans: () =>
      bodies.flatMap((body) => body.resourceSpans.flatMap((one) => one.scopeSpans.flatMap((two) => two.spans))),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

const OPTIONS = { sample: 1, serviceName: "gw", version: "1.2.3" };
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";

test("spans reach a collector over OTLP/HTTP: in the client's trace, with parents, kinds and failures", async () => {
  await using collector = await startCollector();
  {
    await using tracer = createOtlpTracer(
      { ...OPTIONS, endpoint: `${collector.endpoint}/` },
      { log: silentLog, random: () => 0.5 },
    );
    // The client says "not sampled"; that is not its business.
    const request = tracer.start("HTTP POST", `00-${TRACE}-${PARENT}-00`, { "http.request.method": "POST" });
    assert.equal(request.traceId, TRACE);
    const attempt = request.child("attempt", "client", { "turnpike.operator": "a" });
    attempt.fail("SUPPLIERS_FAILED");
    attempt.end();
    attempt.end();
    request.child("settle", "internal").end();
    request.set({ "http.response.status_code": 200 });
    request.end();
    tracer.start("HTTP GET", "00-xyz").end();
    tracer.start("HTTP GET", `00-${"0".repeat(32)}-${PARENT}-01`).end();
  }
  assert.deepEqual([...new Set(collector.paths)], ["POST /v1/traces application/json"]);
  const resource = Object.fromEntries(
    collector.bodies[0]?.resourceSpans[0]?.resource.attributes.map(({ key, value }) => [key, value.stringValue]) ?? [],
  );
  assert.equal(resource["service.name"], "gw");
  assert.equal(resource["service.version"], "1.2.3");
  const spans = collector.spans();
  assert.deepEqual(spans.map(({ name }) => name).sort(), ["HTTP GET", "HTTP GET", "HTTP POST", "attempt", "settle"]);
  const [request, attempt, settle] = ["HTTP POST", "attempt", "settle"].map((name) =>
    spans.find((one) => one.name === name),
  );
  assert.equal(request?.traceId, TRACE);
  assert.equal(request.parentSpanId, PARENT);
  assert.deepEqual([request.kind, attempt?.kind, settle?.kind], [2, 3, 1]);
  assert.deepEqual([attempt?.parentSpanId, settle?.parentSpanId], [request.spanId, request.spanId]);
  assert.deepEqual(attempt?.status, { code: 2, message: "SUPPLIERS_FAILED" });
  assert.deepEqual(attempt.attributes, [{ key: "turnpike.operator", value: { stringValue: "a" } }]);
  for (const span of spans.filter(({ name }) => name === "HTTP GET")) {
    assert.notEqual(span.traceId, TRACE);
    assert.equal(span.parentSpanId ?? "", "");
  }
});

test("what is not in the sample makes no span at all", async () => {
  await using collector = await startCollector();
  let roll = 0;
  {
    await using tracer = createOtlpTracer(
      { ...OPTIONS, sample: 0.25, endpoint: collector.endpoint },
      { log: silentLog, random: () => (roll++ % 4) / 4 },
    );
    const spans = Array.from({ length: 8 }, () => tracer.start("HTTP POST", `00-${TRACE}-${PARENT}-01`));
    assert.equal(spans.filter((span) => span === noSpan).length, 6);
    for (const span of spans) span.end();
  }
  assert.equal(collector.spans().length, 2);
});

test("a collector that refuses is one line in the log, without its address", async () => {
  await using collector = await startCollector(400);
  const lines: string[] = [];
  const log: Log = { ...silentLog, warn: (fields, message) => lines.push(message + JSON.stringify(fields)) };
  {
    await using tracer = createOtlpTracer({ ...OPTIONS, endpoint: collector.endpoint }, { log, random: () => 0 });
    tracer.start("HTTP POST", undefined).end();
  }
  assert.equal(collector.spans().length, 1);
  assert.equal(lines.length, 1, lines.join());
  assert.doesNotMatch(lines.join(), /127\.0\.0\.1/);
});
