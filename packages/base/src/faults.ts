/**
 * Named points at which a test may stop the process, to prove that a crash there loses no money.
 * The product passes {@link noFaults}; only a test's child process passes anything else.
 */
export interface FaultPoints {
  /** Called where the name says. Kills the process, waits, throws, or (always in production) does nothing. */
  reach(name: string): void | Promise<void>;
}

/** No fault ever. */
export const noFaults: FaultPoints = { reach() {} };
