export { type ConnectionOptions, connect, withConnection } from "./connection.ts";
export { Migrations, type MigrationsOptions } from "./migrations.ts";
export { SCHEMA_OBJECTS, type SchemaFault, type SchemaObjectRow, type SchemaObjects } from "./schema-objects.ts";
