import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { AppError, isRecord } from "@turnpike/base";
import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import { parse } from "yaml";
import { faultText, type SchemaNode } from "./describe.ts";
import { applyEnvironment, type Environment, expandVariables } from "./environment.ts";
import { ruleFaults } from "./rules.ts";
import { CONFIG_SCHEMA, type Config } from "./schema.ts";

/** Where a configuration comes from; later ones win. */
export interface ConfigSources {
  /** YAML file. Without one all keys have their defaults. */
  readonly file?: string;
  /** `DATABASE_URL`, `REDIS_URL` and their like, `TURNPIKE__SECTION__KEY` and the variables of `${NAME}` in the file. */
  readonly env: Environment;
  /** Set last: options of the command line. Sections are merged, everything else is replaced. */
  readonly overrides?: Readonly<Record<string, unknown>>;
}

let validator: ValidateFunction<Config> | undefined;

/** Made when it is first needed: most commands start without it. The schema itself is checked by its test. */
function configValidator(): ValidateFunction<Config> {
  if (validator !== undefined) return validator;
  const ajv = new Ajv2020({
    allErrors: true,
    useDefaults: true,
    strict: true,
    allowUnionTypes: true,
    meta: false,
    validateSchema: false,
    code: { optimize: false },
  });
  ajv.addVocabulary(["x-expected", "x-secret", "x-map"]);
  validator = ajv.compile<Config>(CONFIG_SCHEMA);
  return validator;
}

const ROOT: SchemaNode = CONFIG_SCHEMA as SchemaNode;

/** The error of a configuration: one line for each fault, each with the path and the fix. */
function invalid(source: string, faults: readonly string[], cause?: unknown): AppError {
  return new AppError("CONFIG_INVALID", {
    message: `${source} is not valid:\n${faults.map((fault) => `  ${fault}`).join("\n")}`,
    detail: { faults },
    ...(cause === undefined ? {} : { cause }),
  });
}

/** The sections of a configuration file, as they are written. @throws AppError CONFIG_INVALID. */
export function readYaml(file: string): Record<string, unknown> {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (cause) {
    throw invalid(file, ["it cannot be read; check the path"], cause);
  }
  let value: unknown;
  try {
    value = parse(text, { maxAliasCount: 100, uniqueKeys: true, strict: true }) as unknown;
  } catch (cause) {
    const first = cause instanceof Error ? (cause.message.split("\n")[0] ?? "") : "";
    throw invalid(file, [`it is not YAML: ${first}`], cause);
  }
  if (value === null || value === undefined) return {};
  if (!isRecord(value)) throw invalid(file, ["expected sections such as gateway: and payment: at the top"]);
  return value;
}

const placed = (name: unknown, folder: string): unknown =>
  typeof name === "string" && name !== "" ? resolve(folder, name) : name;

function place(section: Record<string, unknown>, key: string, folder: string): void {
  if (section[key] !== undefined) section[key] = placed(section[key], folder);
}

/** A key file or state folder that a configuration file names is beside it, wherever the command is called. */
function placeKeyFiles(tree: Record<string, unknown>, file: string): void {
  const { payment } = tree;
  const networks = isRecord(payment) && Array.isArray(payment.networks) ? payment.networks : [];
  for (const section of [payment, tree.facilitator, ...networks]) {
    const relayer = isRecord(section) ? section.relayer : undefined;
    if (!isRecord(relayer) || typeof relayer.keysFile !== "string" || relayer.keysFile === "") continue;
    relayer.keysFile = resolve(dirname(file), relayer.keysFile);
  }
  const folder = dirname(file);
  if (isRecord(payment)) place(payment, "sellerKeyFile", folder);
  const { protocol, supplier } = tree;
  if (isRecord(protocol)) {
    place(protocol, "gatewayKeyFile", folder);
    if (Array.isArray(protocol.applicationKeyFiles)) {
      protocol.applicationKeyFiles = protocol.applicationKeyFiles.map((name: unknown) => placed(name, folder));
    }
  }
  if (!isRecord(supplier)) return;
  place(supplier, "stateFolder", folder);
  for (const key of Array.isArray(supplier.keys) ? supplier.keys : []) {
    if (isRecord(key)) place(key, "operatorKeyFile", folder);
  }
}

function merge(into: Record<string, unknown>, from: Readonly<Record<string, unknown>>): void {
  for (const [key, value] of Object.entries(from)) {
    const there = Object.hasOwn(into, key) ? into[key] : undefined;
    if (isRecord(value) && isRecord(there)) merge(there, value);
    else if (value !== undefined) {
      const copy: unknown = typeof value === "object" ? structuredClone(value) : value;
      Object.defineProperty(into, key, { value: copy, enumerable: true, configurable: true, writable: true });
    }
  }
}

/** `gateway:` with nothing below it is null in YAML; it means the defaults, as if it were not there. */
function dropEmptySections(tree: Record<string, unknown>, schema: SchemaNode): void {
  for (const [key, node] of Object.entries(schema.properties ?? {})) {
    if (!Object.hasOwn(tree, key)) continue;
    const value = tree[key];
    if (value === null && node.type === "object") delete tree[key];
    else if (isRecord(value) && node.properties !== undefined) dropEmptySections(value, node);
  }
}

function deepFreeze(value: unknown): void {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const inner of Object.values(value)) deepFreeze(inner);
}

function valueAt(tree: unknown, parts: readonly string[]): unknown {
  return parts.reduce<unknown>(
    (node, part) => (typeof node === "object" && node !== null ? (node as Record<string, unknown>)[part] : undefined),
    tree,
  );
}

function faultsOf(errors: readonly ErrorObject[], tree: unknown): string[] {
  return [...new Set(errors.map((error) => faultText(error, ROOT, (parts) => valueAt(tree, parts))))];
}

/**
 * Reads, merges, validates and freezes the configuration.
 * @throws AppError CONFIG_INVALID that names each path and its fix.
 */
export function loadConfig(sources: ConfigSources): Config {
  const source = sources.file ?? "The configuration";
  const tree = sources.file === undefined ? {} : readYaml(sources.file);
  dropEmptySections(tree, ROOT);
  // What `turnpike up` wrote is complete: a DATABASE_URL that is meant for something else must not change it.
  const env = tree.localnet === true ? {} : sources.env;
  const faults = expandVariables(tree, env);
  if (sources.file !== undefined) placeKeyFiles(tree, sources.file);
  faults.push(...applyEnvironment(tree, env, ROOT));
  if (sources.overrides !== undefined) merge(tree, sources.overrides);
  const candidate: unknown = tree;
  const validate = configValidator();
  if (!validate(candidate)) faults.push(...faultsOf(validate.errors ?? [], tree));
  if (faults.length > 0) throw invalid(source, faults);
  const config = tree as unknown as Config;
  const broken = ruleFaults(config);
  if (broken.length > 0) throw invalid(source, broken);
  deepFreeze(config);
  return config;
}
