import assert from "node:assert/strict";
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { suite, test } from "node:test";
import { createCatalogue } from "@turnpike/catalogue";
import { endsInLinearTime } from "@turnpike/testkit";
import { UpgradeRouter } from "./upgrade.ts";

const router = new UpgradeRouter(
  { relayDomain: "localhost", maxHeaders: 100, takesKeys: false },
  createCatalogue({}).services.values(),
);

/** The fault of an upgrade request with this `Sec-WebSocket-Protocol`. */
function faultOf(protocols: string): string | undefined {
  const req = new IncomingMessage(new Socket());
  req.url = "/relay/solana";
  req.httpVersion = "1.1";
  req.rawHeaders = ["Host", "x"];
  req.headers = {
    host: "x",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "sec-websocket-protocol": protocols,
  };
  const target = router.targetOf(req);
  assert.ok(target !== undefined);
  return router.faultOf(req, target, () => true)?.code;
}

suite("protocols of an upgrade request", () => {
  test("are tokens, each of them once, with spaces and tabs around them", () => {
    for (const protocols of ["a", "a,b", " a ,\tb.c\t", "A,a"]) assert.equal(faultOf(protocols), undefined, protocols);
    for (const protocols of ["", "a,a", "a,,b", "a b", "a\u00a0"]) {
      assert.equal(faultOf(protocols), "MALFORMED_REQUEST", protocols);
    }
  });

  test("are read in time that grows with their length", () => {
    for (const pump of ["\t", " ", ",", "a", "a,", "\t,", "a\t"]) {
      const run = pump.repeat(2_000_000 / pump.length);
      endsInLinearTime(() => assert.equal(faultOf(`a${run}(`), "MALFORMED_REQUEST"));
    }
  });
});
