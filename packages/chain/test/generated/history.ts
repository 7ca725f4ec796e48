import assert from "node:assert/strict";
import { isAppError } from "@turnpike/base";
import { decodeMessage, schemaOfTypeUrl, toApiJson } from "@turnpike/proto";
import { chanceOf } from "@turnpike/testkit/chance";
import { plannedUpgrade } from "../../src/modules/upgrade/plan.ts";
import { ACTORS, type Actor, GROUND_STATE } from "./actors.ts";
import { assertSameAfterImport, runQueries } from "./final-checks.ts";
import { LiveChain, type UnsignedStep } from "./live-chain.ts";
import { drawStep, sendStep, USUAL } from "./steps.ts";

/** Transactions of a history by how many blocks after its beginning they are sent. */
export interface HistoryStep {
  readonly afterBlocks: number;
  readonly tx: UnsignedStep;
}

/** A history that can be run again: the seed of the state that it begins with, and all that is sent from there. */
export interface History {
  readonly ground: string;
  readonly steps: readonly HistoryStep[];
}

/** Counts of what happened, by name. */
export class Tally {
  readonly counts = new Map<string, number>();

  add(name: string, more = 1): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + more);
  }

  /** Sum of the counts whose names begin so. */
  sum(start: string): number {
    let total = 0;
    for (const [name, value] of this.counts) if (name.startsWith(start)) total += value;
    return total;
  }

  merge(counts: Iterable<readonly [string, number]>): void {
    for (const [name, value] of counts) this.add(name, value);
  }
}

/** Options of a generated history. */
export interface HistoryOptions {
  readonly tally: Tally;
  /** Seed of the queries on the final state; undefined: no queries, and no export. */
  readonly finalSeed?: string;
}

/** Blocks that hold what a history sends, and blocks after them until all sessions are settled. */
const STEP_BLOCKS = 3;
const TAIL_BLOCKS = 9;
const MIN_GROUND_BLOCKS = 14;
const UNBONDING_NANOS = 22n * 86_400_000_000_000n;

/** Draws what is sent in the next block of a history. */
type DrawSteps = (chain: LiveChain, afterBlocks: number) => readonly UnsignedStep[];

function runBlock(chain: LiveChain, steps: readonly UnsignedStep[], options: HistoryOptions, jumpNanos?: bigint): void {
  const { tally, finalSeed } = options;
  const ahead = new Map<Actor, bigint>();
  const work = chain.work().map(({ signer, message }) => ({ signer, messages: [message], ...USUAL }));
  const all = [...work, ...steps];
  const txs = all.map((step) => {
    const numEarlier = ahead.get(step.signer) ?? 0n;
    if (!("unorderedSeconds" in step)) ahead.set(step.signer, numEarlier + 1n);
    return chain.sign(step, numEarlier);
  });
  const [first] = txs.slice(work.length);
  if (first !== undefined && finalSeed !== undefined) chain.tryOut(first);
  const outcome = chain.run(txs, jumpNanos);
  for (const [index, { code, events }] of outcome.results.entries()) {
    const kind = index < work.length ? "work" : "step";
    const verdict = code === 0 ? "accepted" : "refused";
    for (const { typeUrl } of all[index]?.messages ?? []) tally.add(`${kind} ${verdict} ${typeUrl}`);
    for (const { type } of events) if (type.startsWith("pocket.")) tally.add(type);
  }
  for (const { type } of outcome.events) if (type.startsWith("pocket.")) tally.add(type);
}

// A state without active suppliers and applications would show little.
const ENDS_WORK =
  /Unstake|MsgTransferApplication|MsgSetSendEnabled|proof.*MsgUpdateParam|Upgrade|cosmos.*MsgUpdateParams/;
const isDrawnForGround = (typeUrl: string): boolean => !ENDS_WORK.test(typeUrl);

/** The economy after some blocks of plausible messages; the same for the same seed. */
export function makeGround(seed: string): LiveChain {
  const chance = chanceOf(`ground ${seed}`);
  const chain = LiveChain.start(GROUND_STATE);
  const options = { tally: new Tally() };
  const blocks = MIN_GROUND_BLOCKS + chance.below(12);
  for (let block = 0; block < blocks; block++) {
    const steps = block === 0 ? funding() : [];
    for (let i = block === 0 ? 0 : chance.below(3); i > 0; i--) {
      const step = drawStep({ chance, ctx: chain.context() }, false, isDrawnForGround);
      if (step !== undefined) steps.push(step);
    }
    runBlock(chain, steps, options);
  }
  return chain.copy();
}

function funding(): UnsignedStep[] {
  const poor = ACTORS.filter((actor) => actor.startsWith("spare"));
  return poor.map((actor) => sendStep("faucet", actor, 1_000_000_000_000n));
}

/** True for a node that stops at a planned upgrade whose rules it lacks, as it must. */
function isPlannedStop(chain: LiveChain, error: unknown): boolean {
  const plan = plannedUpgrade(chain.context());
  // A plan for the height of its own block is due in the next one.
  const isDue = plan !== undefined && plan.height <= chain.nextBlock().heightBlocks;
  return isAppError(error, "CHAIN_UPGRADE") && isDue;
}

function live(chain: LiveChain, draw: DrawSteps, options: HistoryOptions): void {
  try {
    for (let block = 1; block <= STEP_BLOCKS + TAIL_BLOCKS; block++) runBlock(chain, draw(chain, block), options);
    // Validators unbond, and grants end.
    runBlock(chain, [], options, UNBONDING_NANOS);
    runBlock(chain, [], options);
  } catch (error) {
    if (!isPlannedStop(chain, error)) throw error;
    options.tally.add("planned stops");
  }
  const { finalSeed } = options;
  if (finalSeed === undefined) return;
  runQueries(chain, chanceOf(`queries ${finalSeed}`));
  assertSameAfterImport(chain);
}

/** A history that failed: what it throws, and how to run it again. */
export class HistoryFailure {
  readonly history: History;
  readonly error: unknown;

  constructor(history: History, error: unknown) {
    this.history = history;
    this.error = error;
  }
}

/** A history that was drawn and run. */
export interface DrawnHistory {
  readonly history: History;
  /** Undefined when all held. */
  readonly failure?: HistoryFailure;
}

/** Draws a history from a seed and runs it. */
export function runDrawnHistory(
  ground: { readonly seed: string; readonly chain: LiveChain },
  seed: string,
  options: HistoryOptions,
): DrawnHistory {
  const chance = chanceOf(`history ${seed}`);
  const steps: HistoryStep[] = [];
  const draw: DrawSteps = (chain, afterBlocks) => {
    // Few in the tail: there it is mostly seen what becomes of the steps before.
    const count = afterBlocks <= STEP_BLOCKS ? chance.below(6) : chance.often(0.1) ? 1 : 0;
    const txs: UnsignedStep[] = [];
    for (let i = 0; i < count; i++) {
      const tx = drawStep({ chance, ctx: chain.context() }, chance.often(0.75));
      if (tx === undefined) continue;
      txs.push(tx);
      steps.push({ afterBlocks, tx });
    }
    return txs;
  };
  const history: History = { ground: ground.seed, steps };
  try {
    live(ground.chain.branch(), draw, options);
    return { history };
  } catch (error) {
    return { history, failure: new HistoryFailure(history, error) };
  }
}

/** Runs a chain of a changed genesis to its end, with two plausible messages. @returns what it throws; undefined when all held */
export function runAfterGenesis(chain: LiveChain, seed: string, tally: Tally): unknown {
  const chance = chanceOf(`after genesis ${seed}`);
  const draw: DrawSteps = (after, block) => {
    const step = block < 3 ? drawStep({ chance, ctx: after.context() }, false) : undefined;
    return step === undefined ? [] : [step];
  };
  try {
    live(chain, draw, { tally, finalSeed: seed });
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Runs a history's steps. @returns what it throws; undefined when all held */
export function runHistory(chain: LiveChain, { steps }: History, finalSeed = ""): unknown {
  const draw: DrawSteps = (_, block) => steps.flatMap(({ afterBlocks, tx }) => (afterBlocks === block ? [tx] : []));
  try {
    live(chain.branch(), draw, { tally: new Tally(), finalSeed });
    return undefined;
  } catch (error) {
    return error;
  }
}

/** An error with its stack, for a report. */
export function errorText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : JSON.stringify(error);
}

/** First line of a fault and the place that threw it: equal for failures of one cause. */
export function causeOf(error: unknown): string {
  const lines = errorText(error).split("\n");
  const frames = lines.filter((line) => line.includes("/src/") || line.includes("invariants.ts"));
  const place = /([\w-]+\.ts):(\d+)/.exec(frames[0] ?? "")?.[0] ?? "";
  const detail = error instanceof Error && "detail" in error ? JSON.stringify(error.detail) : "";
  const plain = (text: string): string =>
    text
      .replace(/pokt\w+/g, "address")
      .replace(/\d+/g, "0")
      .slice(0, 120);
  return `${plain(lines[0]?.split(":")[0] ?? "")} ${plain(detail)} at ${place}`;
}

/** A history with the same failure and fewer steps. */
export function shrink(chain: LiveChain, { history, error }: HistoryFailure): HistoryFailure {
  const cause = causeOf(error);
  let smallest = new HistoryFailure(history, error);
  for (let index = history.steps.length - 1; index >= 0; index--) {
    const steps = smallest.history.steps.filter((_, at) => at !== index);
    const again = runHistory(chain, { ...history, steps });
    if (again !== undefined && causeOf(again) === cause) smallest = new HistoryFailure({ ...history, steps }, again);
  }
  return smallest;
}

/** A history as JSON: each message in the API's form for a reader, and as bytes to be run again. */
export function historyText({ ground, steps }: History): string {
  const shown = steps.map(({ afterBlocks, tx }) => ({
    afterBlocks,
    ...tx,
    gasLimit: `${tx.gasLimit}`,
    fee: tx.fee.map(({ denom, amount }) => ({ denom, amount: `${amount}` })),
    messages: tx.messages.map(({ typeUrl, value }) => ({
      typeUrl,
      base64: Buffer.from(value).toString("base64"),
      json: messageJson(typeUrl, value),
    })),
  }));
  return JSON.stringify({ ground, steps: shown }, undefined, 2);
}

function messageJson(typeUrl: string, value: Uint8Array): unknown {
  const schema = schemaOfTypeUrl(typeUrl);
  const decoded = schema === undefined ? undefined : decodeMessage(schema, value);
  try {
    return schema === undefined || decoded?.ok !== true ? undefined : toApiJson(schema, decoded.message);
  } catch {
    return undefined;
  }
}

interface HistoryJson {
  readonly ground: string;
  readonly steps: readonly {
    readonly afterBlocks: number;
    readonly signer: Actor;
    readonly gasLimit: string;
    readonly memo: string;
    readonly unorderedSeconds?: number;
    readonly fee: readonly { readonly denom: string; readonly amount: string }[];
    readonly messages: readonly { readonly typeUrl: string; readonly base64: string }[];
  }[];
}

/** Reads what {@link historyText} wrote. */
export function readHistory(text: string): History {
  const { ground, steps } = JSON.parse(text) as HistoryJson;
  assert.ok(Array.isArray(steps));
  return {
    ground,
    steps: (steps as HistoryJson["steps"]).map(({ afterBlocks, ...tx }) => ({
      afterBlocks,
      tx: {
        ...tx,
        gasLimit: BigInt(tx.gasLimit),
        fee: tx.fee.map(({ denom, amount }) => ({ denom, amount: BigInt(amount) })),
        messages: tx.messages.map(({ typeUrl, base64 }) => ({
          $typeName: "google.protobuf.Any",
          typeUrl,
          value: Uint8Array.from(Buffer.from(base64, "base64")),
        })),
      },
    })),
  };
}
