import { AppError, isRecord } from "@turnpike/base";
import { Rings } from "@turnpike/crypto";
import { createMessage, fromApiJson, proof, toApiJson, typeUrlOf } from "@turnpike/proto";
import { readClaimRoot } from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import { type MessageHandler, type Module, messageHandler } from "../../state/module.ts";
import { createClaim, createClaimFault } from "./create-claim.ts";
import { headerFault } from "./headers.ts";
import { heldClaimJson, heldClaims, readHeldClaim } from "./held-claims.ts";
import { DEFAULT_PROOF_PARAMS, proofParamMessages, proofParamsFault } from "./params.ts";
import { PROOF_QUERIES } from "./queries.ts";
import { claims, getClaim, getProofParams, PROOF_MODULE, proofParams, proofs, setClaim, setProof } from "./state.ts";
import { submitProof, submitProofFault } from "./submit-proof.ts";
import { type ProofModules, validateProofs } from "./validate-proofs.ts";

/** What the module of claims and proofs needs to know of the chain. */
export interface ProofOptions {
  /** Address whose messages change parameters. */
  readonly authority: string;
}

const HELD_CLAIMS = "held_claims";

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of claims and proofs is not valid: ${why}.` });

function addHeldClaims(ctx: Context, list: unknown): void {
  if (!Array.isArray(list)) throw invalid(`${HELD_CLAIMS} is not a list`);
  for (const item of list as readonly unknown[]) {
    const { session_id: sessionId, supplier_operator_address: operator } = isRecord(item) ? item : {};
    const claim = readHeldClaim(item);
    const isClaim =
      typeof sessionId === "string" && typeof operator === "string" && getClaim(ctx, sessionId, operator) !== undefined;
    if (claim === undefined || !isClaim) throw invalid(`an entry of ${HELD_CLAIMS}`);
    heldClaims.set(ctx, [sessionId, operator], claim);
  }
}

/**
 * Fills the state from a genesis: that of the real chain, and as `held_claims` the claims that wait for another try, for
 * which the real chain's has no field.
 * @throws AppError CONFIG_INVALID
 */
function init(ctx: Context, json: unknown): undefined {
  const { [HELD_CLAIMS]: held = [], ...rest } = isRecord(json) ? json : {};
  const read = fromApiJson(proof.GenesisStateSchema, isRecord(json) ? rest : (json ?? {}));
  if (!read.ok) throw invalid(read.fault);
  const state = read.message;
  const params = state.params ?? DEFAULT_PROOF_PARAMS;
  const fault = proofParamsFault(params);
  if (fault !== undefined) throw invalid(fault.text);
  proofParams.set(ctx, undefined, params);
  for (const { sessionHeader, supplierOperatorAddress } of [...state.claimList, ...state.proofList]) {
    const wrong = sessionHeader === undefined ? "no session header" : headerFault(sessionHeader)?.text;
    if (wrong !== undefined) throw invalid(`a claim or proof of ${supplierOperatorAddress}: ${wrong}`);
  }
  for (const claim of state.claimList) {
    if (readClaimRoot(claim.rootHash) === undefined) {
      throw invalid(`the root of a claim of ${claim.supplierOperatorAddress}`);
    }
    setClaim(ctx, claim);
  }
  for (const submitted of state.proofList) setProof(ctx, submitted);
  addHeldClaims(ctx, held);
}

function exportState(ctx: Context): Record<string, unknown> {
  const state = createMessage(proof.GenesisStateSchema, {
    params: getProofParams(ctx),
    claimList: [...claims.entries(ctx)].map(([, claim]) => claim),
    proofList: [...proofs.entries(ctx)].map(([, submitted]) => submitted),
  });
  const json = toApiJson(proof.GenesisStateSchema, state) as Record<string, unknown>;
  const heldList = [...heldClaims.entries(ctx)].map(([[sessionId, operator], claim]) => ({
    session_id: sessionId,
    supplier_operator_address: operator,
    ...heldClaimJson(claim),
  }));
  return heldList.length === 0 ? json : { ...json, [HELD_CLAIMS]: heldList };
}

function messages({ authority }: ProofOptions): Record<string, MessageHandler> {
  return {
    [typeUrlOf(proof.MsgCreateClaimSchema)]: messageHandler(
      proof.MsgCreateClaimSchema,
      proof.MsgCreateClaimResponseSchema,
      { signers: (message) => [message.supplierOperatorAddress], validate: createClaimFault, run: createClaim },
    ),
    [typeUrlOf(proof.MsgSubmitProofSchema)]: messageHandler(
      proof.MsgSubmitProofSchema,
      proof.MsgSubmitProofResponseSchema,
      { signers: (message) => [message.supplierOperatorAddress], validate: submitProofFault, run: submitProof },
    ),
    ...proofParamMessages(authority),
  };
}

/** The module of claims and proofs. */
export function proofModule(opts: ProofOptions, modules: ProofModules = { rings: new Rings() }): Module {
  return {
    name: PROOF_MODULE,
    messages: messages(opts),
    queries: PROOF_QUERIES,
    jsonGenesis: { init, export: exportState },
    endBlock(ctx) {
      validateProofs(ctx, modules);
      return undefined;
    },
  };
}
