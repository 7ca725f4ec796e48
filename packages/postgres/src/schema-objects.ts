/** Definitions of a schema's objects by their names: `table payments`, `trigger payments.payments_guard`. */
export type SchemaObjects = Readonly<Record<string, string>>;

/** An object that migrations make, and that a database lacks or has otherwise. */
export interface SchemaFault {
  readonly object: string;
  readonly fault: "missing" | "different";
}

/** A row of {@link SCHEMA_OBJECTS}. */
export interface SchemaObjectRow {
  readonly object: string;
  readonly definition: string;
}

/** Names the row of {@link SCHEMA_OBJECTS} that has the server's version. */
const SERVER = "server";
/** The server prints expressions; how it does may change with a version, and does not in those before this one. */
const UNTESTED_SERVER = 190_000;
/** Kinds of objects whose definitions have such text. */
const PRINTED = /^(column|constraint|index|trigger|policy) /;
const RELATION = /^(table|view|type) /;

/**
 * Lists the objects of the schemas $1, and the rights that the roles $2 have on them. What a definition has depends on no
 * version from PostgreSQL 15 on: constraints for NOT NULL are objects only since 18, and the text of a view's query changes.
 */
export const SCHEMA_OBJECTS = `
  with spaces as (
    select oid, nspname, quote_ident(nspname) as name, nspacl from pg_catalog.pg_namespace where nspname = any ($1::text[])
  ), relations as (
    select c.oid, c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity, c.relacl, c.relowner,
      s.name || '.' || quote_ident(c.relname) as name
    from pg_catalog.pg_class c join spaces s on s.oid = c.relnamespace where c.relkind in ('r', 'p', 'v', 'm', 'c', 'f')
  ), functions as (
    select p.*, s.name || '.' || quote_ident(p.proname) || '(' || pg_get_function_identity_arguments(p.oid) || ')' as name
    from pg_catalog.pg_proc p join spaces s on s.oid = p.pronamespace
  ), grantees as (
    select oid, rolname from pg_catalog.pg_roles where rolname = any ($2::text[])
  )
  select case relkind when 'v' then 'view ' when 'c' then 'type ' else 'table ' end || name as object,
    concat_ws(', ', 'kind ' || relkind::text, case when relpersistence <> 'p' then 'not logged' end,
      case when relrowsecurity then 'row security' end, case when relforcerowsecurity then 'forced' end) as definition
  from relations
  union all
  select 'column ' || r.name || '.' || quote_ident(a.attname),
    concat_ws(' ', format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
      case when a.attidentity <> '' then 'identity ' || a.attidentity::text end,
      case when a.attgenerated <> '' then 'generated ' || a.attgenerated::text end,
      'default ' || pg_get_expr(d.adbin, d.adrelid))
  from relations r join pg_catalog.pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
  left join pg_catalog.pg_attrdef d on d.adrelid = r.oid and d.adnum = a.attnum
  union all
  select 'constraint ' || r.name || '.' || quote_ident(k.conname), pg_get_constraintdef(k.oid, true)
  from relations r join pg_catalog.pg_constraint k on k.conrelid = r.oid and k.contype in ('p', 'u', 'f', 'c', 'x')
  union all
  select 'index ' || r.name || '.' || quote_ident(c.relname),
    pg_get_indexdef(i.indexrelid, 0, true) || case when i.indisvalid then '' else ' not valid' end
  from relations r join pg_catalog.pg_index i on i.indrelid = r.oid join pg_catalog.pg_class c on c.oid = i.indexrelid
  where not exists (select from pg_catalog.pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x'))
  union all
  select 'trigger ' || r.name || '.' || quote_ident(t.tgname),
    pg_get_triggerdef(t.oid, true) || case t.tgenabled when 'O' then '' else ' enabled ' || t.tgenabled::text end
  from relations r join pg_catalog.pg_trigger t on t.tgrelid = r.oid and not t.tgisinternal
  union all
  select 'function ' || f.name,
    concat_ws(', ', 'returns ' || pg_get_function_result(f.oid), l.lanname, f.provolatile::text,
      case when f.prosecdef then 'security definer' end,
      case when f.prosecdef and exists (
        select from relations r where r.relkind = 'r' and not pg_has_role(f.proowner, r.relowner, 'usage')
      ) then 'of a role that does not own the tables' end,
      array_to_string(f.proconfig, ', '), md5(replace(f.prosrc, E'\\r', '')))
  from functions f join pg_catalog.pg_language l on l.oid = f.prolang
  union all
  select 'policy ' || r.name || '.' || quote_ident(p.polname),
    concat_ws(' ', p.polcmd::text, case when p.polpermissive then 'permissive' end,
      'to ' || array_to_string(array(
        select case when m.oid = r.relowner then 'the owner' else m.rolname::text end
        from pg_catalog.pg_roles m where m.oid = any (p.polroles) order by 1
      ), ', '),
      'using ' || pg_get_expr(p.polqual, p.polrelid), 'check ' || pg_get_expr(p.polwithcheck, p.polrelid))
  from relations r join pg_catalog.pg_policy p on p.polrelid = r.oid
  union all
  select 'right of ' || g.rolname || ' to ' || lower(x.privilege_type) || ' on ' || x.name, ''
  from (
    select r.name, x.grantee, x.privilege_type from relations r cross join lateral aclexplode(r.relacl) x
    union all
    select r.name || '.' || quote_ident(a.attname), x.grantee, x.privilege_type
    from relations r join pg_catalog.pg_attribute a on a.attrelid = r.oid and not a.attisdropped
    cross join lateral aclexplode(a.attacl) x
    union all
    select f.name, x.grantee, x.privilege_type from functions f cross join lateral aclexplode(f.proacl) x
    union all
    select 'the schema ' || s.name, x.grantee, x.privilege_type from spaces s cross join lateral aclexplode(s.nspacl) x
  ) x join grantees g on g.oid = x.grantee
  union all
  select '${SERVER}', current_setting('server_version_num')`;

/**
 * The objects of one schema under names that do not have the schema's: another schema of the same migrations has the same.
 * Objects of further schemas keep theirs.
 */
export function schemaObjects(rows: readonly SchemaObjectRow[], schema: string): SchemaObjects {
  // The name is a plain one: it needs no escape, and quotes only where it is a key word.
  const qualifier = new RegExp(`(?<![\\w".])"?${schema}"?\\.`, "g");
  const path = new RegExp(`(search_path=.*?)(?<![\\w"])"?${schema}"?(?![\\w"])`);
  const relative = (text: string): string => text.replaceAll(qualifier, "");
  const objects = rows.filter(({ object }) => object !== SERVER);
  const entries = objects.map(({ object, definition }): [string, string] => [
    relative(object).replace(`the schema ${schema}`, "the schema"),
    relative(definition).replace(path, "$1@schema"),
  ]);
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** Objects of `expected` that the rows do not have, or have otherwise. Further objects are the operator's own. */
export function schemaFaults(
  expected: SchemaObjects,
  rows: readonly SchemaObjectRow[],
  schema: string,
): readonly SchemaFault[] {
  const objects = new Map(Object.entries(schemaObjects(rows, schema)));
  const isTested = Number(rows.find(({ object }) => object === SERVER)?.definition) < UNTESTED_SERVER;
  // Columns of a table that is missing are not listed.
  const relations = Object.keys(expected).filter((object) => RELATION.test(object) && !objects.has(object));
  const missing = relations.map((object) => `${object.slice(object.indexOf(" ") + 1)}.`);
  return Object.entries(expected).flatMap(([object, definition]): SchemaFault[] => {
    const present = objects.get(object);
    if (present === definition || (present !== undefined && !isTested && PRINTED.test(object))) return [];
    if (missing.some((prefix) => object.slice(object.indexOf(" ") + 1).startsWith(prefix))) return [];
    return [{ object, fault: present === undefined ? "missing" : "different" }];
  });
}
