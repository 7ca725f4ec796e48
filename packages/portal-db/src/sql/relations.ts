import { nearest } from "@turnpike/base";
import { refusal } from "../query/refusal.ts";
import type { ForeignKey, RoleView, TableView } from "../types.ts";

/** A way from one table to another, by foreign keys that the role sees. */
export interface Relation {
  readonly cardinality: "many-to-one" | "one-to-many" | "one-to-one" | "many-to-many";
  readonly from: TableView;
  readonly to: TableView;
  /** Name of the foreign key; of the junction's key to `from` through a junction. */
  readonly constraint: string;
  /** Columns of `from` with those of `to`; empty through a junction. */
  readonly pairs: readonly ColumnPair[];
  readonly junction: Junction | undefined;
}

/** A column of the near side and the one of the far side that it equals. */
export type ColumnPair = readonly [near: string, far: string];

/** The table between two tables. */
export interface Junction {
  readonly table: TableView;
  readonly fromKey: ForeignKey;
  readonly toKey: ForeignKey;
}

/** True when the other side is one row or none. */
export function isToOne(relation: Relation): boolean {
  return relation.cardinality === "many-to-one" || relation.cardinality === "one-to-one";
}

/** Every relation from a table. Foreign keys with a column or table that the role may not read are not there. */
export function relationsFrom(view: RoleView, from: TableView): readonly Relation[] {
  const found: Relation[] = [];
  for (const key of from.foreignKeys) {
    const to = view.tables.get(key.table);
    if (to === undefined || !isReadable(from, key.columns) || !isReadable(to, key.tableColumns)) continue;
    const pairs = zip(key.columns, key.tableColumns);
    const cardinality = key.isUnique ? "one-to-one" : "many-to-one";
    found.push({ cardinality, from, to, constraint: key.name, pairs, junction: undefined });
  }
  for (const to of view.tables.values()) {
    for (const key of to.foreignKeys) {
      if (key.table !== from.name || !isReadable(to, key.columns) || !isReadable(from, key.tableColumns)) continue;
      const pairs = zip(key.tableColumns, key.columns);
      const cardinality = key.isUnique ? "one-to-one" : "one-to-many";
      found.push({ cardinality, from, to, constraint: key.name, pairs, junction: undefined });
    }
    found.push(...throughJunction(view, from, to));
  }
  return found;
}

/** A junction's two foreign keys are both part of its primary key, as PostgREST wants it. */
function throughJunction(view: RoleView, from: TableView, table: TableView): readonly Relation[] {
  const found: Relation[] = [];
  const isPart = (key: ForeignKey): boolean =>
    key.columns.every((column) => table.primaryKey.includes(column)) && isReadable(table, key.columns);
  for (const fromKey of table.foreignKeys) {
    if (fromKey.table !== from.name || !isPart(fromKey) || !isReadable(from, fromKey.tableColumns)) continue;
    for (const toKey of table.foreignKeys) {
      const to = view.tables.get(toKey.table);
      if (toKey.name === fromKey.name || to === undefined || !isPart(toKey)) continue;
      if (!isReadable(to, toKey.tableColumns)) continue;
      const constraint = fromKey.name;
      found.push({
        cardinality: "many-to-many",
        from,
        to,
        constraint,
        pairs: [],
        junction: { table, fromKey, toKey },
      });
    }
  }
  return found;
}

function isReadable(table: TableView, columns: readonly string[]): boolean {
  return columns.every((name) => table.columns.get(name)?.may.select === true);
}

/** Pairs up the columns of both sides of a foreign key. */
function zip(near: readonly string[], far: readonly string[]): readonly ColumnPair[] {
  return near.map((column, index) => [column, far[index] ?? column]);
}

/**
 * Finds what `target!hint(…)` means in `from`. A target is a table, a foreign key or a column that alone makes one; a
 * hint is a foreign key, a column of it on either side, or a junction.
 * @throws Refusal PGRST200 for none, PGRST201 (300) for several.
 */
export function findRelation(
  view: RoleView,
  from: TableView,
  target: string,
  hint: string | undefined,
  schema: string,
): Relation {
  const all = relationsFrom(view, from);
  const found = all.filter((relation) => matches(relation, target, hint));
  const [first, second] = found;
  if (first === undefined) throw noRelation(view, all, { from, target, hint, schema });
  if (second !== undefined) throw ambiguous(from, target, found);
  return first;
}

function matches(relation: Relation, target: string, hint: string | undefined): boolean {
  const isTable = relation.to.name === target;
  const [near, far] = relation.pairs.length === 1 ? (relation.pairs[0] ?? []) : [];
  const { cardinality, junction } = relation;
  if (relation.from.name === relation.to.name) {
    // one foreign key is two relations here: the table's name means the rows that refer, the column's the row referred to
    if (hint === undefined) {
      return (isTable && cardinality === "one-to-many") || (near === target && cardinality === "many-to-one");
    }
    return isTable && cardinality === "one-to-many" && (far === hint || relation.constraint === hint);
  }
  if (hint === undefined) {
    return isTable || (junction === undefined && relation.constraint === target) || near === target;
  }
  if (!isTable) return false;
  if (junction !== undefined) return junction.table.name === hint;
  return relation.constraint === hint || near === hint || far === hint;
}

interface Asked {
  readonly from: TableView;
  readonly target: string;
  readonly hint: string | undefined;
  readonly schema: string;
}

function noRelation(view: RoleView, all: readonly Relation[], asked: Asked): ReturnType<typeof refusal> {
  const { from, target, hint, schema } = asked;
  const names = new Set(all.map((relation) => relation.to.name));
  const near = names.has(target) || view.tables.has(target) ? undefined : nearest(target, [...names]);
  const using = hint === undefined ? "" : `' using the hint '${hint}`;
  return refusal(
    400,
    "PGRST200",
    `Could not find a relationship between '${from.name}' and '${target}' in the schema cache`,
    {
      details:
        `Searched for a foreign key relationship between '${from.name}' and '${target}${using}' in the schema ` +
        `'${schema}', but no matches were found.`,
      hint: near === undefined ? undefined : `Perhaps you meant '${near}' instead of '${target}'.`,
    },
  );
}

function ambiguous(from: TableView, target: string, found: readonly Relation[]): ReturnType<typeof refusal> {
  const choices = found.map(
    (relation) => `'${relation.to.name}!${relation.junction?.table.name ?? relation.constraint}'`,
  );
  return refusal(
    300,
    "PGRST201",
    `Could not embed because more than one relationship was found for '${from.name}' and '${target}'`,
    {
      details: found.map((relation) => ({
        cardinality: relation.cardinality,
        embedding: `${relation.from.name} with ${relation.to.name}`,
        relationship: relationship(relation),
      })),
      hint:
        `Try changing '${target}' to one of the following: ${choices.join(", ")}. ` +
        "Find the desired relationship in the 'details' key.",
    },
  );
}

function relationship(relation: Relation): string {
  const columns = (names: readonly string[]): string => `(${names.join(", ")})`;
  const { junction, from, to, pairs, constraint } = relation;
  if (junction !== undefined) {
    const { table, fromKey, toKey } = junction;
    return `${table.name} using ${fromKey.name}${columns(fromKey.columns)} and ${toKey.name}${columns(toKey.columns)}`;
  }
  const near = columns(pairs.map(([column]) => column));
  const far = columns(pairs.map(([, column]) => column));
  return `${constraint} using ${from.name}${near} and ${to.name}${far}`;
}
