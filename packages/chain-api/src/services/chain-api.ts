import type { DescMessage } from "@bufbuild/protobuf";
import { type ClientKey, errorRow, isAppError, type Log, type Metrics } from "@turnpike/base";
import { type EncodedMessage, GRPC_STATUS, type QueryRefusal, refuse } from "@turnpike/chain";
import { EventLoopQueue, type RunStep } from "@turnpike/chain-node";
import type { Bytes } from "@turnpike/chain-store";
import {
  decodeMessage,
  encodeMessage,
  fromApiJsonText,
  methodAt,
  toApiJsonText,
  type tx as txs,
} from "@turnpike/proto";
import { type ApiMethod, type ApiModules, callApiMethod } from "./api-method.ts";
import { pathsByService } from "./app-reflection-service.ts";
import { baseServices, type ChainApiOptions } from "./base-services.ts";
import { queryHeight } from "./query-height.ts";
import { partsExcess, sizeExcess } from "./request-bounds.ts";
import { encodedSimulation, SIMULATE_PATH } from "./simulation.ts";

/** Where a {@link ChainApi} reads, and where it logs its own faults. */
export interface ChainApiModules extends ApiModules {
  readonly log: Log;
  /** Shared by all servers of a node; without it the questions of this one alone are queued. */
  readonly queue?: EventLoopQueue;
  readonly metrics?: Metrics;
}

/** An answer of the API. The height is that of the state that was read; undefined when none was reached. */
export type ApiAnswer =
  | { readonly ok: true; readonly value: Bytes; readonly heightBlocks: bigint }
  | {
      readonly ok: false;
      readonly status: number;
      readonly text: string;
      readonly heightBlocks: bigint | undefined;
    };

const BUSY: ApiAnswer = {
  ok: false,
  status: GRPC_STATUS.ResourceExhausted,
  text: "too many requests wait",
  heightBlocks: undefined,
};
/** Answers whose JSON takes some milliseconds. */
const LARGE_BYTES = 32_768;
/** Requests whose JSON takes less than a millisecond. */
const SMALL_JSON_BYTES = 4_096;
const HEIGHT_FAULT = /^codespace sdk code (?:18|26): /;

/** All unary methods of the chain, for gRPC and REST alike: the modules' queries, and the services beside them. */
export class ChainApi {
  readonly #modules: ChainApiModules;
  readonly #queries: ReadonlySet<string>;
  readonly #methods: ReadonlyMap<string, ApiMethod>;
  readonly #services: readonly string[];
  readonly #queue: EventLoopQueue;

  constructor(opts: ChainApiOptions, modules: ChainApiModules) {
    this.#modules = modules;
    this.#queue = modules.queue ?? new EventLoopQueue();
    this.#queries = new Set(opts.surface.queryPaths);
    this.#methods = baseServices(opts, modules);
    this.#services = [...pathsByService(this.paths()).keys()];
  }

  /** gRPC paths of all methods. */
  paths(): string[] {
    return [...this.#queries, ...this.#methods.keys()];
  }

  /** Full names of all services, in alphabetical order. */
  services(): readonly string[] {
    return this.#services;
  }

  /** True when the path has a method. */
  has(path: string): boolean {
    return this.#queries.has(path) || this.#methods.has(path);
  }

  /** What a path takes and gives; undefined when there is no such method. */
  schemasOf(path: string): { readonly input: DescMessage; readonly output: DescMessage } | undefined {
    return this.#methods.get(path) ?? (this.#queries.has(path) ? methodAt(path) : undefined);
  }

  /** The JSON of an answer. A large one is made beside this thread where the application can. */
  async jsonOf(schema: DescMessage, value: Bytes, client?: ClientKey): Promise<string | undefined> {
    const { application } = this.#modules;
    const text = value.length > LARGE_BYTES ? await application.apiJson?.(schema.typeName, value, client) : undefined;
    if (text !== undefined) return text;
    const decoded = decodeMessage(schema, value);
    return decoded.ok ? toApiJsonText(schema, decoded.message) : undefined;
  }

  /** Reads a request from its JSON, a large one beside this thread where the application can; undefined: too much waits. */
  async messageOf(schema: DescMessage, json: Bytes, client?: ClientKey): Promise<EncodedMessage | undefined> {
    const { application } = this.#modules;
    if (json.length > SMALL_JSON_BYTES && application.readApiJson !== undefined) {
      return application.readApiJson(schema.typeName, json, client);
    }
    return this.inTurn((): EncodedMessage => {
      const read = fromApiJsonText(schema, json);
      return read.ok ? { ok: true, bytes: encodeMessage(schema, read.message) } : read;
    }, client);
  }

  /** Runs a piece of a request's work when its turn comes; undefined: too much waits. */
  inTurn<T>(work: () => T, client?: ClientKey): Promise<T | undefined> {
    return this.#queue.run(work, client);
  }

  /**
   * Calls a method.
   * @param height what the request's height header says; undefined: there is none
   * @param client key under which the client's connections are counted: clients are served round-robin
   */
  async call(path: string, request: Bytes, height: string | undefined, client?: ClientKey): Promise<ApiAnswer> {
    try {
      return (await this.#queue.run(() => this.#answer(path, request, { height, client }), client)) ?? BUSY;
    } catch (error) {
      return this.#fault(path, error);
    }
  }

  async #answer(
    path: string,
    bytes: Bytes,
    { height: heightText, client }: { readonly height: string | undefined; readonly client: ClientKey },
  ): Promise<ApiAnswer> {
    const schemas = this.schemasOf(path);
    if (schemas === undefined) return unknownPath(path, this.#services);
    const large = sizeExcess(path, bytes);
    if (large !== undefined) return { ok: false, ...large, heightBlocks: undefined };
    // In time linear in the length and before anything is decoded: blocks are made on this thread.
    const excess = partsExcess(schemas.input, bytes);
    if (excess !== undefined) return junk(excess);
    const decoded = decodeMessage(schemas.input, bytes);
    if (!decoded.ok) return junk(decoded.fault);
    const { application } = this.#modules;
    const height = queryHeight(heightText, application.latestHeightBlocks());
    if (!height.ok) return { ...height, heightBlocks: undefined };
    const { heightBlocks } = height;
    const method = this.#methods.get(path);
    if (method === undefined) {
      const answer = await application.grpcQuery(path, bytes, heightBlocks, client);
      if (answer.ok || !HEIGHT_FAULT.test(answer.text)) return answer;
      return { ...answer, heightBlocks: undefined };
    }
    const encoded =
      path === SIMULATE_PATH
        ? await encodedSimulation(application, decoded.message as txs.SimulateRequest, client)
        : undefined;
    if (encoded !== undefined) return { ...encoded, heightBlocks };
    const run: RunStep = (work) => this.#queue.run(work, client);
    return { ...(await callApiMethod(method, decoded.message, { heightBlocks, client, run })), heightBlocks };
  }

  #fault(path: string, error: unknown): ApiAnswer {
    return { ...faultOf(path, error, this.#modules.log), heightBlocks: undefined };
  }
}

/** How a query's own fault is answered. The log has it whole. */
export function faultOf(path: string, error: unknown, log: Log): QueryRefusal {
  const code = isAppError(error) ? error.code : "INTERNAL";
  log.error({ path, code, error }, "a query could not be answered");
  const { http, message } = errorRow(code);
  return refuse(http === 502 || http === 503 ? "Unavailable" : "Internal", message);
}

/** The answer to a path that nothing is at, in the words of Go's gRPC server (recorded). */
export function unknownPath(path: string, services: readonly string[]): ApiAnswer & { readonly ok: false } {
  const at = path.lastIndexOf("/");
  const service = path.slice(1, Math.max(at, 1));
  const text =
    at < 1 || !path.startsWith("/")
      ? `malformed method name: ${JSON.stringify(path)}`
      : services.includes(service)
        ? `unknown method ${path.slice(at + 1)} for service ${service}`
        : `unknown service ${service}`;
  return { ok: false, status: GRPC_STATUS.Unimplemented, text, heightBlocks: undefined };
}

function junk(fault: string): ApiAnswer {
  const why = /premature|EOF|out of range|varint|not protobuf/i.test(fault) ? "unexpected EOF" : `proto: ${fault}`;
  const text = `grpc: error unmarshalling request: ${why}`;
  return { ok: false, status: GRPC_STATUS.Internal, text, heightBlocks: undefined };
}
