import { ClientQueue, type NoPlace, Places } from "@turnpike/base";

export interface CheckQueueOptions {
  /** Maximum number of checks at once. A client may have a quarter of them. */
  readonly maxRunning: number;
  /**
   * Maximum number of checks that run or wait. A client may have a quarter of them, and each payer that it presents three
   * quarters of those: the payer's signature is not checked yet, so that one client's must not count for another's.
   */
  readonly maxChecks: number;
}

interface Line {
  /** Checks that run, or wait for their turn among those of other clients. */
  active: number;
  readonly waiting: (() => void)[];
}

const quarter = (of: number): number => Math.max(1, Math.floor(of / 4));

/** Runs checks, so many at once, and those of each client in turn with those of others. */
export class CheckQueue {
  readonly #maxRunning: number;
  readonly #clients: Places;
  readonly #payers: Places;
  readonly #lines = new Map<string, Line>();
  readonly #queue = new ClientQueue<() => void>();
  #running = 0;

  constructor({ maxRunning, maxChecks }: CheckQueueOptions) {
    this.#maxRunning = maxRunning;
    this.#clients = new Places({ max: () => maxChecks, maxEach: () => quarter(maxChecks) });
    this.#payers = new Places({
      max: () => maxChecks,
      maxEach: () => Math.max(1, Math.floor((quarter(maxChecks) * 3) / 4)),
    });
  }

  /** Runs a check in its turn; says why not, at once, when too many wait. */
  async run<T extends object | string>(
    { client, payer }: { readonly client: string | undefined; readonly payer: string },
    check: () => Promise<T>,
  ): Promise<T | NoPlace> {
    const name = client ?? payer;
    const leave = this.#clients.acquire(name);
    if (typeof leave === "string") return leave;
    const leavePayer = this.#payers.acquire(`${name} ${payer}`);
    if (typeof leavePayer === "string") {
      leave();
      return leavePayer;
    }
    await new Promise<void>((resolve) => this.#enter(name, resolve));
    try {
      return await check();
    } finally {
      leave();
      leavePayer();
      this.#end(name);
    }
  }

  #enter(client: string, start: () => void): void {
    const line = this.#lines.get(client) ?? { active: 0, waiting: [] };
    this.#lines.set(client, line);
    if (line.active >= quarter(this.#maxRunning)) {
      line.waiting.push(start);
      return;
    }
    line.active++;
    this.#begin(client, start);
  }

  #begin(client: string, start: () => void): void {
    if (this.#running >= this.#maxRunning) {
      this.#queue.add(client, start);
      return;
    }
    this.#running++;
    start();
  }

  #end(client: string): void {
    this.#running--;
    const line = this.#lines.get(client);
    const next = line?.waiting.shift();
    if (next !== undefined) this.#queue.add(client, next);
    else if (line !== undefined && --line.active === 0) this.#lines.delete(client);
    const start = this.#queue.take();
    if (start === undefined) return;
    this.#running++;
    start();
  }
}
