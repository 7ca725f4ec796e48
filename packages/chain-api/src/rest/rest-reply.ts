import type { ServerResponse } from "node:http";
import { goJsonText } from "../services/go-values.ts";

/** HTTP status of every gRPC status, per the SDK's REST gateway. */
const HTTP_STATUS: Readonly<Record<number, number>> = {
  0: 200,
  1: 408,
  2: 500,
  3: 400,
  4: 504,
  5: 404,
  6: 409,
  7: 403,
  8: 429,
  9: 400,
  10: 409,
  11: 400,
  12: 501,
  13: 500,
  14: 503,
  15: 500,
  16: 401,
};

/** Sends JSON. */
export function sendJson(
  res: ServerResponse,
  status: number,
  json: string,
  headers: Readonly<Record<string, string>>,
): void {
  const body = Buffer.from(json);
  res.writeHead(status, { "Content-Type": "application/json", ...headers, "Content-Length": body.length });
  res.end(body);
}

/** Headers of an answer that came through gRPC. @param heightBlocks undefined: no height was reached, and nothing of gRPC is said */
export function grpcHeaders(heightBlocks: bigint | undefined): Record<string, string> {
  if (heightBlocks === undefined) return {};
  return {
    "Grpc-Metadata-Content-Type": "application/grpc+cosmos-sdk-grpc-codec",
    "Grpc-Metadata-X-Cosmos-Block-Height": heightBlocks.toString(),
  };
}

/** Sends a gRPC status as the gateway does. */
export function sendStatus(
  res: ServerResponse,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>>,
): void {
  const json = `{"code":${status},"message":${goJsonText(text)},"details":[]}`;
  sendJson(res, HTTP_STATUS[status] ?? 500, json, headers);
}
