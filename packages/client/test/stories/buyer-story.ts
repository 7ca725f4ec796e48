import { isAppError } from "@turnpike/base";
import { type Chance, chanceOf } from "@turnpike/testkit/chance";
import { type Client, createClient, openSpendJournal, type SpendJournal, signerFromKey } from "../../src/index.ts";
import { diskError, MemoryDisk, mountDisk } from "./memory-disk.ts";
import { NODE_LIES, SimulatedChain, SimulatedNode } from "./simulated-chain.ts";
import { type ArrivedRequest, drawExchange, type SimulatedResponse, simulatedFetch } from "./simulated-exchange.ts";
import { processScopes, SimulatedProcess, step } from "./simulated-process.ts";
import { SimulatedSeller } from "./simulated-seller.ts";
import { replaceGlobals, SimulatedTime, untilAborted } from "./simulated-time.ts";
import { type StoryCall, StoryLedger, type TypedData, usdOf } from "./story-ledger.ts";
import { drawSetting, STORY_FAULTS, type StoryFault, type StorySetting } from "./story-setting.ts";

const FILE = "/state/journal.jsonl";
const PER_CALL_UNITS = 50_000n;
/** Maximum bytes of an answer that a story's client reads: hostile ones are larger. */
const MAX_ANSWER_BYTES = 1_048_576;
const HOUR_MS = 3_600_000;
/** Time that lies need to leave before other nodes lie: two at once would be no honest witness. */
const BETWEEN_LIES_MS = 20_000;
/** Rounds in which an honest world ends what is open. */
const HONEST_ROUNDS = 2;
const MAX_HONEST_CALLS = 8;
const MAX_SHRUNK_ACTIVITIES = 18;
const SIGNER = signerFromKey(`0x${"17".repeat(32)}`);

/** A process of the buyer's with its journal and its client. */
interface Buyer {
  readonly process: SimulatedProcess;
  readonly journal: SpendJournal;
  readonly client: Client;
  /** Prices that it was quoted, by request. */
  readonly quotes: Map<number, bigint>;
}

/** Bounds and behaviour of a call in a story. */
interface CallPlan {
  readonly payment?: string;
  readonly maxUnits?: bigint;
  readonly abortMs?: number;
}

export interface StoryOptions {
  readonly without?: ReadonlySet<StoryFault>;
  readonly maxActivities?: number;
}

export interface StoryReport {
  readonly seed: string;
  readonly faults: readonly string[];
  /** Lines of all that happened. */
  readonly trace: readonly string[];
  readonly counts: ReadonlyMap<string, number>;
}

class Story {
  readonly #setting: StorySetting;
  readonly #chance: Chance;
  readonly #time = new SimulatedTime();
  readonly #disk: MemoryDisk;
  readonly #chain: SimulatedChain;
  readonly #nodes: readonly SimulatedNode[];
  readonly #seller: SimulatedSeller;
  readonly #ledger: StoryLedger;
  readonly #faults: string[] = [];
  readonly #trace: string[] = [];
  readonly #counts = new Map<string, number>();
  readonly #callsById = new Map<number, StoryCall>();
  readonly #seed: string;
  #isHonest = false;
  #buyer: Buyer | undefined;
  #processes = 0;
  #calls = 0;

  constructor(seed: string, { without = new Set(), maxActivities = Number.POSITIVE_INFINITY }: StoryOptions) {
    this.#seed = seed;
    this.#setting = drawSetting(seed, without, maxActivities);
    this.#chance = chanceOf(`${seed}/story`);
    const { chainOffsetMs, hostility, units, priceChanges, maxTimeoutSeconds, totalUnits, nodes } = this.#setting;
    const time = this.#time;
    this.#disk = new MemoryDisk({ chance: chanceOf(`${seed}/disk`), time });
    this.#disk.create("/state", true, 0o700);
    this.#chain = new SimulatedChain(chainOffsetMs, time);
    const chain = this.#chain;
    this.#nodes = Array.from({ length: nodes }, (_, at) => {
      return new SimulatedNode({ chain, chance: chanceOf(`${seed}/node ${at}`) });
    });
    const count = (name: string): void => this.#count(name);
    const sellerModules = { chain, chance: chanceOf(`${seed}/seller`), time, count };
    this.#seller = new SimulatedSeller({ hostility, units, priceChanges, maxTimeoutSeconds }, sellerModules);
    this.#ledger = new StoryLedger(
      { hasNodes: nodes > 0, totalUnits },
      {
        chain,
        hostNowMs: () => this.#hostNowMs(),
        hasFalseClaim: (nonce) =>
          this.#seller.falseReceipts.has(nonce) || this.#nodes.some((node) => node.falselyUsed.has(nonce)),
        fault: (text) => this.#fault(text),
      },
    );
    chain.onTransfer = ({ payment }) => {
      this.#note(`transfer of ${payment.units}, nonce ${payment.nonce.slice(0, 8)}`);
      this.#count("transfers");
      this.#checkSpending();
    };
  }

  async run(): Promise<StoryReport> {
    mountDisk(this.#disk);
    const plan = chanceOf(`${this.#seed}/node network`);
    const time = this.#time;
    using _ = replaceGlobals({
      time,
      hostNowMs: () => this.#hostNowMs(),
      fetch: simulatedFetch({
        time,
        plan: () => drawExchange(plan, false),
        serve: (...args) => this.#serveNode(...args),
      }),
    });
    let isDone = false;
    void this.#play()
      .catch((error: unknown) => this.#fault(`the story failed: ${errorText(error)}`))
      .finally(() => {
        isDone = true;
      });
    if (!(await time.runUntil(() => isDone))) this.#fault("the story does not end");
    this.#buyer?.process.kill("end");
    return { seed: this.#seed, faults: this.#faults, trace: this.#trace, counts: this.#counts };
  }

  #hostNowMs(): number {
    return this.#time.nowMs + this.#setting.hostOffsetMs;
  }

  #note(text: string): void {
    this.#trace.push(`${(this.#time.elapsedMs / 1_000).toFixed(1).padStart(9)} ${text}`);
  }

  #count(name: string): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }

  #fault(text: string): void {
    this.#note(`FAULT ${text}`);
    this.#faults.push(text);
  }

  #checkSpending(): void {
    const buyer = this.#buyer;
    if (buyer?.process.isAlive === true) this.#ledger.checkSpending(buyer.client.spending());
  }

  #serveNode({ url, body }: ArrivedRequest, response: SimulatedResponse): void {
    const node = this.#nodes[Number.parseInt(url.hostname.slice("node-".length), 10)];
    if (node === undefined || node.truth === "silent") return;
    const { id, method, params } = JSON.parse(body) as { id: unknown; method: string; params?: readonly unknown[] };
    const result = node.resultOf(method, params ?? []);
    const outcome = result === undefined ? { error: { code: -32_000, message: "header not found" } } : { result };
    const json = JSON.stringify({ jsonrpc: "2.0", id, ...outcome });
    response.writeHead(200, { "content-type": "application/json" }).end(json);
  }

  /** Changes from time to time how the nodes answer. At most one lies at once. */
  #changeNodes(chance: Chance): void {
    const { hasNodeFaults, hasNodeLies } = this.#setting;
    if (this.#isHonest) return;
    const isLying = this.#nodes.some(({ truth }) => truth.startsWith("says") || truth === "other-chain");
    for (const node of this.#nodes) {
      node.truth = hasNodeFaults ? chance.pick(["honest", "honest", "honest", "silent", "fails"]) : "honest";
      node.lagSeconds = hasNodeFaults ? chance.pick([0, 0, 2, 10, 60, 600]) : 0;
    }
    const liar =
      hasNodeLies && !isLying && chance.often(0.6) ? this.#nodes[chance.below(this.#nodes.length)] : undefined;
    if (liar !== undefined) liar.truth = chance.pick(NODE_LIES);
    if (this.#nodes.length > 0) this.#note(`nodes: ${this.#nodes.map(({ truth }) => truth).join(", ")}`);
    const ms = isLying ? BETWEEN_LIES_MS : chance.pick([5_000, 60_000, 600_000, HOUR_MS]);
    this.#time.after(ms + chance.below(ms), () => this.#changeNodes(chance));
  }

  async #play(): Promise<void> {
    const { activities, diskFaultShare } = this.#setting;
    this.#note(JSON.stringify(this.#setting, (_, value: unknown) => (typeof value === "bigint" ? `${value}` : value)));
    this.#changeNodes(chanceOf(`${this.#seed}/node changes`));
    this.#disk.faultShare = diskFaultShare;
    for (let n = 0; n < activities; n++) await this.#activity();
    await this.#honestEnd();
  }

  /** Starts a process; undefined where it ended before it had its journal. */
  async #start(): Promise<Buyer | undefined> {
    const { killShare } = this.#setting;
    const isKilled = !this.#isHonest && this.#chance.often(killShare);
    const steps = isKilled ? 1 + this.#chance.below(this.#chance.pick([80, 150, 300])) : Number.POSITIVE_INFINITY;
    const process: SimulatedProcess = new SimulatedProcess(`process ${++this.#processes}`, steps, (at) =>
      this.#onEnd(process, at),
    );
    const opened = await this.#open(process);
    if (opened === undefined) return undefined;
    const buyer = { process, journal: opened, client: this.#createClient(process, opened), quotes: new Map() };
    this.#buyer = buyer;
    this.#note(`${process.name} starts, ${opened.open().length} payments open`);
    this.#checkSpending();
    return buyer;
  }

  #onEnd(process: SimulatedProcess, at: string): void {
    this.#disk.unlockAll(process);
    const losesPower = at !== "end" && this.#chance.often(0.3);
    if (losesPower) this.#disk.losePower();
    if (at !== "end") {
      this.#note(`${process.name} is killed: ${at}${losesPower ? ", and the power is lost" : ""}`);
      this.#count(`killed: ${at}`);
    }
    if (losesPower) this.#count("losses of power");
    this.#ledger.onProcessEnd(this.#disk.inodeOf(FILE)?.bytes.toString("utf8") ?? "");
  }

  async #open(process: SimulatedProcess): Promise<SpendJournal | undefined> {
    const clock = { nowMs: () => this.#hostNowMs(), monotonicMs: () => this.#time.elapsedMs };
    const compactBytes = this.#chance.pick([0, 4_000, 1_048_576]);
    const faultsBefore = this.#disk.faultCount;
    try {
      const opening = processScopes.run({ process }, () => openSpendJournal({ file: FILE, compactBytes }, { clock }));
      const journal = await Promise.race([opening, process.ended]);
      return typeof journal === "string" ? undefined : journal;
    } catch (error) {
      const isOfDisk = this.#disk.faultCount > faultsBefore;
      process.kill("end");
      if (!isAppError(error, "SPEND_JOURNAL") || !isOfDisk)
        this.#fault(`a journal cannot be opened: ${errorText(error)}`);
      this.#count("journals not opened as the disk failed");
      return undefined;
    }
  }

  #createClient(process: SimulatedProcess, journal: SpendJournal): Client {
    const { totalUnits, retryForMs, isFaultyNetwork, nodes } = this.#setting;
    const network = chanceOf(`${this.#seed}/network of ${process.name}`);
    const budget = {
      perCallUsd: usdOf(PER_CALL_UNITS),
      ...(totalUnits === undefined ? {} : { totalUsd: usdOf(totalUnits) }),
    };
    const signer = {
      address: SIGNER.address,
      signTypedData: async (data: TypedData & Parameters<typeof SIGNER.signTypedData>[0]) => {
        await step("signature begins");
        const signature = await SIGNER.signTypedData(data);
        const call = this.#callsById.get(processScopes.getStore()?.callId ?? -1);
        this.#note(
          `call ${call?.id ?? "?"} signs ${String(data.message.value)}, nonce ${String(data.message.nonce).slice(0, 8)}`,
        );
        this.#ledger.onSign(call, data, signature);
        this.#count("signatures");
        await step("signature is done");
        return signature;
      },
    };
    const rpcUrls = Array.from({ length: nodes }, (_, at) => `http://node-${at}.invalid`);
    const fetch = simulatedFetch({
      time: this.#time,
      plan: () => drawExchange(network, isFaultyNetwork && !this.#isHonest),
      serve: (request, response) => this.#seller.serve(request, response),
      onSend: ({ headers }) => {
        const header = headers.get("payment-signature");
        if (header !== null) this.#onSend(header);
      },
      onAnswer: ({ headers }, answered) => {
        const header = headers.get("payment-signature");
        if (header !== null) this.#ledger.onAnswer(header, answered.get("payment-response"));
      },
    });
    return createClient(
      {
        gateway: "http://seller.invalid",
        signer,
        budget,
        journal,
        rpcUrls,
        retryForMs,
        maxAnswerBytes: MAX_ANSWER_BYTES,
      },
      {
        fetch,
        sleep: async (ms, signal) => {
          await step("sleep begins");
          try {
            await untilAborted(signal, this.#time.delay(ms));
          } finally {
            await step("sleep ends");
          }
        },
        monotonicMs: () => this.#time.elapsedMs,
        nowMs: () => this.#hostNowMs(),
        onSigned: () => {
          if (this.#chance.often(0.1)) throw diskError("EPIPE", "the caller's own function");
        },
      },
    );
  }

  #onSend(header: string): void {
    const callId = processScopes.getStore()?.callId ?? -1;
    this.#note(`call ${callId} presents a payment`);
    this.#count("presentations");
    this.#ledger.onSend(this.#callsById.get(callId), header);
  }

  async #liveBuyer(): Promise<Buyer | undefined> {
    if (this.#buyer?.process.isAlive === true) return this.#buyer;
    return this.#start();
  }

  async #activity(): Promise<void> {
    const buyer = await this.#liveBuyer();
    if (buyer === undefined) return;
    const chance = this.#chance;
    const { hasCallsAtOnce } = this.#setting;
    const request = chance.below(this.#setting.requests);
    const activity = chance.weighted([
      [12, "call"],
      [hasCallsAtOnce ? 6 : 0, "calls at once"],
      [2, "quote"],
      [2, "payment"],
      [6, "wait"],
      [2, "restart"],
      [1, "second process"],
    ] as const);
    this.#count(`activity: ${activity}`);
    if (activity === "call") await this.#call(buyer, request, this.#drawPlan());
    else if (activity === "calls at once") await this.#callsAtOnce(buyer, request);
    else if (activity === "quote") await this.#quote(buyer, request);
    else if (activity === "payment") await this.#presentAgain(buyer);
    else if (activity === "wait") await this.#time.delay(chance.below(chance.pick([2_000, 120_000, 2 * HOUR_MS])));
    else if (activity === "restart") await this.#close(buyer);
    else await this.#openSecond(buyer);
  }

  #drawPlan(): CallPlan {
    const chance = this.#chance;
    const maxUnits = chance.often(0.2) ? chance.pick([1n, 5_000n, 30_000n, 90_000n]) : undefined;
    const abortMs = this.#setting.hasAborts && chance.often(0.15) ? chance.below(100_000) : undefined;
    return { ...(maxUnits === undefined ? {} : { maxUnits }), ...(abortMs === undefined ? {} : { abortMs }) };
  }

  async #callsAtOnce(buyer: Buyer, request: number): Promise<void> {
    const chance = this.#chance;
    const count = 2 + chance.below(2);
    await Promise.all(
      Array.from({ length: count }, async () => {
        const other = chance.often(0.6) ? request : chance.below(this.#setting.requests);
        const plan = this.#drawPlan();
        await this.#time.delay(chance.pick([0, 0, 50, 5_000]));
        await this.#call(buyer, other, plan);
      }),
    );
  }

  async #presentAgain(buyer: Buyer): Promise<void> {
    const isOpen = this.#chance.often(0.8);
    const sent = this.#ledger.sentHeaders(isOpen);
    const entry = sent[this.#chance.below(Math.max(1, sent.length))];
    if (entry === undefined) return;
    if (!buyer.journal.open().some(({ payment }) => payment === entry.header))
      this.#ledger.onPresentedAgain(entry.header);
    await this.#call(buyer, entry.request, { payment: entry.header });
  }

  async #quote(buyer: Buyer, request: number): Promise<void> {
    const { process, client } = buyer;
    const asking = processScopes.run({ process }, () => client.quote("eth", bodyOf(request)));
    try {
      const quote = await Promise.race([asking, process.ended]);
      if (typeof quote === "string") return;
      buyer.quotes.set(request, quote.price.amount);
      this.#note(`request ${request} is quoted ${quote.price.usd}`);
    } catch (error) {
      this.#note(`no quote: ${errorText(error).slice(0, 100)}`);
    }
  }

  /** Makes a call; returns true where it bought anew, or cannot: no earlier payment of its request is left then. */
  async #call(buyer: Buyer, request: number, { payment, maxUnits, abortMs }: CallPlan): Promise<boolean> {
    const { process, client, quotes } = buyer;
    const agreed = maxUnits ?? quotes.get(request) ?? PER_CALL_UNITS;
    const capUnits = agreed < PER_CALL_UNITS ? agreed : PER_CALL_UNITS;
    const call = { id: ++this.#calls, request, capUnits };
    this.#callsById.set(call.id, call);
    this.#note(`call ${call.id} of request ${request}${payment === undefined ? "" : " with a payment"}`);
    const abort = new AbortController();
    if (abortMs !== undefined) this.#time.after(abortMs, () => abort.abort());
    const keepUntilAcknowledged = this.#isHonest || this.#chance.often(0.7);
    const options = {
      keepUntilAcknowledged,
      ...(payment === undefined ? {} : { payment }),
      ...(maxUnits === undefined ? {} : { maxPriceUsd: usdOf(maxUnits) }),
      ...(abortMs === undefined ? {} : { signal: abort.signal }),
    };
    const calling = processScopes.run({ process, callId: call.id }, () => client.call("eth", bodyOf(request), options));
    try {
      const result = await Promise.race([calling, process.ended]);
      if (typeof result === "string") return false;
      const { kind, state } = result;
      const charge = kind === "refused" ? ` ${result.code}: ${result.charge}` : "";
      this.#note(`call ${call.id} is ${kind}, ${state}${charge.slice(0, 120)}`);
      this.#count(`result: ${kind}, ${state}`);
      this.#ledger.onResult(call, result);
      this.#checkSpending();
      // A caller that ends before it acknowledges gets the same answer again.
      const isAcknowledged = this.#isHonest || this.#chance.often(0.8);
      if (result.kind !== "free" && result.resultId !== undefined && keepUntilAcknowledged && isAcknowledged) {
        const { resultId: reported } = result;
        const acknowledging = processScopes.run({ process }, () => client.acknowledge(reported));
        await Promise.race([acknowledging, process.ended]);
        this.#count("acknowledgements");
      }
      return result.kind === "bought" && !result.isResumed;
    } catch (error) {
      if (!process.isAlive) return false;
      this.#note(`call ${call.id} throws ${errorText(error).slice(0, 120)}`);
      this.#count(`error: ${isAppError(error) ? error.code : "other"}`);
      this.#ledger.onError(call);
      this.#checkSpending();
      return isAppError(error);
    }
  }

  async #close({ process, client, journal }: Buyer): Promise<void> {
    const closing = processScopes.run({ process }, async () => {
      await client[Symbol.asyncDispose]();
      await journal[Symbol.asyncDispose]();
    });
    await Promise.race([closing, process.ended]);
    process.kill("end");
    this.#buyer = undefined;
  }

  /** Another process wants the same journal, and is refused as long as the first one has it. */
  async #openSecond(buyer: Buyer): Promise<void> {
    const process: SimulatedProcess = new SimulatedProcess("second process", Number.POSITIVE_INFINITY, () =>
      this.#disk.unlockAll(process),
    );
    const opening = processScopes.run({ process }, () => openSpendJournal({ file: FILE }));
    const isOpen = await opening.then(
      () => true,
      () => false,
    );
    if (isOpen && buyer.process.isAlive) this.#fault("two processes have one journal open");
    process.kill("end");
  }

  /** From now on all are honest, and nothing fails: every payment ends. */
  async #honestEnd(): Promise<void> {
    this.#isHonest = true;
    this.#seller.isHonest = true;
    this.#disk.faultShare = 0;
    for (const node of this.#nodes) Object.assign(node, { truth: "honest", lagSeconds: 0 });
    if (this.#buyer?.process.isAlive === true) await this.#close(this.#buyer);
    this.#note("all are honest");
    const buyer = await this.#start();
    if (buyer === undefined) return;
    for (let round = 0; round < HONEST_ROUNDS; round++) {
      await this.#time.delay(3 * HOUR_MS + Math.abs(this.#setting.hostOffsetMs));
      for (let request = 0; request < this.#setting.requests; request++) {
        for (let n = 0; n < MAX_HONEST_CALLS; n++) {
          if (await this.#call(buyer, request, { maxUnits: PER_CALL_UNITS })) break;
          await this.#time.delay(40_000);
        }
      }
    }
    await this.#time.delay(3 * HOUR_MS + Math.abs(this.#setting.hostOffsetMs));
    // A quote has the nodes say what became of the other payments.
    await this.#quote(buyer, 0);
    await this.#time.delay(10_000);
    const openPayments = buyer.client.openPayments().length;
    this.#ledger.checkEnd(buyer.client.spending(), openPayments);
    const before = JSON.stringify(buyer.client.spending());
    await this.#close(buyer);
    const reopened = await this.#start();
    const after = JSON.stringify(reopened?.client.spending());
    if (after !== before) this.#fault(`a new process reads ${after} of the journal, and the last one had ${before}`);
  }
}

function errorText(error: unknown): string {
  if (isAppError(error)) return `${error.code}: ${error.message}`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

const bodyOf = (request: number): string => `{"method":"eth_blockNumber","id":${request}}`;

/** Runs the story of a seed: the same each time. */
export function runStory(seed: string, opts: StoryOptions = {}): Promise<StoryReport> {
  return new Story(seed, opts).run();
}

/** Leaves out what a failing story does not need to fail. */
export async function shrinkStory(seed: string): Promise<StoryReport & { readonly without: readonly string[] }> {
  let without: ReadonlySet<StoryFault> = new Set();
  let report = await runStory(seed);
  for (const fault of STORY_FAULTS) {
    const fewer = new Set([...without, fault]);
    const shorter = await runStory(seed, { without: fewer });
    if (shorter.faults.length > 0) [without, report] = [fewer, shorter];
  }
  for (let maxActivities = 1; maxActivities <= MAX_SHRUNK_ACTIVITIES; maxActivities++) {
    const shorter = await runStory(seed, { without, maxActivities });
    if (shorter.faults.length === 0) continue;
    report = shorter;
    break;
  }
  return { ...report, without: [...without] };
}
