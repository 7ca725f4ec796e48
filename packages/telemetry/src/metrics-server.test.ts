import assert from "node:assert/strict";
import { test } from "node:test";
import { isAppError, silentLog } from "@turnpike/base";
import { startMetricsServer } from "./metrics-server.ts";

const HOST = "127.0.0.1";

test("further pages are JSON with their own status, and samples kept elsewhere come before each scrape", async () => {
  let flushes = 0;
  await using server = await startMetricsServer(
    { host: HOST, port: 0 },
    {
      metrics: { contentType: "text/plain", render: () => Promise.resolve(`flushes ${flushes}\n`) },
      log: silentLog,
      pages: new Map([["/ready", () => Promise.resolve({ status: 503, body: { ready: false } })]]),
      flush: () => {
        flushes++;
      },
    },
  );
  const url = `http://${HOST}:${server.port}`;
  const ready = await fetch(`${url}/ready?verbose`);
  assert.deepEqual([ready.status, await ready.text()], [503, '{"ready":false}\n']);
  assert.equal(await (await fetch(`${url}/metrics`)).text(), "flushes 1\n");
  const head = await fetch(`${url}/metrics`, { method: "HEAD" });
  assert.deepEqual([head.headers.get("content-type"), await head.text()], ["text/plain", ""]);
  const post = await fetch(`${url}/ready`, { method: "POST" });
  assert.deepEqual([post.status, post.headers.get("allow")], [405, "GET, HEAD"]);
  assert.equal((await fetch(`${url}/status`)).status, 404);
});

test("metrics that cannot be rendered are a logged 500, and a port that is in use is named", async () => {
  const errors: object[] = [];
  const log = { ...silentLog, error: (fields: object) => errors.push(fields) };
  const metrics = { contentType: "text/plain", render: () => Promise.reject(new TypeError("no")) };
  await using server = await startMetricsServer({ host: HOST, port: 0 }, { metrics, log });
  const answer = await fetch(`http://${HOST}:${server.port}/metrics`);
  assert.equal(answer.status, 500);
  assert.match(await answer.text(), /"INTERNAL"/);
  assert.equal(errors.length, 1);
  await assert.rejects(startMetricsServer({ host: HOST, port: server.port }, { metrics, log }), (fault) =>
    isAppError(fault, "PORT_IN_USE"),
  );
});
