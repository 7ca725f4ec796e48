import { bytesToHex, isRecord } from "@turnpike/base";
import { USDC_ADDRESS } from "@turnpike/localnet";

const AGGREGATE3 = "0x82ad56cb";
const WORD = 64;

const word = (value: number | bigint): string => value.toString(16).padStart(WORD, "0");
const ONE_WORD_TAIL = 32;
const BALANCE = 10_000_000_000n;

/** Results of our verifier's `aggregate3`: block number, time, then balance and nonce of each payment. */
function aggregateResult(count: number, timeSeconds: number): string {
  const payments = (count - 2) / 2;
  const results = [word(1_000), word(timeSeconds)];
  for (let at = 0; at < payments; at++) results.push(word(BALANCE), word(0));
  let offsets = "";
  let tails = "";
  for (const result of results) {
    offsets += word(results.length * 32 + tails.length / 2);
    tails += `${word(1)}${word(64)}${word(ONE_WORD_TAIL)}${result}`;
  }
  return `0x${word(32)}${word(results.length)}${offsets}${tails}`;
}

/** Answers a call as a chain would on which every payment is good, without looking anything up. */
export type StandInChain = (method: string, params: readonly unknown[]) => unknown;

/** Creates a chain that answers in no time. */
export function createStandInChain(): StandInChain {
  const made = new Map<number, string>();
  let madeAtSeconds = 0;
  return (method, params) => {
    switch (method) {
      case "eth_chainId":
        return "0x14a34";
      case "eth_getCode":
        return String(params[0]).toLowerCase() === USDC_ADDRESS.toLowerCase() ? "0x60806040" : "0x";
      case "eth_getBlockByNumber": {
        const timestamp = `0x${Math.floor(Date.now() / 1_000).toString(16)}`;
        return { number: "0x3e8", timestamp, hash: `0x${bytesToHex(new Uint8Array(32))}` };
      }
      case "eth_call": {
        const [call] = params;
        const data = isRecord(call) && typeof call.data === "string" ? call.data : "";
        // anything but a batch is one simulated transfer, which returns nothing
        if (!data.startsWith(AGGREGATE3)) return "0x";
        const nowSeconds = Math.floor(Date.now() / 1_000);
        if (nowSeconds !== madeAtSeconds) {
          made.clear();
          madeAtSeconds = nowSeconds;
        }
        const count = Number.parseInt(data.slice(AGGREGATE3.length + WORD, AGGREGATE3.length + 2 * WORD), 16);
        const known = made.get(count);
        if (known !== undefined) return known;
        const result = aggregateResult(count, nowSeconds);
        made.set(count, result);
        return result;
      }
      default:
        return null;
    }
  };
}
