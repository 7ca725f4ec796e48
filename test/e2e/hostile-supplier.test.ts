import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { gzipSync } from "node:zlib";
import { rpcAnswer, startEvmUpstream, type UpstreamCall } from "@turnpike/testkit";
import { nestedJson } from "@turnpike/testkit/hostile-seller";
import { runInProcess } from "../../apps/turnpike/test/run-command.ts";
import { type Ground, newBuyer, startGround } from "../support/network.ts";
import { CHAIN_ID_HEX, ethAt, openGateway, PRICE, untilServed } from "./support.ts";

/** One way of a supplier to be hostile, and whether an honest gateway sells what it answers. */
interface SupplierMode {
  readonly isSold: boolean;
  readonly answer: (call: UpstreamCall, response: ServerResponse) => void;
}

const rest = (isSold: boolean, members: string): SupplierMode => ({
  isSold,
  answer: (call, response) => void response.end(rpcAnswer(call, members)),
});
const revert = (data: string): string => `"error":{"code":3,"message":"execution reverted","data":${data}}`;

const MODES: Readonly<Record<string, SupplierMode>> = {
  "revert with data of 2,000 levels": rest(true, revert(nestedJson(2_000))),
  "revert with data of 3,000 levels": rest(false, revert(nestedJson(3_000))),
  "revert with data of 6,000 levels": rest(false, revert(nestedJson(6_000))),
  "result beside a member of 200,000 levels": rest(false, `"result":"0x1","x":${nestedJson(200_000)}`),
  "result beside a member of 1,000,000 objects": rest(true, `"result":"0x1","x":[${"{},".repeat(999_999)}{}]`),
  "result beside __proto__": rest(false, '"result":"0x1","__proto__":{"result":"0x2"}'),
  "revert with data of __proto__": rest(true, revert('{"__proto__":{"isAdmin":true}}')),
  "revert with halves of surrogate pairs": rest(true, revert('"\\ud800 \\udc00"')),
  "page of a proxy": {
    isSold: false,
    answer: (_, response) => void response.writeHead(200, { "content-type": "text/html" }).end("<html>"),
  },
  "cut gzip": {
    isSold: false,
    answer: (call, response) => {
      const bytes = gzipSync(rpcAnswer(call, `"result":"0x${"ab12".repeat(4_000)}"`));
      response.writeHead(200, { "content-encoding": "gzip" }).end(bytes.subarray(0, bytes.length / 2));
    },
  },
  "connection that ends early": {
    isSold: false,
    answer: (_, response) => {
      response.writeHead(200, { "content-length": "500" }).write('{"jsonrpc":"2.0",', () => response.destroy());
    },
  },
};

const CALL = [
  "pay",
  "eth",
  '{"method":"eth_call","params":[{"to":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C"},"latest"]}',
];

suite("turnpike pay at an honest gateway with a hostile supplier", { concurrency: 3 }, () => {
  const state = mkdtempSync(join(tmpdir(), "turnpike-hostile-supplier-"));
  let ground: Ground;
  before(async () => {
    ground = await startGround();
  });
  after(async () => {
    rmSync(state, { recursive: true, force: true });
    await ground?.[Symbol.asyncDispose]();
  });

  for (const [name, { isSold, answer }] of Object.entries(MODES)) {
    test(`attack: ${name}: what the chain moved is what the command says`, async () => {
      await using supplier = await startEvmUpstream(answer, CHAIN_ID_HEX);
      await using gateway = await openGateway(ground, { sections: { suppliers: ethAt(supplier.url) } });
      await untilServed(gateway, "eth");
      const { key, address } = await newBuyer(ground);
      const balanceBefore = await ground.balance(address);
      const env = { TURNPIKE_GATEWAY: gateway.url, TURNPIKE_BUYER_KEY: key, XDG_STATE_HOME: state };
      const { code, out } = await runInProcess([...CALL, "--anyway", "--json"], env);
      const facts = JSON.parse(out) as { readonly state: string; readonly usd: string; readonly charge?: string };
      assert.deepEqual(
        [code, facts.state, facts.usd],
        isSold ? [0, "charged", "0.005000"] : [4, "unserved", "0.005000"],
        out.slice(0, 500),
      );
      if (!isSold) assert.match(facts.charge ?? "", /^Nothing was charged, as the gateway says\./);
      await gateway.assertSettled(isSold ? 1 : 0);
      assert.equal(balanceBefore - (await ground.balance(address)), isSold ? PRICE : 0n);
    });
  }
});
