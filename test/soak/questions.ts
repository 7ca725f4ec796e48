import type { Random } from "./random.ts";
import { FIRST_HEAD_BLOCKS, type Truth, truthOf } from "./truth.ts";

/** One call of a client, and what is right. */
export interface Question {
  readonly method: string;
  /** Text of its `params`. */
  readonly params: string;
  /** Raw text of its id; undefined in a notification. */
  readonly id: string | undefined;
  /** Undefined: the height, which depends on the moment, or a write. */
  readonly truth: Truth | undefined;
}

const hex = (value: number): string => `0x${value.toString(16)}`;

function hexText(random: Random, digits: number): string {
  let text = "";
  while (text.length < digits) text += random.whole(0, 0xffffff).toString(16).padStart(6, "0");
  return text.slice(0, digits);
}

/** Raw ids of every kind that JSON-RPC allows; what floats cannot tell apart, and what escapes say twice, too. */
function rawId(random: Random): string {
  const number = random.whole(0, 1_000_000_000);
  switch (random.whole(0, 9)) {
    case 0:
      return `"${number.toString(36)}"`;
    case 1:
      return `${number}.0`;
    case 2:
      return `-${number}`;
    case 3:
      return `9007199254740${random.whole(100, 999)}${random.whole(100, 999)}`;
    case 4:
      return `"\\u00e9 \\"${number}\\" \\\\ \u{1f980}"`;
    case 5:
      return `${number}.${random.whole(1, 9)}e-3`;
    case 6:
      return '""';
    case 7:
      return random.next() < 0.3 ? "null" : "0";
    default:
      return String(number);
  }
}

/** Most blocks before the newest that a question asks for; all of them final. */
const DEPTH_BLOCKS = 50_000;

function paramsOf(random: Random, method: string): string {
  const address = `0x${hexText(random, 40)}`;
  switch (method) {
    case "eth_getBalance":
      return `["${address}","latest"]`;
    case "eth_getStorageAt":
      return `["${address}","0x${random.whole(0, 9)}","latest"]`;
    case "eth_call":
      return `[{"to":"${address}","data":"0x${hexText(random, 72)}"},"latest"]`;
    case "eth_getTransactionReceipt":
      return `["0x${hexText(random, 64)}"]`;
    case "eth_getBlockByNumber": {
      // Some are asked for again and again, so that kept answers are among those that are checked.
      const depth = random.next() < 0.5 ? random.whole(1_000, 1_050) : random.whole(1_000, DEPTH_BLOCKS);
      return `["${hex(FIRST_HEAD_BLOCKS - depth)}",false]`;
    }
    case "eth_getLogs": {
      const from = FIRST_HEAD_BLOCKS - random.whole(2_000, DEPTH_BLOCKS);
      const to = from + random.whole(0, 20);
      return `[{"address":"${address}","fromBlock":"${hex(from)}","toBlock":"${hex(to)}"}]`;
    }
    case "eth_sendRawTransaction":
      return `["0x02${hexText(random, 200)}"]`;
    default:
      return "[]";
  }
}

const READS = [
  "eth_getBalance",
  "eth_getBalance",
  "eth_getStorageAt",
  "eth_call",
  "eth_call",
  "eth_getTransactionReceipt",
  "eth_getBlockByNumber",
  "eth_getLogs",
  "eth_blockNumber",
] as const;

/** Makes one call. */
export function question(
  random: Random,
  change: { readonly method?: string; readonly silent?: boolean } = {},
): Question {
  const method = change.method ?? random.pick(READS);
  const params = paramsOf(random, method);
  const truth = truthOf(method, JSON.parse(params) as readonly unknown[]);
  return { method, params, id: change.silent === true ? undefined : rawId(random), truth };
}

/** The bytes of a call; members in an order of chance. */
export function textOf(random: Random, { method, params, id }: Question): string {
  const members = ['"jsonrpc":"2.0"', `"method":"${method}"`, `"params":${params}`];
  if (id !== undefined) members.splice(random.whole(0, members.length), 0, `"id":${id}`);
  return `{${members.join(random.next() < 0.5 ? "," : " , ")}}`;
}
