import { AppError, type ServiceId } from "@turnpike/base";
import type { RpcType } from "@turnpike/protocol";
import type { HttpTransport } from "../transport/http-transport.ts";
import type { SupplierEndpoint } from "../transport/transport.ts";
import { type EmptyReason, type SupplierSet, whyEmpty } from "./supplier-set.ts";

/** One operator's back-end of a service. */
export interface StaticEndpoint {
  /** Name for logs and metrics; endpoints with one name count as one operator when another is asked. */
  readonly operator: string;
  /** Base URL for each way of speaking. */
  readonly urls: Readonly<Partial<Record<RpcType, string>>>;
  /** Sent with every request, say an API key. */
  readonly headers?: Readonly<Record<string, string>>;
}

interface StaticSupplierSetOptions {
  readonly service: ServiceId;
  readonly endpoints: readonly StaticEndpoint[];
}

/** The suppliers whose URLs an operator has given: they do not change. */
export class StaticSupplierSet implements SupplierSet {
  readonly #endpoints: readonly SupplierEndpoint[];

  /** @throws AppError CONFIG_INVALID for a URL that is none. */
  constructor(options: StaticSupplierSetOptions, modules: { readonly transport: HttpTransport }) {
    const { service, endpoints } = options;
    this.#endpoints = endpoints.flatMap(({ operator, urls, headers }) =>
      Object.entries(urls).map(([rpcType, url]) => {
        const isSocket = rpcType === "websocket";
        const { transport } = modules;
        const backend = transport.backend(url, headers);
        if (backend === undefined || backend.isSocket !== isSocket) {
          const wanted = isSocket ? "a websocket URL is not a ws or wss URL" : "a URL is not an http or https URL";
          // The URL is not shown: it may hold a key.
          throw new AppError("CONFIG_INVALID", { message: `suppliers.${service}: ${wanted}.` });
        }
        const { backendKey, label } = backend;
        return { operator, rpcType: rpcType as RpcType, backendKey, label, transport, handle: backend };
      }),
    );
  }

  endpoints(): readonly SupplierEndpoint[] {
    return this.#endpoints;
  }

  whyEmpty(rpcType?: RpcType): EmptyReason | undefined {
    return whyEmpty(this.#endpoints, rpcType, "not_configured");
  }

  onChange(): () => void {
    return () => {};
  }

  /** What an operator has configured stays. */
  drop(): void {}
}
