import { isRecord } from "@turnpike/base";
import type { Broadcast, ChainClient, IncludedTx } from "@turnpike/chain-client";
import { baseAbci, createMessage, decodeMessage, packAny, toApiJsonText, tx as txs } from "@turnpike/proto";

const IN_MESSAGE = /^failed to execute message; message index: (\d+): /;
const STATUS = /^rpc error: code = (\w+) desc = /;
/** What a simulation puts behind a refusal. */
const SIMULATED = / with gas used: '\d+'(?:: unknown request)?$/;

/** A refusal of the chain: the module's own text first, then where it comes from. */
export function refusalText({ code, codespace, log }: Pick<Broadcast, "code" | "codespace" | "log">): string {
  const facts: string[] = [];
  let own = log.trim().replace(SIMULATED, "");
  for (;;) {
    const [inMessage, index] = IN_MESSAGE.exec(own) ?? [];
    const [status, name] = STATUS.exec(own) ?? [];
    const wrapper = inMessage ?? status;
    if (wrapper === undefined) break;
    own = own.slice(wrapper.length).trim();
    if (index !== undefined) facts.push(`message ${index}`);
    else if (name !== undefined && name !== "Unknown") facts.push(name);
  }
  facts.push(`code ${code}${codespace === "" ? "" : ` of ${codespace}`}`);
  return `${own === "" ? "The chain gives no reason" : own} (${facts.join(", ")})`;
}

/** What the mempool said, with the keys that the network's own command prints. */
export function broadcastJson({ hash, code, codespace, log }: Broadcast): string {
  const fields = { txhash: hash, code, codespace, rawLog: log };
  return toApiJsonText(baseAbci.TxResponseSchema, createMessage(baseAbci.TxResponseSchema, fields));
}

/** A transaction in a block, with the keys that the network's own command prints. `timestamp` is RFC 3339. */
export function includedJson(included: IncludedTx, timestamp: string): string {
  const { hash, heightBlocks, code, codespace, log, info, data, gasWanted, gasUsed, events, txBytes } = included;
  const decoded = decodeMessage(txs.TxSchema, txBytes);
  const response = createMessage(baseAbci.TxResponseSchema, {
    height: heightBlocks,
    txhash: hash,
    codespace,
    code,
    data: Buffer.from(data).toString("hex").toUpperCase(),
    rawLog: log,
    info,
    gasWanted,
    gasUsed,
    ...(decoded.ok ? { tx: packAny(txs.TxSchema, decoded.message) } : {}),
    timestamp,
    events: events.map(({ type, attributes }) => ({
      type,
      attributes: attributes.map(({ key, value }) => ({ key, value, index: true })),
    })),
  });
  return toApiJsonText(baseAbci.TxResponseSchema, response);
}

/** Time of a transaction's block as the SDK shows it: RFC 3339, whole seconds. "" when the block is gone. */
export async function blockTime(
  client: ChainClient,
  { heightBlocks }: Pick<IncludedTx, "heightBlocks">,
): Promise<string> {
  const answer = await client.call("header", { height: `${heightBlocks}` });
  const header = answer.ok && isRecord(answer.result.header) ? answer.result.header : undefined;
  return typeof header?.time === "string" ? header.time.replace(/\.\d+Z$/, "Z") : "";
}
