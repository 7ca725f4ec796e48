export interface HostedEngineOptions {
  readonly id: string;
  /** Goes to the engine only: never into a log, an error or a metric. */
  readonly apiKey: string;
  /** Another address than the engine's own; undefined: its own. */
  readonly url: string | undefined;
}
