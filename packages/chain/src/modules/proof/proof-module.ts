import { AppError } from "@turnpike/base";
import { Rings } from "@turnpike/crypto";
import { createMessage, proof, typeUrlOf } from "@turnpike/proto";
import { readClaimRoot } from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import { addressType, recordType, textType, type ValueOf } from "../../state/genesis-types.ts";
import { genesisList, type MessageHandler, type Module, messageHandler, moduleGenesis } from "../../state/module.ts";
import { createClaim, createClaimFault } from "./create-claim.ts";
import { headerFault } from "./headers.ts";
import { fieldsOfHeldClaim, HELD_CLAIM_FIELDS, heldClaimOf, heldClaims } from "./held-claims.ts";
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

const HELD_CLAIM = recordType({
  session_id: textType(),
  supplier_operator_address: addressType,
  ...HELD_CLAIM_FIELDS,
});

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of claims and proofs is not valid: ${why}.` });

function addHeldClaims(ctx: Context, entries: readonly ValueOf<typeof HELD_CLAIM>[]): undefined {
  for (const { session_id: sessionId, supplier_operator_address: operator, ...fields } of entries) {
    if (getClaim(ctx, sessionId, operator) === undefined) {
      throw invalid(`held_claims has ${sessionId} of ${operator}, which is not a claim`);
    }
    heldClaims.set(ctx, [sessionId, operator], heldClaimOf(fields));
  }
}

function* exportHeldClaims(ctx: Context): Generator<ValueOf<typeof HELD_CLAIM>> {
  for (const [[sessionId, operator], claim] of heldClaims.entries(ctx)) {
    yield { session_id: sessionId, supplier_operator_address: operator, ...fieldsOfHeldClaim(claim) };
  }
}

function init(ctx: Context, state: proof.GenesisState): undefined {
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
}

function exportState(ctx: Context): proof.GenesisState {
  return createMessage(proof.GenesisStateSchema, {
    params: getProofParams(ctx),
    claimList: [...claims.entries(ctx)].map(([, claim]) => claim),
    proofList: [...proofs.entries(ctx)].map(([, submitted]) => submitted),
  });
}

/**
 * Genesis of claims and proofs: that of the real chain, and as `held_claims` the claims that wait for another try, for which
 * the real chain's has no field.
 */
const GENESIS = moduleGenesis(proof.GenesisStateSchema, {
  init,
  export: exportState,
  lists: [genesisList("held_claims", HELD_CLAIM, { init: addHeldClaims, export: exportHeldClaims })],
});

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
    genesis: GENESIS,
    endBlock(ctx) {
      validateProofs(ctx, modules);
      return undefined;
    },
  };
}
