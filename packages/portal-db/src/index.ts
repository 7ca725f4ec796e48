export type { PortalApplication } from "./applications/application.ts";
export {
  type ApplicationsBounds,
  type ApplicationsModules,
  type ApplicationsOptions,
  type FoundPortalApplication,
  PortalApplications,
} from "./applications/applications.ts";
export { APPLICATION_METRICS } from "./applications/metrics.ts";
export {
  inspectPortalDb,
  type MigratePortalDbOptions,
  type MigratePortalDbResult,
  migratePortalDb,
  type PortalDbFault,
} from "./database/migrate.ts";
export type { ErrorBody } from "./errors.ts";
export { PORTAL_METRICS } from "./metrics.ts";
export { type PortalDb, type PortalDbModules, type PortalDbOptions, startPortalDb } from "./portal-db.ts";
export { type RevokeOptions, revokeToken } from "./revoke.ts";
export type { TokenAlgorithm, TokenKeyOptions } from "./tokens/keys.ts";
export { type MintedToken, type MintOptions, mintToken } from "./tokens/mint.ts";
export type { Caller, Plan, PlanResult, RoleView, Statement, TableRequest, TableView } from "./types.ts";
