import { GasMeter } from "./gas.ts";
import type { StateView } from "./overlay.ts";

/** One attribute of an event. */
export interface EventAttribute {
  readonly key: string;
  readonly value: string;
  readonly index: boolean;
}

/** An event of a block or a transaction, as clients see it. */
export interface ChainEvent {
  readonly type: string;
  readonly attributes: readonly EventAttribute[];
}

/** An event of these attributes, in their order, all of them indexed. */
export function chainEvent(type: string, attributes: Readonly<Record<string, string>>): ChainEvent {
  const list: EventAttribute[] = [];
  for (const key of Object.keys(attributes)) list.push({ key, value: attributes[key] ?? "", index: true });
  return { type, attributes: list };
}

/** Adds events at the end of those of a context: one by one, as a list of any length does not fit into arguments. */
export function addEvents({ events }: Pick<Context, "events">, added: readonly ChainEvent[]): void {
  for (const event of added) events.push(event);
}

/** The events with one more attribute at the end of each. */
export function withAttribute(events: readonly ChainEvent[], key: string, value: string): ChainEvent[] {
  return events.map((event) => ({ ...event, attributes: [...event.attributes, { key, value, index: true }] }));
}

/** Why code runs: `check` and `recheck` are the mempool's. */
export type ExecutionMode = "genesis" | "block" | "check" | "recheck" | "deliver" | "simulate" | "query";

/** The block that code runs in, or for queries the one whose state is read. */
export interface BlockInfo {
  readonly chainId: string;
  readonly heightBlocks: bigint;
  /** Block time in nanoseconds since 1970. */
  readonly timeNanos: bigint;
  /** Hash of this block; empty where it is not known yet. */
  readonly hash: Uint8Array;
  /** Address bytes of the proposer; empty where it is not known. */
  readonly proposer: Uint8Array;
}

/** Everything that module code may use: a state, a block, a gas meter and a place for events. No clock and no I/O. */
export interface Context {
  readonly block: BlockInfo;
  readonly mode: ExecutionMode;
  readonly state: StateView;
  readonly gas: GasMeter;
  /** Events so far; code adds at the end. */
  readonly events: ChainEvent[];
}

/**
 * The context with a meter of its own. For indexes that the real chain keeps in another way: their gas is charged beside it,
 * by what they cost there, so that a limit that was simulated on one chain is enough on the other.
 */
export function unmetered(ctx: Context): Context {
  return { ...ctx, gas: new GasMeter() };
}
