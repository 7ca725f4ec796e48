import { randomBytes } from "node:crypto";
import { AppError } from "@turnpike/base";
import { cosmosPublicKey, encodeClosestProof, encodeRingSignature, Rings } from "@turnpike/crypto";
import { type Any, application, createMessage, packAny, proof, type session } from "@turnpike/proto";
import { proofPath } from "@turnpike/protocol";
import { Work } from "../../packages/chain/test/session-life.ts";
import { curve } from "../../packages/crypto/src/curve.ts";
import { finishAttempt, imageOf, prepareAttempt } from "../../packages/crypto/src/ring/attempt.ts";
import { compressPoint, RingPoints } from "../../packages/crypto/src/ring/points.ts";
import { type Account, type Ground, UNITS_PER_RELAY } from "./ground.ts";

/** A session whose suppliers each prove one relay. */
export interface ProofSession {
  readonly name: string;
  /** Members of the ring that signs the relays: the application and its gateways, repeated up to this number. */
  readonly members: number;
  /** Gateways that the application delegated to in the session; it left each at once. */
  readonly gateways: number;
  /** Bytes of the relay's payload; a few by default. */
  readonly payloadBytes?: number;
  /** Suppliers that prove; all of the session by default. */
  readonly provers?: number;
  /** True for the service with many suppliers. */
  readonly isLargeService?: boolean;
  /** True for an application that delegates and leaves in every block of the session. */
  readonly isBusy?: boolean;
}

const RING_SIZES: readonly (readonly [members: number, gateways: number])[] = [
  [1, 0],
  [2, 0],
  [4, 3],
  [5, 4],
  [16, 15],
  [32, 31],
  [64, 63],
  // The chain looks at each member twice at most.
  [128, 63],
];
const LARGE_PAYLOAD_BYTES = 300_000;
/** As many as an application may undelegate from before the oldest are removed. */
const MANY_GATEWAYS = 64;

/** Sessions that the chain of the gas bench has proofs for. */
export const PROOF_SESSIONS: readonly ProofSession[] = [
  ...RING_SIZES.map(([members, gateways]) => ({ name: `ring-${members}`, members, gateways })),
  { name: "large-relay", members: 2, gateways: 0, payloadBytes: LARGE_PAYLOAD_BYTES, provers: 3 },
  { name: "large-service", members: 2, gateways: 0, isLargeService: true },
  { name: "many-gateways", members: 2, gateways: MANY_GATEWAYS },
  { name: "busy-application", members: 2, gateways: MANY_GATEWAYS, isBusy: true },
];

/** Gateways that a chain needs for {@link PROOF_SESSIONS}. */
export const PROOF_GATEWAYS: number = Math.max(...PROOF_SESSIONS.map(({ gateways }) => gateways));
const OF_FEW_SUPPLIERS = PROOF_SESSIONS.filter(({ isLargeService }) => isLargeService !== true);
/** Applications of the service with few suppliers that it needs. */
export const PROOF_APPLICATIONS: number = OF_FEW_SUPPLIERS.length;
/** Suppliers of that service: as many as a session has. */
export const PROVERS = 15;

/** Work of one supplier in one session. */
export interface ProofWork {
  readonly session: string;
  readonly supplier: Account;
  readonly work: Work;
}

const rings = new Rings();

/** The application of a session. */
export function applicationOf(ground: Ground, proofSession: ProofSession): Account {
  const { name, isLargeService } = proofSession;
  const account =
    isLargeService === true
      ? ground.applications[0]
      : ground.provenApplications[OF_FEW_SUPPLIERS.indexOf(proofSession)];
  if (account === undefined) throw new AppError("INTERNAL", { detail: { noApplication: name } });
  return account;
}

/** A ring signature of one member, which the chain accepts and no client makes. */
function signAlone(digest: Uint8Array, key: Uint8Array): Uint8Array {
  const member = cosmosPublicKey(key);
  const point = new RingPoints({ maxKeys: 1 }, { curve }).get(member);
  if (point === undefined) throw new AppError("INTERNAL", { detail: { notAKey: true } });
  const image = imageOf(point, key, curve);
  const ring = { members: [member], points: [point], signer: 0, key, image, compressedImage: compressPoint(image) };
  const attempt = prepareAttempt(ring, { curve, random: randomBytes });
  const signature = attempt === undefined ? undefined : finishAttempt(ring, attempt, digest, curve);
  if (signature === undefined) throw new AppError("INTERNAL", { detail: { noSignature: true } });
  return encodeRingSignature(signature);
}

function signIn(ring: readonly Uint8Array[], { privateKey }: Account): (digest: Uint8Array) => Uint8Array {
  return ring.length === 1
    ? (digest) => signAlone(digest, privateKey)
    : (digest) => rings.sign(digest, ring, privateKey);
}

/** Works of all suppliers of {@link PROOF_SESSIONS}. @param sessionOf reads the first session of an application */
export function proofWorks(
  ground: Ground,
  sessionOf: (application: Account, proofSession: ProofSession) => session.Session,
): ProofWork[] {
  const suppliers = new Map(
    [...ground.suppliers, ...ground.provers].map((account) => [account.signer.address, account]),
  );
  return PROOF_SESSIONS.flatMap((proofSession) => {
    const { name, members, gateways, payloadBytes = 10, provers = PROVERS } = proofSession;
    const signer = applicationOf(ground, proofSession);
    const keys = [signer, ...ground.gateways.slice(0, gateways)].map((account) => account.signer.publicKey);
    const ring = Array.from({ length: members }, (_, i) => keys[i % keys.length] ?? signer.signer.publicKey);
    const sign = signIn(ring, signer);
    const { header, suppliers: drawn } = sessionOf(signer, proofSession);
    if (header === undefined) throw new AppError("INTERNAL", { detail: { noSession: name } });
    return drawn.slice(0, provers).map(({ operatorAddress: address }) => {
      const supplier = suppliers.get(address);
      if (supplier === undefined) throw new AppError("INTERNAL", { detail: { noSupplier: address } });
      const { privateKey } = supplier;
      const work = new Work(header, { address, publicKey: supplier.signer.publicKey, privateKey });
      work.serveOne({ payload: new Uint8Array(payloadBytes).fill(97), sign, unitsPerRelay: UNITS_PER_RELAY });
      return { session: name, supplier, work };
    });
  });
}

/** Messages by which the applications of {@link PROOF_SESSIONS} delegate to their gateways and leave them in a block. */
export function delegationsOf(
  ground: Ground,
  height: bigint,
): { readonly account: Account; readonly messages: readonly Any[] }[] {
  return PROOF_SESSIONS.flatMap((proofSession) => {
    const { gateways, isBusy } = proofSession;
    const count = height === 1n ? gateways : isBusy === true ? 1 : 0;
    if (count === 0) return [];
    const account = applicationOf(ground, proofSession);
    const messages = ground.gateways.slice(0, count).flatMap(({ signer: { address: gatewayAddress } }) => {
      const init = { appAddress: account.signer.address, gatewayAddress };
      const { MsgDelegateToGatewaySchema, MsgUndelegateFromGatewaySchema } = application;
      return [
        packAny(MsgDelegateToGatewaySchema, createMessage(MsgDelegateToGatewaySchema, init)),
        packAny(MsgUndelegateFromGatewaySchema, createMessage(MsgUndelegateFromGatewaySchema, init)),
      ];
    });
    return [{ account, messages }];
  });
}

/** The claim of a work. */
export function claimMessage({ supplier, work: { header, trie } }: ProofWork): Any {
  const claim = createMessage(proof.MsgCreateClaimSchema, {
    supplierOperatorAddress: supplier.signer.address,
    sessionHeader: header,
    rootHash: trie.root(),
  });
  return packAny(proof.MsgCreateClaimSchema, claim);
}

/** The proof of a work. @param seedBlockHash hash of the block before the proof window */
export function proofMessage({ supplier, work: { header, trie } }: ProofWork, seedBlockHash: Uint8Array): Any {
  const submission = createMessage(proof.MsgSubmitProofSchema, {
    supplierOperatorAddress: supplier.signer.address,
    sessionHeader: header,
    proof: encodeClosestProof(trie.proveClosest(proofPath(seedBlockHash, header.sessionId))),
  });
  return packAny(proof.MsgSubmitProofSchema, submission);
}

/** Messages of each supplier of works, in one list for each. */
export function bySupplier(
  works: readonly ProofWork[],
  make: (work: ProofWork) => Any,
): { readonly account: Account; readonly messages: readonly Any[] }[] {
  const lists = Map.groupBy(works, ({ supplier }) => supplier);
  return [...lists].map(([account, list]) => ({ account, messages: list.map(make) }));
}
