import type { Condition, Filter, IsValue, Operation } from "../query/ast.ts";
import { refusal } from "../query/refusal.ts";
import { languageName } from "./casts.ts";
import { identifierSql, whereSql } from "./params.ts";
import { Scope, type SqlContext } from "./scope.ts";
import { type EmbedNode, findEmbed, type ReadNode } from "./tree.ts";

const OPERATORS = {
  eq: "=",
  neq: "<>",
  gt: ">",
  gte: ">=",
  lt: "<",
  lte: "<=",
  like: "LIKE",
  ilike: "ILIKE",
  match: "~",
  imatch: "~*",
  cs: "@>",
  cd: "<@",
  ov: "&&",
  sl: "<<",
  sr: ">>",
  nxr: "&<",
  nxl: "&>",
  adj: "-|-",
} as const;

const TEXT_FUNCTIONS = {
  fts: "to_tsquery",
  plfts: "plainto_tsquery",
  phfts: "phraseto_tsquery",
  wfts: "websearch_to_tsquery",
} as const;

const IS: Readonly<Record<IsValue, string>> = {
  null: "NULL",
  not_null: "NOT NULL",
  true: "TRUE",
  false: "FALSE",
  unknown: "UNKNOWN",
};

/** The conditions on the rows of a level: its own, and those of embedded resources that must be there (`!inner`). */
export function nodeConditions(node: ReadNode, scope: Scope): readonly string[] {
  const own = node.conditions.map((condition) => conditionSql(condition, node, scope));
  const inner = node.embeds.filter((embed) => embed.isInner).map((embed) => existsSql(embed, scope));
  return [...own, ...inner];
}

/** A condition on a table itself, where embedded resources have no say. */
export function conditionSql(condition: Condition, node: ReadNode, scope: Scope): string {
  if (condition.kind === "filter") return filterSql(condition, node, scope);
  const terms = condition.terms.map((term) => conditionSql(term, node, scope));
  const joined = `(${terms.join(condition.join === "and" ? " AND " : " OR ")})`;
  return condition.isNegated ? `(NOT ${joined})` : joined;
}

function filterSql(filter: Filter, node: ReadNode, scope: Scope): string {
  const { field, operation, isNegated } = filter;
  const embed = field.json.length === 0 ? findEmbed(node, field.name) : undefined;
  if (
    embed !== undefined &&
    operation.kind === "is" &&
    (operation.value === "null" || operation.value === "not_null")
  ) {
    const isThere = (operation.value === "null") === isNegated;
    return isThere ? existsSql(embed, scope) : `(NOT ${existsSql(embed, scope)})`;
  }
  if (embed !== undefined && !scope.table.columns.has(field.name)) {
    throw refusal(400, "PGRST120", `Bad operator on the '${field.name}' embedded resource`, {
      details: "Only is null or not is null filters are allowed on embedded resources",
    });
  }
  const sql = operationSql(operation, filter, scope);
  return isNegated ? `(NOT ${sql})` : sql;
}

function operationSql(operation: Operation, filter: Filter, scope: Scope): string {
  const { params } = scope.context;
  if (operation.kind === "text") {
    const language = operation.language === undefined ? undefined : languageName(operation.language);
    const prefix = (): string => (language === undefined ? "" : `${params.add(language)}::regconfig, `);
    const field = scope.field(filter.field);
    const isVector = filter.field.json.length === 0 && scope.table.columns.get(filter.field.name)?.type === "tsvector";
    const vector = isVector ? field : `to_tsvector(${prefix()}${field})`;
    return `(${vector} @@ ${TEXT_FUNCTIONS[operation.operator]}(${prefix()}${params.add(operation.value)}::text))`;
  }
  const field = scope.field(filter.field);
  switch (operation.kind) {
    case "is":
      return `(${field} IS ${IS[operation.value]})`;
    case "isdistinct":
      return `(${field} IS DISTINCT FROM ${params.add(operation.value)})`;
    case "in":
      return `(${field} = ANY (${params.add(arrayLiteral(operation.values))}))`;
    case "compare": {
      const { operator, quantifier } = operation;
      const isLike = operator === "like" || operator === "ilike";
      // the parameter takes the type that PostgreSQL gives it beside this column: a bad value is 22P02
      const value = params.add(isLike ? operation.value.replaceAll("*", "%") : operation.value);
      const right = quantifier === undefined ? value : `${quantifier.toUpperCase()} (${value})`;
      return `(${field} ${OPERATORS[operator]} ${right})`;
    }
  }
}

/** A list as PostgreSQL writes arrays. An empty `in.()` is the empty list. */
function arrayLiteral(values: readonly string[]): string {
  if (values.length === 1 && values[0] === "") return "{}";
  return `{${values.map((value) => `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`).join(",")}}`;
}

/** True where the embedded resource has a row. */
function existsSql(embed: EmbedNode, parent: Scope): string {
  const scope = new Scope(parent.context, embed.table, parent.context.alias());
  const { from, conditions } = joinSql(embed, parent, scope);
  return `EXISTS (SELECT 1 FROM ${from}${whereSql([...conditions, ...nodeConditions(embed, scope)])})`;
}

/** What an embedded resource is read from, and how its rows belong to the row above. */
export function joinSql(
  embed: EmbedNode,
  parent: Scope,
  scope: Scope,
): { readonly from: string; readonly conditions: readonly string[] } {
  const context: SqlContext = scope.context;
  const { junction, pairs } = embed.relation;
  const from = `${context.tableSql(embed.table)} AS ${scope.alias}`;
  if (junction === undefined) {
    return { from, conditions: pairs.map(([near, far]) => `${scope.column(far)} = ${parent.column(near)}`) };
  }
  const alias = context.alias();
  const equal = (own: readonly string[], other: Scope, others: readonly string[]): readonly string[] =>
    own.map((column, index) => `${alias}.${identifierSql(column)} = ${other.column(others[index] ?? column)}`);
  return {
    from: `${from} CROSS JOIN ${context.tableSql(junction.table)} AS ${alias}`,
    conditions: [
      ...equal(junction.fromKey.columns, parent, junction.fromKey.tableColumns),
      ...equal(junction.toKey.columns, scope, junction.toKey.tableColumns),
    ],
  };
}
