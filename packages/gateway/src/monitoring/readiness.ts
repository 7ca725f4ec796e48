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

/** Options of {@link createReadiness}. */
export interface ReadinessOptions {
  /** How long a check may take before it counts as not ready. */
  readonly checkTimeoutMs: number;
  /** How long the outcome of the checks is used again: probes must not load what they look at. */
  readonly keepMs: number;
}

/** What {@link createReadiness} works with. */
export interface ReadinessModules {
  readonly services: ReadonlyMap<ServiceId, Service>;
  readonly payment: PaymentStage;
  readonly relay: Pick<Relay, "missing">;
  readonly subscriptions: Pick<Subscriptions, "offers">;
  readonly checks: readonly ReadinessCheck[];
  readonly clock: Clock;
}

/** Who can answer now. */
export interface Readiness {
  /** What the gateway lacks; empty when it can take a payment and at least one service can answer. */
  gateway(): Promise<readonly string[]>;
  /** What one service lacks; undefined when there is no such service. */
  service(id: string): Promise<readonly string[] | undefined>;
  /** True when a service has a healthy supplier over HTTP, so that its calls can be sold. */
  serves(id: ServiceId): boolean;
  /** True when a service serves, or has nothing but WebSockets, which the free relay speaks. */
  answers(id: ServiceId): boolean;
}

/** Readiness of the gateway and of its services. */
export function createReadiness(opts: ReadinessOptions, modules: ReadinessModules): Readiness {
  const { services, payment, relay, subscriptions, checks, clock } = modules;
  let kept: { readonly untilMs: number; readonly missing: Promise<readonly string[]> } | undefined;

  const failedChecks = (): Promise<readonly string[]> => {
    const now = clock.monotonicMs();
    if (kept === undefined || kept.untilMs <= now) {
      const missing = Promise.all(checks.map((check) => passes(check, opts.checkTimeoutMs))).then((passed) =>
        checks.filter((_, at) => passed[at] !== true).map((check) => check.name),
      );
      kept = { untilMs: now + opts.keepMs, missing };
    }
    return kept.missing;
  };
  const forPayment = async (): Promise<readonly string[]> => [...(await failedChecks()), ...payment.missing()];
  const serves = (id: ServiceId): boolean => relay.missing(id)?.length === 0;

  /** A service that is configured with nothing but WebSockets; they are opened when somebody needs one. */
  const hasOnlySockets = (id: ServiceId): boolean =>
    services.get(id)?.free === true && relay.missing(id) === undefined && subscriptions.offers(id);
  const answers = (id: ServiceId): boolean => serves(id) || hasOnlySockets(id);

  /** A service that a stranger registered does not stand for those of the operator, unless there are no others. */
  const counted = (): readonly ServiceId[] => {
    const ids = [...services.keys()];
    const own = ids.filter((id) => services.get(id)?.isUnlisted !== true);
    return own.some((id) => relay.missing(id) !== undefined || hasOnlySockets(id)) ? own : ids;
  };

  return {
    serves,
    answers,
    async gateway() {
      const missing = [...(await forPayment())];
      if (!counted().some(answers)) missing.push("service");
      return [...new Set(missing)];
    },
    async service(id) {
      const service = services.get(id as ServiceId);
      if (service === undefined) return undefined;
      if (hasOnlySockets(service.id)) return [];
      const missing = relay.missing(service.id) ?? ["supplier"];
      return service.paid ? [...new Set([...missing, ...(await forPayment())])] : missing;
    },
  };
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
