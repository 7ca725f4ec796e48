import type { SchemaCheck } from "@turnpike/protocol";
import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import type { JsonSchema, Service } from "./types.ts";

/**
 * Checks of parameters and answers against their declared schemas. A schema is compiled when it is first needed and
 * kept for as long as the schema itself lives, so that start-up costs nothing.
 */

// @NOTE the meta-schema takes 80 ms to compile, and optimising doubles the time to compile without making checks faster
const OPTIONS = {
  strict: false,
  validateFormats: false,
  logger: false,
  addUsedSchema: false,
  code: { optimize: false },
} as const;
const WITHOUT_META = { ...OPTIONS, meta: false, validateSchema: false } as const;

let ajv: Ajv2020 | undefined;
/** Knows the meta-schema; made once, and only when an operator wrote a schema. */
let metaAjv: Ajv2020 | undefined;

interface Compiled {
  readonly validate: ValidateFunction;
  /** True when no value is refused. */
  readonly vacuous: boolean;
}

const compiledByObject = new WeakMap<object, Compiled>();

/** Values of every kind: a schema that takes them all says nothing about an answer. */
const PROBES: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1.5,
  1e21,
  "",
  "x",
  "0x1",
  [],
  [null],
  {},
  { x: null },
  [[{}]],
];

/**
 * Compiles a schema, or gives the one compiled before.
 * @throws Error of ajv when it is no JSON Schema.
 */
export function compileSchema(schema: Readonly<Record<string, unknown>>): Compiled {
  const known = compiledByObject.get(schema);
  if (known !== undefined) return known;
  ajv ??= new Ajv2020(WITHOUT_META);
  const validate = ajv.compile(schema);
  const compiled = { validate, vacuous: PROBES.every((probe) => validate(probe)) };
  compiledByObject.set(schema, compiled);
  return compiled;
}

/**
 * What is wrong with a JSON Schema that somebody wrote; undefined when nothing is.
 */
export function jsonSchemaFault(schema: Readonly<Record<string, unknown>>): string | undefined {
  try {
    metaAjv ??= new Ajv2020(OPTIONS);
    if (metaAjv.validateSchema(schema) !== true) return metaAjv.errorsText(metaAjv.errors, { dataVar: "schema" });
    compileSchema(schema);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : "it cannot be compiled";
  }
}

/** True when a schema refuses no value, so that it counts as none. */
export function isVacuous(schema: JsonSchema | undefined): boolean {
  if (schema === undefined || schema === true) return true;
  return schema !== false && compileSchema(schema).vacuous;
}

/**
 * Checks an answer: the JSON-RPC `result` (`json_rpc` and `comet_bft`), or the whole body (`rest`). `undeclared` when
 * the operation has no schema, or one that takes any value; `failed` when the answer does not fit and must not be sold.
 */
export function checkResult(service: Service, operation: string, result: unknown): SchemaCheck | "failed" {
  const schema = service.operations.get(operation)?.result;
  if (schema === undefined || schema === true) return "undeclared";
  if (schema === false) return "failed";
  const { validate, vacuous } = compileSchema(schema);
  if (vacuous) return "undeclared";
  return validate(result) ? "passed" : "failed";
}

/** Result of {@link checkParams}: `path` is like `params[0].to`, `message` is safe to show. */
export type ParamsCheck =
  | { readonly ok: true }
  | { readonly ok: false; readonly path: string; readonly message: string };

const OK: ParamsCheck = { ok: true };

/** A JSON pointer as a path: `/0/to` is `params[0].to`. */
function pointerToPath(pointer: string): string {
  const parts = pointer.split("/").slice(1);
  return parts
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((path, part) => path + (/^(0|[1-9][0-9]*)$/.test(part) ? `[${part}]` : `.${part}`), "params");
}

function explain({ instancePath, keyword, params, message }: ErrorObject): ParamsCheck {
  const path = pointerToPath(instancePath);
  const refused = (text: string, at = path): ParamsCheck => ({ ok: false, path: at, message: text });
  const {
    missingProperty: missing,
    additionalProperty: extra,
    allowedValues: allowed,
  } = params as Record<string, unknown>;
  if (keyword === "required" && typeof missing === "string") return refused("is required", `${path}.${missing}`);
  if (keyword === "additionalProperties" && typeof extra === "string")
    return refused("is not known", `${path}.${extra}`);
  if (keyword === "anyOf") return refused("has none of the accepted forms");
  if (keyword === "enum" && Array.isArray(allowed)) return refused(`must be one of ${allowed.map(String).join(", ")}`);
  return refused(message ?? "does not fit");
}

/** Of `anyOf` ajv reports each branch and then the whole: the deepest report says most, and among these the last. */
function mostSpecific(errors: readonly ErrorObject[]): ErrorObject | undefined {
  let best: ErrorObject | undefined;
  for (const error of errors) {
    if (best === undefined || error.instancePath.length >= best.instancePath.length) best = error;
  }
  return best;
}

/**
 * Checks parameters (JSON-RPC) or a body (HTTP) against what the operation declares. Absent parameters count as none.
 * Refuses only what no back-end would take: anything unsure is left to the back-end.
 */
export function checkParams(service: Service, operation: string, params: unknown): ParamsCheck {
  const declared = service.operations.get(operation);
  const schema = declared?.params;
  if (declared === undefined || schema === undefined || schema === true) return OK;
  if (schema === false) return { ok: false, path: "params", message: "must be absent" };
  const { validate } = compileSchema(schema);
  if (validate(params ?? (declared.rpcType === "rest" ? {} : []))) return OK;
  const error = mostSpecific(validate.errors ?? []);
  return error === undefined ? { ok: false, path: "params", message: "does not fit" } : explain(error);
}
