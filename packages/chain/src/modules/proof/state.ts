import { createMessage, proof } from "@turnpike/proto";
import type { Claim } from "@turnpike/protocol";
import { endedTextCodec, messageCodec, noKey, pairCodec, textCodec, uint64Codec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import { type Context, unmetered } from "../../state/context.ts";
import { writeGas } from "../../state/gas.ts";

/** Name of the module, and of its part of the state. */
export const PROOF_MODULE = "proof";

const module = PROOF_MODULE;
/** Bytes of a claim's or a proof's own key, which the real chain's indexes hold and end in. */
const primaryKeyBytes = (sessionId: string, operatorAddress: string): number =>
  sessionId.length + 1 + operatorAddress.length;
const none = { encode: (): Uint8Array => new Uint8Array(0), decode: (): undefined => undefined };

/** The parameters. */
export const proofParams = new Collection({
  module,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: messageCodec(proof.ParamsSchema),
  stored: { prefixBytes: "p_proof".length },
});
/** Claims by session id and operator address. */
export const claims = new Collection({
  module,
  prefix: Uint8Array.of(1),
  key: pairCodec(endedTextCodec, textCodec),
  value: messageCodec(proof.ClaimSchema),
  stored: { prefixBytes: "Claim/primary_key/".length },
});
/** Claims by their session's end, session id and operator address: the order of settlement. */
export const claimsByEnd = new Collection({
  module,
  prefix: Uint8Array.of(2),
  key: pairCodec(uint64Codec, pairCodec(endedTextCodec, textCodec)),
  value: none,
  stored: {
    prefixBytes: "Claim/height/".length,
    moreKeyBytes: 1,
    valueBytes: ([, [sessionId, operator]]) => primaryKeyBytes(sessionId, operator),
  },
});
/** Claims by operator address and session id. */
export const claimsBySupplier = new Collection({
  module,
  prefix: Uint8Array.of(3),
  key: pairCodec(endedTextCodec, textCodec),
  value: none,
  stored: {
    prefixBytes: "Claim/address/".length,
    keyBytes: ([operator, sessionId]) => operator.length + 1 + primaryKeyBytes(sessionId, operator),
    valueBytes: ([operator, sessionId]) => primaryKeyBytes(sessionId, operator),
  },
});
/** Proofs by session id and operator address, from their transaction until the end of its block. */
export const proofs = new Collection({
  module,
  prefix: Uint8Array.of(4),
  key: pairCodec(endedTextCodec, textCodec),
  value: messageCodec(proof.ProofSchema),
  stored: { prefixBytes: "Proof/primary_key/".length },
});

/** The parameters. */
export function getProofParams(ctx: Context): proof.Params {
  return proofParams.get(ctx, undefined) ?? createMessage(proof.ParamsSchema);
}

/** A claim; undefined when there is none. */
export function getClaim(ctx: Context, sessionId: string, operatorAddress: string): proof.Claim | undefined {
  return claims.get(ctx, [sessionId, operatorAddress]);
}

/** Session id and operator address of a claim: its key in the state. */
export function claimKey({
  sessionHeader: { sessionId },
  supplierOperatorAddress,
}: Pick<Claim, "sessionHeader" | "supplierOperatorAddress">): readonly [sessionId: string, operatorAddress: string] {
  return [sessionId, supplierOperatorAddress];
}

/** Writes a claim, new or changed, and its entries in the indexes. */
export function setClaim(ctx: Context, claim: proof.Claim): void {
  const operator = claim.supplierOperatorAddress;
  const sessionId = claim.sessionHeader?.sessionId ?? "";
  const end = claim.sessionHeader?.sessionEndBlockHeight ?? 0n;
  // A claim that takes another's place may name another end; the index must not keep the first one's.
  const free = unmetered(ctx);
  const replaced = getClaim(free, sessionId, operator)?.sessionHeader?.sessionEndBlockHeight ?? end;
  if (replaced !== end) claimsByEnd.remove(free, [replaced, [sessionId, operator]]);
  claims.set(ctx, [sessionId, operator], claim);
  claimsByEnd.set(ctx, [end, [sessionId, operator]], undefined);
  claimsBySupplier.set(ctx, [operator, sessionId], undefined);
}

/** Removes a claim and its entries in the indexes. */
export function removeClaim(ctx: Context, sessionId: string, operatorAddress: string): void {
  const claim = getClaim(ctx, sessionId, operatorAddress);
  if (claim === undefined) return;
  const end = claim.sessionHeader?.sessionEndBlockHeight ?? 0n;
  claims.remove(ctx, [sessionId, operatorAddress]);
  claimsByEnd.remove(ctx, [end, [sessionId, operatorAddress]]);
  claimsBySupplier.remove(ctx, [operatorAddress, sessionId]);
}

/** A proof that waits for the end of its block; undefined when there is none. */
export function getProof(ctx: Context, sessionId: string, operatorAddress: string): proof.Proof | undefined {
  return proofs.get(ctx, [sessionId, operatorAddress]);
}

/** Keeps a proof until the end of the block, in place of one of the same session and supplier. */
export function setProof(ctx: Context, value: proof.Proof): void {
  const operator = value.supplierOperatorAddress;
  const sessionId = value.sessionHeader?.sessionId ?? "";
  proofs.set(ctx, [sessionId, operator], value);
  // The real chain indexes proofs as it does claims; here none is left when its block ends.
  const own = primaryKeyBytes(sessionId, operator);
  ctx.gas.consume(writeGas("Proof/address/".length + operator.length + 1 + own, own), "WritePerByte");
  ctx.gas.consume(writeGas("Proof/height/".length + 8 + 1 + own, own), "WritePerByte");
}
