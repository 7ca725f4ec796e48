import assert from "node:assert/strict";
import { test } from "node:test";
import type { SettlementId } from "@turnpike/base";
import { paymentHeader, receipt, startTestGateway } from "../../test/stand-ins.ts";

const call = (url: string, payment: string): Promise<Response> =>
  fetch(`${url}/v1/eth`, {
    method: "POST",
    headers: { "content-type": "application/json", "payment-signature": payment },
    body: '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}',
  });

test("each stage reports how many are in it, and every one of them is timed", async () => {
  await using to = await startTestGateway();
  const samples = async (): Promise<string> => await (await fetch(`${to.metricsUrl}/metrics`)).text();
  const inside = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  to.payment.outcome = (body) => {
    inside.resolve();
    const answer = { contentType: "application/json", body };
    return ended.promise.then(() => ({
      kind: "settled",
      receipt: receipt(),
      answer,
      settlementId: "s" as SettlementId,
    }));
  };
  const answer = call(to.url, paymentHeader());
  await inside.promise;
  const during = await samples();
  assert.match(during, /^turnpike_gateway_stage_in_flight\{stage="settle"\} 1$/m);
  assert.match(during, /^turnpike_gateway_stage_in_flight\{stage="relay"\} 0$/m);
  ended.resolve();
  assert.equal((await answer).status, 200);
  await call(to.url, "none");
  const after = await samples();
  assert.match(after, /^turnpike_gateway_stage_in_flight\{stage="settle"\} 0$/m);
  for (const stage of ["read", "parse", "admit", "relay", "settle"]) {
    assert.match(after, new RegExp(`^turnpike_gateway_stage_seconds_count\\{stage="${stage}"\\} 1$`, "m"));
  }
  assert.match(after, /^turnpike_gateway_stage_seconds_count\{stage="decode"\} 2$/m);
  assert.match(after, /^turnpike_gateway_stage_total\{stage="decode",outcome="ok"\} 1$/m);
  assert.match(after, /^turnpike_gateway_stage_total\{stage="decode",outcome="PAYMENT_MALFORMED"\} 1$/m);
});

test("readiness is a metric, as it is at the moment of the reading", async () => {
  await using to = await startTestGateway();
  const ready = async (): Promise<string | undefined> =>
    /^turnpike_gateway_ready (.)$/m.exec(await (await fetch(`${to.metricsUrl}/metrics`)).text())?.[1];
  assert.equal(await ready(), "1");
  to.payment.lacking = ["relayer gas"];
  assert.equal(await ready(), "0");
  to.payment.lacking = [];
  assert.equal(await ready(), "1");
});
