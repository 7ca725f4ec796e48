import { isAppError } from "@turnpike/base";
import { fromApiJson, toApiJson } from "@turnpike/proto";
import { chanceOf } from "@turnpike/testkit/chance";
import { Overlay } from "../../src/state/overlay.ts";
import { LiveChain, machine, modules } from "./live-chain.ts";
import { mutate } from "./mutate.ts";

/** A state in the form of a genesis, by module. */
export type AppState = Readonly<Record<string, unknown>>;

/** Exports a chain's newest state. */
export function exportOf(chain: LiveChain): AppState {
  const { block } = chain.context();
  const exported = machine.exportGenesis(new Overlay(chain.state), { ...block, heightBlocks: chain.heightBlocks });
  return JSON.parse(JSON.stringify(exported)) as AppState;
}

/** Changes one to three places of one or two modules' parts; undefined when the change cannot be written as JSON. */
export function changedGenesis(appState: AppState, seed: string): AppState | undefined {
  const chance = chanceOf(`genesis ${seed}`);
  const [first, ...others] = modules.filter(({ genesis }) => genesis?.message !== undefined);
  const changed: Record<string, unknown> = { ...appState };
  for (let i = chance.often(0.8) ? 1 : 2; i > 0 && first !== undefined; i--) {
    const { name, genesis } = chance.pick([first, ...others]);
    if (genesis?.message === undefined) continue;
    const { schema } = genesis.message;
    const lists = new Set(genesis.lists.map(({ field }) => field));
    const parts = Object.entries((changed[name] ?? {}) as object);
    const read = fromApiJson(schema, Object.fromEntries(parts.filter(([field]) => !lists.has(field))));
    if (!read.ok) return undefined;
    mutate(chance, schema, read.message);
    try {
      const json = toApiJson(schema, read.message) as object;
      changed[name] = { ...json, ...Object.fromEntries(parts.filter(([field]) => lists.has(field))) };
    } catch {
      return undefined;
    }
  }
  return changed;
}

/** A chain of a changed genesis; undefined when the genesis is refused. */
export function startChanged(appState: AppState, from: LiveChain): LiveChain | undefined {
  try {
    return LiveChain.start(appState, from.heightBlocks, from.timeNanos);
  } catch (error) {
    if (isAppError(error, "CONFIG_INVALID")) return undefined;
    throw error;
  }
}
