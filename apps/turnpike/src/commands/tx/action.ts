import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline/promises";
import { AppError, isAppError } from "@turnpike/base";
import {
  AccountSender,
  type Broadcast,
  type ChainClient,
  type ChainSigner,
  type IncludedTx,
  prepareTx,
  signTx,
  type TxOptions,
  unsignedTx,
} from "@turnpike/chain-client";
import {
  type Any,
  createMessage,
  decodeMessage,
  encodeMessage,
  fromApiJson,
  packAny,
  schemaOfTypeUrl,
  toApiJsonText,
  tx as txs,
} from "@turnpike/proto";
import { printError, printOut } from "../../cli/terminal.ts";
import { type ChainKey, findKey, openChainClient, readKeyFile } from "../../wiring/chain-client.ts";
import { TxInput } from "./input.ts";
import { optionsOfBatch, type TxFlags, txOptions, withoutNode } from "./options.ts";
import type { MessageOrder, TxRow } from "./row.ts";
import { blockTime, broadcastJson, includedJson, refusalText } from "./text.ts";
import { waitShown } from "./wait.ts";

const MAX_TX_FILE_BYTES = 4_194_304;

const usage = (message: string): AppError => new AppError("USAGE", { message });

/** Who signs: --key-file, else --from, else the command's first argument. */
async function signingKey(row: TxRow, args: readonly string[], flags: TxFlags): Promise<ChainKey> {
  const first = row.isFromFirst === true ? args[0] : undefined;
  const wanted = first ?? flags.from;
  const fromFile = flags.keyFile === undefined ? undefined : await readKeyFile(flags.keyFile);
  const named = wanted === undefined || wanted === fromFile?.name ? undefined : await findKey(wanted, flags);
  const key = fromFile ?? named;
  if (key === undefined) throw usage("Say who signs, with --from <name or address> or --key-file <file>.");
  if (named !== undefined && named.address !== key.address) {
    throw usage(`The key of --key-file is of ${key.address}, not of ${named.address}.`);
  }
  if (first === undefined || flags.from === undefined || flags.from === first) return key;
  const also = await findKey(flags.from, flags);
  if (also.address !== key.address) throw usage(`${first} signs, since it pays; --from names ${also.address}.`);
  return key;
}

function signerOf(key: ChainKey): ChainSigner {
  if (key.signer !== undefined) return key.signer;
  throw usage(`There is no key of ${key.address} here; name its folder with --home, or its file with --key-file.`);
}

function packed({ type, fields }: MessageOrder): Any {
  const schema = schemaOfTypeUrl(`/${type}`);
  if (schema === undefined) throw new AppError("INTERNAL", { message: `${type} is no message.` });
  return packAny(schema, createMessage(schema, fields as Record<string, unknown>));
}

const print = (text: string): void => {
  printOut(`${text}\n`);
};

/** On a terminal: shows what would be sent, and asks. */
async function confirmed(messages: readonly Any[], { yes, json, output }: TxFlags): Promise<boolean> {
  if (yes === true || json === true || output === "json" || !process.stdin.isTTY || !process.stderr.isTTY) return true;
  const body = createMessage(txs.TxBodySchema, { messages: [...messages] });
  const shown: unknown = JSON.parse(toApiJsonText(txs.TxBodySchema, body));
  printError(`${JSON.stringify(shown, undefined, 2)}\n`);
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await asking.question("Sign and send this? [y/N] ");
  asking.close();
  return /^y(es)?$/i.test(answer.trim());
}

const isJson = ({ json, output }: TxFlags): boolean => json === true || output === "json";

/** Throws a refusal for people; -o json prints it first, for programs that read its code. */
function refused(sent: Broadcast, flags: TxFlags, text: string): AppError {
  if (flags.output === "json" && flags.json !== true) print(text);
  const { code, codespace, hash } = sent;
  return new AppError("TX_FAILED", { message: refusalText(sent), detail: { code, codespace, hash } });
}

async function shownIncluded(client: ChainClient, included: IncludedTx, flags: TxFlags): Promise<void> {
  const text = isJson(flags) || included.code !== 0 ? includedJson(included, await blockTime(client, included)) : "";
  if (included.code !== 0) throw refused(included, flags, text);
  if (isJson(flags)) print(text);
  else print(`in block  ${included.heightBlocks}, for ${included.gasUsed} of ${included.gasWanted} gas`);
}

/** Shows what became of a transaction; with --wait when it is in a block. */
async function follow(client: ChainClient, sent: Broadcast, flags: TxFlags): Promise<void> {
  if (sent.code !== 0) throw refused(sent, flags, broadcastJson(sent));
  if (!isJson(flags)) print(`sent      ${sent.hash}`);
  if (flags.wait === true) {
    const say = (text: string): void => {
      if (!isJson(flags) && process.stderr.isTTY) printError(`${text}\n`);
    };
    return shownIncluded(client, await waitShown({ hash: sent.hash, say }, { client }), flags);
  }
  print(isJson(flags) ? broadcastJson(sent) : `See it with npx turnpike query tx ${sent.hash}`);
}

/** Says which key file was taken where its account is not on the chain: it may be another chain's. */
async function withKeyFile<T>({ file }: ChainKey, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    if (!isAppError(cause, "TX_FAILED") || cause.detail.missingAccount === undefined || file === undefined) throw cause;
    const message = `${cause.message} Its key is ${file}; --home names the folder above the keys of another chain.`;
    throw new AppError("TX_FAILED", { message, detail: cause.detail, cause });
  }
}

/** The mempool's answer, which may be a refusal. What a simulation refuses was never sent, and is thrown. */
async function broadcastOf(work: Promise<Broadcast>): Promise<Broadcast> {
  try {
    return await work;
  } catch (error) {
    if (!isAppError(error, "TX_FAILED") || typeof error.detail.code !== "number") throw error;
    const { code, codespace, hash } = error.detail;
    const said = { code, codespace: typeof codespace === "string" ? codespace : "", log: error.message };
    if (typeof hash === "string") return { ...said, hash };
    throw new AppError("TX_FAILED", { message: refusalText(said), detail: { code, codespace: said.codespace } });
  }
}

/** Runs a command of a table: makes its messages, signs and sends them. @throws AppError USAGE, CONFIG_INVALID, TX_FAILED, … */
export async function runTx(
  row: TxRow,
  args: readonly string[],
  flags: TxFlags & Readonly<Record<string, unknown>>,
): Promise<void> {
  const key = await signingKey(row, args, flags);
  const isOffline = flags.offline === true;
  await using client = isOffline ? undefined : await openChainClient(flags);
  const orders = await row.make(new TxInput({ from: key.address, args, flags }, flags, client));
  const messages = orders.map(packed);
  if (messages.length === 0) {
    print(isJson(flags) ? "{}" : "Nothing is to be changed; nothing was sent.");
    return;
  }
  const isSeparate = row.separateFlag !== undefined && flags[row.separateFlag] === true;
  const batches = isSeparate ? messages.map((one) => [one]) : [messages];
  const options = await txOptions(flags, client);
  if (flags.generateOnly === true || client === undefined) {
    for (const [at, batch] of batches.entries()) {
      print(await withKeyFile(key, preparedText(batch, optionsOfBatch(options, at), key, client, flags)));
    }
    return;
  }
  const signer = signerOf(key);
  if (!(await confirmed(messages, flags))) throw usage("Nothing was sent.");
  const sender = new AccountSender({ signer }, { client });
  const isPlain = options.order === undefined && flags.broadcastMode !== "async";
  for (const [at, batch] of batches.entries()) {
    const given = optionsOfBatch(options, at);
    const send = async (): Promise<Broadcast> =>
      isPlain
        ? sender.broadcast(batch, given)
        : client.broadcast(await client.sign(signer, batch, given), undefined, flags.broadcastMode);
    await follow(client, await broadcastOf(withKeyFile(key, send())), flags);
  }
}

/** With --generate-only the transaction without signatures, with --offline the signed one. */
async function preparedText(
  messages: readonly Any[],
  options: TxOptions,
  key: ChainKey,
  client: ChainClient | undefined,
  { generateOnly, gas }: TxFlags,
): Promise<string> {
  if (generateOnly !== true) {
    const decoded = decodeMessage(txs.TxSchema, signTx(withoutNode(messages, options, true), signerOf(key)));
    if (!decoded.ok) throw new AppError("INTERNAL", { message: decoded.fault });
    return toApiJsonText(txs.TxSchema, decoded.message);
  }
  const unsigned =
    client !== undefined && gas === "auto"
      ? await prepareTx(client, signerOf(key), messages, options)
      : withoutNode(messages, options, false);
  return toApiJsonText(txs.TxSchema, unsignedTx(unsigned));
}

/** Sends a signed transaction of a file: the JSON of --offline. @throws AppError USAGE, TX_FAILED, CHAIN_UNREACHABLE */
export async function broadcastFile(file: string, flags: TxFlags): Promise<void> {
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined || text.length > MAX_TX_FILE_BYTES) throw usage(`${file} cannot be read.`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  const read = fromApiJson(txs.TxSchema, value);
  if (!read.ok) throw usage(`${file} is no transaction: ${read.fault}.`);
  if (read.message.signatures.length === 0) {
    throw usage(`${file} is not signed; sign it with the command that made it, with --offline.`);
  }
  await using client = await openChainClient(flags);
  const bytes = encodeMessage(txs.TxSchema, read.message);
  await follow(client, await broadcastOf(client.broadcast(bytes, undefined, flags.broadcastMode)), flags);
}
