import assert from "node:assert/strict";
import { application, gateway, proof, service, shared, supplier, tokenomics } from "@turnpike/proto";
import { numPendingSessions, sessionAt, sessionWindows, stakeAfterSessions } from "@turnpike/protocol";
import { getApplication, stakeUpokt } from "../src/modules/application/state.ts";
import { balances, getBalance, getSupply } from "../src/modules/bank/balances.ts";
import { getGateway } from "../src/modules/gateway/state.ts";
import { getComputeUnitsPerRelayAt, getService } from "../src/modules/service/state.ts";
import { isSettled } from "../src/modules/session/history.ts";
import { hydrateSession } from "../src/modules/session/hydrate.ts";
import { getSharedParams, getSharedParamsAt, protocolParams } from "../src/modules/shared/state.ts";
import { getDehydratedSupplier } from "../src/modules/supplier/state.ts";
import { getTokenomicsParams } from "../src/modules/tokenomics/state.ts";
import { upokt } from "../src/state/stakes.ts";
import { addressOf } from "./modules/tokenomics/economy.ts";
import { bytesOfAddress } from "./recorded-tx.ts";
import { GOV, LifeChain, multisigKey, type Party, Work } from "./session-life.ts";

/** A move of a game: a message of one kind, by and to somebody. */
export interface Move {
  readonly kind: number;
  readonly who: number;
  readonly to: number;
  readonly amount: number;
}

const UNITS = 1_000_000n;
const MILLIONTHS = 1_000_000n;
const SERVICES = ["svc", "svc2"] as const;
const [FIRST_HEIGHT, LAST_HEIGHT] = [9n, 30n];
/** Suppliers of a session: fewer than there are, so that they compete. */
const SEATS = 3;

interface Served {
  readonly work: Work;
  /** Compute units of a relay, in the session. */
  readonly units: bigint;
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

/** More blocks than there are from a session's end to its claim window. */
const MAX_WINDOW_BLOCKS = 12n;

const pick = <T>(list: readonly T[], at: number): T => {
  const one = list[at % list.length];
  assert.ok(one !== undefined);
  return one;
};

/** A game: parties make moves at every height of several sessions' lives, while suppliers serve what they are sure of. */
export class Game {
  readonly chain: LifeChain;
  readonly applications: readonly Party[];
  readonly gateways: readonly Party[];
  /** Suppliers that serve, and claim what they served. */
  readonly suppliers: readonly Party[];
  /** Suppliers that serve nothing, and claim in every session that draws them. */
  readonly liars: readonly Party[];
  readonly owners: readonly Party[];
  readonly served = new Map<string, Served>();
  readonly accepted = new Map<number, number>();
  readonly #proveAll: boolean;

  /** @param single one party is application, gateway, supplier and owner of everything */
  constructor(opts: { readonly proveAll: boolean; readonly single: boolean }) {
    this.#proveAll = opts.proveAll;
    const chain = new LifeChain({ proveAll: opts.proveAll, seats: SEATS });
    this.chain = chain;
    const named = (names: readonly string[]): Party[] =>
      opts.single ? [chain.addPartyOnce("dealer")] : names.map((name) => chain.addPartyOnce(name));
    this.applications = named(["app 1", "app 2", "app 3"]);
    const bad = opts.single ? [] : [chain.addParty("bad gateway", multisigKey("bad gateway"))];
    this.gateways = [...named(["gateway 1", "gateway 2"]), ...bad];
    this.suppliers = named(["supplier 1", "supplier 2", "supplier 3"]);
    this.liars = opts.single ? [] : named(["liar 1", "liar 2"]);
    this.owners = named(["owner 1", "owner 2"]);
    for (const [i, id] of SERVICES.entries()) chain.addService(pick(this.owners, i), id, UNITS);
    for (const app of this.applications.slice(0, 2)) chain.stakeApplication(app, "svc", 120_000_000n);
    for (const one of this.gateways) chain.stakeGateway(one);
    for (const one of this.allSuppliers) chain.stakeSupplier(one, "svc");
    for (const app of this.applications) chain.delegate(app, pick(this.gateways, 0));
    chain.runTo(FIRST_HEIGHT);
  }

  get allSuppliers(): readonly Party[] {
    return [...this.suppliers, ...this.liars];
  }

  /** True when every claim is proven. */
  get provesAll(): boolean {
    return this.#proveAll;
  }

  /** The party that is everything, in a game of one. */
  get dealer(): Party {
    return pick(this.applications, 0);
  }

  /** Relays that a supplier is sure to be paid for, at a height of the session, by what it can read. */
  #sureRelays(app: Party, suppliers: number, units: bigint): number {
    const { ctx, block } = this.chain;
    const record = getApplication(ctx, app.address);
    const params = protocolParams(getSharedParamsAt(ctx, block.heightBlocks));
    const { startHeight } = sessionAt(params, block.heightBlocks);
    const open: { readonly pendingSessions: bigint }[] = [];
    for (let end = startHeight - 1n; end > 0n && !isSettled(ctx, end); ) {
      const then = protocolParams(getSharedParamsAt(ctx, end));
      open.push({ pendingSessions: numPendingSessions(then) });
      end = sessionAt(then, end).startHeight - 1n;
    }
    if (record === undefined) return 0;
    const pending = numPendingSessions(params) * BigInt(Math.max(1, record.serviceConfigs.length));
    const part = stakeAfterSessions(stakeUpokt(record), open) / pending;
    const limit = BigInt(record.perSessionSpendLimit?.amount ?? "0");
    const share = (limit > 0n && limit < part ? limit : part) / BigInt(suppliers);
    const inflation = BigInt(Math.ceil(getTokenomicsParams(ctx).globalInflationPerClaim * Number(MILLIONTHS)));
    return Number((share * MILLIONTHS) / (MILLIONTHS + inflation) / units);
  }

  /** Serves relays of every session that is open, signed by who may, as far as they are sure to be paid. */
  serve(seed: number): void {
    const { chain } = this;
    const { heightBlocks } = chain.block;
    const { startHeight } = sessionAt(getSharedParams(chain.ctx), heightBlocks);
    // A change in a session's first block is visible in the next block.
    if (heightBlocks === startHeight) return;
    for (const app of this.applications) {
      for (const serviceId of SERVICES) {
        const read = hydrateSession(chain.ctx, app.address, serviceId, heightBlocks);
        if (!read.ok || read.value.header === undefined) continue;
        const { header, suppliers } = read.value;
        for (const operator of this.suppliers) {
          const key = `${header.sessionId}/${operator.address}`;
          const drawn = suppliers.some(({ operatorAddress }) => operatorAddress === operator.address);
          if (!drawn || this.served.has(key)) continue;
          const units = getComputeUnitsPerRelayAt(chain.ctx, serviceId, startHeight) ?? 0n;
          assert.ok(units > 0n);
          const relays = Math.min(4, this.#sureRelays(app, suppliers.length, units));
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
    if (this.#proveAll) work.serve(relays, [app.publicKey, signer.publicKey], signer, units);
    else work.invent(relays, units);
    return { work, units, claimed: false, proven: false };
  }

  /** Claims of the liars for relays that nobody sent, in each session that draws them, up to all that its application has. */
  lie(): void {
    const { chain } = this;
    for (const end of this.#endsToClaim()) {
      for (const app of this.applications) {
        for (const serviceId of SERVICES) {
          const read = hydrateSession(chain.ctx, app.address, serviceId, end);
          if (!read.ok || read.value.header === undefined) continue;
          const { header } = read.value;
          const units = getComputeUnitsPerRelayAt(chain.ctx, serviceId, header.sessionStartBlockHeight) ?? 0n;
          for (const liar of this.liars) chain.claim(new Work(header, liar).invent(1_000, units));
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

  /** Claims and proves what is due, at some block of its window. */
  submit(seed: number): void {
    const { chain } = this;
    const now = chain.block.heightBlocks;
    for (const one of this.served.values()) {
      const { claimOpenHeight, claimCloseHeight, proofOpenHeight, proofCloseHeight } = chain.windowsOf(one.work.header);
      const isTime = (open: bigint, close: bigint): boolean => now === close || (now >= open && seed % 2 === 0);
      if (!one.claimed && now <= claimCloseHeight && isTime(claimOpenHeight, claimCloseHeight)) {
        const sent = chain.claim(one.work);
        assert.ok(sent.ok, sent.ok ? "" : `claim at ${now}: ${sent.fault.text}`);
        one.claimed = true;
      }
      if (
        this.#proveAll &&
        one.claimed &&
        !one.proven &&
        now <= proofCloseHeight &&
        isTime(proofOpenHeight, proofCloseHeight)
      ) {
        const sent = chain.prove(one.work);
        const text = sent.ok ? "" : sent.fault.text;
        assert.ok(sent.ok || text.includes("not required"), `proof at ${now}: ${text}`);
        one.proven = true;
      }
    }
  }

  move(move: Move): void {
    const result = pick(MOVES, move.kind)(this, move);
    if (result.ok) this.accepted.set(move.kind % MOVES.length, (this.accepted.get(move.kind % MOVES.length) ?? 0) + 1);
  }

  endBlock(): void {
    this.chain.runTo(this.chain.block.heightBlocks + 1n);
    const { ctx } = this.chain;
    const all = [...balances.entries(ctx)].reduce((sum, [, amount]) => sum + amount, 0n);
    assert.equal(all, getSupply(ctx, "upokt"));
  }

  /** Asserts that each served relay is paid in full. */
  checkPay(): void {
    for (const { work, units } of this.served.values()) {
      const { applicationAddress, sessionEndBlockHeight } = work.header;
      const expected = { end: "settled", settledUpokt: work.relays * units };
      const text = `${applicationAddress} ${sessionEndBlockHeight}: ${work.relays} relays`;
      const outcome = this.chain.outcomeOf(work);
      assert.equal(`${outcome.end} ${outcome.settledUpokt}`, `${expected.end} ${expected.settledUpokt}`, text);
    }
  }
}

const paramMove = (game: Game, { to, amount }: Move) => {
  const { chain } = game;
  const float = (schema: typeof tokenomics.MsgUpdateParamSchema, name: string, value: number) =>
    chain.send(schema, { authority: GOV, name, asType: { case: "asFloat", value } });
  const blocks = (name: string, value: bigint) =>
    chain.send(shared.MsgUpdateParamSchema, { authority: GOV, name, asType: { case: "asUint64", value } });
  switch (to % 6) {
    case 0:
      return float(tokenomics.MsgUpdateParamSchema, "mint_ratio", pick([0.1, 0.5, 1], amount));
    case 1:
      return float(tokenomics.MsgUpdateParamSchema, "global_inflation_per_claim", pick([0, 0.1, 0.9], amount));
    case 2:
      return blocks("proof_window_close_offset_blocks", BigInt(1 + (amount % 4)));
    case 3:
      return blocks("claim_window_close_offset_blocks", BigInt(1 + (amount % 4)));
    case 4:
      // Unsigned relays cannot be proven.
      if (!game.provesAll) return { ok: false };
      return chain.send(proof.MsgUpdateParamsSchema, {
        authority: GOV,
        params: {
          proofRequestProbability: pick([0, 0.5, 1], amount),
          proofRequirementThreshold: upokt(pick([1n, 10n ** 12n], amount)),
          proofMissingPenalty: upokt(10_000_000n),
          proofSubmissionFee: upokt(1n),
        },
      });
    default:
      return blocks("num_blocks_per_session", BigInt(3 + (amount % 4)));
  }
};

const stakeMove = (game: Game, { who, to, amount }: Move) => {
  const app = pick(game.applications, who);
  const record = getApplication(game.chain.ctx, app.address);
  const stake = record === undefined ? 120_000_000n : stakeUpokt(record) + 1n;
  const limit = [undefined, 0n, 1_000_000n, 9_000_000n][amount % 4];
  return game.chain.stakeApplication(app, pick(SERVICES, to % 5 === 0 ? 1 : 0), stake, limit);
};

/** Every message of an application, gateway, supplier, owner of a service and authority. */
const MOVES: readonly ((game: Game, move: Move) => { readonly ok: boolean })[] = [
  stakeMove,
  stakeMove,
  (game, { who }) =>
    game.chain.send(application.MsgUnstakeApplicationSchema, { address: pick(game.applications, who).address }),
  (game, { who, to }) => game.chain.delegate(pick(game.applications, who), pick(game.gateways, to)),
  (game, { who, to }) => game.chain.undelegate(pick(game.applications, who), pick(game.gateways, to)),
  (game, { who, to }) => game.chain.transfer(pick(game.applications, who), pick(game.applications, to)),
  (game, { who }) => game.chain.send(gateway.MsgUnstakeGatewaySchema, { address: pick(game.gateways, who).address }),
  (game, { who, amount }) => game.chain.stakeGateway(pick(game.gateways, who), 2_000_000n + BigInt(amount)),
  (game, { who, to, amount }) =>
    game.chain.stakeSupplier(pick(game.allSuppliers, who), pick(SERVICES, to), [
      [pick(game.owners, amount), 40n],
      [pick(game.allSuppliers, who), 60n],
    ]),
  (game, { who }) => {
    const { address } = pick(game.allSuppliers, who);
    return game.chain.send(supplier.MsgUnstakeSupplierSchema, { signer: address, operatorAddress: address });
  },
  (game, { who, to, amount }) => {
    const serviceId = pick(SERVICES, who);
    const ownerAddress = getService(game.chain.ctx, serviceId)?.ownerAddress ?? "";
    const newOwnerAddress = pick([...game.owners, ...game.gateways], to + amount).address;
    return game.chain.send(service.MsgTransferServiceSchema, { ownerAddress, serviceId, newOwnerAddress });
  },
  (game, { who, amount }) => {
    const id = pick(SERVICES, who);
    const ownerAddress = getService(game.chain.ctx, id)?.ownerAddress ?? "";
    const computeUnitsPerRelay = UNITS + BigInt(amount % 3) * 250_000n;
    return game.chain.send(service.MsgAddServiceSchema, {
      ownerAddress,
      service: { id, name: id, computeUnitsPerRelay, ownerAddress },
    });
  },
  paramMove,
];

/** Number of kinds of moves. */
export const NUM_MOVES: number = MOVES.length;

/** Plays a game: the moves of each height in their order, suppliers before or after them. */
export function playGame(
  opts: { readonly proveAll: boolean; readonly single: boolean },
  heights: readonly (readonly Move[])[],
  seed: number,
  onBegin?: (game: Game) => void,
): Game {
  const game = new Game(opts);
  onBegin?.(game);
  for (let height = FIRST_HEIGHT; height <= LAST_HEIGHT; height++) {
    const at = Number(height - FIRST_HEIGHT);
    const bits = (seed >> (at % 16)) & 1;
    if (bits === 0) game.serve(seed + at);
    for (const move of heights[at] ?? []) game.move(move);
    game.lie();
    game.submit(seed + at);
    game.endBlock();
  }
  for (let idle = 0; idle < 30; idle++) {
    game.lie();
    game.submit(0);
    game.endBlock();
  }
  return game;
}

/** Coins of a party and of the validator, and what the party has staked. */
export function worthOf(game: Game, { address }: Party): bigint {
  const { ctx } = game.chain;
  const stakes = [getApplication(ctx, address), getGateway(ctx, address), getDehydratedSupplier(ctx, address)];
  const balanceOf = (text: string): bigint => getBalance(ctx, bytesOfAddress(text), "upokt");
  return stakes.reduce(
    (sum, record) => sum + BigInt(record?.stake?.amount ?? "0"),
    balanceOf(address) + balanceOf(addressOf("validator 0")),
  );
}
