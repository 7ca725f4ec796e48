import { utf8ToBytes } from "@turnpike/base";
import type { Condition, EmbedItem, EmbedPath, Field, OrderTerm, ParsedQuery, SelectItem } from "../query/ast.ts";
import { MAX_NAME_BYTES } from "../query/bounds.ts";
import { type Refusal, refusal } from "../query/refusal.ts";
import type { RoleView, TableView } from "../types.ts";
import { findRelation, type Relation } from "./relations.ts";

/** A column of an answer, or something of JSON in one. */
export interface FieldOutput {
  readonly kind: "field";
  /** Name in the answer. */
  readonly name: string;
  readonly field: Field;
  readonly cast: string | undefined;
}

/** What a level of the answer is made of, in the order of `select=`. */
export type Output = { readonly kind: "star" } | FieldOutput | { readonly kind: "embed"; readonly embed: EmbedNode };

/** One level: the root, or an embedded resource. */
export interface ReadNode {
  readonly table: TableView;
  readonly outputs: readonly Output[];
  readonly embeds: readonly EmbedNode[];
  readonly conditions: Condition[];
  order: readonly OrderTerm[];
  limit: number | undefined;
  offset: number;
}

/** An embedded resource. */
export interface EmbedNode extends ReadNode {
  /** Name in the answer and in `name.order=…`. */
  readonly name: string;
  /** The name that stands before the hint in `select=`. */
  readonly target: string;
  readonly relation: Relation;
  readonly isInner: boolean;
  readonly isSpread: boolean;
}

/**
 * Resolves the tables of a query and hangs conditions, orders and limits where they belong.
 * @throws Refusal PGRST108, PGRST123, PGRST200 or PGRST201.
 */
export function buildTree(view: RoleView, table: TableView, query: ParsedQuery, schema: string): ReadNode {
  const root = level(view, table, query.select ?? [{ kind: "star" }], schema);
  for (const { path, value } of query.conditions) nodeAt(root, path).conditions.push(value);
  for (const { path, value } of query.orders) nodeAt(root, path).order = value;
  for (const { path, value } of query.limits) nodeAt(root, path).limit = value;
  for (const { path, value } of query.offsets) nodeAt(root, path).offset = value;
  return root;
}

function level(view: RoleView, table: TableView, items: readonly SelectItem[], schema: string): ReadNode {
  const outputs = items.map((item) => output(view, table, item, schema));
  const embeds = outputs.flatMap((item) => (item.kind === "embed" ? [item.embed] : []));
  return { table, outputs, embeds, conditions: [], order: [], limit: undefined, offset: 0 };
}

function output(view: RoleView, table: TableView, item: SelectItem, schema: string): Output {
  if (item.kind === "star") return item;
  if (item.kind === "aggregate") throw noAggregates();
  if (item.kind === "embed") return { kind: "embed", embed: embed(view, table, item, schema) };
  const { field, cast, alias } = item;
  // `table(count)` is how clients ask for a count
  if (field.name === "count" && field.json.length === 0 && !table.columns.has("count")) throw noAggregates();
  return { kind: "field", name: alias ?? outputName(field), field, cast };
}

/** @throws Refusal PGRST100 where the JSON path ends in a key that names no column: PostgreSQL refuses or cuts it. */
function outputName(field: Field): string {
  const name = jsonName(field);
  const bytes = utf8ToBytes(name).length;
  if (bytes > 0 && bytes <= MAX_NAME_BYTES) return name;
  throw refusal(400, "PGRST100", "A JSON path of the select parameter names no column", {
    details: `Its last key has ${bytes} bytes; the name of a column has 1 to ${MAX_NAME_BYTES}.`,
    hint: `Give it a name: select=name:${field.name}->…`,
  });
}

function noAggregates(): Refusal {
  return refusal(400, "PGRST123", "Use of aggregate functions is not allowed");
}

/** The last member name of the path, or the column's name. */
function jsonName(field: Field): string {
  return field.json.map((step) => step.operand).findLast((operand) => typeof operand === "string") ?? field.name;
}

function embed(view: RoleView, from: TableView, item: EmbedItem, schema: string): EmbedNode {
  const relation = findRelation(view, from, item.target, item.hint, schema);
  return {
    ...level(view, relation.to, item.items, schema),
    name: item.alias ?? item.target,
    target: item.target,
    relation,
    isInner: item.join === "inner",
    isSpread: item.isSpread,
  };
}

/** The embedded resource of this name: its alias, or its table when it has none by that name. */
export function findEmbed(node: ReadNode, name: string): EmbedNode | undefined {
  return node.embeds.find((one) => one.name === name) ?? node.embeds.find((one) => one.target === name);
}

function nodeAt(root: ReadNode, path: EmbedPath): ReadNode {
  let node = root;
  for (const name of path) {
    const next = findEmbed(node, name);
    if (next === undefined) throw notEmbedded(name);
    node = next;
  }
  return node;
}

/** PGRST108. */
export function notEmbedded(name: string): Refusal {
  return refusal(400, "PGRST108", `'${name}' is not an embedded resource in this request`, {
    hint: `Verify that '${name}' is included in the 'select' query parameter.`,
  });
}
