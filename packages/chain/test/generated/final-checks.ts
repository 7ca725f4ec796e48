import assert from "node:assert/strict";
import { createMessage, encodeMessage } from "@turnpike/proto";
import type { Chance } from "@turnpike/testkit/chance";
import { Overlay } from "../../src/state/overlay.ts";
import { LiveChain, machine, modules } from "./live-chain.ts";
import { mutate } from "./mutate.ts";

/** Calls every query of every module, without arguments and with arguments at edges: each must answer or refuse. */
export function runQueries(chain: LiveChain, chance: Chance): void {
  const { block } = chain.context();
  for (const { queries = {} } of modules) {
    for (const [path, { input }] of Object.entries(queries)) {
      machine.query(chain.state, block, path, new Uint8Array(0));
      const request = createMessage(input);
      mutate(chance, input, request);
      machine.query(chain.state, block, path, encodeMessage(input, request));
    }
  }
}

/** Asserts that an exported state starts a chain that exports the same and goes on as this one does. */
export function assertSameAfterImport(chain: LiveChain): void {
  const { block } = chain.context();
  const exported = machine.exportGenesis(new Overlay(chain.state), { ...block, heightBlocks: chain.heightBlocks });
  const text = JSON.stringify(exported);
  const read = JSON.parse(text) as Record<string, unknown>;
  const again = LiveChain.start(read, chain.heightBlocks, chain.timeNanos);
  const twice = machine.exportGenesis(new Overlay(again.state), { ...block, heightBlocks: chain.heightBlocks });
  assert.deepEqual(JSON.parse(JSON.stringify(twice)), read, "an export of the imported state");
}
