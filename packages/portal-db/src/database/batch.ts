import { AppError } from "@turnpike/base";
import pg from "pg";
import type { Statement } from "../types.ts";

/** A statement of a batch; with a name the server keeps it parsed. */
export interface BatchStatement extends Statement {
  readonly name: string | undefined;
}

/** What one statement gave. */
export interface BatchResult {
  readonly rows: readonly object[];
  /** The command's tag, such as `SELECT 3` and `COMMIT`. */
  readonly tag: string;
}

/** Columns of a named statement on one connection: they are asked for once. */
export type KnownColumns = Map<string, readonly Column[]>;

/** A column of a result, and how its text is read. */
export interface Column {
  readonly name: string;
  readonly read: (text: string) => unknown;
}

/** Parts of the driver's connection that its types leave out; what it sends goes through `_send`. */
interface Wire {
  readonly stream: { readonly writable: boolean; write(bytes: Uint8Array): boolean };
  readonly parsedStatements: Record<string, string>;
  parse(message: { readonly name: string; readonly text: string }): void;
  describe(message: { readonly type: "S"; readonly name: string }): void;
  bind(message: { readonly statement: string; readonly values: readonly (string | null)[] }): void;
  execute(message: object): void;
  sync(): void;
}

/** The driver's query, of which a batch is one: others have no place in its pipeline. */
interface DriverQuery {
  callback: unknown;
}
const driverQuery = pg.Query as unknown as new (text: string) => DriverQuery;

function textOf(value: unknown): string | null {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return null;
  if (typeof value === "number" || typeof value === "bigint" || typeof value === "boolean") return String(value);
  throw new AppError("INTERNAL", { message: "A value of a statement is neither text nor a number." });
}

/**
 * Several statements in one message and with one Sync, so that one answer ends them all: the server takes them as one
 * transaction of its own, begins it with the first and commits it with the last. After an error it skips the rest and
 * takes everything back (PostgreSQL's manual, "Extended Query": pipelining). Values are text, numbers, booleans or null.
 */
export class Batch extends driverQuery {
  /** What each statement gave. Rejects with the first error, the driver's or the server's. */
  readonly done: Promise<readonly BatchResult[]>;
  readonly #resolve: (results: readonly BatchResult[]) => void;
  readonly #reject: (error: unknown) => void;
  readonly #statements: readonly BatchStatement[];
  readonly #columns: KnownColumns;
  readonly #results: BatchResult[] = [];
  #rows: object[] = [];
  /** Of the statement whose turn it is. */
  #current: readonly Column[] | undefined;
  #wire: Wire | undefined;

  constructor(statements: readonly BatchStatement[], columns: KnownColumns) {
    super("");
    this.callback = () => undefined;
    this.#statements = statements;
    this.#columns = columns;
    const { promise, resolve, reject } = Promise.withResolvers<readonly BatchResult[]>();
    this.done = promise;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  submit(wire: Wire): null {
    this.#wire = wire;
    const chunks: Uint8Array[] = [];
    const into = Object.create(wire) as Wire & { _send(bytes: Uint8Array): void };
    into._send = (bytes) => void chunks.push(bytes);
    // the same statement can come twice
    const sent = new Set<string>();
    for (const { name = "", text, values } of this.#statements) {
      if (!sent.has(name)) {
        const isParsed = name !== "" && wire.parsedStatements[name] !== undefined;
        if (!isParsed) into.parse({ name, text });
        if (!isParsed || !this.#columns.has(name)) into.describe({ type: "S", name });
        if (name !== "") sent.add(name);
      }
      into.bind({ statement: name, values: values.map(textOf) });
      into.execute({});
    }
    into.sync();
    if (wire.stream.writable) wire.stream.write(Buffer.concat(chunks));
    this.#turn();
    return null;
  }

  #turn(): void {
    const name = this.#statements[this.#results.length]?.name;
    this.#current = name === undefined ? undefined : this.#columns.get(name);
    this.#rows = [];
  }

  #noteParsed(): void {
    const { name, text } = this.#statements[this.#results.length] ?? {};
    if (name !== undefined && text !== undefined && this.#wire !== undefined) this.#wire.parsedStatements[name] = text;
  }

  handleRowDescription({ fields }: { readonly fields: readonly { name: string; dataTypeID: number }[] }): void {
    this.#noteParsed();
    this.#current = fields.map(({ name, dataTypeID }) => ({ name, read: pg.types.getTypeParser(dataTypeID, "text") }));
    const { name } = this.#statements[this.#results.length] ?? {};
    if (name !== undefined) this.#columns.set(name, this.#current);
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    const columns = this.#current ?? [];
    const row: Record<string, unknown> = {};
    for (let at = 0; at < columns.length; at++) {
      const column = columns[at];
      const text = fields[at] ?? null;
      if (column !== undefined) row[column.name] = text === null ? null : column.read(text);
    }
    this.#rows.push(row);
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.#noteParsed();
    const { name } = this.#statements[this.#results.length] ?? {};
    // a statement without rows was described as such; it need not be asked again
    if (name !== undefined && !this.#columns.has(name)) this.#columns.set(name, []);
    this.#results.push({ rows: this.#rows, tag: text });
    this.#turn();
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete({ text: "" });
  }

  handleReadyForQuery(): void {
    this.#resolve(this.#results);
  }

  handleError(error: unknown): void {
    this.#reject(error);
  }
}
