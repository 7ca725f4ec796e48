import type { ServedSession } from "../verification/session-keeper.ts";

/** What became of a relay in its session's log. `failed`: it could not be written. */
export type Recorded = "mined" | "below-difficulty" | "sealed" | "failed";

/** A relay under way: the claim of its session waits for it. Disposed when it is over, however it ended. */
export interface OpenRelay extends Disposable {
  /** Resolves when the relay is where a killed process does not lose it. Only then may its answer leave. */
  record(relay: Uint8Array): Promise<Recorded>;
}

/** Where served relays go. */
export interface RelayRecorder {
  /** Undefined: the session's claim is being made, and no relay of it is served any more. */
  open(session: ServedSession): OpenRelay | undefined;
}
