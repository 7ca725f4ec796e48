import { isRecord } from "@turnpike/base";
import { type LogFacts, readLog } from "./delivered-logs.ts";
import { type Head, HeadChain, type HeadNews, type HeadSource, readHead } from "./head-chain.ts";
import type { UpstreamSocket } from "./upstream-socket.ts";
import type { UpstreamSubscription } from "./upstream-subscription.ts";

/** Heads and logs arrive on their own ways: logs of the last heads may still be missing when a supplier is lost. */
const OVERLAP_BLOCKS = 8;
const BLOCKS_A_CALL = 256;

/** What the replay reports, for metrics. */
export interface ReplayCounts {
  replayed(kind: string, count: number): void;
  repeated(kind: string): void;
}

/** Blocks of one supplier. */
function headSource(socket: UpstreamSocket): HeadSource & { latest(): Promise<Head | undefined> } {
  const read = async (method: string, block: string): Promise<Head | undefined> => {
    const answer = await socket.call(method, `[${JSON.stringify(block)},false]`);
    return answer.kind === "result" ? readHead(answer.value) : undefined;
  };
  return {
    byNumber: (number) => read("eth_getBlockByNumber", `0x${number.toString(16)}`),
    byHash: (hash) => read("eth_getBlockByHash", hash),
    latest: () => read("eth_getBlockByNumber", "latest"),
  };
}

/** Keeps heads and logs of one EVM chain complete and free of repetitions across suppliers. */
export class EvmReplay {
  readonly chain: HeadChain;
  readonly #counts: ReplayCounts;
  /** While logs are missing of blocks whose heads were delivered: they are complete up to some blocks before this. */
  #gapFrom: number | undefined;
  readonly #orphaned = new Set<string>();
  /** Hash of a block that was seen at the supplier before its event. */
  #suspect: string | undefined;

  constructor(maxReplayBlocks: number, counts: ReplayCounts) {
    this.chain = new HeadChain(maxReplayBlocks);
    this.#counts = counts;
  }

  /** The supplier is gone; what was seen at it says nothing of the next. */
  lost(): void {
    this.#suspect = undefined;
  }

  /** A first subscription begins at the supplier's latest block. */
  async begin(socket: UpstreamSocket): Promise<boolean> {
    const latest = await headSource(socket).latest();
    if (latest === undefined) return false;
    this.chain.seed(latest);
    this.#gapFrom = undefined;
    this.#orphaned.clear();
    return true;
  }

  /** A head event. `failed`: the blocks before it cannot be had here; `missed`: they are too many. */
  head(
    subscription: UpstreamSubscription,
    event: { readonly value: unknown; readonly raw: string },
    socket: UpstreamSocket,
    logs: () => readonly UpstreamSubscription[],
  ): HeadNews["kind"] | Promise<HeadNews["kind"]> {
    const head = readHead(event.value, event.raw);
    if (head === undefined) return "failed";
    const quick = this.chain.resolveNow(head);
    if (quick !== undefined) return this.#deliverHeads(subscription, quick, 1);
    return this.#fill(subscription, head, socket, logs());
  }

  /** Blocks whose events the supplier left out: their logs may be missing too. */
  async #fill(
    subscription: UpstreamSubscription,
    head: Head,
    socket: UpstreamSocket,
    logs: readonly UpstreamSubscription[],
  ): Promise<HeadNews["kind"]> {
    const from = this.chain.lastNumber ?? head.number;
    const news = await this.chain.resolve(head, headSource(socket));
    this.#deliverHeads(subscription, news, 1);
    if (news.kind !== "new" || news.orphaned.length > 0) return news.kind;
    this.#gapFrom = Math.min(this.#gapFrom ?? from, from);
    for (const each of logs) if (!(await this.#restoreLogs(each, from, head.number, socket))) return "failed";
    this.#gapFrom = undefined;
    return news.kind;
  }

  #deliverHeads(subscription: UpstreamSubscription, news: HeadNews, live: number): HeadNews["kind"] {
    if (news.kind === "known") this.#counts.repeated("newHeads");
    if (news.kind !== "new") return news.kind;
    this.chain.deliver(news);
    this.#counts.replayed("newHeads", news.heads.length - live);
    for (const { raw } of news.heads) subscription.emit(raw);
    return news.kind;
  }

  /** A log event. */
  log(subscription: UpstreamSubscription, value: unknown, raw: string): void {
    const facts = readLog(value);
    if (facts !== undefined && subscription.logs?.accept(facts, raw) === false) this.#counts.repeated("logs");
    else subscription.emit(raw);
  }

  /** True when the supplier has sent no event of a block that it has had for two checks. */
  async isStalled(socket: UpstreamSocket): Promise<boolean> {
    const latest = await headSource(socket).latest();
    if (latest === undefined) return true;
    const { lastNumber = -1 } = this.chain;
    const isStalled = this.#suspect !== undefined && !this.chain.has(this.#suspect);
    this.#suspect = latest.number > lastNumber && !this.chain.has(latest.hash) ? latest.hash : undefined;
    return isStalled;
  }

  /**
   * Delivers what was missed since the last supplier. Live events of the new one must wait meanwhile. `behind`: it is
   * so many blocks behind what was delivered.
   */
  async restore(
    socket: UpstreamSocket,
    heads: UpstreamSubscription,
    logs: readonly UpstreamSubscription[],
    maxBehindBlocks: number,
  ): Promise<"done" | "failed" | "behind" | "missed"> {
    const source = headSource(socket);
    const latest = await source.latest();
    if (latest === undefined) return "failed";
    const { lastNumber = latest.number } = this.chain;
    if (latest.number < lastNumber - maxBehindBlocks) return "behind";
    const news = await this.chain.resolve(latest, source);
    if (news.kind === "failed" || news.kind === "missed") return news.kind;
    if (news.kind === "new") {
      for (const hash of news.orphaned) this.#orphaned.add(hash);
      this.#gapFrom = Math.min(this.#gapFrom ?? lastNumber, (news.heads[0]?.number ?? 0) - 1);
    }
    this.#deliverHeads(heads, news, 0);
    const gapFrom = this.#gapFrom ?? lastNumber;
    for (const subscription of logs)
      if (!(await this.#restoreLogs(subscription, gapFrom, latest.number, socket))) return "failed";
    this.#gapFrom = undefined;
    this.#orphaned.clear();
    return "done";
  }

  async #restoreLogs(
    subscription: UpstreamSubscription,
    gapFrom: number,
    to: number,
    socket: UpstreamSocket,
  ): Promise<boolean> {
    const memory = subscription.logs;
    if (memory === undefined) return true;
    const found: { readonly facts: LogFacts; readonly raw: string }[] = [];
    const from = Math.max(gapFrom - OVERLAP_BLOCKS + 1, subscription.sinceBlock + 1, memory.floorBlock + 1, 0);
    for (let start = from; start <= to; start += BLOCKS_A_CALL) {
      const end = Math.min(to, start + BLOCKS_A_CALL - 1);
      const range = { fromBlock: `0x${start.toString(16)}`, toBlock: `0x${end.toString(16)}` };
      const answer = await socket.call("eth_getLogs", JSON.stringify([{ ...subscription.topic.filter, ...range }]));
      if (answer.kind !== "result" || !Array.isArray(answer.value)) return false;
      for (const value of answer.value as readonly unknown[]) {
        const facts = readLog(value);
        if (facts === undefined || !isRecord(value)) return false;
        found.push({ facts, raw: JSON.stringify(value) });
      }
    }
    found.sort((a, b) => a.facts.blockNumber - b.facts.blockNumber || a.facts.logIndex - b.facts.logIndex);
    let count = 0;
    for (const { facts, raw } of [...memory.takeBack(this.#orphaned), ...found]) {
      if (!memory.accept(facts, raw)) continue;
      count++;
      subscription.emit(raw, facts.blockNumber);
    }
    this.#counts.replayed("logs", count);
    return true;
  }
}
