import type { Clock, ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { PaymentStage } from "@turnpike/payment";
import type { Relay, Subscriptions } from "@turnpike/relay";

/** Something beside payment and relay that must be ready before the gateway is. */
export interface ReadinessCheck {
  /** What `missing` names when it is not ready: `ledger`. */
  readonly name: string;
  ready(): Promise<boolean>;
}

interface ReadinessOptions {
  /** How long a check may take before it counts as not ready. */
  readonly checkTimeoutMs: number;
  /** How long the outcome of the checks is used again: probes must not load what they look at. */
  readonly keepMs: number;
}

interface ReadinessModules {
  readonly services: ReadonlyMap<ServiceId, Service>;
  readonly payment: PaymentStage;
  readonly relay: Pick<Relay, "missing">;
  readonly subscriptions: Pick<Subscriptions, "offers">;
  readonly checks: readonly ReadinessCheck[];
  readonly clock: Clock;
}

/** Who can answer now: the gateway, and each of its services. */
export class Readiness {
  readonly #opts: ReadinessOptions;
  readonly #modules: ReadinessModules;
  #kept: { readonly untilMs: number; readonly missing: Promise<readonly string[]> } | undefined;

  constructor(opts: ReadinessOptions, modules: ReadinessModules) {
    this.#opts = opts;
    this.#modules = modules;
  }

  /** What the gateway lacks; empty when it can take a payment and at least one service can answer. */
  async gateway(): Promise<readonly string[]> {
    const missing = [...(await this.#missingForPayment())];
    if (!this.#counted().some((id) => this.answers(id))) missing.push("service");
    return [...new Set(missing)];
  }

  /** What one service lacks; undefined when there is no such service. */
  async service(id: string): Promise<readonly string[] | undefined> {
    const { services, relay } = this.#modules;
    const service = services.get(id as ServiceId);
    if (service === undefined) return undefined;
    if (this.#hasOnlySockets(service.id)) return [];
    const missing = relay.missing(service.id) ?? ["supplier"];
    return service.paid ? [...new Set([...missing, ...(await this.#missingForPayment())])] : missing;
  }

  /** True when a service has a healthy supplier over HTTP, so that its calls can be sold. */
  serves(id: ServiceId): boolean {
    return this.#modules.relay.missing(id)?.length === 0;
  }

  /** True when a service serves, or has nothing but WebSockets, which the free relay speaks. */
  answers(id: ServiceId): boolean {
    return this.serves(id) || this.#hasOnlySockets(id);
  }

  async #missingForPayment(): Promise<readonly string[]> {
    return [...(await this.#failedChecks()), ...this.#modules.payment.missing()];
  }

  #failedChecks(): Promise<readonly string[]> {
    const { checks, clock } = this.#modules;
    const { checkTimeoutMs, keepMs } = this.#opts;
    const now = clock.monotonicMs();
    if (this.#kept === undefined || this.#kept.untilMs <= now) {
      const missing = Promise.all(checks.map((check) => passes(check, checkTimeoutMs))).then((passed) =>
        checks.filter((_, at) => passed[at] !== true).map((check) => check.name),
      );
      this.#kept = { untilMs: now + keepMs, missing };
    }
    return this.#kept.missing;
  }

  /** A service that is configured with nothing but WebSockets; they are opened when a client needs one. */
  #hasOnlySockets(id: ServiceId): boolean {
    const { services, relay, subscriptions } = this.#modules;
    return services.get(id)?.free === true && relay.missing(id) === undefined && subscriptions.offers(id);
  }

  /** A service that only the chain has does not count beside the operator's own, unless there are no others. */
  #counted(): readonly ServiceId[] {
    const { services, relay } = this.#modules;
    const ids = [...services.keys()];
    const own = ids.filter((id) => services.get(id)?.isUnlisted !== true);
    return own.some((id) => relay.missing(id) !== undefined || this.#hasOnlySockets(id)) ? own : ids;
  }
}

async function passes(check: ReadinessCheck, timeoutMs: number): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), timeoutMs);
  try {
    return await Promise.race([check.ready(), late]);
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}
