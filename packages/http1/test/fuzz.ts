import { exchange, type Outcome } from "./exchange.ts";
import { startListener, startReference } from "./reference.ts";
import { createStream } from "./streams.ts";

/** What a fuzz run did, and where the two ways differ. */
export interface FuzzReport {
  readonly streams: number;
  /** Requests that were put into streams. */
  readonly requests: number;
  /** Requests that the fast way answered. */
  readonly handled: number;
  readonly handedOver: number;
  /** Responses that both ways gave, interim ones too. */
  readonly responses: number;
  /** Refusals of the parser among them. */
  readonly refusals: number;
  /** Streams of which one way ended in a reset that took the end of its last bytes, which are otherwise the same. */
  readonly cutShort: number;
  /** Streams that one way, or both, end now so and now so: what comes behind `Connection: close` may be too late. */
  readonly races: number;
  /** Of each stream that differs, its seed and both outcomes. */
  readonly differences: readonly string[];
}

/** Most differences that are reported. */
const MAX_DIFFERENCES = 10;

/**
 * Sends streams to a fast listener and to `node:http` alone, and compares every byte that comes back but `Date`. Goes
 * on until there are this many requests, or 10 differences.
 */
export async function fuzz(
  firstSeed: number,
  requests: number,
  { concurrency = 8, progress = (_done: number): void => {} } = {},
): Promise<FuzzReport> {
  await using listening = await startListener();
  await using reference = await startReference();
  const differences: string[] = [];
  const sum = { streams: 0, requests: 0, responses: 0, refusals: 0, cutShort: 0, races: 0 };
  let seed = firstSeed;
  const run = async (): Promise<void> => {
    while (sum.requests < requests && differences.length < MAX_DIFFERENCES) {
      const own = seed++;
      const stream = createStream(own);
      sum.streams++;
      sum.requests += stream.requests;
      const both = async (): Promise<readonly [Outcome, Outcome]> => [
        withoutInterim(await exchange(listening.port, stream.pieces)),
        withoutInterim(await exchange(reference.port, stream.pieces)),
      ];
      const [ours, theirs] = await both();
      if (sum.streams % 10_000 === 0) progress(sum.requests);
      sum.responses += countOf(theirs.text, /HTTP\/1\.1 \d{3} /g);
      sum.refusals += countOf(theirs.text, /HTTP\/1\.1 400 HPE/g);
      if (ours.text === theirs.text) continue;
      // The server closes with bytes unread after `Connection: close`: how much the client reads is a race, on both ways.
      if (isCutShort(ours, theirs) || isCutShort(theirs, ours)) sum.cutShort++;
      else if (await isRace(both)) sum.races++;
      else {
        differences.push(`seed ${own}: ${differenceOf(ours.text, theirs.text)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, run));
  const { handled, handedOver } = listening.listener.counts;
  if (listening.listener.heldBytes !== 0) differences.push(`${listening.listener.heldBytes} bytes are still held`);
  return { ...sum, handled, handedOver, differences };
}

/** `node:http` writes an interim response where it stands in the queue, which may be between a head and its body. */
function withoutInterim({ text, isEnded }: Outcome): Outcome {
  return { text: text.replaceAll("HTTP/1.1 100 Continue\r\n\r\n", ""), isEnded };
}

/** True when the two ways give an outcome in common, asked a few times. */
async function isRace(both: () => Promise<readonly [Outcome, Outcome]>): Promise<boolean> {
  const [ours, theirs] = [new Set<string>(), new Set<string>()];
  for (let i = 0; i < 20; i++) {
    const [our, their] = await both();
    ours.add(our.text);
    theirs.add(their.text);
    if (ours.has(their.text) || theirs.has(our.text)) return true;
  }
  return false;
}

/** What stands around the first byte that differs. */
function differenceOf(ours: string, theirs: string): string {
  let at = 0;
  while (at < ours.length && ours[at] === theirs[at]) at++;
  const [from, to] = [Math.max(0, at - 100), at + 100];
  return `${JSON.stringify(ours.slice(from, to))} but node:http alone ${JSON.stringify(theirs.slice(from, to))}`;
}

function isCutShort(short: Outcome, long: Outcome): boolean {
  return !short.isEnded && long.text.startsWith(short.text);
}

function countOf(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0;
}
