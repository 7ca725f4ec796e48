import { createMessage, tokenomics } from "@turnpike/proto";
import { addRational, compareRational, float64ToRational, rational } from "@turnpike/protocol";
import { addressFault } from "../../state/addresses.ts";
import { goQuoted, goTypeOfValue } from "../../state/go-text.ts";
import type { MessageHandler } from "../../state/module.ts";
import { done, fail, type Outcome, type TxFault } from "../../state/outcome.ts";
import { type Parsed, parsedRecord } from "../../state/parsed.ts";
import { pastTokenomicsParams } from "../session/history.ts";
import { revalidatedParamMessages } from "../shared/messages.ts";
import { TOKENOMICS } from "./errors.ts";
import { DEFAULT_TOKENOMICS_PARAMS, tokenomicsParams } from "./state.ts";

type Shares = Pick<
  tokenomics.MintAllocationPercentages,
  "dao" | "proposer" | "supplier" | "sourceOwner" | "application"
>;

const MOST_BONUS = 1000n;
const BASIS_POINTS = 10_000;
const NO_SHARES: Shares = { dao: 0, proposer: 0, supplier: 0, sourceOwner: 0, application: 0 };

const wrong = (text: string): TxFault => fail(TOKENOMICS.param, text).fault;

function sharesFault(shares: Shares, sumText: (sum: string) => string): TxFault | undefined {
  const named = [
    ["DAO", shares.dao],
    ["proposer", shares.proposer],
    ["supplier", shares.supplier],
    ["source owner", shares.sourceOwner],
    ["application", shares.application],
  ] as const;
  for (const [actor, share] of named) {
    // A share that is no number passes on the real chain, and stops its settlement.
    if (!(share >= 0 && Number.isFinite(share))) {
      return wrong(`mint allocation to ${actor} must be greater than or equal to 0: got ${share.toFixed(6)}`);
    }
  }
  const points = named.reduce((sum, [, share]) => sum + Math.round(share * BASIS_POINTS), 0);
  // Rounded to basis points they may pass on the real chain and exceed 1, which would stop settlement.
  const exact = named.reduce((sum, [, share]) => addRational(sum, float64ToRational(share)), rational(0n, 1n));
  const fits = points === BASIS_POINTS && compareRational(exact, rational(1n, 1n)) <= 0;
  return fits ? undefined : wrong(sumText((points / BASIS_POINTS).toFixed(6)));
}

function allocationFault(shares: Shares): TxFault | undefined {
  const sumText = (sum: string) =>
    `mint allocation percentages do not add to 1.0: got ${sum} instead. This is greater than the acceptable epsilon of 0.000000`;
  return sharesFault(shares, sumText);
}

function distributionFault(shares: Shares): TxFault | undefined {
  return sharesFault(shares, (sum) => `mint equals burn claim distribution percentages do not add to 1.0: got ${sum}`);
}

function daoFault(address: string): TxFault | undefined {
  const fault = addressFault(address);
  return fault === undefined ? undefined : wrong(`invalid dao reward address ${goQuoted(address)}: ${fault}`);
}

function inflationFault(inflation: number): TxFault | undefined {
  if (inflation >= 0 && Number.isFinite(inflation)) return undefined;
  return wrong(`GlobalInflationPerClaim must be greater than or equal to 0: ${inflation.toFixed(6)}`);
}

function ratioFault(ratio: number): TxFault | undefined {
  return ratio > 0 && ratio <= 1 ? undefined : wrong(`mint_ratio must be in range (0, 1]: got ${ratio.toFixed(6)}`);
}

function bonusFault(multiplier: bigint): TxFault | undefined {
  if (multiplier <= MOST_BONUS) return undefined;
  return wrong(
    `overservicing_bonus_multiplier (${multiplier}) must be <= ${MOST_BONUS}; values at or above num_suppliers_per_session already remove the cap in practice (the application's per-session budget binds first), so a larger value has no effect and is most likely a mistake`,
  );
}

/** What is wrong with parameters; undefined when nothing is. */
export function tokenomicsParamsFault(params: tokenomics.Params): TxFault | undefined {
  return (
    allocationFault(params.mintAllocationPercentages ?? NO_SHARES) ??
    daoFault(params.daoRewardAddress) ??
    inflationFault(params.globalInflationPerClaim) ??
    distributionFault(params.mintEqualsBurnClaimDistribution ?? NO_SHARES) ??
    ratioFault(params.mintRatio) ??
    bonusFault(params.overservicingBonusMultiplier)
  );
}

type AsType = tokenomics.MsgUpdateParam["asType"];

/** Which member of the oneof each parameter takes. */
const CASES: Readonly<Record<string, NonNullable<AsType["case"]>>> = {
  mint_allocation_percentages: "asMintAllocationPercentages",
  mint_equals_burn_claim_distribution: "asMintEqualsBurnClaimDistribution",
  dao_reward_address: "asString",
  global_inflation_per_claim: "asFloat",
  mint_ratio: "asFloat",
  overservicing_bonus_multiplier: "asUint64",
};

/** Parameters with the one of the message, or what is wrong with it. */
function changed(params: tokenomics.Params, { name, asType }: tokenomics.MsgUpdateParam): Outcome<tokenomics.Params> {
  if (asType.case === undefined) return fail(TOKENOMICS.params, "missing param AsType");
  const wanted = Object.hasOwn(CASES, name) ? CASES[name] : undefined;
  if (wanted === undefined) return fail(TOKENOMICS.paramName, `unsupported param ${goQuoted(name)}`);
  if (asType.case !== wanted) {
    const text = `invalid type for param ${goQuoted(name)}; expected ${goTypeOfValue(wanted)}, got ${goTypeOfValue(asType.case)}`;
    return fail(TOKENOMICS.param, text);
  }
  const next = withParam(params, name, asType);
  return next.fault === undefined ? done(next.params) : { ok: false, fault: next.fault };
}

interface NextParams {
  readonly params: tokenomics.Params;
  readonly fault: TxFault | undefined;
}

function withParam(params: tokenomics.Params, name: string, { case: kind, value }: AsType): NextParams {
  switch (kind) {
    case "asMintAllocationPercentages":
      return { params: { ...params, mintAllocationPercentages: value }, fault: allocationFault(value) };
    case "asMintEqualsBurnClaimDistribution":
      return { params: { ...params, mintEqualsBurnClaimDistribution: value }, fault: distributionFault(value) };
    case "asString":
      return { params: { ...params, daoRewardAddress: value }, fault: daoFault(value) };
    case "asUint64":
      return { params: { ...params, overservicingBonusMultiplier: value }, fault: bonusFault(value) };
    case "asFloat":
      return name === "mint_ratio"
        ? { params: { ...params, mintRatio: value }, fault: ratioFault(value) }
        : { params: { ...params, globalInflationPerClaim: value }, fault: inflationFault(value) };
    case undefined:
      return { params, fault: undefined };
  }
}

function authorityFault(authority: string): TxFault | undefined {
  const fault = addressFault(authority);
  if (fault === undefined) return undefined;
  return fail(TOKENOMICS.authorityAddress, `invalid authority address ${authority}; (${fault})`).fault;
}

/** Handlers of the messages that change parameters, by type URL. */
export function tokenomicsMessages(authority: string): Record<string, MessageHandler> {
  return revalidatedParamMessages<tokenomics.Params, Parsed<tokenomics.Params>, tokenomics.MsgUpdateParam>(authority, {
    schemas: tokenomics,
    past: pastTokenomicsParams,
    collection: tokenomicsParams,
    empty: () => createMessage(tokenomics.ParamsSchema),
    defaults: DEFAULT_TOKENOMICS_PARAMS,
    changed,
    paramsFault: tokenomicsParamsFault,
    stored: parsedRecord,
    authorityFault,
    invalidSigner: TOKENOMICS.invalidSigner,
    wrongAuthorityStatus: "PermissionDenied",
  });
}
