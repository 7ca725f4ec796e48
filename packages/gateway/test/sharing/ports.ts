import type { Port } from "../../src/sharing/worker-bus.ts";

/** One end of a pair of ports of a test. */
export interface TestPort extends Port {
  /** What this end sent. */
  readonly sent: unknown[];
  /** False: the other end is gone. */
  isOpen: boolean;
  /** True: what is sent to this end does not arrive, as if it hung. */
  isHung: boolean;
}

/** Two ports that lead to each other. Messages pass as JSON text and arrive in a later turn. */
export function portPair(): readonly [TestPort, TestPort] {
  const listeners: [Set<(message: unknown) => void>, Set<(message: unknown) => void>] = [new Set(), new Set()];
  const end = (own: 0 | 1): TestPort => {
    const port: TestPort = {
      sent: [],
      isOpen: true,
      isHung: false,
      send(message) {
        if (!port.isOpen) return false;
        const text = JSON.stringify(message);
        port.sent.push(JSON.parse(text));
        setImmediate(() => {
          if (ends[own === 0 ? 1 : 0].isHung) return;
          for (const listener of listeners[own === 0 ? 1 : 0]) listener(JSON.parse(text));
        });
        return true;
      },
      subscribe(listener) {
        listeners[own].add(listener);
        return () => listeners[own].delete(listener);
      },
    };
    return port;
  };
  const ends: readonly [TestPort, TestPort] = [end(0), end(1)];
  return ends;
}
