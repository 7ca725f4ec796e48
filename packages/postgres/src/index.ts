export { type ConnectionOptions, connect, withConnection } from "./connection.ts";
export { Migrations, type MigrationsOptions } from "./migrations.ts";
