export {
  type CatalogueOptions,
  createCatalogue,
  isWriteOperation,
  type ReadCatalogue,
  readCatalogue,
} from "./catalogue.ts";
export { checkParams, checkResult, type ParamsCheck } from "./check.ts";
export type { DocumentContext, PaymentOptionLike } from "./documents/context.ts";
export { iconSvg } from "./documents/icon.ts";
export {
  type DiscoveryItem,
  type DiscoveryResources,
  discoveryResources,
  llmsText,
  type Page,
  type Rail,
  type ServiceItem,
  servicesDocument,
  type WellKnownX402,
  wellKnownX402,
} from "./documents/listings.ts";
export { openApiDocument } from "./documents/openapi.ts";
export { type BazaarExtension, type PaymentRequiredTerms, paymentRequired } from "./documents/payment-required.ts";
export { serviceDefinitionSchema, serviceOverrideSchema } from "./override-schema.ts";
export type {
  Catalogue,
  Category,
  FamilyId,
  JsonSchema,
  Operation,
  Service,
  ServiceDefinition,
  ServiceOverride,
} from "./types.ts";
