export { type CatalogueOptions, createCatalogue, type ReadCatalogue, readCatalogue } from "./catalogue.ts";
export { checkParams, checkResult, type ParamsCheck } from "./check.ts";
export type { DocumentContext, PaymentOptionLike } from "./documents/context.ts";
export { createDiscovery } from "./documents/discovery.ts";
export type {
  Discovery,
  DiscoveryFound,
  DiscoveryItem,
  DiscoveryResources,
  DiscoverySearch,
  Page,
} from "./documents/discovery-types.ts";
export { iconSvg, productIconSvg } from "./documents/icon.ts";
export {
  type ApiCatalogue,
  apiCatalogue,
  type Rail,
  type ServiceItem,
  servicesDocument,
  type WellKnownX402,
  wellKnownX402,
} from "./documents/listings.ts";
export { llmsFullText, llmsText } from "./documents/llms.ts";
export { openApiDocument } from "./documents/openapi.ts";
export { type BazaarExtension, type PaymentRequiredTerms, paymentRequired } from "./documents/payment-required.ts";
export { serviceDefinitionSchema } from "./override-schema.ts";
export {
  isBuiltin,
  isHostLabel,
  isRegistrable,
  type RegisteredOptions,
  type RegisteredService,
  withRegistered,
} from "./registered.ts";
export { withSale } from "./sale.ts";
export {
  MAX_SEARCH_BODY_BYTES,
  MAX_SEARCH_RESULTS,
  parseSearchRequest,
  type SearchFault,
  type SearchRequest,
  searchFault,
} from "./search-request.ts";
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
