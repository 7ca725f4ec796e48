import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { ChainEvent } from "@turnpike/chain";
import type { StoredBlock, StoredTx } from "../types.ts";
import { eventMapOfBlock, eventMapOfTx } from "./event-map.ts";

interface Said {
  readonly dir: string;
  readonly msg?: {
    readonly result?: {
      readonly data?: {
        readonly type: string;
        readonly value: {
          readonly TxResult?: { readonly height: string; readonly result: { readonly events: readonly ChainEvent[] } };
          readonly result_finalize_block?: { readonly events: readonly ChainEvent[] };
        };
      };
      readonly events?: Readonly<Record<string, readonly string[]>>;
    };
  };
}

function told(name: string): NonNullable<NonNullable<Said["msg"]>["result"]>[] {
  const file = new URL(`../../../../test/spec/recorded-chain/rpc/${name}.json`, import.meta.url);
  const { transcript } = JSON.parse(readFileSync(file, "utf8")) as { readonly transcript: readonly Said[] };
  return transcript.flatMap(({ dir, msg }) => (dir === "<" && msg?.result?.data !== undefined ? [msg.result] : []));
}

test("transactions and blocks show the events that the real node showed", () => {
  let seen = 0;
  for (const { data, events } of [...told("websocket-tx"), ...told("websocket-blocks")]) {
    const [hash = ""] = events?.["tx.hash"] ?? [];
    const { TxResult: tx, result_finalize_block: block } = data?.value ?? {};
    if (tx !== undefined) {
      const stored = {
        hash: Buffer.from(hash, "hex"),
        heightBlocks: BigInt(tx.height),
        result: { events: tx.result.events },
      };
      assert.deepEqual(Object.fromEntries(eventMapOfTx(stored as unknown as StoredTx)), events);
    } else if (block !== undefined) {
      assert.deepEqual(Object.fromEntries(eventMapOfBlock({} as StoredBlock, block)), events);
    } else if (data?.type === "tendermint/event/NewBlockHeader") {
      const shown = eventMapOfBlock({} as StoredBlock, { events: [] }, "NewBlockHeader");
      assert.deepEqual(Object.fromEntries(shown), events);
    } else continue;
    seen++;
  }
  assert.ok(seen >= 6, `${seen}`);
});
