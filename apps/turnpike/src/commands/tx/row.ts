import type { createMessage } from "@turnpike/proto";
import type { TxInput } from "./input.ts";

type Schema = Parameters<typeof createMessage>[0];

/** A message that is to be made: its full name, and its fields. */
export interface MessageOrder {
  readonly type: string;
  readonly fields: object;
}

/** An argument of a command: `<address>`, `[units]` or `<recipients...>`. */
export interface ArgumentRow {
  readonly name: string;
  readonly says: string;
}

/** A flag of a command, as commander reads it: `--config <file>`. */
export interface FlagRow {
  readonly flags: string;
  readonly says: string;
  readonly required?: true;
}

/** A command that sends a transaction. Only types are imported here: tables are read at every start of the program. */
export interface TxRow {
  readonly name: string;
  readonly says: string;
  readonly args?: readonly ArgumentRow[];
  readonly flags?: readonly FlagRow[];
  /** What stands behind the command's name in its example. */
  readonly example: string;
  /** The first argument says who signs. */
  readonly isFromFirst?: true;
  /** With this flag every message is a transaction of its own. */
  readonly separateFlag?: string;
  make(input: TxInput): Promise<readonly MessageOrder[]>;
}

/** A module's commands. */
export interface TxTable {
  readonly module: string;
  readonly says: string;
  readonly rows: readonly TxRow[];
}

/** A message with its fields checked against its schema. */
export function message<S extends Schema>(
  type: S["typeName"],
  fields: Exclude<Parameters<typeof createMessage<S>>[1], undefined>,
): MessageOrder {
  return { type, fields: fields as object };
}

/** `--config`, which names a stake file. */
export const CONFIG_FLAG: FlagRow = { flags: "--config <file>", says: "stake file, in YAML", required: true };

/** Flags that name a card. */
export const CARD_FLAGS: readonly FlagRow[] = [
  { flags: "--card-file <file>", says: "file that is the card: up to 256 KiB" },
  { flags: "--card-base64 <text>", says: "the card in base64" },
  { flags: "--skip-card-validation", says: "send a card that is no JSON" },
];
