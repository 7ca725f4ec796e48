import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { gzipSync } from "node:zlib";
import type { PaidCall, SellerMode, SellerModes } from "./mode.ts";

const JSON_TYPE = { "content-type": "application/json" } as const;

/** `[[[…]]]` of this many levels. */
export const nestedJson = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);

const envelope = (data: string): string =>
  `{"portal":{"provenance":"third-party-supplier","serviceId":"eth","schemaCheck":"unchecked"},"data":${data}}`;

const answer = (paid: (call: PaidCall) => void | Promise<void>): SellerMode => ({ kind: "answer", paid });

/** Large bodies are made once, when they are first sent. */
function once<Value>(make: () => Value): () => Value {
  let entry: { readonly value: Value } | undefined;
  return () => {
    entry ??= { value: make() };
    return entry.value;
  };
}

function data(json: () => string): SellerMode {
  const text = once(json);
  return answer((call) => call.sell(text()));
}

/** 200 with a receipt, and bytes as they are. */
function body(bytes: () => string | Buffer, headers: Readonly<Record<string, string>> = {}): SellerMode {
  const content = once(bytes);
  return answer(({ response, receipt }) => {
    response.writeHead(200, { ...JSON_TYPE, ...headers, ...receipt() }).end(content());
  });
}

function* textOfMegabytes(megabytes: number): Generator<Buffer> {
  const block = Buffer.alloc(1_048_576, 0x61);
  yield Buffer.from('{"data":"');
  for (let count = 0; count < megabytes; count++) yield block;
  yield Buffer.from('"}');
}

async function sendMegabytes({ response, receipt }: PaidCall, megabytes: number): Promise<void> {
  response.writeHead(200, { ...JSON_TYPE, ...receipt() });
  // A buyer that refuses it ends the connection.
  await pipeline(Readable.from(textOfMegabytes(megabytes)), response).catch(() => {});
}

/** Answers to a payment that was settled: each comes with a receipt of success. */
export const ANSWER_MODES: SellerModes = {
  "answer-3000-levels": data(() => nestedJson(3_000)),
  "answer-6000-levels": data(() => nestedJson(6_000)),
  "answer-200000-levels": data(() => nestedJson(200_000)),
  "answer-2000-levels": data(() => nestedJson(2_000)),
  "answer-error-data-3000-levels": data(
    () => `{"jsonrpc":"2.0","id":1,"error":{"code":3,"message":"execution reverted","data":${nestedJson(3_000)}}}`,
  ),
  "answer-millions-of-keys": data(() => `{${Array.from({ length: 2_500_000 }, (_, at) => `"${at}":0`).join(",")}}`),
  "answer-millions-of-objects": data(() => `[${"{},".repeat(5_000_000)}{}]`),
  "answer-65-megabytes": answer((call) => sendMegabytes(call, 65)),
  "answer-proto-keys": data(() => '{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"x":1}},"result":"0x1"}'),
  "answer-lone-surrogates": data(() => '{"result":"\\ud800 \\udc00 \\ud83d","\\udfff":1}'),
  "answer-empty": body(() => ""),
  "answer-null": body(() => "null"),
  "answer-not-utf8": body(() => Buffer.from([0x22, 0xff, 0xfe, 0x22])),
  "answer-two-documents": body(() => `${envelope("1")}${envelope("2")}`),
  "answer-page-of-a-proxy": body(() => "<html><body>502 Bad Gateway</body></html>", { "content-type": "text/html" }),
  "answer-cut-gzip": body(
    () => {
      const whole = gzipSync(envelope(JSON.stringify({ result: "0x1", padding: "ab12".repeat(4_000) })));
      return whole.subarray(0, Math.floor(whole.length / 2));
    },
    { "content-encoding": "gzip" },
  ),
  "answer-gzip-of-65-megabytes": body(() => gzipSync(`{"data":"${"a".repeat(65 * 1_048_576)}"}`), {
    "content-encoding": "gzip",
  }),
  "answer-not-gzip": body(() => envelope("1"), { "content-encoding": "gzip" }),
  "answer-cut-before-its-length": answer(({ response, receipt }) => {
    response
      .writeHead(200, { ...JSON_TYPE, "content-length": "5000", ...receipt() })
      .write('{"portal":{}', () => response.destroy());
  }),
  "answer-cut-once": answer((call) => {
    if (call.presentations > 1) call.sell();
    else call.response.writeHead(200, { ...JSON_TYPE, ...call.receipt() }).end('{"portal":{"provenance":"third-');
  }),
};
