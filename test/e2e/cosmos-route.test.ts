import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { createCatalogue, type Service } from "@turnpike/catalogue";
import { isListed } from "@turnpike/relay";
import type { Upstream } from "@turnpike/testkit";
import { type Recorded, readRecorded, startRecordedNode } from "@turnpike/testkit";
import { type Ground, startGround } from "../support/network.ts";
import { type Payer, signPayment, type Terms, termsOf } from "../support/payer.ts";
import { type ExactAnswer, exact, type OpenGateway, openGateway, PRICE } from "./support.ts";

const ACCOUNT = "pokt173r2dgg0jce84fq60sc7wmasvrpesfjdf93pqz";
const ROUTE = "/v1/pocket";
/** What the relay asks by itself, every few seconds. */
const PROBES: ReadonlySet<string> = new Set(["GET /status", "GET /cosmos/base/tendermint/v1beta1/blocks/latest"]);
/** Purchases at once. */
const LANES = 8;

/** A request on the route: verb, what is appended with its query, and the body. */
type Form = readonly [verb: string, appended: string, body?: unknown];

interface Case {
  readonly name: string;
  readonly form: Form;
  /** What the recorded node answered. */
  readonly data: unknown;
}

/** The Cosmos-style service of the catalogue. */
function pocket(): Service {
  const service = createCatalogue({}).services.get("pocket" as never);
  assert.ok(service !== undefined);
  return service;
}

const pathOf = ({ request }: Recorded): string => request.path.split("?")[0] ?? "";

/** Every recorded good answer to something that is listed, once for each question. */
function goodCases(service: Service): readonly Case[] {
  const seen = new Set<string>();
  const fresh = (key: string): boolean => !seen.has(key) && seen.add(key) !== undefined;
  const all = [...readRecorded("rpc"), ...readRecorded("rest")].filter(
    ({ status, request }) => status === 200 && request.headers === undefined,
  );
  return all.flatMap((one, at): readonly Case[] => {
    const { method, path, body } = one.request;
    if (method === "GET") {
      if (!isListed(service, pathOf(one)) || !fresh(`GET ${path}`)) return [];
      const forms: readonly Form[] = [
        ["GET", encodeURI(path)],
        ["POST", encodeURI(path)],
        ["POST", "", { method: `GET ${path}` }],
      ];
      // The three forms in turn: each answer once, each form many times.
      const form = forms[at % forms.length] ?? forms[0];
      return form === undefined ? [] : [{ name: `${form[0]} ${path} as ${at % forms.length}`, form, data: one.body }];
    }
    const asked = body as { method?: string; params?: unknown; id?: unknown } | undefined;
    const answered = one.body as { result?: unknown } | undefined;
    const isGood = asked?.id === 1 && asked.params !== undefined && answered?.result !== undefined;
    const { method: name = "", params } = isGood ? asked : {};
    if (!service.operations.has(name) || !fresh(`${name} ${JSON.stringify(params)}`)) return [];
    return [
      { name: `${name} ${JSON.stringify(params)}`, form: ["POST", "", { method: name, params }], data: one.body },
    ];
  });
}

suite("The Cosmos-style route in every form over sockets, against the recorded RPC and REST answers", () => {
  const service = pocket();
  let ground: Ground;
  let node: Upstream;
  let gateway: OpenGateway;
  let payer: Payer;
  let terms: Terms;
  let sold = 0;

  before(async () => {
    [ground, node] = await Promise.all([startGround(), startRecordedNode()]);
    const endpoint = { operator: "recorded", urls: { comet_bft: node.url, rest: node.url } };
    gateway = await openGateway(ground, { sections: { suppliers: { pocket: { endpoints: [endpoint] } } } });
    payer = await ground.fundedPayer(PRICE * 1_000n);
    terms = await termsOf(gateway.route("pocket"));
  });
  after(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await node?.[Symbol.asyncDispose]();
    await ground?.[Symbol.asyncDispose]();
  });

  const send = ([verb, appended, body]: Form, header?: string): Promise<ExactAnswer> =>
    exact(gateway.url, verb, ROUTE + appended, {
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(header === undefined ? {} : { "payment-signature": header }),
      },
    });
  const buy = async (form: Form): Promise<ExactAnswer> => {
    const answer = await send(form, await signPayment(payer, terms));
    if (answer.status === 200) sold++;
    return answer;
  };

  /** Buys them, some at once, and gives what is wrong with each. */
  const buyAll = async (cases: readonly Case[]): Promise<readonly string[]> => {
    const faults: string[] = [];
    const queue = [...cases];
    const lane = async (): Promise<void> => {
      for (let one = queue.shift(); one !== undefined; one = queue.shift()) {
        const { name, form, data } = one;
        const answer = await buy(form);
        try {
          assert.equal(answer.status, 200, answer.text.slice(0, 300));
          assert.deepEqual(answer.json.data, data);
          assert.notEqual(answer.json.portal.schemaCheck, "unchecked");
          assert.equal(answer.json.portal.serviceId, "pocket");
        } catch (error) {
          faults.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
        }
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    return faults;
  };

  test("every recorded good answer is sold as it was recorded", async () => {
    const cases = goodCases(service);
    assert.ok(cases.length > 100, `only ${cases.length} recorded answers`);
    assert.deepEqual(await buyAll(cases), []);
  });

  test("one question in each of its forms gets one answer", async () => {
    const balance = `/cosmos/bank/v1beta1/balances/${ACCOUNT}/by_denom`;
    const lcd: readonly Form[] = [
      ["GET", `${balance}?denom=upokt`],
      ["POST", `${balance}?denom=upokt`],
      ["POST", `${balance}?denom=upokt`, {}],
      ["POST", `${balance}?denom=upokt`, { method: `GET ${balance}?denom=upokt` }],
      ["POST", "", { method: `GET ${balance}?denom=upokt` }],
    ];
    for (const form of lcd) {
      const answer = await buy(form);
      assert.equal(answer.status, 200, `${form.join(" ")}: ${answer.text}`);
      assert.deepEqual(Object.keys(answer.json.data), ["balance"]);
      assert.equal(answer.json.data.balance.denom, "upokt");
      assert.equal(answer.json.portal.schemaCheck, "passed");
    }
    const engine: readonly (readonly [Form, number | string])[] = [
      [["GET", "/validators?height=103"], -1],
      [["POST", "/validators?height=103"], -1],
      [["POST", "", { method: "GET /validators?height=103" }], -1],
      [["POST", "", { method: "validators", params: { height: "103", page: "1", per_page: "1" } }], 1],
      [["POST", "", { jsonrpc: "2.0", id: "mine", method: "health" }], "mine"],
    ];
    for (const [form, id] of engine) {
      const answer = await buy(form);
      assert.equal(answer.status, 200, `${JSON.stringify(form)}: ${answer.text}`);
      assert.equal(answer.json.data.jsonrpc, "2.0");
      assert.equal(answer.json.data.id, id);
      assert.ok("result" in answer.json.data && !("error" in answer.json.data));
    }
  });

  test("an error that the question itself has caused is sold, with the node's own words", async () => {
    const future = await buy(["POST", "", { method: "block", params: { height: "102035" } }]);
    assert.equal(future.status, 200, future.text);
    assert.equal(future.json.data.error.code, -32603);
    const text = await buy(["GET", "/block?height=abc"]);
    assert.equal(text.status, 200, text.text);
    assert.equal(text.json.data.error.code, -32602);
    const unknown = await buy(["GET", `/cosmos/tx/v1beta1/txs/${"0".repeat(64)}`]);
    assert.equal(unknown.status, 200, unknown.text);
    assert.equal(unknown.json.data.code, 5);
  });

  test("a path that this node does not serve (501) is 503, and is not charged", async () => {
    const answer = await buy(["GET", "/ibc/apps/transfer/v1/denoms"]);
    assert.equal(answer.status, 503, answer.text);
    assert.equal(answer.headers["payment-response"], undefined);
  });

  test("unpaid on a listed path: the route's own 402", async () => {
    const root = await send(["POST", "", { method: "status" }]);
    const forms: readonly Form[] = [
      ["GET", "/status"],
      ["POST", "/status"],
      ["POST", "/status", { method: "status" }],
      ["GET", "/validators?height=103"],
      ["GET", `/cosmos/bank/v1beta1/balances/${ACCOUNT}?pagination.limit=1`],
      ["POST", `/cosmos/bank/v1beta1/balances/${ACCOUNT}`],
      ["GET", "/cosmos/base/tendermint/v1beta1/blocks/latest"],
    ];
    for (const form of forms) {
      const answer = await send(form);
      assert.equal(answer.status, 402, `${form.join(" ")}: ${answer.text}`);
      assert.equal(answer.json.resource.url, gateway.route("pocket"));
      assert.equal(answer.text, root.text);
      assert.equal(answer.headers["payment-required"], root.headers["payment-required"]);
    }
  });

  /** Calls that reached the node, but for the relay's own questions, which come again when they want. */
  const reached = (): number => node.calls.filter(({ verb, path }) => !PROBES.has(`${verb} ${path}`)).length;

  /** Paid or not, a refusal comes before the payment is looked at. */
  const refusedAs = async (form: Form, statuses: readonly number[]): Promise<void> => {
    const asked = reached();
    for (const header of [undefined, await signPayment(payer, terms)]) {
      const answer = await send(form, header);
      const what = `${form.join(" ")}, ${header === undefined ? "unpaid" : "paid"}: ${answer.status} ${answer.text}`;
      assert.ok(statuses.includes(answer.status), what);
      assert.deepEqual(Object.keys(answer.json).sort(), ["code", "message", "requestId", "retryable"], what);
      assert.equal(answer.headers["payment-response"], undefined, what);
    }
    assert.equal(reached(), asked);
  };

  for (const path of [
    "/nosuch",
    "/broadcast_tx_sync?tx=0x00",
    "/broadcast_tx_commit",
    "/dial_peers",
    "/cosmos/tx/v1beta1/simulate",
    "/cosmos/bank/v1beta1/denom_owners/mact",
    "/cosmos/bank/v1beta1/balances",
    `/cosmos/bank/v1beta1/balances/${ACCOUNT}/by_denom/more`,
    "/STATUS",
  ]) {
    test(`a path that is not listed is 404: ${path}`, async () => {
      await refusedAs(["GET", path], [404]);
      await refusedAs(["POST", path], [404]);
    });
  }

  for (const path of [
    "/../eth",
    "/./status",
    "/status/..",
    "/cosmos/../status",
    "/%2e%2e/eth",
    "/cosmos/%2E%2e/bank",
    "/cosmos/bank/v1beta1/balances/..",
    "/cosmos/bank/v1beta1/balances/%2e%2e",
    "/cosmos/bank/v1beta1/balances/..%2Fparams",
    "/cosmos/bank/v1beta1/balances/a%2F..%2Fb",
    "/cosmos/bank/v1beta1/balances/..;x",
    "/cosmos/bank/v1beta1/balances/%252e%252e",
    "/cosmos/bank/v1beta1/balances/%252F",
    "/cosmos/bank/v1beta1/balances/a%5Cb",
    "/cosmos/bank/v1beta1/balances/a%00",
    "/cosmos/bank/v1beta1/balances/%ff",
    "/cosmos/bank/v1beta1/balances/%",
    "//status",
    "/status/",
  ]) {
    test(`a malformed path is 400: ${path}`, async () => {
      await refusedAs(["GET", path], [400]);
      await refusedAs(["POST", path], [400]);
    });
  }

  test("an encoded slash is taken inside a template's value, and nowhere else", async () => {
    const inValue = "/cosmos/bank/v1beta1/balances/ibc%2F27394FB0";
    assert.equal((await send(["GET", inValue])).status, 402);
    await buy(["GET", inValue]);
    await buy(["POST", "", { method: `GET ${inValue}` }]);
    const seen = node.calls.filter(({ path }) => path.includes("27394FB0"));
    assert.deepEqual([...new Set(seen.map(({ verb, path }) => `${verb} ${path}`))], [`GET ${inValue}`]);
    for (const path of ["/cosmos%2Fbank/v1beta1/params", "/cosmos/bank%2Fv1beta1%2Fparams", "/%2Fstatus"]) {
      await refusedAs(["GET", path], [400, 404]);
    }
  });

  test("a method or path of the body that is not offered is 400, and is not charged", async () => {
    const asked = reached();
    for (const method of [
      "broadcast_tx_sync",
      "subscribe",
      "unsafe_flush_mempool",
      "GET /nosuch",
      "GET /broadcast_tx_sync",
      "GET /../status",
      "GET /cosmos/%2e%2e/status",
      "POST /status",
      "POST /cosmos/tx/v1beta1/txs",
      "DELETE /status",
      "GET status",
      " status",
      "",
    ]) {
      const answer = await send(["POST", "", { method }], await signPayment(payer, terms));
      assert.equal(answer.status, 400, `${method}: ${answer.text}`);
      assert.equal(answer.headers["payment-response"], undefined);
    }
    assert.equal(reached(), asked);
  });

  test("other verbs are 405 and name those that are taken; GET at the root too", async () => {
    for (const form of [
      ["PUT", "/status"],
      ["DELETE", "/status"],
      ["GET", ""],
    ] as const) {
      const answer = await send(form);
      assert.equal(answer.status, 405, answer.text);
      assert.match(String(answer.headers.allow), form[1] === "" ? /^POST, OPTIONS$/ : /^GET, POST, OPTIONS$/);
    }
    const preflight = await send(["OPTIONS", "/status"]);
    assert.equal(preflight.status, 204);
    assert.match(String(preflight.headers["access-control-allow-headers"]), /PAYMENT-SIGNATURE/i);
  });

  test("a payment is bound to its path, query and verb", async () => {
    const header = await signPayment(payer, terms);
    const bought = await send(["GET", "/validators?height=103"], header);
    assert.equal(bought.status, 200, bought.text);
    sold++;
    const others: readonly Form[] = [
      ["GET", "/validators"],
      ["GET", "/validators?height=104"],
      ["GET", "/block?height=103"],
      ["POST", "/validators?height=103"],
      ["POST", "", { method: "GET /validators?height=103" }],
    ];
    for (const form of others) assert.equal((await send(form, header)).status, 409, form.join(" "));
    assert.equal((await send(["GET", "/validators?height=103"], header)).text, bought.text);
  });

  test("the ledger holds exactly what was answered with 200", () => gateway.assertSettled(sold));
});
