import { setImmediate as nextTurn } from "node:timers/promises";
import { damaged } from "./sealed.ts";
import type { Tables } from "./tables.ts";
import { leafHash, nibbleAt, nodeKey, pathOf, readNode, type TrieChild } from "./trie.ts";

const TURN_ENTRIES = 512;

function* nodesOf(tables: Tables, root: TrieChild | undefined): Generator<TrieChild, undefined> {
  const zero = Buffer.alloc(32);
  const walk = function* (at: TrieChild | undefined, path: Buffer, depth: number): ReturnType<typeof nodesOf> {
    if (at === undefined) return undefined;
    yield at;
    if (at.kind === "leaf") return undefined;
    const children = readNode((key) => tables.nodes.get(key), nodeKey(path, depth), at.hash);
    for (const [nibble, child] of children.entries()) {
      const below = Buffer.from(path);
      const byte = below[depth >> 1] ?? 0;
      below[depth >> 1] = depth % 2 === 0 ? nibble << 4 : (byte & 0xf0) | nibble;
      yield* walk(child, below, depth + 1);
    }
    return undefined;
  };
  return yield* walk(root, zero, 0);
}

function leafAt(tables: Tables, root: TrieChild | undefined, path: Buffer): Buffer | undefined {
  let at = root;
  for (let depth = 0; at?.kind === "branch"; depth++) {
    at = readNode((key) => tables.nodes.get(key), nodeKey(path, depth), at.hash)[nibbleAt(path, depth)];
  }
  return at?.path.equals(path) === true ? at.hash : undefined;
}

/**
 * Compares every entry of the newest state with its leaf, and their numbers; every node is hashed again on the way, and
 * no other is there.
 * `turn` is called between the parts, and nothing may be written while it runs.
 * @throws AppError CHAIN_STORE_DAMAGED
 */
export async function checkState(tables: Tables, root: TrieChild | undefined, turn: () => void): Promise<void> {
  let entries = 0;
  for (let from: Buffer | undefined = Buffer.alloc(0); from !== undefined; ) {
    let last: Buffer | undefined;
    let some = 0;
    for (const [key, value] of tables.latest.entries({ from })) {
      const path = pathOf(key);
      if (leafAt(tables, root, path)?.equals(leafHash(path, value)) !== true) throw damaged("an entry of the state");
      entries++;
      if (++some < TURN_ENTRIES) continue;
      last = key;
      break;
    }
    from = last === undefined ? undefined : Buffer.concat([last, Buffer.alloc(1)]);
    await nextTurn();
    turn();
  }
  let leaves = 0;
  let nodes = 0;
  for (const visited of nodesOf(tables, root)) {
    if (visited.kind === "leaf") leaves++;
    else nodes++;
    if ((leaves + nodes) % TURN_ENTRIES !== 0) continue;
    await nextTurn();
    turn();
  }
  if (leaves !== entries) throw damaged("the number of entries");
  for (const _ of tables.nodes.keys({})) nodes--;
  if (nodes !== 0) throw damaged("the number of nodes");
}
