import { bytesToHex, type Random, type RequestId } from "@turnpike/base";
import type { AnyRequest } from "./request.ts";

/** What a client may call its request: a short token that is safe in a log line and a header. */
const TOKEN = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

/** Names requests: by the client's `X-Request-Id` where that is a token of at most 64 characters, else by a new id. */
export function createRequestIds(random: Random): (req?: Pick<AnyRequest, "headers">) => RequestId {
  const prefix = bytesToHex(random.bytes(8));
  let count = 0;
  return (req) => {
    const given = req?.headers["x-request-id"];
    if (typeof given === "string" && TOKEN.test(given)) return given as RequestId;
    return `${prefix}-${(++count).toString(36)}` as RequestId;
  };
}
