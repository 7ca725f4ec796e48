import { parseQuery } from "../query/parse-query.ts";
import { Refusal } from "../query/refusal.ts";
import type { Plan, PlanResult, RoleView, TableRequest } from "../types.ts";
import { planDelete } from "./delete.ts";
import { planInsert } from "./insert.ts";
import { findTable } from "./names.ts";
import type { PlanContext, PlanOptions } from "./plan-context.ts";
import { planRead } from "./read.ts";
import { buildTree } from "./tree.ts";
import { planUpdate } from "./update.ts";

/**
 * Plans the SQL that answers a request on one table, or says why there is none. Reads nothing but its arguments, and
 * never throws for what a client wrote. Every name in the SQL is from the view or is an output name, quoted; every
 * value is a parameter.
 */
export function planRequest(request: TableRequest, view: RoleView, options: PlanOptions): PlanResult {
  try {
    const schema = options.schema ?? "portal";
    const table = findTable(view, request.table, schema);
    const query = parseQuery(request.query);
    const root = buildTree(view, table, query, schema);
    return { ok: true, plan: planVerb({ request, view, options, schema, query, root }) };
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, error: error.body };
    throw error;
  }
}

function planVerb(plan: PlanContext): Plan {
  switch (plan.request.verb) {
    case "GET":
    case "HEAD":
      return planRead(plan);
    case "POST":
    case "PUT":
      return planInsert(plan);
    case "PATCH":
      return planUpdate(plan);
    case "DELETE":
      return planDelete(plan);
  }
}
