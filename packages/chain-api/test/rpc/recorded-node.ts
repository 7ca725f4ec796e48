import { bytesToBase64, bytesToHex } from "@turnpike/base";
import type { AppAnswer, ChainEvent } from "@turnpike/chain";
import { sha256 } from "@turnpike/crypto";
import { must } from "@turnpike/testkit/fixtures";
import {
  fromBase64,
  fromHex,
  readRecordedChain,
  readTxResult,
  TestNode,
  type TestTx,
  type TxResultJson,
  txResult,
} from "./node.ts";

/** One recorded question with its answer. */
export interface Exchange {
  readonly group: string;
  readonly name: string;
  readonly template?: { readonly get?: string; readonly method?: string; readonly params?: unknown };
  readonly bind?: Readonly<Record<string, string>>;
  readonly request: { readonly method: string; readonly path: string; readonly body?: unknown };
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

const GROUPS =
  "abci_info abci_query block block_by_hash block_results block_search blockchain broadcast_tx_async broadcast_tx_commit broadcast_tx_sync check_tx commit consensus_params consensus_state dump_consensus_state genesis genesis_chunked header header_by_hash health net_info num_unconfirmed_txs protocol status tx tx_search unconfirmed_txs validators";

/** Every recorded question. */
export function readExchanges(): readonly Exchange[] {
  return GROUPS.split(" ").flatMap((group) =>
    (readRecordedChain(`rpc/${group}.json`) as Omit<Exchange, "group">[]).map((one) => ({ ...one, group })),
  );
}

/** A member of a JSON value that the test knows to be there. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let found = value;
  for (const name of path) found = (found as Readonly<Record<string | number, unknown>> | undefined)?.[name];
  return found;
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

// The bytes of a transaction in a recorded request, whatever way they were sent.
function sentTx({ request }: Exchange): Uint8Array | undefined {
  const text = at(request.body, "params", "tx");
  const sent = typeof text === "string" ? text : at(request.body, "tx");
  if (typeof sent === "string") return sent === "***" ? undefined : fromBase64(sent);
  const hex = /tx=0x([0-9a-f]+)/.exec(typeof request.body === "string" ? request.body : request.path)?.[1];
  return hex === undefined ? undefined : fromHex(hex);
}

interface SearchedTx {
  readonly tx: string;
  readonly height: string;
  readonly tx_result: TxResultJson;
}

/** A stand-in on which every recorded question has the recorded kind of answer, and what its templates are filled with. */
export function createRecordedNode(): { readonly node: TestNode; readonly vars: Readonly<Record<string, string>> } {
  const exchanges = readExchanges();
  const checks = new Map<string, TxResultJson>();
  const deliveries = new Map<string, TxResultJson>();
  for (const exchange of exchanges) {
    const tx = sentTx(exchange);
    const result = at(exchange.body, "result");
    if (tx === undefined || result === undefined) continue;
    const empty = { data: null, gas_wanted: "0", gas_used: "0", events: [] };
    const check = at(result, "check_tx") ?? { ...empty, ...(result as object), data: null };
    // The broadcast without a check says nothing of it.
    const key = bytesToHex(tx);
    if (exchange.group !== "broadcast_tx_async" && !exchange.name.includes("{tx}")) {
      checks.set(key, check as TxResultJson);
      const delivered = at(result, "tx_result");
      if (delivered !== undefined) deliveries.set(key, delivered as TxResultJson);
    }
  }
  const answers = new Map<string, AppAnswer>();
  for (const { group, request, body } of exchanges) {
    if (group !== "abci_query") continue;
    const text = (name: string): string => textOf(at(request.body, "params", name));
    const response = at(body, "result", "response");
    const height = Number(text("height"));
    const shown = height > 2035 ? "future" : height === 0 ? "" : height.toString();
    const key = `${text("path")} ${text("data")} ${shown}`;
    answers.set(key, {
      code: Number(at(response, "code")),
      codespace: String(at(response, "codespace")),
      log: String(at(response, "log")),
      value: fromBase64(textOf(at(response, "value"))),
      heightBlocks: BigInt(String(at(response, "height"))),
    });
  }
  const node = new TestNode({
    checks: (tx) => {
      const found = checks.get(bytesToHex(tx));
      return found === undefined ? txResult() : readTxResult(found);
    },
    deliveries: (tx) => {
      const found = deliveries.get(bytesToHex(tx));
      return found === undefined ? txResult() : readTxResult(found);
    },
    query: (path, data, height) => {
      const shown = height === 0n ? "" : height > 2035n ? "future" : height.toString();
      return answers.get(`${path} ${bytesToHex(data)} ${shown}`) ?? must(answers.get(`${path}  ${shown}`));
    },
    autoBlocks: true,
  });
  const searched = exchanges
    .filter(({ group }) => group === "tx_search")
    .flatMap(({ body }) => (at(body, "result", "txs") ?? []) as readonly SearchedTx[]);
  const txAt = (height: string): TestTx[] => {
    const found = new Map(searched.filter((one) => one.height === height).map((one) => [one.tx, one]));
    return [...found.values()].map((one) => ({ bytes: fromBase64(one.tx), result: readTxResult(one.tx_result) }));
  };
  const eventsOf = (name: string): readonly ChainEvent[] => {
    const exchange = must(exchanges.find((one) => one.group === "block_results" && one.name === name));
    return at(exchange.body, "result", "finalize_block_events") as readonly ChainEvent[];
  };
  const plain = eventsOf("no txs");
  const heights = [...new Set(searched.map(({ height }) => height))].filter((height) => height !== "103");
  const rest = heights.flatMap(txAt);
  for (let height = 1; height <= 25; height++) {
    if (height === 9) node.produce(txAt("103"), plain);
    else if (height === 6) {
      node.produce(
        rest.filter(({ result }) => result.code === 0),
        plain,
      );
    } else if (height === 8) {
      node.produce(
        rest.filter(({ result }) => result.code !== 0),
        plain,
      );
    } else node.produce([], height === 7 ? eventsOf("settlement") : plain);
  }
  const block = must(node.blocks.block(9n));
  const hash = sha256(must(block.block.txs[0]));
  return {
    node,
    vars: {
      height: "5",
      future: "100025",
      tx_height: "9",
      tx_hash_hex: bytesToHex(hash).toUpperCase(),
      tx_hash_b64: bytesToBase64(hash),
      block_hash_hex: bytesToHex(block.id.hash).toUpperCase(),
      block_hash_b64: bytesToBase64(block.id.hash),
      claim_height: "6",
      proof_height: "6",
      stake_height: "6",
      settle_height: "7",
      account: "pokt173r2dgg0jce84fq60sc7wmasvrpesfjdf93pqz",
    },
  };
}
