import type { MessageInitShape } from "@bufbuild/protobuf";
import { createMessage, shared } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import { goQuoted, goTypeOfValue } from "../../state/go-text.ts";
import { isHeight } from "../../state/heights.ts";
import { fail, failPlain, type TxFault } from "../../state/outcome.ts";
import { SHARED } from "./errors.ts";

type ParamField = Exclude<keyof MessageInitShape<typeof shared.ParamsSchema>, "$typeName" | "$unknown">;

interface ParamRule {
  readonly name: string;
  readonly field: ParamField;
  /** Counts no blocks and no sessions. */
  readonly isPrice?: true;
  /** Name in the chain's errors, where the parameter must be at least 1. */
  readonly atLeastOne?: string;
}

/** In the order in which the chain checks them. */
const RULES: readonly ParamRule[] = [
  { name: "num_blocks_per_session", field: "numBlocksPerSession", atLeastOne: "NumBlocksPerSession" },
  { name: "claim_window_open_offset_blocks", field: "claimWindowOpenOffsetBlocks" },
  { name: "claim_window_close_offset_blocks", field: "claimWindowCloseOffsetBlocks" },
  { name: "proof_window_open_offset_blocks", field: "proofWindowOpenOffsetBlocks" },
  { name: "proof_window_close_offset_blocks", field: "proofWindowCloseOffsetBlocks" },
  { name: "grace_period_end_offset_blocks", field: "gracePeriodEndOffsetBlocks" },
  {
    name: "supplier_unbonding_period_sessions",
    field: "supplierUnbondingPeriodSessions",
    atLeastOne: "SupplierUnbondingPeriodSessions",
  },
  {
    name: "application_unbonding_period_sessions",
    field: "applicationUnbondingPeriodSessions",
    atLeastOne: "ApplicationUnbondingPeriodSessions",
  },
  {
    name: "gateway_unbonding_period_sessions",
    field: "gatewayUnbondingPeriodSessions",
    atLeastOne: "GatewayUnbondingPeriodSessions",
  },
  {
    name: "compute_units_to_tokens_multiplier",
    field: "computeUnitsToTokensMultiplier",
    isPrice: true,
    atLeastOne: "ComputeUnitsToTokensMultiplier",
  },
  {
    name: "compute_unit_cost_granularity",
    field: "computeUnitCostGranularity",
    isPrice: true,
    atLeastOne: "ComputeUnitCostGranularity",
  },
];

const ruleOf = (name: string): ParamRule | undefined => RULES.find((rule) => rule.name === name);

/** The parameters of a genesis that names none. */
export const DEFAULT_SHARED_PARAMS: shared.Params = createMessage(shared.ParamsSchema, {
  numBlocksPerSession: 10n,
  gracePeriodEndOffsetBlocks: 1n,
  claimWindowOpenOffsetBlocks: 1n,
  claimWindowCloseOffsetBlocks: 4n,
  proofWindowOpenOffsetBlocks: 0n,
  proofWindowCloseOffsetBlocks: 4n,
  supplierUnbondingPeriodSessions: 1n,
  applicationUnbondingPeriodSessions: 1n,
  gatewayUnbondingPeriodSessions: 1n,
  computeUnitsToTokensMultiplier: 42_000_000n,
  computeUnitCostGranularity: 1_000_000n,
  sessionGridAnchorHeight: 1n,
  sessionNumberAtAnchor: 1n,
});

const invalid = (text: string): TxFault => fail(SHARED.paramInvalid, text).fault;

const MOST_BLOCKS = (1n << 31n) - 1n;

// The chain adds and multiplies unsigned numbers of 64 bits and compares the results as signed ones.
const signed = (value: bigint): bigint => BigInt.asIntN(64, value);

function oneFault({ atLeastOne }: ParamRule, value: bigint): TxFault | undefined {
  return atLeastOne !== undefined && value < 1n ? invalid(`invalid ${atLeastOne}: (${value})`) : undefined;
}

function windowsFault(params: shared.Params): TxFault | undefined {
  const { numBlocksPerSession: blocks, gracePeriodEndOffsetBlocks: grace } = params;
  const { claimWindowOpenOffsetBlocks: claimOpen, claimWindowCloseOffsetBlocks: claimClose } = params;
  const { proofWindowOpenOffsetBlocks: proofOpen, proofWindowCloseOffsetBlocks: proofClose } = params;
  if (grace >= blocks) {
    return invalid(`GracePeriodEndOffsetBlocks (${grace}) must be less than NumBlocksPerSession (${blocks})`);
  }
  if (claimOpen < grace) {
    return invalid(`ClaimWindowOpenOffsetBlocks (${claimOpen}) must be at least GracePeriodEndOffsetBlocks (${grace})`);
  }
  const windows = signed(claimOpen + claimClose + proofOpen + proofClose);
  const periods = [
    ["Supplier", params.supplierUnbondingPeriodSessions],
    ["Application", params.applicationUnbondingPeriodSessions],
  ] as const;
  for (const [who, sessions] of periods) {
    const unbonding = signed(sessions * blocks);
    if (unbonding >= windows) continue;
    return invalid(
      `${who}UnbondingPeriodSessions (${sessions} session) (${unbonding} blocks) must be greater than the cumulative ProofWindowCloseOffsetBlocks (${windows})`,
    );
  }
  const pending = signed(windows + blocks - 1n) / signed(blocks);
  if (pending >= 1n) return undefined;
  return invalid(
    `the claim and proof window offsets yield ${pending} pending sessions; their sum (ClaimWindowOpenOffsetBlocks ${claimOpen} + ClaimWindowCloseOffsetBlocks ${claimClose} + ProofWindowOpenOffsetBlocks ${proofOpen} + ProofWindowCloseOffsetBlocks ${proofClose}) must be greater than 0`,
  );
}

// Stricter than the real chain, whose sums of heights wrap around: here they would leave 64 bits, and stop the chain.
function hugeFault(params: shared.Params): TxFault | undefined {
  const { sessionGridAnchorHeight, sessionNumberAtAnchor } = params;
  const huge = RULES.find(({ field, isPrice }) => isPrice !== true && params[field] > MOST_BLOCKS);
  if (huge !== undefined) return invalid(`${huge.name} (${params[huge.field]}) is too large; at most ${MOST_BLOCKS}`);
  if (isHeight(sessionGridAnchorHeight) && isHeight(sessionNumberAtAnchor)) return undefined;
  return invalid(`the session grid's anchor (${sessionGridAnchorHeight}, ${sessionNumberAtAnchor}) is too large`);
}

/** What is wrong with a whole set of parameters; undefined when nothing is. */
export function sharedParamsFault(params: shared.Params): TxFault | undefined {
  for (const rule of RULES) {
    const fault = oneFault(rule, params[rule.field]);
    if (fault !== undefined) return fault;
  }
  return windowsFault(params) ?? hugeFault(params);
}

/** What is wrong with the change of one parameter, before any state is asked. */
export function updateParamFault({ authority, name, asType }: shared.MsgUpdateParam): TxFault | undefined {
  const address = addressFault(authority);
  if (address !== undefined) {
    return fail(SHARED.invalidAddress, `invalid authority address ${authority}; (${address})`).fault;
  }
  if (asType.case === undefined) return invalid("missing param AsType");
  const rule = ruleOf(name);
  if (rule === undefined) return fail(SHARED.paramNameInvalid, `unsupported param ${goQuoted(name)}`).fault;
  if (asType.case !== "asUint64") {
    const [wanted, got] = [goTypeOfValue("asUint64"), goTypeOfValue(asType.case)];
    return invalid(`invalid type for param ${goQuoted(name)} expected ${wanted}, got ${got}`);
  }
  return oneFault(rule, asType.value);
}

/** What is wrong with the change of all parameters, before any state is asked. */
export function updateParamsFault({ authority, params }: shared.MsgUpdateParams): TxFault | undefined {
  return authorityFault(authority) ?? sharedParamsFault(params ?? createMessage(shared.ParamsSchema));
}

/** What is wrong with the authority's address of a message that changes all parameters of a module. */
export function authorityFault(authority: string): TxFault | undefined {
  const address = addressFault(authority);
  return address === undefined ? undefined : failPlain(`invalid authority address: ${address}`).fault;
}

/** The parameters with one changed, by a message that {@link updateParamFault} finds right. */
export function withParam(params: shared.Params, { name, asType }: shared.MsgUpdateParam): shared.Params {
  const field = ruleOf(name)?.field;
  if (field === undefined || asType.case !== "asUint64") return params;
  return createMessage(shared.ParamsSchema, { ...params, [field]: asType.value });
}
