/**
 * One end of a channel between two processes of this machine. Messages are JSON values, arrive in order or not at all, and
 * are checked by their reader.
 */
export interface Port {
  /** False when it could not be sent: the other end is gone, or too much waits. Never throws. */
  send(message: unknown): boolean;
  /** Listens to what comes; the result ends it. */
  subscribe(listener: (message: unknown) => void): () => void;
}
