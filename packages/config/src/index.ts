export { isChainAlone } from "./chain-rules.ts";
export { type ConfigChanges, configChanges } from "./changes.ts";
export { DANGEROUS } from "./dangerous.ts";
export { configSchemaJson } from "./emit.ts";
export type { Environment } from "./environment.ts";
export { exposedSecrets } from "./exposed-secrets.ts";
export {
  type PrivateKey,
  parseKey,
  readChainKeyFile,
  readClosedFile,
  readKeyFile,
  readKeyNetworks,
} from "./key-file.ts";
export { type ConfigSources, loadConfig } from "./load.ts";
export { redactConfig } from "./redact.ts";
export {
  CONFIG_SCHEMA,
  type Config,
  type DeepReadonly,
  type NetworkConfig,
  type ServiceConfig,
  SUPPLIER_DEFAULTS,
  type SupplierConfig,
} from "./schema.ts";
export { readSellerKey, relayerKeys, relayerKeysByNetwork } from "./secrets.ts";
export { networkRelayer } from "./settlement-rules.ts";
