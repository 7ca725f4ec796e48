import { type AccountAddress, AppError } from "@turnpike/base";
import { type Rational, scaleFloor } from "../rational.ts";
import { inflationUpokt } from "./budget.ts";
import type { SettlementEvent } from "./events.ts";
import { coinText, OP_REASON, type OpReason, type SettlementModule, type ValidatorPool } from "./reasons.ts";
import { payShareholders } from "./supplier-share.ts";
import type { DueClaim, Operation, SettlementApplication, SettlementSupplier } from "./types.ts";

/** Parts of one minted amount as fractions; the DAO takes what is left. */
export interface ShareRates {
  readonly supplier: Rational;
  readonly proposer: Rational;
  readonly sourceOwner: Rational;
  readonly application: Rational;
}

/** The float parameters of settlement, as fractions. */
export interface SettlementRates {
  readonly inflation: Rational;
  readonly mintRatio: Rational;
  /** The mint ratio as decimal text. */
  readonly mintRatioText: string;
  readonly ofMint: ShareRates;
  readonly ofInflation: ShareRates;
  readonly daoRewardAddress: AccountAddress;
}

/** What one claim moves, before claims are added up. */
export interface ClaimResult {
  readonly due: DueClaim | undefined;
  readonly operations: Operation[];
}

/** What the modules work on for one claim. They change the application, the result, the pools and the events. */
export interface ModuleContext {
  readonly due: DueClaim;
  readonly settledUpokt: bigint;
  readonly application: { -readonly [K in keyof SettlementApplication]: SettlementApplication[K] };
  readonly supplier: SettlementSupplier;
  readonly service: { readonly id: string; readonly ownerAddress: AccountAddress };
  readonly rates: SettlementRates;
  readonly result: ClaimResult;
  readonly pools: Map<ValidatorPool, bigint>;
  readonly emit: (event: SettlementEvent) => void;
}

/** The reasons that one module gives for its payouts. */
interface ShareReasons {
  readonly toSupplierModule: OpReason;
  readonly supplier: OpReason;
  readonly sourceOwner: OpReason;
  readonly application: OpReason;
  readonly dao: OpReason;
  readonly pool: ValidatorPool;
}

type Payee = "supplier" | "proposer" | "sourceOwner" | "dao" | "application";

const MINT_REASONS: ShareReasons = {
  toSupplierModule: OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_SUPPLIER_SHAREHOLDER_REWARD_DISTRIBUTION,
  supplier: OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_SUPPLIER_SHAREHOLDER_REWARD_DISTRIBUTION,
  sourceOwner: OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_SOURCE_OWNER_REWARD_DISTRIBUTION,
  application: OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_APPLICATION_REWARD_DISTRIBUTION,
  dao: OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_DAO_REWARD_DISTRIBUTION,
  pool: OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_VALIDATOR_REWARD_DISTRIBUTION,
};

const INFLATION_REASONS: ShareReasons = {
  // @NOTE the chain names the reimbursement's reason here, not the one meant for this transfer.
  toSupplierModule: OP_REASON.TLM_GLOBAL_MINT_REIMBURSEMENT_REQUEST_ESCROW_MODULE_TRANSFER,
  supplier: OP_REASON.TLM_GLOBAL_MINT_SUPPLIER_SHAREHOLDER_REWARD_DISTRIBUTION,
  sourceOwner: OP_REASON.TLM_GLOBAL_MINT_SOURCE_OWNER_REWARD_DISTRIBUTION,
  application: OP_REASON.TLM_GLOBAL_MINT_APPLICATION_REWARD_DISTRIBUTION,
  dao: OP_REASON.TLM_GLOBAL_MINT_DAO_REWARD_DISTRIBUTION,
  pool: OP_REASON.TLM_GLOBAL_MINT_VALIDATOR_REWARD_DISTRIBUTION,
};

const MINT_ORDER: readonly Payee[] = ["supplier", "proposer", "sourceOwner", "dao", "application"];
const INFLATION_ORDER: readonly Payee[] = ["supplier", "application", "sourceOwner", "proposer", "dao"];

/** Splits a minted amount: each part rounded down, the DAO takes what is left. */
export function splitMint(amountUpokt: bigint, rates: ShareRates): Readonly<Record<Payee, bigint>> {
  const supplier = scaleFloor(amountUpokt, rates.supplier);
  const proposer = scaleFloor(amountUpokt, rates.proposer);
  const sourceOwner = scaleFloor(amountUpokt, rates.sourceOwner);
  const application = scaleFloor(amountUpokt, rates.application);
  const dao = amountUpokt - supplier - proposer - sourceOwner - application;
  if (dao < 0n) throw new AppError("INTERNAL", { message: "the shares of a minted amount exceed it" });
  return { supplier, proposer, sourceOwner, dao, application };
}

function addTransfer(context: ModuleContext, recipient: AccountAddress, reason: OpReason, amountUpokt: bigint): void {
  context.result.operations.push({ kind: "mod_to_acct", sender: "tokenomics", recipient, reason, amountUpokt });
}

function addMove(
  context: ModuleContext,
  sender: SettlementModule,
  recipient: SettlementModule,
  reason: OpReason,
  amountUpokt: bigint,
): void {
  context.result.operations.push({ kind: "mod_to_mod", sender, recipient, reason, amountUpokt });
}

function paySupplier(context: ModuleContext, reasons: ShareReasons, amountUpokt: bigint): string | undefined {
  addMove(context, "tokenomics", "supplier", reasons.toSupplierModule, amountUpokt);
  const { supplier, service, due } = context;
  const payout = payShareholders({
    supplier,
    serviceId: service.id,
    shares: due.revShare,
    sessionEndHeight: due.claim.sessionHeader.sessionEndBlockHeight,
    reason: reasons.supplier,
    amountUpokt,
  });
  if (!payout.ok) {
    return `queueing operation: distributing rewards to supplier with operator address ${supplier.operatorAddress} shareholders: ${payout.error}: internal token logic module error`;
  }
  for (const transfer of payout.transfers) context.result.operations.push(transfer);
  for (const event of payout.events) context.emit(event);
  return undefined;
}

function distribute(
  context: ModuleContext,
  amountUpokt: bigint,
  rates: ShareRates,
  reasons: ShareReasons,
  order: readonly Payee[],
): string | undefined {
  const parts = splitMint(amountUpokt, rates);
  for (const payee of order) {
    const part = parts[payee];
    if (part === 0n) continue;
    switch (payee) {
      case "supplier": {
        const error = paySupplier(context, reasons, part);
        if (error !== undefined) return error;
        break;
      }
      case "proposer":
        context.pools.set(reasons.pool, (context.pools.get(reasons.pool) ?? 0n) + part);
        break;
      case "sourceOwner":
        addTransfer(context, context.service.ownerAddress, reasons.sourceOwner, part);
        break;
      case "dao":
        addTransfer(context, context.rates.daoRewardAddress, reasons.dao, part);
        break;
      case "application":
        addTransfer(context, context.application.address, reasons.application, part);
        break;
    }
  }
  return undefined;
}

/** Module 1: burns what is settled from the application's stake, mints a part of it and shares that out. */
function relayBurnEqualsMint(context: ModuleContext): string | undefined {
  const { application, settledUpokt, rates, result } = context;
  result.operations.push({
    kind: "burn",
    module: "application",
    reason: OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_APPLICATION_STAKE_BURN,
    amountUpokt: settledUpokt,
  });
  if (application.stakeUpokt < settledUpokt) {
    return `application ${JSON.stringify(application.address)} stake cannot be reduced to a negative amount ${coinText(application.stakeUpokt - settledUpokt)}: application stake cannot be reduced to a -ve amount`;
  }
  application.stakeUpokt -= settledUpokt;
  const minted = scaleFloor(settledUpokt, rates.mintRatio);
  if (minted === 0n) {
    return `mint amount truncated to zero for settlement ${settledUpokt} with mint_ratio ${rates.mintRatioText}: internal token logic module error`;
  }
  result.operations.push({
    kind: "mint",
    module: "tokenomics",
    reason: OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_TOKENOMICS_CLAIM_DISTRIBUTION_MINT,
    amountUpokt: minted,
  });
  return distribute(context, minted, rates.ofMint, MINT_REASONS, MINT_ORDER);
}

/** Module 2: mints inflation on what is settled and shares it out. */
function globalMint(context: ModuleContext): string | undefined {
  const { rates, settledUpokt, result } = context;
  const minted = inflationUpokt(settledUpokt, rates.inflation);
  result.operations.push({
    kind: "mint",
    module: "tokenomics",
    reason: OP_REASON.TLM_GLOBAL_MINT_INFLATION,
    amountUpokt: minted,
  });
  return distribute(context, minted, rates.ofInflation, INFLATION_REASONS, INFLATION_ORDER);
}

/** Module 3: charges the application the same inflation, for the DAO to give back to it later. */
function reimbursementRequest(context: ModuleContext): string | undefined {
  const { application, supplier, service, rates, due } = context;
  const amount = inflationUpokt(context.settledUpokt, rates.inflation);
  if (application.stakeUpokt < amount) return "negative coin amount";
  application.stakeUpokt -= amount;
  const moved = OP_REASON.TLM_GLOBAL_MINT_REIMBURSEMENT_REQUEST_ESCROW_MODULE_TRANSFER;
  addMove(context, "application", "tokenomics", moved, amount);
  const paid = OP_REASON.TLM_GLOBAL_MINT_REIMBURSEMENT_REQUEST_ESCROW_DAO_TRANSFER;
  addTransfer(context, rates.daoRewardAddress, paid, amount);
  context.emit({
    type: "pocket.tokenomics.EventApplicationReimbursementRequest",
    value: {
      applicationAddr: application.address,
      supplierOperatorAddr: supplier.operatorAddress,
      supplierOwnerAddr: supplier.ownerAddress,
      serviceId: service.id,
      sessionId: due.claim.sessionHeader.sessionId,
      amount: coinText(amount),
    },
  });
  return undefined;
}

/**
 * Runs the token logic modules on one claim. An error text means that the claim is discarded, and that what was changed
 * until then must be dropped.
 */
export function runTokenLogicModules(context: ModuleContext): string | undefined {
  const wrap = (name: string, error: string | undefined) =>
    error === undefined ? undefined : `TLM ${JSON.stringify(name)}: ${error}: failed to process token logic module`;
  const burned = wrap("TLMRelayBurnEqualsMint", relayBurnEqualsMint(context));
  if (burned !== undefined || context.rates.inflation.num === 0n) return burned;
  return (
    wrap("TLMGlobalMint", globalMint(context)) ??
    wrap("TLMGlobalMintReimbursementRequest", reimbursementRequest(context))
  );
}
