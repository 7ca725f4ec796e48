import type { RpcType } from "@turnpike/protocol";
import type { SupplierEndpoint } from "../transport/transport.ts";
import type { DropReason, EmptyReason, SupplierSet } from "./supplier-set.ts";

interface FallbackSupplierSetOptions {
  /** True: the second set is also in reserve for a session without suppliers, or whose suppliers cannot be reached. */
  readonly whenEmpty: boolean;
}

/** The suppliers of one set, and those of another one where the first is not configured. */
export class FallbackSupplierSet implements SupplierSet {
  readonly #whenEmpty: boolean;
  readonly #first: SupplierSet;
  readonly #second: SupplierSet;

  constructor(options: FallbackSupplierSetOptions, first: SupplierSet, second: SupplierSet) {
    this.#whenEmpty = options.whenEmpty;
    this.#first = first;
    this.#second = second;
  }

  endpoints(): readonly SupplierEndpoint[] {
    if (this.#first.whyEmpty() === "not_configured") return this.#second.endpoints();
    const first = this.#first.endpoints();
    if (!this.#whenEmpty) return first;
    return [...first, ...this.#second.endpoints().map((endpoint) => ({ ...endpoint, isReserve: true }))];
  }

  whyEmpty(rpcType?: RpcType): EmptyReason | undefined {
    if (this.#first.whyEmpty() === "not_configured") return this.#second.whyEmpty(rpcType);
    const reason = this.#first.whyEmpty(rpcType);
    return this.#whenEmpty && this.#second.whyEmpty(rpcType) === undefined ? undefined : reason;
  }

  onChange(listener: () => void): () => void {
    const ends = [this.#first.onChange(listener), this.#second.onChange(listener)];
    return () => {
      for (const end of ends) end();
    };
  }

  drop(endpoint: SupplierEndpoint, reason: DropReason): void {
    this.#first.drop(endpoint, reason);
    this.#second.drop(endpoint, reason);
  }
}

/** A service's set, if it has one, with operator-given suppliers behind it. */
export function withFallback(
  set: SupplierSet | undefined,
  own: SupplierSet,
  { staticFallback = false }: { readonly staticFallback?: boolean | undefined },
): SupplierSet {
  return set === undefined ? own : new FallbackSupplierSet({ whenEmpty: staticFallback }, set, own);
}
