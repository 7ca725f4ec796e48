import { AsyncLocalStorage } from "node:async_hooks";

/** Promise that a killed process waits for. */
export const never = (): Promise<never> => new Promise(() => {});

/**
 * A process of the buyer's. It ends at one of its steps: all that it reads, writes, sends, receives and signs. Nothing of it
 * goes on after that, though its promises stay.
 */
export class SimulatedProcess {
  readonly name: string;
  /** Resolves at its end, with the step at which it was killed. */
  readonly ended: Promise<string>;
  readonly #end: (step: string) => void;
  readonly #onEnd: (step: string) => void;
  #stepsToKill: number;
  #isAlive = true;

  /** Killed at the step of this number; infinite for never. `onEnd` is called at its end, before anything else happens. */
  constructor(name: string, stepsToKill: number, onEnd: (step: string) => void) {
    this.name = name;
    this.#stepsToKill = stepsToKill;
    const { promise, resolve } = Promise.withResolvers<string>();
    this.ended = promise;
    this.#end = resolve;
    this.#onEnd = onEnd;
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** Resolves where the process goes on, and never where it is killed here or was before. */
  async step(name: string): Promise<void> {
    if (this.#isAlive && --this.#stepsToKill <= 0) this.kill(name);
    if (!this.#isAlive) await never();
  }

  kill(step: string): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    this.#onEnd(step);
    this.#end(step);
  }
}

/** The process of the code that runs, and its call where it makes one. */
export interface ProcessScope {
  readonly process: SimulatedProcess;
  readonly callId?: number;
}

export const processScopes = new AsyncLocalStorage<ProcessScope>();

/** True where the process that runs has been killed. */
export function isKilled(): boolean {
  return processScopes.getStore()?.process.isAlive === false;
}

/** A step of the process that runs; none in a simulation's own code. */
export async function step(name: string): Promise<void> {
  await processScopes.getStore()?.process.step(name);
}
