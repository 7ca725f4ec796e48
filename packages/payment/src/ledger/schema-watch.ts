import type { Clock, Log } from "@turnpike/base";
import { SCHEMA_OBJECTS, type SchemaObjectRow } from "@turnpike/postgres";
import type { Database, Statement } from "./database.ts";
import { migrationsOf } from "./migrate.ts";

/** Time that a complete schema is taken as complete: reading it costs some milliseconds of the database. */
const CHECK_MS = 30_000;
const SHOWN_OBJECTS = 20;
const READ: Statement = { name: "schemaObjects", text: SCHEMA_OBJECTS, writes: false };

interface SchemaWatchModules {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
}

/** Compares the tables of a ledger that is open with what the migrations make: someone may restore or change them meanwhile. */
export class SchemaWatch {
  readonly #schema: string;
  readonly #modules: SchemaWatchModules;
  #checkedAtMs: number;
  #isComplete = true;
  #checking: Promise<boolean> | undefined;

  /** The tables were compared right before. */
  constructor(schema: string, modules: SchemaWatchModules) {
    this.#schema = schema;
    this.#modules = modules;
    this.#checkedAtMs = modules.clock.monotonicMs();
  }

  /** True when nothing is missing or different. Throws as {@link Database.run} does. */
  isComplete(): Promise<boolean> {
    const ageMs = this.#modules.clock.monotonicMs() - this.#checkedAtMs;
    if (this.#isComplete && ageMs < CHECK_MS) return Promise.resolve(true);
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  async #check(): Promise<boolean> {
    const { database, clock, log } = this.#modules;
    const migrations = migrationsOf(this.#schema);
    const rows = await database.run<SchemaObjectRow>(READ, migrations.objectValues);
    const faults = await migrations.faultsIn(rows);
    const wasComplete = this.#isComplete;
    this.#isComplete = faults.length === 0;
    this.#checkedAtMs = clock.monotonicMs();
    if (!this.#isComplete && wasComplete) {
      const objects = faults.slice(0, SHOWN_OBJECTS).map(({ object, fault }) => `${fault}: ${object}`);
      log.error({ faults: faults.length, objects }, "the ledger's tables are not whole; see turnpike db doctor");
    }
    return this.#isComplete;
  }
}
