export { checksumAddress } from "./address.ts";
export { createEd25519Signer, type Ed25519Signer, validatorKeyAddress, verifyEd25519 } from "./comet/ed25519.ts";
export { type MerkleProof, merkleProofs, merkleRoot, verifyMerkleProof } from "./comet/merkle.ts";
export {
  ACCOUNT_PREFIX,
  accountAddress,
  addressToBytes,
  moduleAddress,
  moduleAddressBytes,
  publicKeyToAddressBytes,
  VALIDATOR_PREFIX,
  validatorAddress,
} from "./cosmos/addresses.ts";
export { type Bech32, bech32Checksum, decodeBech32, encodeBech32 } from "./cosmos/bech32.ts";
export {
  cosmosPublicKey,
  cosmosSign,
  cosmosVerify,
  cosmosVerifyDigest,
  isCosmosPublicKey,
  privateKeyFromSecret,
} from "./cosmos/signatures.ts";
export { keccak256, ripemd160, sha256, sha3256, sha3512 } from "./hash.ts";
export { GoRandom, goVarint, seededFloat64 } from "./random/seeded.ts";
export { decodeRingSignature, encodeRingSignature, MAX_RING_MEMBERS, type RingSignature } from "./ring/codec.ts";
export { canonicalRing, PLACEHOLDER_RING_KEY } from "./ring/placeholder.ts";
export { RingSigner, type RingSignerOptions } from "./ring/ring-signer.ts";
export { type RingFault, type RingOptions, Rings, type RingVerdict } from "./ring/rings.ts";
export {
  type EcdsaSignature,
  isLowS,
  isPrivateKey,
  privateKeyToAddress,
  privateKeyToPublicKey,
  publicKeyToAddress,
  recoverAddress,
  recoverSigner,
  secp256k1Backend,
  sign,
} from "./secp256k1.ts";
export {
  type EcdsaVerdict,
  type Signed,
  type SigningFault,
  type SigningHandle,
  SigningThreads,
  type SigningThreadsModules,
  type SigningThreadsOptions,
} from "./threads/signing-threads.ts";
export {
  type CompactClosestProof,
  type CompactProof,
  closestValue,
  closestWeight,
} from "./trie/closest-proof.ts";
export { decodeClosestProof, MAX_PROOF_BYTES } from "./trie/gob-proof.ts";
export { encodeClosestProof } from "./trie/gob-writer.ts";
export { SumTrie, type SumTrieOptions, type TrieValues } from "./trie/sum-trie.ts";
export { isClosest, type ProofFault, type ProofVerdict, verifyClosestProof } from "./trie/verify.ts";
