import type { Log } from "@turnpike/base";
import type { RegisteredService } from "@turnpike/catalogue";
import type { PocketQueries } from "@turnpike/chain-client";
import type { ServiceOrigin, SessionSource } from "@turnpike/relay";

export interface RegisteredServicesOptions {
  /** Anyone may register services, and delegate applications to this gateway. */
  readonly maxServices: number;
}

/** What {@link RegisteredServices} use. */
export interface RegisteredServicesModules {
  readonly source: Pick<SessionSource, "serviceIds" | "ownServiceIds" | "onApplications">;
  readonly queries: Pick<PocketQueries, "service">;
  readonly originOf: (serviceId: string) => ServiceOrigin;
  /** True: the owners of known services are looked up too. */
  readonly needsOwners: () => boolean;
  readonly log: Log;
}

/** Questions to the chain's node at once. */
const MAX_ASKED = 8;

/**
 * The services for which an application of this gateway is staked and that only the chain has; and, where owners matter, the
 * known ones. One that has gone stays in the list, so that its callers learn that it has no supplier now; it makes room when
 * there are too many.
 */
export class RegisteredServices implements AsyncDisposable {
  readonly #options: RegisteredServicesOptions;
  readonly #modules: RegisteredServicesModules;
  readonly #following: Disposable;
  #current: readonly RegisteredService[] = [];
  #onChange: (() => Promise<boolean>) | undefined;
  #looking: Promise<void> | undefined;
  /** The look after it, where the options have changed. */
  #next: Promise<void> | undefined;
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

  /** Looks as the options are now, also where a look is under way that may have begun with others. Never rejects. */
  lookAgain(): Promise<void> {
    if (this.#looking === undefined) return this.look();
    this.#next ??= this.#looking.then(() => {
      this.#next = undefined;
      return this.look();
    });
    return this.#next;
  }

  /** Looks which there are, or waits for the look that is under way. Never rejects. */
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
    const next = [...(await this.#registered()), ...(await this.#owned())];
    if (JSON.stringify(next) !== JSON.stringify(this.#current)) this.#current = next;
  }

  async #registered(): Promise<readonly RegisteredService[]> {
    const { source, originOf } = this.#modules;
    const { maxServices } = this.#options;
    const wanted = source.serviceIds();
    const before = this.#current.filter(({ id }) => originOf(id) === "registered");
    const known = new Set(before.map(({ id }) => id));
    const own = source.ownServiceIds();
    const rankOf = (id: string): number => (own.has(id) ? 0 : known.has(id) ? 1 : 2);
    // Between two sessions there may be more than fit: those of other owners make room for own ones.
    const used = [...wanted]
      .filter((id) => originOf(id) === "registered")
      .sort((a, b) => rankOf(a) - rankOf(b))
      .slice(0, maxServices);
    const asked = await this.#ask(
      used.filter((id) => !known.has(id)),
      false,
    );
    const added = [...asked.values()].flatMap((one) => one ?? []);
    const isUsed = new Set(used);
    const inUse = before.filter(({ id }) => isUsed.has(id));
    const gone = before.filter(({ id }) => !isUsed.has(id));
    const room = Math.max(0, maxServices - inUse.length - added.length);
    // Those that came last go last.
    const kept = new Set([...inUse, ...gone.slice(Math.max(0, gone.length - room))]);
    return [...before.filter((one) => kept.has(one)), ...added];
  }

  /** Known services with their owners, which may change. What could not be asked stays. */
  async #owned(): Promise<readonly RegisteredService[]> {
    const { source, originOf, needsOwners } = this.#modules;
    if (!needsOwners()) return [];
    const isKnown = (id: string): boolean => originOf(id) === "known";
    const owned = new Map(this.#current.filter(({ id }) => isKnown(id)).map((one) => [one.id, one]));
    // One whose application has left may still be served by static suppliers, and be transferred.
    const ids = new Set([...owned.keys(), ...[...source.serviceIds()].filter(isKnown)]);
    for (const [id, found] of await this.#ask([...ids], true)) {
      if (found === undefined) owned.delete(id);
      else owned.set(id, found);
    }
    return [...owned.values()];
  }

  /** What the chain has of these; undefined where it has none. What could not be read is not among them. */
  async #ask(ids: readonly string[], fresh: boolean): Promise<ReadonlyMap<string, RegisteredService | undefined>> {
    const found = new Map<string, RegisteredService | undefined>();
    for (let from = 0; from < ids.length; from += MAX_ASKED) {
      const asked = ids.slice(from, from + MAX_ASKED);
      const answers = await Promise.all(
        asked.map(async (id) => [id, await this.#modules.queries.service(id, { fresh })] as const),
      );
      for (const [id, answer] of answers) {
        if (answer.ok && answer.value.id === id) found.set(id, { id, ownerAddress: answer.value.ownerAddress });
        else if (!answer.ok && answer.fault === "refused") found.set(id, undefined);
      }
      if (answers.some(([, answer]) => !answer.ok && answer.fault !== "refused")) break;
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#following[Symbol.dispose]();
    this.#onChange = undefined;
    await this.#looking;
    await this.#next;
  }
}
