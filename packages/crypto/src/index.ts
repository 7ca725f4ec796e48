export { checksumAddress } from "./address.ts";
export { keccak256, sha256 } from "./hash.ts";
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
