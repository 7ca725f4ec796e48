import { type Clock, type Log, type Metrics, type ServiceId, silentLog } from "@turnpike/base";
import type { SigningThreads } from "@turnpike/crypto";
import type { SupplierSet } from "../suppliers/supplier-set.ts";
import { ByteBudget } from "../transport/byte-budget.ts";
import { GrpcTransport } from "../transport/grpc-transport.ts";
import { HttpTransport, type HttpTransportOptions } from "../transport/http-transport.ts";
import { SessionSigners } from "./session-signers.ts";
import type { SessionSource } from "./session-source.ts";
import { SessionSupplierSet } from "./session-supplier-set.ts";
import { SignedRelayTransport, type SignedRelayTransportOptions } from "./signed-relay-transport.ts";

export interface SessionSuppliersOptions
  extends Omit<HttpTransportOptions, "isPublicOnly">,
    SignedRelayTransportOptions {
  /** True: suppliers at private addresses are asked too; false by default, as anyone who stakes one chooses its address. */
  readonly allowPrivateSuppliers?: boolean;
}

export interface SessionSuppliersModules {
  readonly source: SessionSource;
  /** Signs requests and checks answers. */
  readonly threads: SigningThreads;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly log?: Log;
}

/** Maximum sessions with a ring; the oldest is opened again when it is needed. */
const MAX_SIGNED_SESSIONS = 1_024;
/** What suppliers serve over gRPC. */
const SEND_RELAY = "/pocket.service.RelayService/SendRelay";

/** The supplier sets of all services that sessions serve, and the connections that these share. */
export class SessionSuppliers implements AsyncDisposable {
  readonly #modules: SessionSuppliersModules;
  readonly #http: HttpTransport;
  readonly #grpc: GrpcTransport;
  readonly #signers: SessionSigners;
  readonly #transport: SignedRelayTransport;
  readonly #sets = new Map<ServiceId, SessionSupplierSet>();
  readonly #listening: readonly Disposable[];

  constructor(options: SessionSuppliersOptions, modules: SessionSuppliersModules) {
    const { source, threads } = modules;
    this.#modules = modules;
    const isPublicOnly = options.allowPrivateSuppliers !== true;
    const budget = new ByteBudget({ maxBytes: options.maxInFlightBytes }, modules);
    this.#http = new HttpTransport({ ...options, isPublicOnly }, { ...modules, budget });
    const { connectTimeoutMs, maxConnectionsPerOrigin: maxCallsPerOrigin } = options;
    this.#grpc = new GrpcTransport(
      { method: SEND_RELAY, connectTimeoutMs, maxCallsPerOrigin, isPublicOnly },
      { ...modules, budget },
    );
    this.#signers = new SessionSigners({ maxSessions: MAX_SIGNED_SESSIONS }, modules);
    this.#transport = new SignedRelayTransport(options, {
      ...modules,
      http: this.#http,
      grpc: this.#grpc,
      signers: this.#signers,
      verify: async (digest, signature, publicKey) => {
        const verdict = await threads.ecdsaVerify(digest, signature, publicKey);
        if (verdict.ok) return "valid";
        return verdict.fault === "signature" ? "invalid" : "unchecked";
      },
    });
    // A session's ring is made before its first request.
    const warming = source.onChange((_service, sessions) => {
      for (const session of sessions) this.#signers.warm(session);
    });
    const dropping = source.onHeight((heightBlocks, isReplaced) => {
      if (isReplaced) this.#signers.dropAll();
      else this.#signers.dropEnded(heightBlocks);
    });
    this.#listening = [warming, dropping];
  }

  /** The sets of services, those without an application included: they may get one at any time. */
  of(services: Iterable<ServiceId>): ReadonlyMap<ServiceId, SupplierSet> {
    const { source, log = silentLog } = this.#modules;
    const found = new Map<ServiceId, SupplierSet>();
    for (const service of services) {
      let set = this.#sets.get(service);
      if (set === undefined) {
        set = new SessionSupplierSet(
          { service },
          { source, http: this.#http, grpc: this.#grpc, transport: this.#transport, log },
        );
        this.#sets.set(service, set);
      }
      found.set(service, set);
    }
    return found;
  }

  /** Operators of the sessions of now, by service. */
  operators(): ReadonlyMap<string, ReadonlySet<string>> {
    return new Map(
      [...this.#sets].map(([service, set]) => [service, new Set(set.endpoints().map(({ operator }) => operator))]),
    );
  }

  /** Ends the sets of services that are served no more. */
  keepOnly(services: { has(id: ServiceId): boolean }): void {
    for (const [id, set] of this.#sets) {
      if (services.has(id)) continue;
      set[Symbol.dispose]();
      this.#sets.delete(id);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const each of this.#listening) each[Symbol.dispose]();
    for (const set of this.#sets.values()) set[Symbol.dispose]();
    this.#signers[Symbol.dispose]();
    await this.#http[Symbol.asyncDispose]();
    await this.#grpc[Symbol.asyncDispose]();
  }
}
