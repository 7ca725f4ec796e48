import * as auth from "./generated/packages/cosmos-auth-v1beta1.ts";
import * as authz from "./generated/packages/cosmos-authz-v1beta1.ts";
import * as bank from "./generated/packages/cosmos-bank-v1beta1.ts";
import * as baseAbci from "./generated/packages/cosmos-base-abci-v1beta1.ts";
import * as baseNode from "./generated/packages/cosmos-base-node-v1beta1.ts";
import * as baseQuery from "./generated/packages/cosmos-base-query-v1beta1.ts";
import * as baseReflection from "./generated/packages/cosmos-base-reflection-v1beta1.ts";
import * as baseReflectionV2 from "./generated/packages/cosmos-base-reflection-v2alpha1.ts";
import * as baseTendermint from "./generated/packages/cosmos-base-tendermint-v1beta1.ts";
import * as base from "./generated/packages/cosmos-base-v1beta1.ts";
import * as consensus from "./generated/packages/cosmos-consensus-v1.ts";
import * as cryptoEd25519 from "./generated/packages/cosmos-crypto-ed25519.ts";
import * as cryptoMultisig from "./generated/packages/cosmos-crypto-multisig.ts";
import * as cryptoMultisigV1 from "./generated/packages/cosmos-crypto-multisig-v1beta1.ts";
import * as cryptoSecp256k1 from "./generated/packages/cosmos-crypto-secp256k1.ts";
import * as distribution from "./generated/packages/cosmos-distribution-v1beta1.ts";
import * as gov from "./generated/packages/cosmos-gov-v1.ts";
import * as mint from "./generated/packages/cosmos-mint-v1beta1.ts";
import * as slashing from "./generated/packages/cosmos-slashing-v1beta1.ts";
import * as staking from "./generated/packages/cosmos-staking-v1beta1.ts";
import * as signing from "./generated/packages/cosmos-tx-signing-v1beta1.ts";
import * as tx from "./generated/packages/cosmos-tx-v1beta1.ts";
import * as upgrade from "./generated/packages/cosmos-upgrade-v1beta1.ts";
import * as reflectionV1 from "./generated/packages/grpc-reflection-v1.ts";
import * as reflectionV1alpha from "./generated/packages/grpc-reflection-v1alpha.ts";
import * as application from "./generated/packages/pocket-application.ts";
import * as gateway from "./generated/packages/pocket-gateway.ts";
import * as migration from "./generated/packages/pocket-migration.ts";
import * as proof from "./generated/packages/pocket-proof.ts";
import * as service from "./generated/packages/pocket-service.ts";
import * as session from "./generated/packages/pocket-session.ts";
import * as shared from "./generated/packages/pocket-shared.ts";
import * as supplier from "./generated/packages/pocket-supplier.ts";
import * as tokenomics from "./generated/packages/pocket-tokenomics.ts";
import * as relayHttp from "./generated/packages/sdk-types.ts";
import * as cometAbci from "./generated/packages/tendermint-abci.ts";
import * as cometCrypto from "./generated/packages/tendermint-crypto.ts";
import * as cometBits from "./generated/packages/tendermint-libs-bits.ts";
import * as cometP2p from "./generated/packages/tendermint-p2p.ts";
import * as cometState from "./generated/packages/tendermint-state.ts";
import * as cometTypes from "./generated/packages/tendermint-types.ts";
import * as cometVersion from "./generated/packages/tendermint-version.ts";

export {
  type Any,
  AnySchema,
  type Duration,
  DurationSchema,
  type Timestamp,
  TimestampSchema,
} from "@bufbuild/protobuf/wkt";
export { type AminoJson, toAminoJson } from "./amino-json.ts";
export { packAny, type TypedMessage, typeUrlOf, unpackAny } from "./any.ts";
export { fromApiJson, fromApiJsonText, type ReadJson } from "./api-json-read.ts";
export { numberMark } from "./api-json-scalars.ts";
export {
  type ApiJson,
  type JsonMemberText,
  jsonMemberTexts,
  quoteText,
  toApiJson,
  toApiJsonText,
} from "./api-json-write.ts";
export { type Decoded, decodeMessage, encodeMessage, findUnknownField, type UnknownField } from "./binary.ts";
export { createMessage } from "./create.ts";
export { type FileBytes, fileByName, fileBySymbol, fileDescriptorSet, filesBySymbol } from "./reflection.ts";
export { methodAt, registry, schemaOfTypeUrl, serviceNames } from "./registry.ts";
export { maxPartsOf, type WireBounds, WireScanner } from "./wire-bounds.ts";
export {
  application,
  auth,
  authz,
  bank,
  base,
  baseAbci,
  baseNode,
  baseQuery,
  baseReflection,
  baseReflectionV2,
  baseTendermint,
  cometAbci,
  cometBits,
  cometCrypto,
  cometP2p,
  cometState,
  cometTypes,
  cometVersion,
  consensus,
  cryptoEd25519,
  cryptoMultisig,
  cryptoMultisigV1,
  cryptoSecp256k1,
  distribution,
  gateway,
  gov,
  migration,
  mint,
  proof,
  reflectionV1,
  reflectionV1alpha,
  relayHttp,
  service,
  session,
  shared,
  signing,
  slashing,
  staking,
  supplier,
  tokenomics,
  tx,
  upgrade,
};
