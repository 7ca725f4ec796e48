import { request } from "node:http";
import { AppError, isRecord } from "@turnpike/base";

const TIMEOUT_MS = 10_000;
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

function post(url: string, body: string, signal?: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const sent = request(url, { method: "POST", headers, timeout: TIMEOUT_MS, signal }, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > MAX_ANSWER_BYTES) response.destroy(new AppError("ANSWER_TOO_LARGE"));
        else chunks.push(chunk);
      });
      response.on("error", reject);
      response.on("end", () => resolve(Buffer.concat(chunks).toString("utf8")));
    });
    sent.on("timeout", () => sent.destroy(new AppError("DEADLINE_EXCEEDED")));
    sent.on("error", reject);
    sent.end(body);
  });
}

/** One JSON-RPC call to a development chain, for its `anvil_` methods. Throws when it answers an error. */
export async function devRpc(
  url: string,
  method: string,
  params: readonly unknown[] = [],
  signal?: AbortSignal,
): Promise<unknown> {
  const text = await post(url, JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }), signal);
  const answer: unknown = JSON.parse(text);
  if (!isRecord(answer) || answer.error !== undefined) {
    throw new AppError("INTERNAL", { message: `The local chain refused ${method}.`, detail: { answer } });
  }
  return answer.result;
}
