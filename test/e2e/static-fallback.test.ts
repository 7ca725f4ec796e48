import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { chainParty, startTestChain, type TestChain } from "@turnpike/testkit/chain";
import { type Ground, startGround } from "../support/network.ts";
import { call, signPayment, termsOf } from "../support/payer.ts";
import { ethAt, type OpenGateway, openGateway, PRICE, STAND_IN_RESULT, type StandIn, startStandIn } from "./support.ts";

const BODY = { method: "eth_gasPrice", params: [] };

// The supplier of the session is at an address where none listens.
suite("a paid call, a session whose supplier cannot be reached, and a static supplier", () => {
  let ground: Ground;
  let chain: TestChain;
  let folder: string;

  before(async () => {
    ground = await startGround();
    chain = await startTestChain();
    await chain.reach(2n);
    folder = await mkdtemp(join(tmpdir(), "turnpike-fallback-"));
    const privateKey = Buffer.from(chainParty("gateway").privateKey).toString("hex");
    await writeFile(join(folder, "gateway.json"), JSON.stringify({ privateKey }), { mode: 0o600 });
  });
  after(async () => {
    await chain?.[Symbol.asyncDispose]();
    await ground?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  const gatewayAt = (node: StandIn, staticFallback: boolean, delegatedBeforeStatic = true): Promise<OpenGateway> =>
    openGateway(ground, {
      sections: {
        suppliers: ethAt(node.url),
        protocol: {
          nodeUrl: chain.rpcUrl,
          gatewayKeyFile: join(folder, "gateway.json"),
          staticFallback,
          delegatedBeforeStatic,
          allowPrivateSuppliers: true,
          signingThreads: 0,
        },
      },
    });

  test("is served by it and charged once, also when the payment is sent twice, where the operator wants it", async () => {
    await using node = await startStandIn();
    await using gateway = await gatewayAt(node, true);
    const payer = await ground.fundedPayer(PRICE * 2n);
    const url = gateway.route("eth");
    const header = await signPayment(payer, await termsOf(url));
    const answers = [await call(url, BODY, header), await call(url, BODY, header)];
    for (const { status, text, json, receipt } of answers) {
      assert.equal(status, 200, text);
      assert.deepEqual([json.data.result, receipt?.success], [STAND_IN_RESULT, true]);
    }
    assert.equal(node.runs(), 1);
    await gateway.assertSettled(1);
    assert.equal(await ground.balance(payer.address), PRICE);
  });

  test("is not served and not charged where the operator does not", async () => {
    await using node = await startStandIn();
    await using gateway = await gatewayAt(node, false);
    const payer = await ground.fundedPayer(PRICE * 2n);
    const url = gateway.route("eth");
    const answer = await call(url, BODY, await signPayment(payer, await termsOf(url)));
    assert.deepEqual([answer.status, answer.json.code], [503, "SERVICE_UNAVAILABLE"], answer.text);
    assert.equal(node.runs(), 0);
    await gateway.assertSettled(0);
    assert.equal(await ground.balance(payer.address), PRICE * 2n);
  });

  test("is served by it alone where the operator has not chosen delegated applications: strangers change nothing", async () => {
    await using node = await startStandIn();
    await using gateway = await gatewayAt(node, false, false);
    const payer = await ground.fundedPayer(PRICE * 2n);
    const url = gateway.route("eth");
    const answer = await call(url, BODY, await signPayment(payer, await termsOf(url)));
    assert.deepEqual([answer.status, answer.json.data?.result], [200, STAND_IN_RESULT], answer.text);
    assert.equal(node.runs(), 1);
    await gateway.assertSettled(1);
  });
});
