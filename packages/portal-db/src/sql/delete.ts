import type { Plan } from "../types.ts";
import { denied } from "./names.ts";
import { whereSql } from "./params.ts";
import type { PlanContext } from "./plan-context.ts";
import { planWrite, refuseLimit, requiredConditions, writeTarget } from "./write.ts";

/** The plan of DELETE. */
export function planDelete(plan: PlanContext): Plan {
  const { root, view } = plan;
  if (!root.table.may.delete) throw denied(view, root.table);
  refuseLimit(plan);
  const target = writeTarget(plan);
  const where = whereSql(requiredConditions(plan, target));
  const table = `${target.context.tableSql(root.table)} AS ${target.scope.alias}`;
  return planWrite(plan, target, (returned) => `DELETE FROM ${table}${where} RETURNING ${returned}`);
}
