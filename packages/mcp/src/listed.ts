import { isRecord, nearest, QuotedError, visibleLine } from "@turnpike/base";
import { type GatewayDocuments, MAX_LISTED_OPERATIONS, type ServiceFacts } from "./documents.ts";

/** The operation that is the body of the route itself. */
const OWN_BODY = "POST /";
const PATH_METHOD = /^(GET|POST) \/([^?]*)(?:\?.*)?$/s;
/** Text that is shown of a third-party list: names, and nothing that reads as a sentence. */
const NAME = /^(?:(?:GET|POST) )?[\w./:{}*~-]{1,120}$/;
const MAX_NEAR_NAMES = 5;

/** Names of a list that are most like an unknown one, in a sentence of third-party words; undefined when there are none. */
export function nearText(word: string, operations: readonly string[]): string | undefined {
  const shown = operations.filter((one) => NAME.test(one));
  const low = word.toLowerCase();
  const holding = low === "" ? [] : shown.filter((one) => one.toLowerCase().includes(low));
  const like = nearest(word, shown);
  const near = [...new Set([...(like === undefined ? [] : [like]), ...holding])].slice(0, MAX_NEAR_NAMES);
  return near.length === 0 ? undefined : `The nearest: ${near.join(", ")}.`;
}

const decoded = (segment: string): string => {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
};

/** True when a path fits a listed one, whose `{parts}` stand for any one segment, also one with an encoded slash. */
function isListedPath(operations: readonly string[], verb: string, path: string): boolean {
  const segments = path.split("/").map(decoded);
  return operations.some((operation) => {
    const [, listedVerb, listedPath = ""] = PATH_METHOD.exec(operation) ?? [];
    if (listedVerb !== verb) return false;
    const listed = listedPath.split("/");
    return (
      listed.length === segments.length &&
      listed.every((part, at) => /^\{[^{}]+\}$/.test(part) || part === segments[at])
    );
  });
}

const refuse = (
  code: "METHOD_NOT_ALLOWED" | "BAD_PATH" | "INVALID_PARAMS",
  message: string,
  thirdParty?: string,
): QuotedError => new QuotedError(code, message, thirdParty);

function assertPath(service: ServiceFacts, path: string, hasBody: boolean): void {
  const { operations } = service;
  const fits = isListedPath(operations, "GET", path) || (hasBody && isListedPath(operations, "POST", path));
  if (fits) return;
  throw refuse(
    "BAD_PATH",
    `${service.id} lists no ${hasBody ? "" : "GET "}path ${JSON.stringify(visibleLine(`/${path}`, 80))}; nothing was signed.`,
    nearText(`${hasBody ? "POST" : "GET"} /${path}`, operations),
  );
}

function assertMethod({ id, operations }: ServiceFacts, request: Readonly<Record<string, unknown>>): void {
  const { method, params } = request;
  if (typeof method !== "string") {
    throw refuse("INVALID_PARAMS", `request.method: must be a text, one of ${id}'s operations; nothing was signed.`);
  }
  const [, verb, path = ""] = PATH_METHOD.exec(method) ?? [];
  const listed =
    verb === undefined
      ? !method.includes(" ") && operations.includes(visibleLine(method, 200))
      : isListedPath(operations, verb, path);
  if (!listed) {
    throw refuse(
      "METHOD_NOT_ALLOWED",
      `${id} has no method ${JSON.stringify(visibleLine(method, 80))}; nothing was signed.`,
      nearText(method, operations),
    );
  }
  if (params !== undefined && params !== null && typeof params !== "object") {
    throw refuse("INVALID_PARAMS", "request.params: must be a list or an object; nothing was signed.");
  }
}

/** Type that a member must have, where it certainly has not; what may be read as it, such as "3" for a number, is accepted. */
function kindFault(schema: unknown, value: unknown): string | undefined {
  if (!isRecord(schema) || value === null) return undefined;
  const nested = typeof value === "object";
  switch (schema.type) {
    case "object":
      return isRecord(value) ? undefined : "must be an object";
    case "array":
      return Array.isArray(value) ? undefined : "must be a list";
    case "string":
      return typeof value === "string" ? undefined : "must be a text";
    case "number":
    case "integer":
      return nested || Number.isNaN(Number(value)) ? "must be a number" : undefined;
    case "boolean":
      return nested ? "must be true or false" : undefined;
    default:
      return undefined;
  }
}

/** The first fault of a body by the listed schema: members that are missing, unknown, or of another kind. */
function bodyFault(schema: unknown, body: Readonly<Record<string, unknown>>): string | undefined {
  if (!isRecord(schema) || !isRecord(schema.properties)) return undefined;
  const { properties, required } = schema;
  const known = Object.keys(properties);
  for (const name of Array.isArray(required) ? (required as unknown[]) : []) {
    if (typeof name !== "string" || !NAME.test(name) || Object.hasOwn(body, name)) continue;
    return `request.${name}: is missing`;
  }
  for (const [name, value] of Object.entries(body)) {
    const where = `request.${visibleLine(name, 80)}`;
    if (Object.hasOwn(properties, name)) {
      const fault = kindFault(properties[name], value);
      if (fault !== undefined) return `${where}: ${fault}`;
    } else if (schema.additionalProperties === false) {
      return `${where}: is not known; known are ${known
        .filter((one) => NAME.test(one))
        .slice(0, 20)
        .join(", ")}`;
    }
  }
  return undefined;
}

/**
 * Checks that a call is one that the gateway lists, before anything is signed: a payment that is refused for its request
 * counts against the budget until it expires. What the list does not say is accepted: the gateway decides.
 * @throws AppError METHOD_NOT_ALLOWED, BAD_PATH or INVALID_PARAMS; nothing was signed.
 */
export async function assertListed(
  service: ServiceFacts,
  call: { readonly target: string; readonly request: unknown },
  documents: Pick<GatewayDocuments, "route">,
  signal: AbortSignal,
): Promise<void> {
  const { id, operations } = service;
  if (operations.length === 0 || operations.length >= MAX_LISTED_OPERATIONS) return;
  const { request } = call;
  const [path = ""] = call.target.slice(id.length + 1).split("?");
  if (call.target.startsWith(`${id}/`) && path !== "") {
    assertPath(service, path, request !== undefined);
    return;
  }
  if (!isRecord(request)) {
    throw refuse(
      "INVALID_PARAMS",
      `request: is missing; without a path, ${id} takes a JSON object; nothing was signed.`,
    );
  }
  if (!operations.includes(OWN_BODY)) {
    assertMethod(service, request);
    return;
  }
  const route = await documents.route(id, signal).catch(() => undefined);
  const fault = bodyFault(route?.request, request);
  if (fault !== undefined) {
    // The fault names members of the gateway's schema.
    throw refuse("INVALID_PARAMS", "The request is not of the listed schema; nothing was signed.", fault);
  }
}
