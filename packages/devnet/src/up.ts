export { portalConfig, portalTokens } from "./up/portal.ts";
export { publicEndpoints } from "./up/public-endpoints.ts";
export { runUp, type UpOptions, type UpProgress } from "./up/run.ts";
export { localSources } from "./up/search-sources.ts";
export { type StateLayout, stateLayout } from "./up/state-layout.ts";
export type { PartEvent } from "./up/supervisor.ts";
