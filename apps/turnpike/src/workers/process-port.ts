import type { ChildProcess } from "node:child_process";
import type { Port } from "@turnpike/gateway";

/** Messages that may wait for a process that does not read; more are dropped. */
const MAX_WAITING = 2_000;

/** The channel to a child process, or (given the process itself) to the one that started it. */
export function processPort(end: ChildProcess | NodeJS.Process): Port {
  let waiting = 0;
  return {
    send(message) {
      if (end.send === undefined || !end.connected || waiting >= MAX_WAITING) return false;
      waiting++;
      try {
        end.send(message as object, undefined, undefined, () => {
          waiting--;
        });
        return true;
      } catch {
        waiting--;
        return false;
      }
    },
    subscribe(listener) {
      const onMessage = (message: unknown): void => listener(message);
      end.on("message", onMessage);
      return () => void end.off("message", onMessage);
    },
  };
}
