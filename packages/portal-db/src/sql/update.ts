import type { Plan } from "../types.ts";
import { denied } from "./names.ts";
import { identifierSql, whereSql } from "./params.ts";
import type { PlanContext } from "./plan-context.ts";
import {
  badBody,
  bodyRows,
  planWrite,
  recordSql,
  refuseLimit,
  requiredConditions,
  rowJson,
  writeTarget,
  writtenColumns,
} from "./write.ts";

/** The plan of PATCH: one object's members into every row that the filters match. */
export function planUpdate(plan: PlanContext): Plan {
  const { root, view, request } = plan;
  if (!root.table.may.update) throw denied(view, root.table);
  refuseLimit(plan);
  const { rows } = bodyRows(plan);
  const [row] = rows;
  if (row === undefined || rows.length > 1) throw badBody("A PATCH takes exactly one object");
  const columns = writtenColumns(plan, "update");
  if (columns.length === 0) return planNothing(plan);
  const target = writeTarget(plan);
  const table = `${target.context.tableSql(root.table)} AS ${target.scope.alias}`;
  const isDefaulted = request.preferences.missing === "default";
  const given = columns.filter((column) => !isDefaulted || Object.hasOwn(row, column.name));
  const source = target.context.alias();
  const sets = columns.map((column) => {
    const name = identifierSql(column.name);
    return `${name} = ${given.includes(column) ? `${source}.${name}` : "DEFAULT"}`;
  });
  let from = "";
  if (given.length > 0) {
    const json = target.context.params.add(rowJson(row, given));
    from = ` FROM json_to_record(${json}::json) AS ${source}(${recordSql(given)})`;
  }
  const where = whereSql(requiredConditions(plan, target));
  const statement = `UPDATE ${table} SET ${sets.join(", ")}${from}${where}`;
  return planWrite(plan, target, (returned) => `${statement} RETURNING ${returned}`);
}

/** `{}` sets nothing, and there is no such UPDATE: a statement that finds no rows stands in for it. */
function planNothing(plan: PlanContext): Plan {
  // names and the need of a filter are held to all the same
  requiredConditions(plan, writeTarget(plan));
  const target = writeTarget(plan);
  const table = `${target.context.tableSql(plan.root.table)} AS ${target.scope.alias}`;
  return planWrite(plan, target, (returned) => `SELECT ${returned} FROM ${table} WHERE false`);
}
