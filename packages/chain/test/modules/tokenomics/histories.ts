import assert from "node:assert/strict";
import { moduleAddress, sha256 } from "@turnpike/crypto";
import {
  application,
  bank,
  createMessage,
  gateway,
  proof,
  service,
  shared,
  supplier,
  tokenomics,
} from "@turnpike/proto";
import { sessionWindows } from "@turnpike/protocol";
import { pocketMachine } from "../../../src/app/pocket-machine.ts";
import { applications } from "../../../src/modules/application/state.ts";
import { balances, getBalance, getSupply } from "../../../src/modules/bank/balances.ts";
import { gateways } from "../../../src/modules/gateway/state.ts";
import { claims, setClaim } from "../../../src/modules/proof/state.ts";
import { getComputeUnitsPerRelayAt } from "../../../src/modules/service/state.ts";
import { outlineSession } from "../../../src/modules/session/hydrate.ts";
import { getSharedParamsAt, protocolParams } from "../../../src/modules/shared/state.ts";
import { getSupplierParams, suppliers } from "../../../src/modules/supplier/state.ts";
import type { BlockInfo, ChainEvent, Context } from "../../../src/state/context.ts";
import { upokt } from "../../../src/state/stakes.ts";
import { bytesOfAddress, fund } from "../../recorded-tx.ts";
import { TestChain } from "../../run-message.ts";
import { addressOf, addValidator } from "./economy.ts";
import { FLOATS, PARAMS, SHARES } from "./params.ts";

/** Who the histories are about, by name. */
export const NAMES = ["a", "b", "c", "d", "e"] as const;
const SERVICES = ["one", "two"] as const;
const AUTHORITY = moduleAddress("gov");
const PURSE = 10n ** 15n;

const { machine, modules } = pocketMachine({ gasPrices: [] });
const handlers = new Map(modules.flatMap(({ messages = {} }) => Object.entries(messages)));

/** A step of a history: what, by whom, to whom, and how much. */
export interface Step {
  readonly kind: number;
  readonly who: number;
  readonly to: number;
  readonly amount: bigint;
  readonly param: number;
}

const at = (i: number): string => addressOf(NAMES[i % NAMES.length] ?? "a");
const serviceAt = (i: number): string => SERVICES[i % SERVICES.length] ?? "one";

/** A chain of all modules whose blocks have hashes of their own, and whose money is counted. */
export class HistoryChain extends TestChain {
  readonly #paid = new Set<string>();
  /** What the stakers of suppliers have paid into the module's account beside their stakes. */
  feesUpokt = 0n;

  constructor() {
    const params = createMessage(shared.ParamsSchema, {
      numBlocksPerSession: 4n,
      gracePeriodEndOffsetBlocks: 0n,
      claimWindowOpenOffsetBlocks: 0n,
      claimWindowCloseOffsetBlocks: 2n,
      proofWindowOpenOffsetBlocks: 1n,
      proofWindowCloseOffsetBlocks: 1n,
      supplierUnbondingPeriodSessions: 1n,
      applicationUnbondingPeriodSessions: 1n,
      gatewayUnbondingPeriodSessions: 1n,
      computeUnitsToTokensMultiplier: 42_000_000n,
      computeUnitCostGranularity: 1_000_000n,
      sessionGridAnchorHeight: 1n,
      sessionNumberAtAnchor: 1n,
    });
    super({ heightBlocks: 1n }, { machine, handlers });
    for (const i of NAMES.keys()) fund(this.ctx, at(i), PURSE);
    addValidator(this.ctx, 0, 7_000_003n);
    addValidator(this.ctx, 1, 1_000_001n);
    this.send(shared.MsgUpdateParamsSchema, { authority: AUTHORITY, params });
    // Most claims are paid and an expired one leaves its supplier some stake, so that more can happen.
    const proofParams = {
      proofRequestProbability: 0.3,
      proofRequirementThreshold: upokt(10n ** 12n),
      proofMissingPenalty: upokt(10n ** 6n),
      proofSubmissionFee: upokt(0n),
    };
    this.send(proof.MsgUpdateParamsSchema, { authority: AUTHORITY, params: proofParams });
    for (const i of SERVICES.keys()) this.#addService(i, BigInt(i) + 3n);
    for (const i of NAMES.keys()) {
      this.#stakeApplication(i, i, 10n ** 8n);
      this.#stakeSupplier(i, i, 10n ** 8n);
    }
    // The first session is over, and the parameters hold.
    this.endBlocksTo(24n);
  }

  override get block(): BlockInfo {
    const plain = super.block;
    return { ...plain, hash: sha256(Buffer.from(`block ${plain.heightBlocks}`)) };
  }

  #addService(i: number, computeUnitsPerRelay: bigint): void {
    const id = serviceAt(i);
    this.send(service.MsgAddServiceSchema, {
      ownerAddress: at(i),
      service: { id, name: id, computeUnitsPerRelay, ownerAddress: at(i) },
    });
  }

  #stakeApplication(who: number, to: number, amount: bigint): void {
    this.send(application.MsgStakeApplicationSchema, {
      address: at(who),
      stake: upokt(amount),
      services: [{ serviceId: serviceAt(to) }],
      ...(to === 0 ? { perSessionSpendLimit: upokt(amount / 3n) } : {}),
    });
  }

  #stakeSupplier(who: number, to: number, amount: bigint): void {
    const fee = BigInt(getSupplierParams(this.ctx).stakingFee?.amount ?? "0");
    const revShare = [
      { address: at(who), revSharePercentage: 33n },
      { address: at(who + 1), revSharePercentage: 67n },
    ];
    const endpoints = [{ url: "https://a.example", rpcType: shared.RPCType.JSON_RPC }];
    const sent = this.send(supplier.MsgStakeSupplierSchema, {
      signer: at(who),
      ownerAddress: at(who),
      operatorAddress: at(who),
      stake: upokt(amount),
      services: [serviceAt(to), serviceAt(to + 1)]
        .slice(0, 1 + (to % 2))
        .map((serviceId) => ({ serviceId, endpoints, revShare })),
    });
    if (sent.ok) this.feesUpokt += fee;
  }

  /** Claims one of the last sessions, whatever its window. */
  #claim({ who, to, amount, param }: Step): void {
    const { ctx } = this;
    for (let back = 1n; back <= 24n; back++) {
      const height = this.block.heightBlocks - back;
      const known = outlineSession(ctx, at(to), serviceAt(param), height);
      if (!known.ok) continue;
      const { header } = known.value;
      const units = getComputeUnitsPerRelayAt(ctx, header.serviceId, header.sessionStartBlockHeight) ?? 1n;
      const root = Buffer.alloc(48, 1 + who);
      root.writeBigUInt64BE(BigInt.asUintN(64, units * amount), 32);
      root.writeBigUInt64BE(BigInt.asUintN(64, amount), 40);
      const claim = { supplierOperatorAddress: at(who), sessionHeader: header, rootHash: Uint8Array.from(root) };
      if (this.send(proof.MsgCreateClaimSchema, claim).ok) return;
    }
  }

  /** Gives a claim the verdict that a proof would. */
  #judge({ who, amount }: Step): void {
    const all = [...claims.entries(this.ctx)];
    const found = all[Number(amount % BigInt(Math.max(1, all.length)))]?.[1];
    if (found !== undefined) setClaim(this.ctx, { ...found, proofValidationStatus: who % 2 === 0 ? 1 : 2 });
  }

  #setParam({ param, amount, who, to }: Step): void {
    const [schema, name, kind] = PARAMS[param % PARAMS.length] ?? PARAMS[0];
    const value =
      kind === "asUint64"
        ? amount
        : kind === "asCoin"
          ? upokt(amount)
          : kind === "asFloat"
            ? (FLOATS[who % FLOATS.length] ?? 0)
            : moduleAddress(to % 2 === 0 ? "gov" : "tokenomics");
    const asType = { case: kind, value } as never;
    this.send(schema as typeof shared.MsgUpdateParamSchema, { authority: AUTHORITY, name, asType });
  }

  #setShares({ who, to }: Step): void {
    const [dao = 0, proposer = 0, supplierShare = 0, sourceOwner = 0, app = 0] = SHARES[who % SHARES.length] ?? [];
    const shares = { dao, proposer, supplier: supplierShare, sourceOwner, application: app };
    this.send(tokenomics.MsgUpdateParamSchema, {
      authority: AUTHORITY,
      ...(to % 2 === 0
        ? {
            name: "mint_allocation_percentages",
            asType: { case: "asMintAllocationPercentages" as const, value: shares },
          }
        : {
            name: "mint_equals_burn_claim_distribution",
            asType: { case: "asMintEqualsBurnClaimDistribution" as const, value: shares },
          }),
    });
  }

  readonly #steps: readonly ((step: Step) => void)[] = [
    (step) => this.#claim(step),
    (step) => this.#claim(step),
    (step) => this.#claim(step),
    (step) => this.#judge(step),
    ({ who, to, amount }) => this.#stakeApplication(who, to, amount),
    ({ who }) => this.send(application.MsgUnstakeApplicationSchema, { address: at(who) }),
    ({ who, to }) =>
      this.send(application.MsgTransferApplicationSchema, { sourceAddress: at(who), destinationAddress: at(to) }),
    ({ who, to, amount }) => this.#stakeSupplier(who, to, amount),
    ({ who }) => this.send(supplier.MsgUnstakeSupplierSchema, { signer: at(who), operatorAddress: at(who) }),
    ({ who, amount }) => this.send(gateway.MsgStakeGatewaySchema, { address: at(who), stake: upokt(amount) }),
    ({ who }) => this.send(gateway.MsgUnstakeGatewaySchema, { address: at(who) }),
    ({ who, to }) => this.send(application.MsgDelegateToGatewaySchema, { appAddress: at(who), gatewayAddress: at(to) }),
    ({ who, to }) =>
      this.send(application.MsgUndelegateFromGatewaySchema, { appAddress: at(who), gatewayAddress: at(to) }),
    ({ who, amount }) => this.#addService(who, amount),
    ({ who, to }) =>
      this.send(service.MsgTransferServiceSchema, {
        ownerAddress: at(who),
        serviceId: serviceAt(who),
        newOwnerAddress: at(to),
      }),
    ({ who, to, amount }) =>
      this.send(bank.MsgSendSchema, { fromAddress: at(who), toAddress: at(to), amount: [upokt(amount)] }),
    (step) => this.#setParam(step),
    (step) => this.#setShares(step),
  ];

  /** Does a step; then, for the kinds that no message has, ends one or several blocks. */
  take(step: Step): readonly ChainEvent[] {
    const does = this.#steps[step.kind];
    if (does !== undefined) {
      does(step);
      return [];
    }
    const events: ChainEvent[] = [];
    for (let left = 1 + (step.who % 4); left > 0; left--) events.push(...this.endCheckedBlock());
    return events;
  }

  /** Ends a block, and asserts that no coin is lost, no work paid twice and no claim left behind. */
  endCheckedBlock(): readonly ChainEvent[] {
    const ended = this.block.heightBlocks;
    const events = this.endBlock();
    this.checkMoney();
    for (const { type, attributes } of events) {
      if (type !== "pocket.tokenomics.EventClaimSettled") continue;
      const names = ["session_id", "supplier_operator_address"];
      const claim = attributes.flatMap(({ key, value }) => (names.includes(key) ? [value] : [])).join();
      assert.ok(!this.#paid.has(claim), `${claim} is paid twice`);
      this.#paid.add(claim);
    }
    for (const [, { sessionHeader }] of claims.entries(this.ctx)) {
      const end = sessionHeader?.sessionEndBlockHeight ?? 0n;
      const { settlementHeight } = sessionWindows(protocolParams(getSharedParamsAt(this.ctx, end)), end);
      assert.ok(settlementHeight > ended, `a claim of the session that ended at ${end} is left behind at ${ended}`);
    }
    return events;
  }

  /** Asserts that every coin is where the records say. */
  checkMoney(): void {
    const { ctx } = this;
    const all = [...balances.entries(ctx)].reduce((sum, [, amount]) => sum + amount, 0n);
    assert.equal(all, getSupply(ctx, "upokt"));
    assert.equal(held(ctx, "application"), stakesOf([...applications.entries(ctx)]));
    assert.equal(held(ctx, "gateway"), stakesOf([...gateways.entries(ctx)]));
    assert.equal(held(ctx, "supplier"), stakesOf([...suppliers.entries(ctx)]) + this.feesUpokt);
  }
}

/** How many kinds of steps there are that send something; those above end blocks. */
export const NUM_SENDING_STEPS = 18;

const held = (ctx: Context, name: string): bigint => getBalance(ctx, bytesOfAddress(moduleAddress(name)), "upokt");

type Staker = readonly [unknown, { readonly stake?: { readonly amount: string } | undefined }];

const stakesOf = (list: readonly Staker[]): bigint =>
  list.reduce((sum, [, { stake }]) => sum + BigInt(stake?.amount ?? "0"), 0n);
