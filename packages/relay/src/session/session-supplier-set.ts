import { hostOf, type Log, type ServiceId, silentLog } from "@turnpike/base";
import type { RpcType } from "@turnpike/protocol";
import { type DropReason, type EmptyReason, type SupplierSet, whyEmpty } from "../suppliers/supplier-set.ts";
import { GrpcBackend, type GrpcTransport } from "../transport/grpc-transport.ts";
import type { HttpBackend, HttpTransport } from "../transport/http-transport.ts";
import type { SupplierEndpoint, SupplierTransport } from "../transport/transport.ts";
import type { GatewaySession, SessionSupplier } from "./gateway-session.ts";
import type { SessionSource } from "./session-source.ts";

interface SessionSupplierSetOptions {
  readonly service: ServiceId;
}

interface SessionSupplierSetModules {
  readonly source: Pick<SessionSource, "sessionsOf" | "hasApplication" | "onChange">;
  /** Has the connections to the suppliers' addresses. */
  readonly http: Pick<HttpTransport, "backend" | "release">;
  /** Has those to the suppliers that are asked over gRPC. */
  readonly grpc: Pick<GrpcTransport, "backend" | "release">;
  /** Sends over a session: what the endpoints of the set name. */
  readonly transport: SupplierTransport;
  readonly log?: Log;
}

/** A session, and one supplier of it. */
export interface SessionChoice {
  readonly session: GatewaySession;
  readonly supplier: SessionSupplier;
}

/** The handle of an endpoint of a {@link SessionSupplierSet}. */
export class SessionEndpoint {
  readonly set: SessionSupplierSet;
  readonly operatorAddress: string;
  readonly rpcType: RpcType;
  readonly backend: HttpBackend | GrpcBackend;

  constructor(parts: Pick<SessionEndpoint, "set" | "operatorAddress" | "rpcType" | "backend">) {
    this.set = parts.set;
    this.operatorAddress = parts.operatorAddress;
    this.rpcType = parts.rpcType;
    this.backend = parts.backend;
  }
}

/** Operators that are out for good; more than these are hardly met, and each is dropped again at its next answer. */
const MAX_BANNED = 10_000;

/**
 * The suppliers of one service in the sessions that its applications have now. An endpoint stands for an operator and a way
 * of speaking, in whichever sessions it is: which one a relay is signed for is chosen when it is sent.
 */
export class SessionSupplierSet implements SupplierSet, Disposable {
  readonly service: ServiceId;
  readonly #modules: SessionSupplierSetModules;
  readonly #banned = new Set<string>();
  /** Session ids and operators that serve no more of that session. */
  readonly #usedUp = new Set<string>();
  readonly #listeners = new Set<() => void>();
  readonly #following: Disposable;
  #endpoints = new Map<string, SupplierEndpoint>();
  /** URLs of the sessions of now that are not asked. */
  #refused = new Set<string>();
  #list: readonly SupplierEndpoint[] = [];
  #turn = 0;

  constructor({ service }: SessionSupplierSetOptions, modules: SessionSupplierSetModules) {
    this.service = service;
    this.#modules = modules;
    this.#following = modules.source.onChange((id) => {
      if (id === service) this.#refresh();
    });
    this.#refresh();
  }

  endpoints(): readonly SupplierEndpoint[] {
    return this.#list;
  }

  whyEmpty(rpcType?: RpcType): EmptyReason | undefined {
    const none = this.#modules.source.hasApplication(this.service) ? "no_session" : "not_configured";
    return whyEmpty(this.#list, rpcType, none);
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  drop({ operator, handle }: SupplierEndpoint, reason: DropReason): void {
    // What a session's limit refused is marked by the transport, for that session alone: another may have come meanwhile.
    if (handle instanceof SessionEndpoint && reason === "bad_signature") this.ban(operator);
  }

  /** An operator is out for good: what it sends is not signed by it, or not for its session. */
  ban(operatorAddress: string): void {
    if (this.#banned.size >= MAX_BANNED) this.#banned.clear();
    this.#banned.add(operatorAddress);
    this.#refresh();
  }

  /** A supplier serves no more of one session. Others of it, of other applications, may go on. */
  usedUp({ header }: GatewaySession, operatorAddress: string): void {
    this.#usedUp.add(usedUpKey(header.sessionId, operatorAddress));
    this.#refresh();
  }

  /** A session in which an operator can be asked now; the applications alternate. Undefined: there is none. */
  choose(operatorAddress: string, rpcType: RpcType): SessionChoice | undefined {
    const choices: SessionChoice[] = [];
    if (this.#banned.has(operatorAddress)) return undefined;
    for (const session of this.#sessions()) {
      if (this.#usedUp.has(usedUpKey(session.header.sessionId, operatorAddress))) continue;
      const supplier = session.suppliers.find((one) => one.operatorAddress === operatorAddress);
      if (supplier !== undefined && routeOf(supplier.urls, rpcType) !== undefined) choices.push({ session, supplier });
    }
    if (choices.length === 0) return undefined;
    this.#turn = (this.#turn + 1) % 0x4000_0000;
    return choices[this.#turn % choices.length];
  }

  #sessions(): readonly GatewaySession[] {
    return this.#modules.source.sessionsOf(this.service);
  }

  #refresh(): void {
    const sessions = this.#sessions();
    const ids = new Set(sessions.map(({ header }) => header.sessionId));
    for (const key of this.#usedUp) if (!ids.has(key.slice(0, key.indexOf(" ")))) this.#usedUp.delete(key);
    const next = new Map<string, SupplierEndpoint>();
    const refused = new Set<string>();
    for (const { header, suppliers } of sessions) {
      for (const { operatorAddress, urls } of suppliers) {
        if (this.#banned.has(operatorAddress) || this.#usedUp.has(usedUpKey(header.sessionId, operatorAddress)))
          continue;
        for (const rpcType of ROUTED_TYPES) {
          const route = routeOf(urls, rpcType);
          if (route === undefined || this.#add(next, operatorAddress, rpcType, route)) continue;
          refused.add(`${operatorAddress} ${hostOf(route.url)}`);
        }
      }
    }
    const { log = silentLog } = this.#modules;
    for (const one of refused) {
      if (this.#refused.has(one)) continue;
      const [operator, host] = one.split(" ");
      log.warn(
        { service: this.service, operator, host },
        "the URL of a session supplier was refused: it has a private address, or another scheme than its type needs",
      );
    }
    this.#refused = refused;
    const before = this.#endpoints;
    this.#endpoints = next;
    this.#list = [...next.values()];
    const isChanged = next.size !== before.size || [...next.keys()].some((key) => !before.has(key));
    for (const [key, { handle }] of before) {
      if (!next.has(key) && handle instanceof SessionEndpoint) this.#release(handle.backend);
    }
    if (isChanged) for (const listener of this.#listeners) listener();
  }

  /** False when the URL is not one to ask. */
  #add(next: Map<string, SupplierEndpoint>, operator: string, rpcType: RpcType, { url, isGrpc }: Route): boolean {
    const backendKey = `${operator} ${rpcType}${isGrpc ? " over gRPC" : ""} ${url}`;
    if (next.has(backendKey)) return true;
    const known = this.#endpoints.get(backendKey);
    if (known !== undefined) {
      next.set(backendKey, known);
      return true;
    }
    const { transport, grpc } = this.#modules;
    const backend = isGrpc ? grpc.backend(url) : this.#httpBackend(url, rpcType === "websocket");
    if (backend === undefined) return false;
    const handle = new SessionEndpoint({ set: this, operatorAddress: operator, rpcType, backend });
    const label = hostOf(url);
    next.set(backendKey, { operator, rpcType, backendKey, label, isPaid: true, transport, handle });
    return true;
  }

  #httpBackend(url: string, isSocket: boolean): HttpBackend | undefined {
    const backend = this.#modules.http.backend(url);
    if (backend === undefined || backend.isSocket === isSocket) return backend;
    this.#modules.http.release(backend);
    return undefined;
  }

  #release(backend: HttpBackend | GrpcBackend): void {
    if (backend instanceof GrpcBackend) this.#modules.grpc.release(backend);
    else this.#modules.http.release(backend);
  }

  [Symbol.dispose](): void {
    this.#following[Symbol.dispose]();
    for (const { handle } of this.#list) {
      if (handle instanceof SessionEndpoint) this.#release(handle.backend);
    }
  }
}

/** How a supplier is reached for calls of one type. */
interface Route {
  readonly url: string;
  readonly isGrpc: boolean;
}

/** Types of calls that go to a supplier as requests. */
const REQUEST_TYPES: readonly RpcType[] = ["json_rpc", "rest", "comet_bft"];
const ROUTED_TYPES: readonly RpcType[] = [...REQUEST_TYPES, "websocket"];

/**
 * Where calls of a type go: to the supplier's endpoint of that type. One that has staked an endpoint of type GRPC and none
 * for requests over HTTP is asked over gRPC, for calls of every type: its miner finds the back-end by the type that the call
 * names. Undefined: it does not serve them.
 */
function routeOf(urls: ReadonlyMap<RpcType, string>, rpcType: RpcType): Route | undefined {
  const url = urls.get(rpcType);
  if (url !== undefined) return { url: rpcType === "websocket" ? url.replace(/^http/i, "ws") : url, isGrpc: false };
  const grpcUrl = urls.get("grpc");
  if (grpcUrl === undefined || rpcType === "websocket" || REQUEST_TYPES.some((one) => urls.has(one))) return undefined;
  return { url: grpcUrl, isGrpc: true };
}

function usedUpKey(sessionId: string, operatorAddress: string): string {
  return `${sessionId} ${operatorAddress}`;
}
