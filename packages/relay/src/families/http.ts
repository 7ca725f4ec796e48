import type { Service } from "@turnpike/catalogue";
import { type CallInput, type Family, judgeHttpStatus, type ParsedCall, supplierFault } from "./family.ts";
import { paramsFault, parseDeclaredCall, readBody } from "./paid-call.ts";

/** The operation that is the body of the route itself. */
const ROOT = "POST /";

/** A fault as the buyer sees it: here the parameters are the body itself. */
function bodyFault(fault: string): string {
  const named = fault.replace(/^`params(?:\.([^`]+)|(\[[^`]*))?`/, (_, key?: string, index?: string) => {
    const inner = key ?? index;
    return inner === undefined ? "The body" : `\`${inner}\``;
  });
  return `${named} A body that it takes is \`example\` of the service in /services.json.`;
}

function parse(service: Service, input: CallInput): ParsedCall {
  const root = service.operations.get(ROOT);
  if (root === undefined || input.appendedPath !== "") return parseDeclaredCall(service, input);
  if (input.verb === "GET") return { ok: false, code: "VERB_NOT_ALLOWED" };
  const read = readBody(input.body);
  if (!read.ok) return read;
  const fault = paramsFault(service, root, read.value);
  if (fault !== undefined) return { ok: false, code: "INVALID_PARAMS", message: bodyFault(fault) };
  return {
    ok: true,
    call: {
      rpcType: root.rpcType,
      operation: ROOT,
      verb: "POST",
      path: "",
      body: Buffer.from(read.text),
      id: undefined,
      params: read.value,
    },
  };
}

/** Plain HTTP services with JSON bodies. Nothing is known of their errors, so none is sold. */
export const http: Family = {
  id: "http",
  parse,
  judgeRpcError: () => supplierFault("error"),
  judgeHttpError: judgeHttpStatus,
  errorsOverHttp500: false,
  isLegacyRpc: false,
  probe: () => undefined,
};
