import { createHash } from "node:crypto";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { isAppError } from "@turnpike/base";
import type { EmbeddedNode } from "@turnpike/chain-node";
import { type ChainStore, openChainStore } from "@turnpike/chain-store";
import { openTestNode } from "@turnpike/testkit/embedded-node";

/** What the reader is asked. */
export interface ReadOrder {
  /** Folder with a store in `store`, and what its key signed beside it. */
  readonly folder: string;
  readonly check: "whole" | "none";
}

/** What it answers: a digest of all that the node says, or why there is none. */
export type ReadWord =
  | { readonly kind: "answers"; readonly digest: string }
  | { readonly kind: "refused"; readonly code: string; readonly message: string }
  | { readonly kind: "fault"; readonly text: string };

/** Of so many old states one is read. */
const OLD_STATES = 8n;

// Every answer that the node has: blocks, results, commits, transactions, and states.
function digestOf(node: EmbeddedNode, store: ChainStore): string {
  const digest = createHash("sha256");
  const add = (value: unknown): void => {
    const text = JSON.stringify(value, (_, inner: unknown) =>
      typeof inner === "bigint" ? `${inner}` : inner instanceof Uint8Array ? Buffer.from(inner).toString("hex") : inner,
    );
    digest.update(`${text}\n`);
  };
  const newest = node.blocks.latestHeightBlocks();
  add(newest);
  for (let height = 0n; height <= newest; height++) {
    add([height, store.appHash(height)]);
    if (height % OLD_STATES === 0n || height === newest)
      for (const [key, value] of store.at(height).range({ prefix: Buffer.alloc(0) })) digest.update(key).update(value);
    if (height === 0n) continue;
    const stored = node.blocks.block(height);
    add([stored, node.blocks.results(height), node.blocks.commit(height), node.blocks.validators(height)]);
    add(stored && node.blocks.blockByHash(stored.id.hash)?.sizeBytes);
    for (const tx of stored?.block.txs ?? []) add(node.blocks.tx(createHash("sha256").update(tx).digest()));
  }
  return digest.digest("hex");
}

async function read({ folder, check }: ReadOrder): Promise<ReadWord> {
  try {
    await using store = await openChainStore({ folder: join(folder, "store"), check });
    // One table's absence of an entry is an answer too.
    const latest = store.latestHeightBlocks() ?? -1n;
    const reader = store.at(latest);
    for (const [key] of reader.range({ prefix: Buffer.alloc(0) })) reader.get(key);
    await using node = await openTestNode({ folder: "", signedFile: join(folder, "signed.json") }, store);
    return { kind: "answers", digest: digestOf(node, store) };
  } catch (error) {
    if (isAppError(error)) return { kind: "refused", code: error.code, message: error.message };
    return { kind: "fault", text: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await read(JSON.parse(line) as ReadOrder))}\n`);
}
