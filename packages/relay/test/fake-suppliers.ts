import type { RpcType } from "@turnpike/protocol";
import { type DropReason, type EmptyReason, type SupplierSet, whyEmpty } from "../src/suppliers/supplier-set.ts";
import type {
  SupplierEndpoint,
  SupplierTransport,
  TransportFailure,
  TransportReason,
  TransportSocket,
  UpstreamRequest,
  UpstreamResponse,
} from "../src/transport/transport.ts";
import { responseOf } from "./response.ts";

/** A request that a fake transport was given. */
export interface SentRequest {
  readonly operator: string;
  readonly handle: object;
  readonly request: UpstreamRequest;
  readonly calls: readonly RpcCall[];
}

/** One JSON-RPC call of a request. */
export interface RpcCall {
  readonly id: unknown;
  readonly method: string;
}

/** What a fake supplier does with a request: the `result` of each call as JSON, or the failure of all. */
export type FakeAnswer = (sent: SentRequest) => string | TransportFailure | Promise<string | TransportFailure>;

/** A failure of a transport. */
export function failureOf(reason: TransportReason, blame: TransportFailure["blame"] = "supplier"): TransportFailure {
  return { ok: false, blame, reason, isNotSent: false };
}

/** A transport that knows no URL: suppliers answer by their operators' names. */
export class FakeTransport implements SupplierTransport {
  readonly sent: SentRequest[] = [];
  readonly #answers: Readonly<Record<string, FakeAnswer>>;

  constructor(answers: Readonly<Record<string, FakeAnswer>>) {
    this.#answers = answers;
  }

  async send(endpoint: SupplierEndpoint, request: UpstreamRequest): Promise<UpstreamResponse | TransportFailure> {
    const text = Buffer.from(request.body ?? []).toString();
    const isBatch = text.startsWith("[");
    const calls = JSON.parse(isBatch ? text : `[${text}]`) as readonly RpcCall[];
    const { operator, handle } = endpoint;
    const sent = { operator, handle, request, calls };
    this.sent.push(sent);
    const said = await this.#answers[operator]?.(sent);
    if (said === undefined) return failureOf("connection", "wire");
    if (typeof said !== "string") return said;
    const answers = calls.map(({ id }) => `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${said}}`);
    return responseOf(isBatch ? `[${answers.join(",")}]` : (answers[0] ?? ""));
  }

  async openSocket(): Promise<TransportSocket | TransportFailure> {
    return failureOf("connection", "wire");
  }

  /** What was sent of a method, as operator and purpose. */
  purposesOf(method: string): readonly string[] {
    const own = this.sent.filter(({ calls }) => calls.some((call) => call.method === method));
    return own.map(({ operator, request }) => `${operator} ${request.purpose}`);
  }
}

/** A supplier set whose endpoints a test changes. */
export class FakeSupplierSet implements SupplierSet {
  readonly dropped: string[] = [];
  readonly transport: FakeTransport;
  readonly #listeners = new Set<() => void>();
  #endpoints: readonly SupplierEndpoint[] = [];

  constructor(transport: FakeTransport) {
    this.transport = transport;
  }

  /** The operators of a session, each with one endpoint. */
  become(operators: readonly string[], session = "first", rpcType: RpcType = "json_rpc"): void {
    const { transport } = this;
    this.#endpoints = operators.map((operator) => {
      return { operator, rpcType, backendKey: operator, label: operator, transport, handle: { session } };
    });
    this.#changed();
  }

  endpoints(): readonly SupplierEndpoint[] {
    return this.#endpoints;
  }

  whyEmpty(rpcType?: RpcType): EmptyReason | undefined {
    return whyEmpty(this.#endpoints, rpcType, "no_session");
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  drop({ operator }: SupplierEndpoint, reason: DropReason): void {
    this.dropped.push(`${operator} ${reason}`);
    this.#endpoints = this.#endpoints.filter((one) => one.operator !== operator);
    this.#changed();
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }
}
