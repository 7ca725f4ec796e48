import type { Log } from "@turnpike/base";
import type { RegisteredService } from "@turnpike/catalogue";
import type { PocketQueries } from "@turnpike/chain-client";
import type { ServiceOrigin, SessionSource } from "@turnpike/relay";

/** Options of {@link RegisteredServices}. */
export interface RegisteredServicesOptions {
  /** Anyone may register services, and delegate applications to this gateway. */
  readonly maxServices: number;
}

/** What {@link RegisteredServices} use. */
export interface RegisteredServicesModules {
  readonly source: Pick<SessionSource, "serviceIds" | "onApplications">;
  readonly queries: Pick<PocketQueries, "service">;
  readonly originOf: (serviceId: string) => ServiceOrigin;
  readonly log: Log;
}

/** Questions to the chain's node at once. */
const MAX_ASKED = 8;

/**
 * The services for which an application of this gateway is staked and that only the chain has. One that has gone stays in the
 * list, so that its callers learn that it has no supplier now; it makes room when there are too many.
 */
export class RegisteredServices implements AsyncDisposable {
  readonly #options: RegisteredServicesOptions;
  readonly #modules: RegisteredServicesModules;
  readonly #following: Disposable;
  #current: readonly RegisteredService[] = [];
  #onChange: (() => Promise<boolean>) | undefined;
  #looking: Promise<void> | undefined;
  #inEffect: readonly RegisteredService[] = [];

  constructor(options: RegisteredServicesOptions, modules: RegisteredServicesModules) {
    this.#options = options;
    this.#modules = modules;
    this.#following = modules.source.onApplications(() => void this.look());
  }

  /** Another list each time that they have changed. */
  get current(): readonly RegisteredService[] {
    return this.#current;
  }

  /**
   * Calls back when they are others than those that are in effect, and again later for as long as it resolves with false.
   * Dispose what is returned to stop.
   */
  follow(inEffect: readonly RegisteredService[], onChange: () => Promise<boolean>): Disposable {
    this.#inEffect = inEffect;
    this.#onChange = onChange;
    return {
      [Symbol.dispose]: () => {
        this.#onChange = undefined;
      },
    };
  }

  /** Looks which there are. Never rejects. */
  look(): Promise<void> {
    this.#looking ??= this.#look()
      .catch((error: unknown) => {
        this.#modules.log.error({ error: String(error) }, "the services of the chain could not be read");
      })
      .finally(() => {
        this.#looking = undefined;
      });
    return this.#looking;
  }

  async #look(): Promise<void> {
    await this.#update();
    const current = this.#current;
    if (this.#inEffect === current || this.#onChange === undefined) return;
    if (await this.#onChange()) this.#inEffect = current;
  }

  async #update(): Promise<void> {
    const { source, originOf } = this.#modules;
    const { maxServices } = this.#options;
    const wanted = source.serviceIds();
    const before = new Set(this.#current.map(({ id }) => id));
    const fresh = [...wanted].filter((id) => originOf(id) === "registered" && !before.has(id));
    const valid = this.#current.filter(({ id }) => originOf(id) === "registered");
    const inUse = valid.filter(({ id }) => wanted.has(id));
    const added = await this.#ask(fresh.slice(0, Math.max(0, maxServices - inUse.length)));
    const gone = valid.filter(({ id }) => !wanted.has(id));
    const room = Math.max(0, maxServices - inUse.length - added.length);
    // Those that were served last go last.
    const kept = new Set([...inUse, ...gone.slice(Math.max(0, gone.length - room))].map(({ id }) => id));
    const next = [...valid.filter(({ id }) => kept.has(id)), ...added];
    if (added.length > 0 || next.length < before.size) this.#current = next;
  }

  /** What the chain has of these. What could not be read is asked for at the next look. */
  async #ask(ids: readonly string[]): Promise<readonly RegisteredService[]> {
    const found: RegisteredService[] = [];
    for (let from = 0; from < ids.length; from += MAX_ASKED) {
      const asked = ids.slice(from, from + MAX_ASKED);
      const answers = await Promise.all(asked.map((id) => this.#modules.queries.service(id)));
      for (const [at, answer] of answers.entries()) {
        const id = asked[at];
        if (answer.ok && id === answer.value.id) found.push({ id, ownerAddress: answer.value.ownerAddress });
      }
      if (answers.some((answer) => !answer.ok && answer.fault !== "refused")) break;
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#following[Symbol.dispose]();
    this.#onChange = undefined;
    await this.#looking;
  }
}
