import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { QuotedError } from "@turnpike/base";
import { recoverTypedDataAddress } from "viem";
import {
  answerJson,
  BODY,
  countingSigner,
  HASH,
  option,
  PAY_TO,
  pending,
  refusesWith,
  sold,
  standInGateway,
  testClient,
  USDC,
} from "../test/stand-in.ts";
import { createClient, listServices, memoryJournal, signerFromKey } from "./index.ts";

suite("client, against a stand-in gateway", () => {
  test("buys: asks, signs once for exactly the offer, and gives envelope, receipt and price", async () => {
    await using stand = await standInGateway(sold);
    const signer = countingSigner();
    const result = await testClient(stand.gateway, signer).client.call("eth", BODY);
    assert.ok(result.kind === "bought");
    assert.deepEqual(result.envelope, {
      portal: { provenance: "third-party-supplier", serviceId: "eth", schemaCheck: "passed" },
      data: { result: "0x1" },
    });
    assert.equal(result.receipt.transaction, HASH);
    assert.equal(result.receipt.settlementId, "stl_1");
    assert.equal(result.price?.usd, "0.005000");
    assert.equal(result.price?.amount, 5000n);
    assert.equal(signer.count(), 1);
    assert.deepEqual(
      stand.seen.map(({ method, path, body }) => [method, path, body]),
      [
        ["POST", "/v1/eth", BODY],
        ["POST", "/v1/eth", BODY],
      ],
    );
    const payload = JSON.parse(Buffer.from(stand.payments()[0] ?? "", "base64").toString("utf8")) as {
      accepted: unknown;
      extensions: Record<string, { info: { key: string } } | undefined>;
      payload: { signature: `0x${string}`; authorization: Record<string, string> };
    };
    assert.deepEqual(payload.accepted, option());
    const key = payload.extensions["answer-key"]?.info.key ?? "";
    assert.match(key, /^[A-Za-z0-9_-]{43}$/);
    assert.equal(result.payment, stand.payments()[0], "its buyer can present it again");
    const { authorization, signature } = payload.payload;
    assert.equal(authorization.value, "5000");
    assert.equal(authorization.to, PAY_TO);
    const fields = [
      "from:address",
      "to:address",
      "value:uint256",
      "validAfter:uint256",
      "validBefore:uint256",
      "nonce:bytes32",
    ];
    const payer = await recoverTypedDataAddress({
      domain: { name: "USDC", version: "2", chainId: 84532, verifyingContract: USDC },
      types: {
        TransferWithAuthorization: fields.map((field) => {
          const [name = "", type = ""] = field.split(":");
          return { name, type };
        }),
      },
      primaryType: "TransferWithAuthorization",
      message: authorization,
      signature,
    });
    assert.equal(payer, signer.address);
  });

  test("a price over the cap is refused before anything is signed", async () => {
    await using stand = await standInGateway(sold, [option({ amount: "50001" })]);
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer);
    await assert.rejects(client.call("eth", BODY), refusesWith("SPEND_CAP"));
    assert.equal(signer.count(), 0);
    assert.deepEqual(stand.payments(), []);
  });

  test("a price that is exactly the cap is paid, and one unit under it is not enough", async () => {
    await using stand = await standInGateway(sold, [option({ amount: "50000" })]);
    const at = await testClient(stand.gateway, countingSigner()).client.call("eth", BODY);
    assert.equal(at.kind, "bought");
    const under = testClient(stand.gateway, countingSigner(), { maxPriceUsd: "0.049999" });
    await assert.rejects(under.client.call("eth", BODY), refusesWith("SPEND_CAP"));
  });

  test("takes the first option that it can pay within the cap", async () => {
    await using stand = await standInGateway(sold, [
      option({ asset: "0x00000000000000000000000000000000000000AA" }),
      option({ scheme: "upto" }),
      option({ extra: { name: "USDC", version: "2", assetTransferMethod: "permit2" } }),
      option({ maxTimeoutSeconds: 31_536_000 }),
      option({ amount: "900000" }),
      option({ amount: "6000" }),
    ]);
    const result = await testClient(stand.gateway, countingSigner()).client.call("eth", BODY);
    assert.ok(result.kind === "bought");
    assert.equal(result.price?.amount, 6000n);
  });

  test("signs nothing when no option is in a dollar stablecoin that it knows", async () => {
    await using stand = await standInGateway(sold, [option({ asset: "0x00000000000000000000000000000000000000AA" })]);
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer);
    await assert.rejects(client.call("eth", BODY), refusesWith("PAYMENT_OPTION_UNKNOWN"));
    assert.equal(signer.count(), 0);
  });

  test("a quote shows the terms and the price, also over the cap, and signs nothing", async () => {
    await using stand = await standInGateway(sold, [option({ amount: "70000" })]);
    const signer = countingSigner();
    const quote = await testClient(stand.gateway, signer).client.quote("eth", BODY);
    assert.equal(quote.price.usd, "0.070000");
    assert.equal(quote.withinCap, false);
    assert.equal(signer.count(), 0);
    assert.deepEqual(stand.payments(), []);
  });

  test("while the settlement is pending it presents the same signature, after the time that it is told", async () => {
    await using stand = await standInGateway((seen, response, count) =>
      (count < 4 ? pending : sold)(seen, response, count),
    );
    const signer = countingSigner();
    const { client, waits } = testClient(stand.gateway, signer);
    const result = await client.call("eth", BODY);
    assert.equal(result.kind, "bought");
    assert.equal(signer.count(), 1);
    assert.equal(stand.payments().length, 4);
    assert.equal(new Set(stand.payments()).size, 1);
    assert.deepEqual(waits, [1_000, 1_000, 1_000]);
  });

  test("a lost connection after signing is tried again with the same signature", async () => {
    await using stand = await standInGateway((seen, response, count) => {
      if (count === 1) response.destroy();
      else if (count === 2) response.writeHead(200, { "content-length": "1000" }).write("{", () => response.destroy());
      else if (count === 3) response.writeHead(502).end("<html>a proxy</html>");
      else sold(seen, response, count);
    });
    const signer = countingSigner();
    const result = await testClient(stand.gateway, signer).client.call("eth", BODY);
    assert.equal(result.kind, "bought");
    assert.equal(signer.count(), 1);
    assert.equal(stand.payments().length, 4);
    assert.equal(new Set(stand.payments()).size, 1);
  });

  test("gives up in time, and gives the payment back so that it can be presented again", async () => {
    let settled = false;
    await using stand = await standInGateway((seen, response, count) =>
      (settled ? sold : pending)(seen, response, count),
    );
    const signer = countingSigner();
    const { client, waits } = testClient(stand.gateway, signer, { retryForMs: 3_500 });
    const first = await client.call("eth", BODY);
    assert.ok(first.kind === "refused");
    assert.equal(first.code, "SETTLEMENT_PENDING");
    assert.deepEqual([first.retryable, first.open], [true, true]);
    assert.equal(first.receipt?.errorReason, "settlement_pending");
    assert.equal(waits.length, 3);
    assert.ok(first.payment !== undefined);
    settled = true;
    const second = await client.call("eth", BODY, { payment: first.payment });
    assert.equal(second.kind, "bought");
    assert.equal(signer.count(), 1);
    assert.equal(new Set(stand.payments()).size, 1);
  });

  test("a refusal after signing is not tried again, and never signed again", async () => {
    for (const [status, code] of [
      [402, "PAYMENT_REQUIRED"],
      [409, "PAYMENT_CONFLICT"],
      [503, "SERVICE_UNAVAILABLE"],
    ] as const) {
      await using stand = await standInGateway((_, response) => {
        answerJson(response, status, {
          code,
          message: "no",
          requestId: "r",
          retryable: status === 503,
          error: "no",
          x402Version: 2,
        });
      });
      const signer = countingSigner();
      const result = await testClient(stand.gateway, signer).client.call("eth", BODY);
      assert.ok(result.kind === "refused");
      assert.deepEqual([result.status, result.code, result.message], [status, code, "no"]);
      assert.deepEqual([result.retryable, result.open], [status === 503, false], "nothing was charged");
      assert.equal(signer.count(), 1);
      assert.equal(stand.payments().length, 1);
    }
  });

  test("where terms come again, the code is that of the cause", async () => {
    await using stand = await standInGateway((_, response) => {
      answerJson(response, 402, {
        x402Version: 2,
        error: "PAYMENT_EXPIRED: The payment expires too soon. Sign again.",
      });
    });
    const result = await testClient(stand.gateway, countingSigner()).client.call("eth", BODY);
    assert.ok(result.kind === "refused");
    assert.deepEqual([result.code, result.message], ["PAYMENT_EXPIRED", "The payment expires too soon. Sign again."]);
  });

  test("a quote without terms has the gateway's code, and its words apart, its advice once", async () => {
    const answers = new Map<string, unknown>([
      ["/v1/no", { code: "UNKNOWN_SERVICE", message: "No service has this id. See /services.json for the ids." }],
      ["/v1/odd", { code: "HOUSE_RULE", message: "not today" }],
    ]);
    const fetch = async (url: string | URL | Request): Promise<Response> =>
      Response.json(answers.get(new URL(url instanceof Request ? url.url : url).pathname), { status: 404 });
    const client = createClient(
      { gateway: "http://g", signer: countingSigner(), budget: { perCallUsd: "1" }, journal: memoryJournal() },
      { fetch },
    );
    const asked = async (service: string): Promise<unknown> => client.quote(service, BODY).catch((e) => e);
    const unknown = await asked("no");
    assert.ok(unknown instanceof QuotedError);
    const own = "The gateway gave no terms: it answered 404; nothing was signed.";
    assert.deepEqual(
      [unknown.code, unknown.message, unknown.thirdParty],
      ["UNKNOWN_SERVICE", own, "No service has this id."],
    );
    const odd = await asked("odd");
    assert.ok(odd instanceof QuotedError);
    assert.deepEqual([odd.code, odd.message, odd.thirdParty], ["INTERNAL", own, "HOUSE_RULE: not today"]);
  });

  test("lists what a gateway sells, and nothing where it has no list", async () => {
    const items = [
      {
        id: "eth",
        serves: true,
        paid: true,
        relayUrl: "http://r",
        example: { a: 1 },
        methods: ["a", 7],
        price: { amount: "0.0050001", currency: "USD" },
      },
      { id: "x", serves: false, price: { amount: "5e-3", currency: "USD" } },
      7,
    ];
    const list = (body: unknown, status = 200) =>
      listServices({ gateway: "http://g" }, { fetch: async () => Response.json(body, { status }) });
    assert.deepEqual(await list(items), [
      {
        id: "eth",
        serves: true,
        paid: true,
        relayUrl: "http://r",
        example: { a: 1 },
        methods: ["a"],
        priceUsd: "0.005001",
      },
      {
        id: "x",
        serves: false,
        paid: true,
        relayUrl: undefined,
        example: undefined,
        methods: [],
        priceUsd: undefined,
      },
    ]);
    assert.equal(await list({}), undefined);
    assert.equal(await list([], 404), undefined);
    const [long] = (await list([{ id: "eth", example: { a: "x".repeat(4_096) } }])) ?? [];
    assert.equal(long?.example, undefined, "no command of a screen's length");
  });

  test("a 200 without a receipt is not taken for a purchase", async () => {
    await using stand = await standInGateway((_, response) => {
      answerJson(response, 200, { portal: {}, data: {} });
    });
    const result = await testClient(stand.gateway, countingSigner()).client.call("eth", BODY);
    assert.ok(result.kind === "refused");
    assert.equal(result.code, "FACILITATOR_MISBEHAVED");
  });

  test("says so when nothing listens, with nothing signed", async () => {
    const signer = countingSigner();
    const { client } = testClient("http://127.0.0.1:1", signer);
    await assert.rejects(client.call("eth", BODY), refusesWith("GATEWAY_UNREACHABLE"));
    await assert.rejects(listServices({ gateway: "http://127.0.0.1:1" }), refusesWith("GATEWAY_UNREACHABLE"));
    assert.equal(signer.count(), 0);
  });

  test("refuses a service that is no id, and a cap that is no amount", async () => {
    await using stand = await standInGateway(sold);
    const { client } = testClient(stand.gateway, countingSigner());
    await assert.rejects(client.call("../admin", BODY), refusesWith("USAGE"));
    assert.throws(
      () => testClient(stand.gateway, countingSigner(), { maxPriceUsd: "lots" }),
      refusesWith("CONFIG_INVALID"),
    );
    assert.throws(() => signerFromKey("0x12"), refusesWith("USAGE"));
  });

  test("a GET goes out with its path and query, unpaid and paid alike", async () => {
    await using stand = await standInGateway(sold);
    const { client } = testClient(stand.gateway, countingSigner());
    const result = await client.call("osmosis/status?x=1");
    assert.equal(result.kind, "bought");
    assert.deepEqual(
      stand.seen.map(({ method, path, body }) => [method, path, body]),
      [
        ["GET", "/v1/osmosis/status?x=1", ""],
        ["GET", "/v1/osmosis/status?x=1", ""],
      ],
    );
  });
});
