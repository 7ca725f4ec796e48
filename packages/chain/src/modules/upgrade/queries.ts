import { upgrade } from "@turnpike/proto";
import { refuse } from "../../state/grpc-status.ts";
import { answerOf, type QueryHandler, queryHandler } from "../../state/module.ts";
import { rulesOf } from "../../state/rules.ts";
import { getPlan } from "./plan.ts";

/** Versions of the state of the real program's modules, as far as this chain has them; clients distinguish releases by these. */
const MODULE_VERSIONS: Readonly<Record<string, bigint>> = {
  application: 1n,
  auth: 5n,
  authz: 2n,
  bank: 4n,
  consensus: 1n,
  gateway: 1n,
  genutil: 1n,
  proof: 1n,
  service: 1n,
  session: 1n,
  shared: 1n,
  staking: 5n,
  supplier: 1n,
  tokenomics: 1n,
  upgrade: 2n,
};

const path = (method: string): string => `/cosmos.upgrade.v1beta1.Query/${method}`;

/** The module's queries, by gRPC path. */
export function upgradeQueries(authority: string): Readonly<Record<string, QueryHandler>> {
  return {
    [path("CurrentPlan")]: queryHandler(
      upgrade.QueryCurrentPlanRequestSchema,
      upgrade.QueryCurrentPlanResponseSchema,
      (ctx) => {
        const plan = getPlan(ctx);
        return answerOf(upgrade.QueryCurrentPlanResponseSchema, plan === undefined ? {} : { plan });
      },
    ),
    [path("AppliedPlan")]: queryHandler(
      upgrade.QueryAppliedPlanRequestSchema,
      upgrade.QueryAppliedPlanResponseSchema,
      (ctx, { name }) => {
        const entry = rulesOf(ctx).inForce.find((rules) => rules.name === name);
        return answerOf(upgrade.QueryAppliedPlanResponseSchema, { height: entry?.heightBlocks ?? 0n });
      },
    ),
    [path("ModuleVersions")]: queryHandler(
      upgrade.QueryModuleVersionsRequestSchema,
      upgrade.QueryModuleVersionsResponseSchema,
      (_ctx, { moduleName }) => {
        const moduleVersions = Object.entries(MODULE_VERSIONS)
          .filter(([name]) => moduleName === "" || name === moduleName)
          .map(([name, version]) => ({ name, version }));
        if (moduleVersions.length > 0) return answerOf(upgrade.QueryModuleVersionsResponseSchema, { moduleVersions });
        return refuse(
          "Unknown",
          `x/upgrade: QueryModuleVersions module ${moduleName} not found: module version not found`,
        );
      },
    ),
    [path("Authority")]: queryHandler(upgrade.QueryAuthorityRequestSchema, upgrade.QueryAuthorityResponseSchema, () =>
      answerOf(upgrade.QueryAuthorityResponseSchema, { address: authority }),
    ),
  };
}
