import { utf8ToBytes } from "@turnpike/base";
import { createMessage, encodeMessage, proof } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import { uint64Codec } from "../../state/codecs.ts";
import { collectionPage } from "../../state/collection-page.ts";
import type { Context } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { type QueryRefusal, refuse } from "../../state/grpc-status.ts";
import { type QueryHandler, queryHandler } from "../../state/module.ts";
import { fail } from "../../state/outcome.ts";
import { type Page, pageOf } from "../../state/pages.ts";
import { PROOF } from "./errors.ts";
import { claims, claimsByEnd, claimsBySupplier, getClaim, getProof, getProofParams, proofs } from "./state.ts";

const path = (method: string): string => `/pocket.proof.Query/${method}`;

// Indexes of claims do not hold them.
const claimBytes = (claim: proof.Claim): number => encodeMessage(proof.ClaimSchema, claim).length;

function claimsPage(ctx: Context, { filter, pagination: request }: proof.QueryAllClaimsRequest): Page<proof.Claim> {
  switch (filter.case) {
    case "supplierOperatorAddress":
      return collectionPage(ctx, claimsBySupplier, {
        request,
        within: utf8ToBytes(filter.value),
        item: ([operator, sessionId]) => getClaim(ctx, sessionId, operator),
        bytesOf: claimBytes,
      });
    case "sessionEndHeight":
      return collectionPage(ctx, claimsByEnd, {
        request,
        within: uint64Codec.encode(filter.value),
        item: ([, [sessionId, operator]]) => getClaim(ctx, sessionId, operator),
        bytesOf: claimBytes,
      });
    case "sessionId":
      return collectionPage(ctx, claims, { request, within: utf8ToBytes(filter.value), item: (_, claim) => claim });
    case undefined:
      return collectionPage(ctx, claims, { request, item: (_, claim) => claim });
  }
}

// Outside a block there are no proofs but those of a genesis, so that no index pays.
function proofsPage(ctx: Context, { filter, pagination }: proof.QueryAllProofsRequest): Page<proof.Proof> {
  const fits = ([sessionId, operator]: readonly [string, string], { sessionHeader }: proof.Proof): boolean => {
    if (filter.case === "supplierOperatorAddress") return operator.startsWith(filter.value);
    if (filter.case === "sessionEndHeight") return sessionHeader?.sessionEndBlockHeight === filter.value;
    return filter.case === undefined || sessionId.startsWith(filter.value);
  };
  return pageOf(pagination, function* ({ from, reverse }) {
    for (const [key, value] of proofs.entries(ctx, { reverse, ...(from === undefined ? {} : { from }) })) {
      if (!fits(key, value)) continue;
      yield { key: proofs.keyBytes(key), item: () => value, bytesOf: (item) => item.closestMerkleProof.length };
    }
  });
}

function filterFault({ filter }: proof.QueryAllProofsRequest): string | undefined {
  if (filter.case === "supplierOperatorAddress") {
    const wrong = addressFault(filter.value);
    if (wrong === undefined) return undefined;
    const text = `invalid supplier operator address for proofs being retrieved ${filter.value}; (${wrong})`;
    return fail(PROOF.invalidAddress, text).fault.text;
  }
  if (filter.case !== "sessionId" || filter.value !== "") return undefined;
  return fail(PROOF.invalidSessionId, "invalid empty session ID for proofs being retrieved").fault.text;
}

function keyFault(what: string, sessionId: string, operator: string): QueryRefusal | undefined {
  const wrong = addressFault(operator);
  if (wrong !== undefined) {
    const text = `invalid supplier operator address for ${what} being retrieved ${operator}; (${wrong})`;
    return refuse("InvalidArgument", fail(PROOF.invalidAddress, text).fault.text);
  }
  if (sessionId !== "") return undefined;
  const text = `invalid empty session ID for ${what} being retrieved`;
  return refuse("InvalidArgument", fail(PROOF.invalidSessionId, text).fault.text);
}

const keyText = (sessionId: string, operator: string): string =>
  `session ID ${goQuoted(sessionId)} and supplier ${goQuoted(operator)}`;

/** The module's queries, by gRPC path. */
export const PROOF_QUERIES: Readonly<Record<string, QueryHandler>> = {
  [path("Params")]: queryHandler(proof.QueryParamsRequestSchema, proof.QueryParamsResponseSchema, (ctx) => ({
    ok: true,
    value: createMessage(proof.QueryParamsResponseSchema, { params: getProofParams(ctx) }),
  })),
  [path("Claim")]: queryHandler(
    proof.QueryGetClaimRequestSchema,
    proof.QueryGetClaimResponseSchema,
    (ctx, { sessionId, supplierOperatorAddress: operator }) => {
      const wrong = keyFault("claim", sessionId, operator);
      if (wrong !== undefined) return wrong;
      const claim = getClaim(ctx, sessionId, operator);
      if (claim === undefined) {
        return refuse("NotFound", fail(PROOF.claimNotFound, keyText(sessionId, operator)).fault.text);
      }
      return { ok: true, value: createMessage(proof.QueryGetClaimResponseSchema, { claim }) };
    },
  ),
  [path("AllClaims")]: queryHandler(
    proof.QueryAllClaimsRequestSchema,
    proof.QueryAllClaimsResponseSchema,
    (ctx, request) => {
      const page = claimsPage(ctx, request);
      if (!page.ok) return refuse("Internal", page.text);
      const answer = { claims: [...page.items], pagination: page.pagination };
      return { ok: true, value: createMessage(proof.QueryAllClaimsResponseSchema, answer) };
    },
  ),
  [path("Proof")]: queryHandler(
    proof.QueryGetProofRequestSchema,
    proof.QueryGetProofResponseSchema,
    (ctx, { sessionId, supplierOperatorAddress: operator }) => {
      const wrong = keyFault("proof", sessionId, operator);
      if (wrong !== undefined) return wrong;
      const found = getProof(ctx, sessionId, operator);
      if (found === undefined) {
        return refuse("NotFound", fail(PROOF.proofNotFound, keyText(sessionId, operator)).fault.text);
      }
      return { ok: true, value: createMessage(proof.QueryGetProofResponseSchema, { proof: found }) };
    },
  ),
  [path("AllProofs")]: queryHandler(
    proof.QueryAllProofsRequestSchema,
    proof.QueryAllProofsResponseSchema,
    (ctx, request) => {
      const wrong = filterFault(request);
      if (wrong !== undefined) return refuse("InvalidArgument", wrong);
      const page = proofsPage(ctx, request);
      if (!page.ok) return refuse("Internal", page.text);
      const answer = { proofs: [...page.items], pagination: page.pagination };
      return { ok: true, value: createMessage(proof.QueryAllProofsResponseSchema, answer) };
    },
  ),
};
