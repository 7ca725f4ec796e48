import type { Clock } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import type { AttemptResult } from "../answers/upstream-answer.ts";
import { rpcProbeCall } from "../families/family.ts";

/** A supplier whose methods are surveyed. */
export interface SurveyedSupplier {
  readonly service: Service;
  readonly rpcType: string;
  /** Each question to it is paid for: it is not surveyed, calls show what it lacks. */
  readonly isPaid: boolean;
  /** One that is down is not asked. */
  readonly isHealthy: boolean;
  /** Asks its back-end. Never rejects. */
  ask(call: BackendCall, signal: AbortSignal): Promise<AttemptResult>;
  /** Records that it does not have an operation. */
  lacks(operation: string, nowMs: number): void;
}

interface MethodSurveyOptions {
  /** Time between two runs. */
  readonly intervalMs: number;
  /** Time after which a method that a supplier does not have is asked for again. */
  readonly againMs: number;
  /** Suppliers that are asked at once. */
  readonly maxAtOnce: number;
}

interface MethodSurveyModules {
  /** Those that are there now. */
  readonly suppliers: () => readonly SurveyedSupplier[];
  readonly clock: Clock;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Parameters that no method has. */
const NO_PARAMETERS = { survey: true };

/**
 * Finds out which of the declared JSON-RPC methods a supplier does not have, before a client pays for one. Each is asked
 * for with parameters that no method has: nodes look the method up first, and then refuse the parameters, so that little
 * is run. A method that is there is not asked for again: calls show when it is gone.
 */
export class MethodSurvey {
  readonly #options: MethodSurveyOptions;
  readonly #modules: MethodSurveyModules;
  readonly #due = new WeakMap<SurveyedSupplier, Map<string, number>>();
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;

  constructor(options: MethodSurveyOptions, modules: MethodSurveyModules) {
    this.#options = options;
    this.#modules = modules;
  }

  /** Runs now, and then at every interval. */
  start(): void {
    const look = (): void => {
      this.#running ??= this.run().finally(() => {
        this.#running = undefined;
      });
    };
    look();
    this.#timer = setInterval(look, this.#options.intervalMs);
    this.#timer.unref();
  }

  /** Asks for all methods that are due. Never rejects. */
  async run(): Promise<void> {
    const waiting = this.#modules.suppliers().filter(({ isPaid }) => !isPaid);
    const work = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await this.#survey(next);
    };
    await Promise.all(Array.from({ length: this.#options.maxAtOnce }, work));
  }

  async #survey(supplier: SurveyedSupplier): Promise<void> {
    const { clock, signal } = this.#modules;
    let due = this.#due.get(supplier);
    if (due === undefined) {
      due = new Map(questionsFor(supplier).map((name) => [name, Number.NEGATIVE_INFINITY]));
      this.#due.set(supplier, due);
    }
    for (const [name, atMs] of due) {
      if (signal.aborted || !supplier.isHealthy) return;
      if (atMs > clock.monotonicMs()) continue;
      const result = await supplier.ask(rpcProbeCall(name, NO_PARAMETERS), signal);
      const isThere = hasMethod(result);
      // The answer says nothing about the method: it is asked for at another run.
      if (isThere === undefined) return;
      if (isThere) due.delete(name);
      else {
        const nowMs = clock.monotonicMs();
        supplier.lacks(name, nowMs);
        due.set(name, nowMs + this.#options.againMs);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }
}

/** A filter that is made would have to be removed. */
function questionsFor({ service, rpcType }: SurveyedSupplier): readonly string[] {
  if (rpcType !== "json_rpc" || service.families.length === 0) return [];
  const operations = [...service.operations.values()];
  return operations.filter((one) => one.rpcType === "json_rpc" && one.filter !== "create").map(({ name }) => name);
}

/** Whether an answer shows that the method is there; undefined: it shows nothing. */
function hasMethod(result: AttemptResult): boolean | undefined {
  if (result.ok) return true;
  if (result.reason === "unsupported") return false;
  // With an error of JSON-RPC it has looked at the call. A limit, a proxy's page or silence says nothing.
  return result.fallback === undefined ? undefined : true;
}
