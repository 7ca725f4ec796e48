import type { OrderTerm } from "../query/ast.ts";
import { refusal } from "../query/refusal.ts";
import { castType } from "./casts.ts";
import { joinSql, nodeConditions } from "./conditions.ts";
import { identifierSql, whereSql } from "./params.ts";
import { isToOne } from "./relations.ts";
import { Scope } from "./scope.ts";
import { type EmbedNode, type FieldOutput, findEmbed, notEmbedded, type Output, type ReadNode } from "./tree.ts";

/** The columns of one level of an answer, and the joins that they need. */
export interface RowSql {
  /** SQL by output name. A name that is given twice is the later one, at the place of the first. */
  readonly columns: ReadonlyMap<string, string>;
  readonly joins: readonly string[];
}

/** The columns of a level. @throws Refusal for a name that does not resolve. */
export function rowSql(node: ReadNode, scope: Scope): RowSql {
  const columns = new Map<string, string>();
  const joins: string[] = [];
  const winners = new Map(
    node.outputs.flatMap((output) => namesOf(output, node).map((name) => [name, output] as const)),
  );
  for (const output of node.outputs) {
    // SQL of a column that is not taken must not be made: a parameter that is nowhere has no type
    const names = namesOf(output, node).filter((name) => winners.get(name) === output);
    if (output.kind === "star") {
      for (const name of names) columns.set(name, scope.column(name));
    } else if (output.kind === "field") {
      for (const name of names) columns.set(name, fieldSql(output, scope));
    } else if (!output.embed.isSpread) {
      for (const name of names) columns.set(name, embedSql(output.embed, scope));
    } else if (names.length > 0) {
      const spread = spreadSql(output.embed, scope);
      joins.push(spread.join);
      for (const name of names) columns.set(name, `${spread.alias}.${identifierSql(name)}`);
    }
  }
  return { columns, joins };
}

function fieldSql(output: FieldOutput, scope: Scope): string {
  const type = output.cast === undefined ? undefined : castType(output.cast);
  const sql = scope.field(output.field);
  return type === undefined ? sql : `CAST(${sql} AS ${type})`;
}

/** The names in the answer that an output of this level stands for. */
function namesOf(output: Output, node: ReadNode): readonly string[] {
  if (output.kind === "field") return [output.name];
  if (output.kind === "star") {
    return [...node.table.columns.values()].filter((column) => column.may.select).map((column) => column.name);
  }
  const { embed } = output;
  if (embed.isSpread) return embed.outputs.flatMap((inner) => namesOf(inner, embed));
  // `table!inner()` and `table()` only join
  return isEmpty(embed) ? [] : [embed.name];
}

/** True when a resource is embedded only to filter by it. */
function isEmpty(embed: EmbedNode): boolean {
  return embed.outputs.every((output) => output.kind === "embed" && isEmpty(output.embed));
}

/** `SELECT a AS "x", …` */
export function selectList(columns: ReadonlyMap<string, string>): string {
  return [...columns].map(([name, sql]) => `${sql} AS ${identifierSql(name)}`).join(", ");
}

function embedSql(embed: EmbedNode, parent: Scope): string {
  const { context } = parent;
  const rows = context.alias();
  const inner = rowsOfEmbed(embed, parent);
  return isToOne(embed.relation)
    ? `(SELECT row_to_json(${rows}.*) FROM (${inner.sql}) AS ${rows})`
    : `(SELECT coalesce(json_agg(row_to_json(${rows}.*)), '[]') FROM (${inner.sql}) AS ${rows})`;
}

/** Columns of an embedded row beside those of the row above: single values of one row, lists of several. */
function spreadSql(embed: EmbedNode, parent: Scope): { readonly join: string; readonly alias: string } {
  const alias = parent.context.alias();
  const inner = rowsOfEmbed(embed, parent);
  if (isToOne(embed.relation)) return { join: ` LEFT JOIN LATERAL (${inner.sql}) AS ${alias} ON true`, alias };
  const rows = parent.context.alias();
  const lists = new Map(
    inner.names.map((name) => [name, `coalesce(json_agg(${rows}.${identifierSql(name)}), '[]')`] as const),
  );
  const sql = `SELECT ${selectList(lists)} FROM (${inner.sql}) AS ${rows}`;
  return { join: ` LEFT JOIN LATERAL (${sql}) AS ${alias} ON true`, alias };
}

function rowsOfEmbed(embed: EmbedNode, parent: Scope): { readonly sql: string; readonly names: readonly string[] } {
  const { context } = parent;
  const scope = new Scope(context, embed.table, context.alias());
  const { from, conditions } = joinSql(embed, parent, scope);
  const row = rowSql(embed, scope);
  const where = whereSql([...conditions, ...nodeConditions(embed, scope)]);
  const most = isToOne(embed.relation) ? 1 : context.maxRows;
  const limit = Math.min(embed.limit ?? most, most);
  const tail = orderSql(embed, scope) + pageSql(scope, limit, embed.offset);
  return {
    sql: `SELECT ${selectList(row.columns)} FROM ${from}${row.joins.join("")}${where}${tail}`,
    names: [...row.columns.keys()],
  };
}

/** `LIMIT … OFFSET …`, with what is not there left out. */
export function pageSql(scope: Scope, limit: number | undefined, offset: number): string {
  const { params } = scope.context;
  const limits = limit === undefined ? "" : ` LIMIT ${params.add(limit)}::bigint`;
  return offset === 0 ? limits : `${limits} OFFSET ${params.add(offset)}::bigint`;
}

/** `ORDER BY …`; empty without an order. @throws Refusal PGRST108 and PGRST118 for a related order. */
export function orderSql(node: ReadNode, scope: Scope): string {
  if (node.order.length === 0) return "";
  const terms = node.order.map((term) => {
    const sql = term.relation === undefined ? scope.field(term.field) : relatedSql(term, term.relation, node, scope);
    const direction = term.direction === undefined ? "" : ` ${term.direction.toUpperCase()}`;
    const nulls = term.nulls === undefined ? "" : term.nulls === "nullsfirst" ? " NULLS FIRST" : " NULLS LAST";
    return `${sql}${direction}${nulls}`;
  });
  return ` ORDER BY ${terms.join(", ")}`;
}

function relatedSql(term: OrderTerm, name: string, node: ReadNode, parent: Scope): string {
  const embed = findEmbed(node, name);
  if (embed === undefined) throw notEmbedded(name);
  if (!isToOne(embed.relation)) {
    throw refusal(400, "PGRST118", `A related order on '${name}' is not possible`, {
      details: `'${node.table.name}' and '${name}' do not form a many-to-one or one-to-one relationship`,
    });
  }
  const scope = new Scope(parent.context, embed.table, parent.context.alias());
  const { from, conditions } = joinSql(embed, parent, scope);
  const value = scope.field(term.field);
  return `(SELECT ${value} FROM ${from}${whereSql([...conditions, ...nodeConditions(embed, scope)])} LIMIT 1)`;
}
