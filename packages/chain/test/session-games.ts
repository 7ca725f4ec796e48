import assert from "node:assert/strict";
import { isMessage, type Message } from "@bufbuild/protobuf";
import {
  authz,
  createMessage,
  decodeMessage,
  packAny,
  proof,
  schemaOfTypeUrl,
  type session,
  staking,
  tokenomics,
  typeUrlOf,
} from "@turnpike/proto";
import {
  activeApplicationConfigs,
  numPendingSessions,
  sessionAt,
  sessionWindows,
  stakeAfterSessions,
} from "@turnpike/protocol";
import { getApplication, stakeUpokt } from "../src/modules/application/state.ts";
import { balances, getBalance, getSupply } from "../src/modules/bank/balances.ts";
import { getGateway } from "../src/modules/gateway/state.ts";
import { getComputeUnitsPerRelayAt } from "../src/modules/service/state.ts";
import { isSettled } from "../src/modules/session/history.ts";
import { hydrateSession } from "../src/modules/session/hydrate.ts";
import { getSharedParamsAt, protocolParams } from "../src/modules/shared/state.ts";
import { delegate } from "../src/modules/staking/delegate.ts";
import { getValidator } from "../src/modules/staking/state.ts";
import { getDehydratedSupplier } from "../src/modules/supplier/state.ts";
import { DEFAULT_TOKENOMICS_PARAMS } from "../src/modules/tokenomics/state.ts";
import { bytesOfAddress } from "./recorded-tx.ts";
import { GOV, LifeChain, multisigKey, type Party, Work } from "./session-life.ts";
import {
  APPLICATION_STAKE_UPOKT,
  grantInit,
  MOVES,
  type Move,
  type MoveKind,
  newValidator,
  pick,
  RATE_ONE,
  SERVICES,
  UNITS,
  validatorAddress,
  WRAPPER,
} from "./session-moves.ts";
import {
  inflationOf,
  paymentsOf,
  type SettledWork,
  TermsLog,
  ValidatorLedger,
  worthOfRelays,
} from "./session-terms.ts";

export type { Move } from "./session-moves.ts";

/** First height of moves. */
export const FIRST_HEIGHT = 9n;
/** Number of heights with moves. */
export const NUM_HEIGHTS = 22;
/** Blocks after the moves, until every session is settled. */
const NUM_IDLE_BLOCKS = 30;
/** Suppliers of a session: fewer than there are, so that they compete. */
const SEATS = 3;
/** Longer than half a day: a validator's commission can change once a day. */
const SECONDS_PER_BLOCK = 50_000n;
/** More blocks than there are from a session's end to its claim window. */
const MAX_WINDOW_BLOCKS = 12n;
/** Maximum number of upokt by which rounding moves an account's part of the validators' rewards of a block. */
const MAX_ROUNDING_UPOKT = 16n;

interface Served {
  readonly work: Work;
  readonly worthUpokt: bigint;
  claimed: boolean;
  proven: boolean;
}

/** Relays for a supplier to answer. */
interface Job {
  readonly header: Work["header"];
  readonly by: Party;
  readonly relays: number;
  readonly units: bigint;
}

/** Result of a claim's settlement, with all that it paid, by account. */
interface Settlement {
  readonly end: string;
  readonly settledUpokt: bigint;
  readonly rewards: Readonly<Record<string, string>>;
}

/** Sums over the claims that a game settled. */
interface Totals {
  settledUpokt: bigint;
  mintedUpokt: bigint;
  inflationUpokt: bigint;
  slashedUpokt: bigint;
}

/** Parties and parameters of a game. */
export interface GameOptions {
  /** True: every claim needs a proof. */
  readonly proveAll: boolean;
  /** True: one party is application, gateway, supplier, validator and owner of everything. */
  readonly single: boolean;
  /** True, with `single`: that party is the DAO, too. */
  readonly isDao?: boolean;
}

const SETTLED = "pocket.tokenomics.EventClaimSettled";
const ENDS: Readonly<Record<string, string>> = {
  [SETTLED]: "settled",
  "pocket.tokenomics.EventClaimExpired": "expired",
  "pocket.tokenomics.EventClaimDiscarded": "discarded",
};
const SLASHED = "pocket.tokenomics.EventSupplierSlashed";

const upoktIn = (text: unknown): bigint => BigInt(/^(\d+)upokt$/.exec(String(text))?.[1] ?? "0");

/** A game: parties make moves at every height of several sessions' lives, while suppliers serve what they are sure of. */
export class Game {
  readonly chain: LifeChain;
  readonly applications: readonly Party[];
  readonly gateways: readonly Party[];
  /** Suppliers that serve, and claim what they served. */
  readonly suppliers: readonly Party[];
  /** Suppliers that serve nothing, and claim in every session that draws them. */
  readonly dishonestSuppliers: readonly Party[];
  readonly owners: readonly Party[];
  /** Parties that are validators, or may become some. */
  readonly validators: readonly Party[];
  /** Party that sends messages of others, by their grants. */
  readonly agent: Party;
  /** Addresses that may become the DAO's. */
  readonly daos: readonly string[];
  readonly ledger = new ValidatorLedger();
  readonly served = new Map<string, Served>();
  readonly totals: Totals = { settledUpokt: 0n, mintedUpokt: 0n, inflationUpokt: 0n, slashedUpokt: 0n };
  /** Grants to the agent that were accepted: granter and message type. */
  readonly grants: (readonly [granter: string, typeUrl: string])[] = [];
  /** Accepted messages by type, each with the parts of sessions' lives in which it was. */
  readonly acceptedParts = new Map<string, Set<string>>();
  readonly #options: GameOptions;
  readonly #terms: TermsLog;
  readonly #settlements = new Map<string, Settlement>();
  /** Accounts whose coins only settlement moves at the end of a block: they stake nothing that comes back. */
  readonly #ledgerAccounts: readonly string[];
  #supply = 0n;
  #parts: readonly string[] = [];

  constructor(opts: GameOptions) {
    this.#options = opts;
    const { proveAll, single } = opts;
    const chain = new LifeChain({ proveAll, seats: SEATS, hasValidator: false, secondsPerBlock: SECONDS_PER_BLOCK });
    this.chain = chain;
    const named = (names: readonly string[]): Party[] =>
      single ? [chain.addPartyOnce("dealer")] : names.map((name) => chain.addPartyOnce(name));
    this.applications = named(["app 1", "app 2", "app 3"]);
    const bad = single ? [] : [chain.addParty("bad gateway", multisigKey("bad gateway"))];
    this.gateways = [...named(["gateway 1", "gateway 2"]), ...bad];
    this.suppliers = named(["supplier 1", "supplier 2", "supplier 3"]);
    this.dishonestSuppliers = named(["dishonest 1", "dishonest 2"]);
    this.owners = named(["owner 1", "owner 2"]);
    this.validators = named(["validator 1", "validator 2", "validator 3", "supplier 1"]);
    this.agent = chain.addPartyOnce("agent");
    const dao = chain.addPartyOnce("dao");
    this.daos = opts.isDao === true ? [this.dealer.address] : [dao.address, DEFAULT_TOKENOMICS_PARAMS.daoRewardAddress];
    const delegator = chain.addPartyOnce("delegator");
    const free = [...this.owners, ...this.validators.slice(0, 3), dao, delegator].map(({ address }) => address);
    this.#ledgerAccounts = single ? [] : [...free, DEFAULT_TOKENOMICS_PARAMS.daoRewardAddress];
    this.#terms = new TermsLog(() => this.allSuppliers.map(({ address }) => address));
    this.#setUp(delegator);
    while (chain.block.heightBlocks < FIRST_HEIGHT) this.endBlock();
  }

  #setUp(delegator: Party): void {
    const { chain } = this;
    for (const [i, id] of SERVICES.entries()) chain.addService(pick(this.owners, i), id, UNITS);
    for (const app of this.applications.slice(0, 2)) chain.stakeApplication(app, "svc", APPLICATION_STAKE_UPOKT);
    for (const one of this.gateways) chain.stakeGateway(one);
    for (const one of this.allSuppliers) chain.stakeSupplier(one, "svc");
    for (const app of this.applications) chain.delegate(app, pick(this.gateways, 0));
    for (const [i, one] of this.validators.slice(0, 2).entries()) {
      this.#sendPlain(newValidator(one, BigInt(3 + i) * 1_000_000n, RATE_ONE / 10n));
    }
    // Messages cannot delegate: delegators are from a genesis.
    if (!this.#options.single) this.#delegate(delegator, pick(this.validators, 0), 2_000_003n);
    if (this.#options.isDao === true) {
      const asType = { case: "asString", value: this.dealer.address } as const;
      chain.send(tokenomics.MsgUpdateParamSchema, { authority: GOV, name: "dao_reward_address", asType });
    }
    this.#supply = getSupply(chain.ctx, "upokt");
    this.#beginBlock();
  }

  #delegate(delegator: Party, to: Party, tokens: bigint): void {
    const { ctx } = this.chain;
    const validator = getValidator(ctx, bytesOfAddress(to.address));
    assert.ok(validator !== undefined);
    const coin = { denom: "upokt", amount: tokens };
    assert.ok(delegate(ctx, bytesOfAddress(delegator.address), validator, coin).ok);
    const self = this.ledger.tokensOf(to.address);
    const delegations = new Map([
      [to.address, self],
      [delegator.address, tokens],
    ]);
    this.ledger.create(to.address, self + tokens, RATE_ONE / 10n, delegations);
  }

  get allSuppliers(): readonly Party[] {
    const all = [...this.suppliers, ...this.dishonestSuppliers];
    return [...new Map(all.map((one) => [one.address, one])).values()];
  }

  get parties(): readonly Party[] {
    return [...this.applications, ...this.gateways, ...this.allSuppliers, ...this.owners, ...this.validators];
  }

  /** True when every claim is proven. */
  get provesAll(): boolean {
    return this.#options.proveAll;
  }

  /** The party that is everything, in a game of one. */
  get dealer(): Party {
    return pick(this.applications, 0);
  }

  /** Relays that a supplier is sure to be paid for, at a height of the session, by what it can read. */
  #sureRelays(app: Party, { header, suppliers }: session.Session, units: bigint): number {
    const { ctx, block } = this.chain;
    const record = getApplication(ctx, app.address);
    if (record === undefined || header === undefined) return 0;
    const params = protocolParams(getSharedParamsAt(ctx, block.heightBlocks));
    const { sessionStartBlockHeight: start, sessionEndBlockHeight: end } = header;
    const open: { readonly pendingSessions: bigint }[] = [];
    for (let earlier = start - 1n; earlier > 0n && !isSettled(ctx, earlier); ) {
      const then = protocolParams(getSharedParamsAt(ctx, earlier));
      open.unshift({ pendingSessions: numPendingSessions(then) });
      earlier = sessionAt(then, earlier).startHeight - 1n;
    }
    const services = activeApplicationConfigs(record.serviceConfigs, record.serviceConfigHistory, start);
    const pending = numPendingSessions(params) * BigInt(Math.max(1, services.length));
    const part = stakeAfterSessions(stakeUpokt(record), open) / pending;
    const limit = BigInt(record.perSessionSpendLimit?.amount ?? "0");
    const share = (limit > 0n && limit < part ? limit : part) / BigInt(suppliers.length);
    const terms = this.#terms.of(end);
    let relays = 4n;
    const costOf = (count: bigint): bigint => {
      const worth = worthOfRelays(terms, count, units);
      return worth + inflationOf(terms, worth);
    };
    while (relays > 0n && costOf(relays) > share) relays--;
    return Number(relays);
  }

  /** Serves relays of every session that is open, signed by who may, as far as they are sure to be paid. */
  serve(seed: number): void {
    const { chain } = this;
    const { heightBlocks } = chain.block;
    const { startHeight } = sessionAt(getSharedParamsAt(chain.ctx, heightBlocks), heightBlocks);
    // A change in a session's first block is visible in the next block.
    if (heightBlocks === startHeight) return;
    for (const app of this.applications) {
      for (const serviceId of SERVICES) {
        const read = hydrateSession(chain.ctx, app.address, serviceId, heightBlocks);
        if (!read.ok || read.value.header === undefined) continue;
        const { header, suppliers } = read.value;
        for (const operator of this.suppliers) {
          const key = keyOf(header, operator.address);
          const drawn = suppliers.some(({ operatorAddress }) => operatorAddress === operator.address);
          if (!drawn || this.served.has(key)) continue;
          const units = getComputeUnitsPerRelayAt(chain.ctx, serviceId, startHeight) ?? 0n;
          assert.ok(units > 0n);
          const relays = this.#sureRelays(app, read.value, units);
          if (relays === 0) continue;
          const signer = this.#signer(app, seed);
          this.served.set(key, this.#work({ header, by: operator, relays, units }, [app, signer]));
        }
      }
    }
  }

  #signer(app: Party, seed: number): Party {
    const record = getApplication(this.chain.ctx, app.address);
    const delegated = this.gateways.filter(({ address }) => record?.delegateeGatewayAddresses.includes(address));
    return pick([app, ...delegated], seed);
  }

  #work({ header, by, relays, units }: Job, [app, signer]: readonly [Party, Party]): Served {
    const work = new Work(header, by);
    if (this.provesAll) work.serve(relays, [app.publicKey, signer.publicKey], signer, units);
    else work.invent(relays, units);
    const terms = this.#terms.of(header.sessionEndBlockHeight);
    assert.equal(units, terms.units.get(header.serviceId));
    return { work, worthUpokt: worthOfRelays(terms, work.relays, units), claimed: false, proven: false };
  }

  /** Header and units of some session of the last blocks; undefined when it had no suppliers. */
  anyHeader(at: number): { readonly header: session.SessionHeader; readonly units: bigint } | undefined {
    const { ctx, block } = this.chain;
    const app = pick(this.applications, at);
    const read = hydrateSession(ctx, app.address, pick(SERVICES, at), block.heightBlocks - BigInt(1 + at));
    const header = read.ok ? read.value.header : undefined;
    if (header === undefined) return undefined;
    return {
      header,
      units: getComputeUnitsPerRelayAt(ctx, header.serviceId, header.sessionStartBlockHeight) ?? 0n,
    };
  }

  /** Claims relays that were never sent, in each session that draws a dishonest supplier, up to all that its application has. */
  claimWithoutWork(): void {
    const { chain } = this;
    for (const end of this.#endsToClaim()) {
      for (const app of this.applications) {
        for (const serviceId of SERVICES) {
          const read = hydrateSession(chain.ctx, app.address, serviceId, end);
          if (!read.ok || read.value.header === undefined) continue;
          const { header } = read.value;
          const units = getComputeUnitsPerRelayAt(chain.ctx, serviceId, header.sessionStartBlockHeight) ?? 0n;
          for (const supplier of this.dishonestSuppliers) chain.claim(new Work(header, supplier).invent(1_000, units));
        }
      }
    }
  }

  /** Ends of sessions whose claim windows open in the block. */
  #endsToClaim(): bigint[] {
    const { ctx, block } = this.chain;
    const ends = new Set<bigint>();
    for (let end = block.heightBlocks - 1n; end > block.heightBlocks - MAX_WINDOW_BLOCKS && end > 0n; end--) {
      const params = protocolParams(getSharedParamsAt(ctx, end));
      if (
        sessionAt(params, end).endHeight === end &&
        sessionWindows(params, end).claimOpenHeight === block.heightBlocks
      )
        ends.add(end);
    }
    return [...ends];
  }

  /** Claims and proofs that are due, each at some block of its window. */
  dueWork(seed: number): (() => void)[] {
    return [...this.served.values()]
      .filter(({ claimed, proven }) => !claimed || (this.provesAll && !proven))
      .map((one) => () => this.#submit(one, seed));
  }

  #submit(one: Served, seed: number): void {
    const { chain } = this;
    const now = chain.block.heightBlocks;
    const { claimOpenHeight, claimCloseHeight, proofOpenHeight, proofCloseHeight } = chain.windowsOf(one.work.header);
    const isTime = (open: bigint, close: bigint): boolean => now === close || (now >= open && seed % 2 === 0);
    if (!one.claimed && now <= claimCloseHeight && isTime(claimOpenHeight, claimCloseHeight)) {
      const sent = chain.claim(one.work);
      assert.ok(sent.ok, sent.ok ? "" : `claim at ${now}: ${sent.fault.text}`);
      one.claimed = true;
      this.#count(typeUrlOf(proof.MsgCreateClaimSchema));
    }
    if (!this.provesAll || !one.claimed || one.proven || now > proofCloseHeight) return;
    if (!isTime(proofOpenHeight, proofCloseHeight)) return;
    const sent = chain.prove(one.work);
    const text = sent.ok ? "" : sent.fault.text;
    assert.ok(sent.ok || text.includes("not required"), `proof at ${now}: ${text}`);
    one.proven = true;
    if (sent.ok) this.#count(typeUrlOf(proof.MsgSubmitProofSchema));
  }

  /**
   * Makes a move. Half of all moves are inside `MsgExec`: of the signer itself, or of an agent with its grant.
   * @returns true when the message was accepted
   */
  move(kind: MoveKind, move: Move): boolean {
    const message = kind.make(this, move);
    if (message === undefined) return false;
    const form = (move.who + move.to + move.amount) % 4;
    if (form > 1 || typeUrlOf(kind.schema).startsWith("/cosmos.authz.")) return this.#sendPlain(message);
    return this.#sendWrapped(message, form === 0);
  }

  #sendPlain(message: Message): boolean {
    const typeUrl = `/${message.$typeName}`;
    if (!this.chain.sendMessage(typeUrl, message).ok) return false;
    this.#count(typeUrl);
    this.#note(message);
    return true;
  }

  #sendWrapped(message: Message, isByAgent: boolean): boolean {
    const { chain, agent } = this;
    const typeUrl = `/${message.$typeName}`;
    const schema = schemaOfTypeUrl(typeUrl);
    const [signer = ""] = chain.handlers.get(typeUrl)?.signers(message) ?? [];
    assert.ok(schema !== undefined);
    if (isByAgent) this.#sendPlain(createMessage(authz.MsgGrantSchema, grantInit(signer, agent.address, typeUrl)));
    const grantee = isByAgent ? agent.address : signer;
    if (!chain.send(authz.MsgExecSchema, { grantee, msgs: [packAny(schema, message)] }).ok) return false;
    this.#count(WRAPPER);
    this.#count(typeUrl);
    this.#note(message);
    return true;
  }

  #count(typeUrl: string): void {
    const parts = this.acceptedParts.get(typeUrl) ?? new Set();
    for (const part of this.#parts) parts.add(part);
    this.acceptedParts.set(typeUrl, parts);
  }

  /** Notes accepted messages that the oracle of the validators' rewards follows. */
  #note(message: Message): void {
    const partyOf = (operator: string): string =>
      this.validators.find((one) => validatorAddress(one) === operator)?.address ?? "";
    if (isMessage(message, staking.MsgCreateValidatorSchema)) {
      const rate = BigInt(message.commission?.rate ?? "0");
      this.ledger.create(partyOf(message.validatorAddress), BigInt(message.value?.amount ?? "0"), rate);
    } else if (isMessage(message, staking.MsgEditValidatorSchema) && message.commissionRate !== "") {
      this.ledger.setRate(partyOf(message.validatorAddress), BigInt(message.commissionRate));
    } else if (isMessage(message, staking.MsgUpdateParamsSchema)) {
      this.ledger.maxValidators = message.params?.maxValidators ?? 0;
    } else if (isMessage(message, authz.MsgGrantSchema)) {
      const any = message.grant?.authorization;
      const read = any === undefined ? undefined : decodeMessage(authz.GenericAuthorizationSchema, any.value);
      if (read?.ok === true) this.grants.push([message.granter, read.message.msg]);
    }
  }

  #beginBlock(): void {
    const { ctx } = this.chain;
    this.#terms.beginBlock(ctx);
    this.#parts = partsOfLife(this.chain);
  }

  /** Ends the block, and asserts that money is exact: the supply, and what each account gets that settlement alone pays. */
  endBlock(): void {
    const { chain } = this;
    assert.equal(getSupply(chain.ctx, "upokt"), this.#supply, "messages change the supply");
    const balancesBefore = this.#ledgerAccounts.map((address) => this.#balance(address));
    const events = chain.endBlock();
    this.#terms.endBlock(chain.ctx);
    const expected = new Map<string, bigint>();
    const pools: [bigint, bigint] = [0n, 0n];
    for (const { type, attributes } of events) {
      const values = Object.fromEntries(attributes.map(({ key, value }) => [key, value]));
      const read = (key: string): unknown => JSON.parse(values[key] ?? "null");
      if (type === SLASHED) {
        const penalty = upoktIn(read("proof_missing_penalty"));
        this.totals.slashedUpokt += penalty;
        this.#supply -= penalty;
      }
      const end = ENDS[type];
      if (end === undefined) continue;
      const work: SettledWork = {
        applicationAddress: String(read("application_address")),
        operatorAddress: String(read("supplier_operator_address")),
        serviceId: String(read("service_id")),
        settledUpokt: type === SETTLED ? upoktIn(read("settled_upokt")) : 0n,
      };
      const endHeight = BigInt(String(read("session_end_block_height")));
      const rewards = type === SETTLED ? (read("reward_distribution") as Record<string, string> | null) : null;
      const key = `${endHeight}/${work.applicationAddress}/${work.serviceId}/${work.operatorAddress}`;
      this.#settlements.set(key, { end, settledUpokt: work.settledUpokt, rewards: rewards ?? {} });
      if (type === SETTLED) this.#addPayments(work, endHeight, { accounts: expected, pools });
    }
    for (const pool of pools) this.ledger.addRewards(expected, pool);
    for (const [i, address] of this.#ledgerAccounts.entries()) {
      const difference = this.#balance(address) - (balancesBefore[i] ?? 0n) - (expected.get(address) ?? 0n);
      const text = `${address} got ${difference} upokt more than settlement pays it`;
      assert.ok(difference <= MAX_ROUNDING_UPOKT && difference >= -MAX_ROUNDING_UPOKT, text);
    }
    this.#assertSupply();
    this.#beginBlock();
  }

  #addPayments(
    work: SettledWork,
    endHeight: bigint,
    sums: { readonly accounts: Map<string, bigint>; readonly pools: [bigint, bigint] },
  ): void {
    const { accounts, pools, mintedUpokt, inflationUpokt } = paymentsOf(this.#terms.of(endHeight), work);
    for (const [address, amount] of accounts) sums.accounts.set(address, (sums.accounts.get(address) ?? 0n) + amount);
    sums.pools[0] += pools[0];
    sums.pools[1] += pools[1];
    this.#supply += mintedUpokt + inflationUpokt - work.settledUpokt;
    this.totals.settledUpokt += work.settledUpokt;
    this.totals.mintedUpokt += mintedUpokt;
    this.totals.inflationUpokt += inflationUpokt;
  }

  #assertSupply(): void {
    const { ctx } = this.chain;
    const all = [...balances.entries(ctx)].reduce((sum, [, amount]) => sum + amount, 0n);
    assert.equal(all, getSupply(ctx, "upokt"), "supply is not the sum of all balances");
    assert.equal(all, this.#supply, "supply is not what the parameters of settlement make it");
  }

  #balance(address: string): bigint {
    return getBalance(this.chain.ctx, bytesOfAddress(address), "upokt");
  }

  /** Settlements of the served relays, by session and supplier. */
  earnings(): Map<string, Settlement | undefined> {
    return new Map([...this.served].map(([key, { work }]) => [key, this.#settlementOf(work)]));
  }

  #settlementOf({ header, supplier: by }: Work): Settlement | undefined {
    const { sessionEndBlockHeight, applicationAddress, serviceId } = header;
    return this.#settlements.get(`${sessionEndBlockHeight}/${applicationAddress}/${serviceId}/${by.address}`);
  }

  /** Asserts that each served relay is paid in full, to those who had a share in it when its session began. */
  checkPay(): void {
    for (const { work, worthUpokt } of this.served.values()) {
      const { applicationAddress, serviceId, sessionEndBlockHeight } = work.header;
      const text = `${applicationAddress} ${sessionEndBlockHeight}: ${work.relays} relays`;
      const { end, settledUpokt, rewards } = this.#settlementOf(work) ?? { end: "none", settledUpokt: 0n, rewards: {} };
      assert.equal(`${end} ${settledUpokt}`, `settled ${worthUpokt}`, text);
      const settledWork: SettledWork = {
        applicationAddress,
        operatorAddress: work.supplier.address,
        serviceId,
        settledUpokt,
      };
      const { accounts } = paymentsOf(this.#terms.of(sessionEndBlockHeight), settledWork);
      const expected = Object.fromEntries([...accounts].map(([address, amount]) => [address, `${amount}upokt`]));
      assert.deepEqual({ ...rewards }, expected, text);
    }
  }
}

const keyOf = ({ sessionId }: session.SessionHeader, operator: string): string => `${sessionId}/${operator}`;

/** Parts of sessions' lives that a block is in: of the session under way, and of those that ended. */
function partsOfLife({ ctx, block }: LifeChain): string[] {
  const now = block.heightBlocks;
  const { startHeight, endHeight } = sessionAt(getSharedParamsAt(ctx, now), now);
  const parts = new Set([now === startHeight ? "first block" : now === endHeight ? "last block" : "under way"]);
  for (let end = startHeight - 1n; end > 0n && end > now - 2n * MAX_WINDOW_BLOCKS; ) {
    const params = getSharedParamsAt(ctx, end);
    const { claimOpenHeight, claimCloseHeight, settlementHeight } = sessionWindows(params, end);
    if (now === settlementHeight) parts.add("settlement");
    else if (now < claimOpenHeight) parts.add("before claims");
    else if (now <= claimCloseHeight) parts.add("claims");
    else if (now < settlementHeight) parts.add("proofs");
    end = sessionAt(params, end).startHeight - 1n;
  }
  return [...parts];
}

/** Order of the messages of a game's blocks, and the blocks in which suppliers serve. */
interface PlayOptions extends GameOptions {
  /** Height after which no relays are served any more. */
  readonly lastServedHeight?: bigint;
  /** Block whose messages, claims and proofs are run in the opposite order. */
  readonly reversedHeight?: bigint;
  readonly onBegin?: (game: Game) => void;
  /** Kinds of the moves; those of random games by default. */
  readonly kinds?: readonly MoveKind[];
  /** Maximum number of times that a move is made by and to others, until one is accepted; 1 by default. */
  readonly maxTries?: number;
}

/** Plays a game: the moves of each height in an order, with claims and proofs anywhere among them. */
export function playGame(opts: PlayOptions, heights: readonly (readonly Move[])[], seed: number): Game {
  const { kinds = MOVES, lastServedHeight, maxTries = 1 } = opts;
  const game = new Game(opts);
  opts.onBegin?.(game);
  for (let at = 0; at < NUM_HEIGHTS + NUM_IDLE_BLOCKS; at++) {
    const height = game.chain.block.heightBlocks;
    const isIdle = at >= NUM_HEIGHTS;
    const serves = !isIdle && ((seed >> (at % 16)) & 1) === 0 && !opts.single;
    if (serves && (lastServedHeight === undefined || height <= lastServedHeight)) game.serve(seed + at);
    const moves = (heights[at] ?? []).map((move) => () => {
      for (let i = 0; i < maxTries; i++) {
        const { kind, who, to, amount } = move;
        if (game.move(pick(kinds, kind), { kind, who: who + i, to: to + (i >> 2), amount: amount + (i >> 1) })) return;
      }
    });
    const work = [() => game.claimWithoutWork(), ...game.dueWork(isIdle ? 0 : seed + at)];
    const actions = [...moves, ...work];
    const first = (seed >> 3) % actions.length;
    const inOrder = [...actions.slice(first), ...actions.slice(0, first)];
    for (const action of height === opts.reversedHeight ? inOrder.toReversed() : inOrder) action();
    game.endBlock();
  }
  return game;
}

/** Coins of a party, and what it has staked. */
export function worthOf(game: Game, { address }: Party): bigint {
  const { ctx } = game.chain;
  const stakes = [getApplication(ctx, address), getGateway(ctx, address), getDehydratedSupplier(ctx, address)];
  return stakes.reduce(
    (sum, record) => sum + BigInt(record?.stake?.amount ?? "0"),
    getBalance(ctx, bytesOfAddress(address), "upokt") + game.ledger.tokensOf(address),
  );
}
