import { base, createMessage, proof } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import { goQuoted, goTypeOfValue } from "../../state/go-text.ts";
import type { MessageHandler } from "../../state/module.ts";
import { done, type FaultKind, fail, type Outcome, type TxFault } from "../../state/outcome.ts";
import { pastProofParams } from "../session/history.ts";
import { revalidatedParamMessages } from "../shared/messages.ts";
import { PROOF } from "./errors.ts";
import { proofParams } from "./state.ts";

const upokt = (amount: string): base.Coin => createMessage(base.CoinSchema, { denom: "upokt", amount });
const faultOf = (kind: FaultKind, text?: string): TxFault => fail(kind, text).fault;

/** The parameters that a chain has unless its genesis says otherwise. */
export const DEFAULT_PROOF_PARAMS: proof.Params = createMessage(proof.ParamsSchema, {
  proofRequestProbability: 0.25,
  proofRequirementThreshold: upokt("20000000"),
  proofMissingPenalty: upokt("320000000"),
  proofSubmissionFee: upokt("0"),
});

/** A float64 as Go's `%v` prints it. */
function goFloat(value: number): string {
  const size = Math.abs(value);
  const text = size !== 0 && size < 1e-4 ? value.toExponential() : String(value);
  return text.replace(/e([+-])(\d)$/, "e$10$2");
}

function coinFault(name: string, coin: base.Coin | undefined): TxFault | undefined {
  if (coin === undefined) return faultOf(PROOF.param, `missing ${name}`);
  if (coin.denom !== "upokt") return faultOf(PROOF.param, `invalid ${name} denom: ${coin.denom}`);
  if (/^\d{1,77}$/.test(coin.amount)) return undefined;
  const amount = `${coin.amount}${coin.denom}`;
  if (name === "proof_submission_fee") {
    return faultOf(PROOF.param, `proof_submission_fee is below minimum value 0upokt: got ${amount}`);
  }
  return faultOf(PROOF.param, `invalid ${name} amount: ${amount} <${name === "proof_missing_penalty" ? "=" : ""} 0`);
}

function probabilityFault(value: number): TxFault | undefined {
  return value >= 0 && value <= 1
    ? undefined
    : faultOf(PROOF.param, `invalid ProofRequestProbability: (${goFloat(value)})`);
}

/** What is wrong with parameters; undefined when nothing is. */
export function proofParamsFault(params: proof.Params): TxFault | undefined {
  return (
    probabilityFault(params.proofRequestProbability) ??
    coinFault("proof_requirement_threshold", params.proofRequirementThreshold) ??
    coinFault("proof_missing_penalty", params.proofMissingPenalty) ??
    coinFault("proof_submission_fee", params.proofSubmissionFee)
  );
}

const COINS = {
  proof_requirement_threshold: "proofRequirementThreshold",
  proof_missing_penalty: "proofMissingPenalty",
  proof_submission_fee: "proofSubmissionFee",
} as const;
const PROBABILITY = "proof_request_probability";

const isCoinName = (name: string): name is keyof typeof COINS => Object.hasOwn(COINS, name);

/** Today's parameters with the one of the message, or what is wrong with it. */
function changed(params: proof.Params, { name, asType }: proof.MsgUpdateParam): Outcome<proof.Params> {
  if (asType.case === undefined) return fail(PROOF.param, "missing param AsType");
  const wanted = name === PROBABILITY ? "asFloat" : isCoinName(name) ? "asCoin" : undefined;
  if (wanted === undefined) return fail(PROOF.paramName, `unsupported param ${goQuoted(name)}`);
  if (asType.case !== wanted) {
    const text = `invalid type for param ${goQuoted(name)} expected ${goTypeOfValue(wanted)}, got ${goTypeOfValue(asType.case)}`;
    return fail(PROOF.param, text);
  }
  if (asType.case === "asFloat") {
    const fault = probabilityFault(asType.value);
    return fault === undefined ? done({ ...params, proofRequestProbability: asType.value }) : { ok: false, fault };
  }
  if (asType.case !== "asCoin" || !isCoinName(name)) return done(params);
  const fault = coinFault(name, asType.value);
  return fault === undefined ? done({ ...params, [COINS[name]]: asType.value }) : { ok: false, fault };
}

function authorityFault(authority: string): TxFault | undefined {
  const wrong = addressFault(authority);
  return wrong === undefined
    ? undefined
    : faultOf(PROOF.invalidAddress, `invalid authority address ${authority}; (${wrong})`);
}

/** Handlers of the messages that change parameters, by type URL. */
export function proofParamMessages(authority: string): Record<string, MessageHandler> {
  return revalidatedParamMessages<proof.Params, proof.Params, proof.MsgUpdateParam>(authority, {
    schemas: proof,
    past: pastProofParams,
    collection: proofParams,
    empty: () => createMessage(proof.ParamsSchema),
    defaults: DEFAULT_PROOF_PARAMS,
    changed,
    paramsFault: proofParamsFault,
    stored: (params) => params,
    authorityFault,
    invalidSigner: PROOF.invalidSigner,
    wrongAuthorityStatus: "InvalidArgument",
  });
}
