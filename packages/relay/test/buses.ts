import { type Bus, BusListeners } from "@turnpike/base";

/** Buses of a test that lead to each other at once, as if they were processes. */
export interface TestBuses {
  readonly buses: readonly Bus[];
  /** What was said, in order. */
  readonly said: { readonly channel: string; readonly message: unknown; readonly from: string }[];
  /** Adds one more. */
  join(): Bus;
}

/** Makes as many buses as asked for. Messages pass as JSON text, as they would between processes. */
export function connectBuses(count: number): TestBuses {
  const members: { readonly bus: Bus; readonly listeners: BusListeners }[] = [];
  const said: TestBuses["said"] = [];
  const join = (): Bus => {
    const listeners = new BusListeners((error) => {
      throw error;
    });
    const id = `p${members.length}`;
    const bus: Bus = {
      id,
      publish(channel, message) {
        const text = JSON.stringify(message);
        said.push({ channel, message: JSON.parse(text), from: id });
        for (const member of members) {
          if (member.bus !== bus) member.listeners.deliver(channel, JSON.parse(text), id);
        }
      },
      subscribe: (channel, listener) => listeners.subscribe(channel, listener),
    };
    members.push({ bus, listeners });
    return bus;
  };
  for (let at = 0; at < count; at++) join();
  return { buses: members.map(({ bus }) => bus), said, join };
}
