import assert from "node:assert/strict";
import { type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { bytesToHex, hexToBytes } from "@turnpike/base";
import { type ChainStore, openChainStore } from "@turnpike/chain-store";
import { rfc3339ToNs } from "@turnpike/cometbft";
import { moduleAddress, sha256 } from "@turnpike/crypto";
import { type Any, authz, createMessage, packAny, typeUrlOf, upgrade } from "@turnpike/proto";
import { LOCAL_GENESIS, LOCAL_SIGNERS } from "@turnpike/testkit/embedded-node";
import { must, scratchFolder } from "@turnpike/testkit/fixtures";
import { fc } from "@turnpike/testkit/property";
import { ChainApp } from "../src/app/chain-app.ts";
import { pocketMachine } from "../src/app/pocket-machine.ts";
import { RULE_SETS } from "../src/app/rule-sets.ts";
import type { BlockOutcome } from "../src/app/state-machine.ts";
import { consensusParamsOfGenesis } from "../src/modules/consensus/consensus-module.ts";
import type { BlockInfo } from "../src/state/context.ts";
import type { MessageHandler } from "../src/state/module.ts";
import { RULES, type RuleSet } from "../src/state/rules.ts";
import { ACTION, txOf } from "./random-actions.ts";
import { History } from "./random-history.ts";
import { LAST_SCENE_BLOCK, Scenes, withSceneGenesis } from "./replay-scenes.ts";

/** A block as a version ran it. */
interface ReplayBlock {
  readonly height: string;
  readonly timeNanos: string;
  /** Hex digits, as all bytes here. */
  readonly hash: string;
  readonly proposer: string;
  readonly txs: readonly string[];
  /** Code and gas of each transaction, to see what changed: `0 71234`. */
  readonly results: readonly string[];
  /** SHA-256 of results, events and changes of validators. */
  readonly outcome: string;
  /** App hash after it. */
  readonly appHash: string;
}

/** A chain that a version made, from its genesis on: every later one must run it to the same hashes. */
export interface Replay {
  /** Newest rules of the program that made it. */
  readonly rules: string;
  readonly genesis: { readonly chainId: string; readonly time: string; readonly appState: Record<string, unknown> };
  readonly blocks: readonly ReplayBlock[];
}

/** Seed of the actions. Another one would be another chain, and no better. */
const SEED = 31;
/** Block of the first samples, and how many of them a block has. */
const FIRST_SAMPLES = 8n;
const SAMPLES = 6;
/** Blocks between a plan and its upgrade. */
const PLANNED_AT = 3n;
const UPGRADED_AT = 24n;

function plain(value: unknown): unknown {
  if (typeof value === "bigint") return `${value}`;
  if (value instanceof Uint8Array) return bytesToHex(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([name, member]) => [name, plain(member)]));
}

function shownOutcome({ results, events, validatorUpdates }: BlockOutcome): Pick<ReplayBlock, "results" | "outcome"> {
  const text = JSON.stringify(plain({ results, events, validatorUpdates }));
  return {
    results: results.map(({ code, gasUsed }) => `${code} ${gasUsed}`),
    outcome: bytesToHex(sha256(Buffer.from(text))),
  };
}

/** The application on an empty store, with the chain begun. */
async function begin(store: ChainStore, { genesis }: Pick<Replay, "genesis">, rules?: readonly RuleSet[]) {
  const consensusParams = consensusParamsOfGenesis(LOCAL_GENESIS.consensus.params);
  const options = { gasPrices: [], consensusParams, ...(rules === undefined ? {} : { rules }) };
  const { machine, modules } = pocketMachine(options);
  const app = new ChainApp({ version: "0.1.35" }, { machine, store });
  const timeNanos = rfc3339ToNs(genesis.time);
  assert.ok(timeNanos !== undefined);
  const { chainId, appState } = genesis;
  await app.start({ chainId, initialHeightBlocks: 1n, timeNanos, appState });
  return { app, modules };
}

/** A value for a field, by its name: it pins what a message costs and answers, also where it is refused. */
function sampleOf(field: DescField, authorized: string, depth: number): unknown {
  const one = (): unknown => {
    if (field.message !== undefined) return sampleFields(field.message, authorized, depth + 1);
    if (field.enum !== undefined) return field.enum.values.at(-1)?.number ?? 0;
    if (field.fieldKind === "map" || field.scalar === undefined) return undefined;
    if (field.scalar === ScalarType.STRING) return sampleText(field.name, authorized);
    if (field.scalar === ScalarType.BYTES) return Buffer.alloc(48, 7);
    if (field.scalar === ScalarType.BOOL) return true;
    if (field.scalar === ScalarType.DOUBLE || field.scalar === ScalarType.FLOAT) return 0.5;
    const isWide = [ScalarType.INT64, ScalarType.UINT64, ScalarType.SINT64, ScalarType.FIXED64, ScalarType.SFIXED64];
    return isWide.includes(field.scalar) ? 9n : 9;
  };
  return field.fieldKind === "list" ? [one()] : one();
}

function sampleText(name: string, authorized: string): string {
  if (name === "authority") return moduleAddress("gov");
  if (/validator/.test(name)) return "poktvaloper1lvrxptamh6ws83x64x4m3stx0p5m94d7gq6yul";
  if (/destination|to_address|grantee|gateway_address/.test(name)) return LOCAL_SIGNERS["gateway-1"].address;
  if (/address|signer|granter|owner/.test(name)) return authorized;
  if (/service_id|^id$/.test(name)) return "eth";
  if (name === "denom") return "upokt";
  if (name === "amount") return "1000000";
  return name === "type_url" ? typeUrlOf(upgrade.MsgCancelUpgradeSchema) : "1";
}

function sampleFields(schema: DescMessage, authorized: string, depth: number): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  if (depth > 5 || schema.typeName === "google.protobuf.Any") return fields;
  for (const field of schema.fields) {
    if (field.fieldKind === "map") continue;
    const value = sampleOf(field, authorized, depth);
    if (field.oneof === undefined) fields[field.localName] = value;
    else fields[field.oneof.localName] = { case: field.localName, value };
  }
  return fields;
}

/** A message of each type that the chain takes, some of which it refuses; those of the authority are sent by the DAO. */
function samples(
  handlers: ReadonlyMap<string, MessageHandler>,
): readonly (readonly [keyof typeof LOCAL_SIGNERS, Any])[] {
  return [...handlers]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([typeUrl, handler]) => {
      const role = typeUrl.includes(".supplier.")
        ? "supplier-1"
        : typeUrl.includes(".gateway.")
          ? "gateway-2"
          : "faucet";
      const message: Message = createMessage(
        handler.schema,
        sampleFields(handler.schema, LOCAL_SIGNERS[role].address, 0),
      );
      const any = packAny(handler.schema, message);
      if (!handler.signers(message).includes(moduleAddress("gov"))) return [role, any] as const;
      const { dao } = LOCAL_SIGNERS;
      const exec = createMessage(authz.MsgExecSchema, { grantee: dao.address, msgs: [any] });
      return ["dao", packAny(authz.MsgExecSchema, exec)] as const;
    });
}

function upgradeTo(name: string): Any {
  const message = createMessage(upgrade.MsgSoftwareUpgradeSchema, {
    authority: moduleAddress("gov"),
    plan: { name, height: UPGRADED_AT },
  });
  const { dao } = LOCAL_SIGNERS;
  const msgs = [packAny(upgrade.MsgSoftwareUpgradeSchema, message)];
  return packAny(authz.MsgExecSchema, createMessage(authz.MsgExecSchema, { grantee: dao.address, msgs }));
}

function firstGenesis(): Replay["genesis"] {
  const upgradeState = { rules: [{ name: RULES[0], height: "0" }] };
  const appState = { ...withSceneGenesis(), upgrade: upgradeState };
  return { chainId: LOCAL_GENESIS.chain_id, time: LOCAL_GENESIS.genesis_time, appState };
}

/** Versions that a changelog has a heading for. */
export function releasedVersions(changelog: string): readonly string[] {
  return Array.from(changelog.matchAll(/^## \[?v?(\d+\.\d+\.\d+[\w.-]*)/gm), ([, version = ""]) => version);
}

/** True for a version whose record stays as it is. */
export function isReleased(changelog: string, version: string): boolean {
  return releasedVersions(changelog).includes(version);
}

interface ReplayOptions {
  /** Rules of the program that makes it; those of this version by default. */
  readonly rules?: readonly RuleSet[];
  /** Last block; that of the scenes by default. */
  readonly lastBlock?: bigint;
  /** Called with what each block gave. */
  readonly onBlock?: (outcome: BlockOutcome) => void;
}

/**
 * Makes a chain by this version: random actions, a sample of each message, an upgrade to its newest rules, and behind them scenes, of
 * which it is asserted what the chain takes.
 */
export async function makeReplay(opts: ReplayOptions = {}): Promise<Replay> {
  const { rules = RULE_SETS, lastBlock = LAST_SCENE_BLOCK, onBlock } = opts;
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: folder.path });
  const genesis = firstGenesis();
  const { app, modules } = await begin(store, { genesis }, rules);
  const handlers = new Map(modules.flatMap(({ messages }) => Object.entries(messages ?? {})));
  const history = new History(app, []);
  const scenes = new Scenes();
  const [actions = []] = fc.sample(fc.array(ACTION, { minLength: 120, maxLength: 120 }), { numRuns: 1, seed: SEED });
  // The plan and its taking back are samples, too: neither must meet the real one.
  const waiting = samples(handlers).filter(([, any]) => !Buffer.from(any.value).includes("cosmos.upgrade"));
  const newest = must(rules.at(-1)).name;
  const blocks: ReplayBlock[] = [];
  for (let height = 1n; height <= lastBlock; height++) {
    const bySigner = new Map<string, Uint8Array>();
    const add = (signer: (typeof LOCAL_SIGNERS)["dao"], message: Any): boolean => {
      if (bySigner.has(signer.address)) return false;
      bySigner.set(signer.address, history.sign(signer, message));
      return true;
    };
    if (height === PLANNED_AT && newest !== RULES[0]) add(LOCAL_SIGNERS.dao, upgradeTo(newest));
    for (let remaining = height < FIRST_SAMPLES ? 0 : SAMPLES; remaining > 0; remaining--) {
      const at = waiting.findIndex(([role]) => !bySigner.has(LOCAL_SIGNERS[role].address));
      const [sample] = at < 0 ? [] : waiting.splice(at, 1);
      if (sample !== undefined) add(LOCAL_SIGNERS[sample[0]], sample[1]);
    }
    for (const action of actions.filter(({ atBlock }) => height > 1n && atBlock === height)) {
      const [signer, message] = txOf(history, action, height) ?? [];
      if (signer !== undefined && message !== undefined) add(signer, message);
    }
    const played = scenes.at(history, height);
    for (const { signer, message } of played) assert.ok(add(signer, message), `two transactions of ${signer.address}`);
    const signers = [...bySigner.keys()];
    const txs = [...bySigner.values()];
    const outcome = await history.block(height, txs);
    for (const { signer, message, isRefused } of played) {
      const { code, log } = must(outcome.results[signers.indexOf(signer.address)]);
      assert.equal(code !== 0, isRefused, `${message.typeUrl} in block ${height}: ${log}`);
    }
    onBlock?.(outcome);
    const info = history.blockInfo(height);
    blocks.push({
      height: `${height}`,
      timeNanos: `${info.timeNanos}`,
      hash: bytesToHex(info.hash),
      proposer: bytesToHex(info.proposer),
      txs: txs.map((tx) => bytesToHex(tx)),
      ...shownOutcome(outcome),
      appHash: bytesToHex(app.latestAppHash()),
    });
  }
  assert.deepEqual(waiting, [], "every sample is in a block");
  return { rules: newest, genesis, blocks };
}

/** Runs a recorded chain from its genesis, and asserts that each block gives what it gave. */
export async function assertReplays(replay: Replay, rules?: readonly RuleSet[]): Promise<void> {
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: folder.path });
  const { app } = await begin(store, replay, rules);
  for (const block of replay.blocks) {
    const info: BlockInfo = {
      chainId: replay.genesis.chainId,
      heightBlocks: BigInt(block.height),
      timeNanos: BigInt(block.timeNanos),
      hash: must(hexToBytes(block.hash)),
      proposer: must(hexToBytes(block.proposer)),
    };
    const { outcome, appHash } = app.run(
      info,
      block.txs.map((tx) => must(hexToBytes(tx))),
    );
    const shown = shownOutcome(outcome);
    assert.deepEqual(shown.results, block.results, `code and gas of the transactions of block ${block.height}`);
    assert.equal(shown.outcome, block.outcome, `results and events of block ${block.height}`);
    assert.equal(bytesToHex(appHash), block.appHash, `app hash after block ${block.height}`);
    await app.commit([]);
  }
}
